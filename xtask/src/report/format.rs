//! How numbers are written in both forms of a report: shares as percent with one decimal, differences of
//! shares with their sign in percentage points, what was not measured as a dash.

use crate::stats::Estimate;

/// What stands for a number that was not measured.
pub(super) const DASH: &str = "–";

/// `62.5`: a share in percent.
pub(super) fn percent(share: f64) -> String {
    without_negative_zero(format!("{:.1}", share * 100.0))
}

/// `+12.3`: a difference of shares in percentage points.
pub(super) fn signed(difference: f64) -> String {
    without_negative_zero(format!("{:+.1}", difference * 100.0))
}

fn without_negative_zero(text: String) -> String {
    match text.as_str() {
        "-0.0" | "+0.0" => "0.0".into(),
        _ => text,
    }
}

/// `62.5 %`, or a dash.
pub(super) fn share(value: Option<f64>) -> String {
    value.map_or_else(|| DASH.into(), |v| format!("{} %", percent(v)))
}

/// `62.5 % [55.0, 70.2]`, or a dash.
pub(super) fn estimate(value: Option<&Estimate>) -> String {
    value.map_or_else(
        || DASH.into(),
        |e| format!("{} % {}", percent(e.mean), bounds(e.ci95, percent)),
    )
}

/// `+12.3 [+1.0, +20.2]`, or a dash.
pub(super) fn points(value: Option<&Estimate>) -> String {
    value.map_or_else(
        || DASH.into(),
        |e| format!("{} {}", signed(e.mean), bounds(e.ci95, signed)),
    )
}

/// `[1.0, 2.0]`.
pub(super) fn bounds([low, high]: [f64; 2], number: fn(f64) -> String) -> String {
    format!("[{}, {}]", number(low), number(high))
}

/// A number that is no share, with two decimals, or a dash.
pub(super) fn decimal(value: Option<f64>) -> String {
    value.map_or_else(|| DASH.into(), |v| format!("{v:.2}"))
}

/// A p-value or a level, or a dash.
pub(super) fn probability(value: Option<f64>) -> String {
    value.map_or_else(|| DASH.into(), |v| format!("{v:.4}"))
}

/// `12,345`.
pub(super) fn count(n: u64) -> String {
    grouped(&n.to_string())
}

/// A mean of counts, without decimals: `12,345`.
pub(super) fn whole(mean: f64) -> String {
    grouped(&format!("{:.0}", mean.max(0.0)))
}

fn grouped(digits: &str) -> String {
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Differences with their sign, in a row.
pub(super) fn signed_list(values: &[f64]) -> String {
    let values: Vec<_> = values.iter().copied().map(signed).collect();
    values.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands() {
        for (n, expect) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(count(n), expect);
        }
    }

    #[test]
    fn nothing_is_negative_zero() {
        assert_eq!(percent(-0.0001), "0.0");
        assert_eq!(signed(-0.0001), "0.0");
        assert_eq!(signed(0.125), "+12.5");
        assert_eq!(share(None), DASH);
    }
}

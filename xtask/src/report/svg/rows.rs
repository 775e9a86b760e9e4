//! Values one under another over a common axis: differences with intervals and dots, bars, and lines from
//! before to after.

use super::scale::{Scale, percent_label};
use super::{WIDTH, line, open, push, text};

const MARGIN: f64 = 14.0;
const AXIS: f64 = 24.0;
/// Characters that fit beside each other.
const CHARACTERS: usize = 54;

/// How a value is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::report) enum Kind {
    /// A diamond on its interval, with a dot for each seed beneath.
    Difference,
    /// A bar from 0, with its interval.
    Bar,
    /// A line from an empty circle at this value to a full one.
    From(f64),
}

/// One value.
pub(in crate::report) struct Row {
    /// Its name.
    pub label: String,
    /// The value as text.
    pub text: String,
    /// The value.
    pub value: f64,
    /// Its interval.
    pub ci95: Option<[f64; 2]>,
    /// Another interval of the same value, drawn thin beneath.
    pub thin: Option<[f64; 2]>,
    /// Values of single seeds.
    pub dots: Vec<f64>,
    /// Its colour.
    pub colour: &'static str,
    /// How it is drawn.
    pub kind: Kind,
}

impl Row {
    fn values(&self) -> impl Iterator<Item = f64> + Clone + '_ {
        let from = match self.kind {
            Kind::From(value) => value,
            Kind::Difference | Kind::Bar => 0.0,
        };
        let intervals = self.ci95.into_iter().flatten();
        let dots = self.dots.iter().copied();
        [self.value, from].into_iter().chain(intervals).chain(dots)
    }

    /// Whether name and value need a line each.
    fn is_tall(&self) -> bool {
        self.label.chars().count() + self.text.chars().count() > CHARACTERS
    }

    fn height(&self) -> f64 {
        let lines = if self.is_tall() { 30.0 } else { 16.0 };
        let dots = if self.dots.is_empty() && self.thin.is_none() {
            0.0
        } else {
            9.0
        };
        lines + dots + 25.0
    }
}

/// The picture; empty without rows.
pub(in crate::report) fn rows(label: &str, axis_label: &str, rows: &[Row]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let height: f64 = rows.iter().map(Row::height).sum();
    let x = scale(rows);
    let mut out = open(height + AXIS + 18.0, label);
    for tick in x.ticks(5) {
        let class = if tick.abs() < 1e-9 { "zero" } else { "grid" };
        line(
            &mut out,
            class,
            [x.at(tick), 2.0],
            [x.at(tick), height + 4.0],
        );
        let at = [x.at(tick), height + 17.0];
        text(&mut out, "tick", "middle", at, &percent_label(tick));
    }
    let middle = [f64::midpoint(x.from, x.to), height + AXIS + 11.0];
    text(&mut out, "", "middle", middle, axis_label);
    let mut top = 0.0;
    for row in rows {
        draw(&mut out, row, top, &x);
        top += row.height();
    }
    out.push_str("</svg>");
    out
}

/// An axis with all values and intervals. Thin intervals widen it by as much again at most, so that the few
/// seeds' wide ones do not squeeze all else; they run to the edge then.
fn scale(rows: &[Row]) -> Scale {
    let values = rows.iter().flat_map(Row::values);
    let low = values.clone().fold(0.0, f64::min);
    let high = values.fold(0.0, f64::max).max(low + 0.05);
    let reach = (high - low) / 2.0;
    let thin = rows.iter().filter_map(|row| row.thin);
    let (low, high) = thin.fold((low, high), |(from, to), [lower, upper]| {
        (
            from.min(lower.max(low - reach)),
            to.max(upper.min(high + reach)),
        )
    });
    let is_share = low >= 0.0 && rows.iter().all(|row| row.kind != Kind::Difference);
    let margin = (high - low) * 0.05;
    let (low, high) = if is_share {
        (
            0.0,
            if high > 0.5 {
                high.max(1.0)
            } else {
                high + margin
            },
        )
    } else {
        (low - margin, high + margin)
    };
    Scale {
        low,
        high,
        from: MARGIN,
        to: WIDTH - MARGIN,
        is_log: false,
    }
}

fn draw(out: &mut String, row: &Row, top: f64, x: &Scale) {
    let label = shortened(&row.label);
    let strip = if row.is_tall() { 31.0 } else { 17.0 };
    push(
        out,
        format_args!("<rect y=\"{top:.1}\" width=\"{WIDTH}\" height=\"{strip}\" fill=\"#fff\"/>"),
    );
    text(out, "name", "start", [4.0, top + 13.0], &label);
    let second = top + if row.is_tall() { 27.0 } else { 13.0 };
    text(out, "", "end", [WIDTH - 4.0, second], &row.text);
    let y = second + 13.0;
    match row.kind {
        Kind::Difference => difference(out, row, y, x),
        Kind::Bar => bar(out, row, y, x),
        Kind::From(from) => dumbbell(out, row, from, y, x),
    }
}

/// A name cut to what fits, with three dots.
fn shortened(label: &str) -> String {
    if label.chars().count() <= CHARACTERS {
        return label.to_owned();
    }
    let cut: String = label.chars().take(CHARACTERS - 1).collect();
    format!("{cut}…")
}

fn stroke(out: &mut String, [from, to]: [f64; 2], y: f64, width: f64, colour: &str) {
    push(
        out,
        format_args!(
            "<path d=\"M{from:.1} {y:.1}H{to:.1}\" stroke=\"{colour}\" stroke-width=\"{width}\"/>"
        ),
    );
}

fn difference(out: &mut String, row: &Row, y: f64, x: &Scale) {
    let at = x.at(row.value);
    let colour = row.colour;
    if let Some(ci95) = row.ci95 {
        stroke(out, ci95.map(|v| x.at(v)), y, 4.0, colour);
    }
    if let Some(thin) = row.thin {
        stroke(out, thin.map(|v| x.at(v)), y + 9.0, 1.2, colour);
    }
    push(
        out,
        format_args!(
            "<path d=\"M{:.1} {y:.1}L{at:.1} {:.1}L{:.1} {y:.1}L{at:.1} {:.1}Z\" fill=\"{colour}\" stroke=\"#fff\"/>",
            at - 7.0,
            y - 7.0,
            at + 7.0,
            y + 7.0
        ),
    );
    dots(out, row, y + 9.0, x);
}

fn dots(out: &mut String, row: &Row, y: f64, x: &Scale) {
    for dot in &row.dots {
        push(
            out,
            format_args!(
                "<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"#fff\" stroke=\"{}\" stroke-width=\"1.4\"/>",
                x.at(*dot),
                row.colour
            ),
        );
    }
}

fn bar(out: &mut String, row: &Row, y: f64, x: &Scale) {
    let (zero, at) = (x.at(0.0), x.at(row.value));
    push(
        out,
        format_args!(
            "<rect x=\"{zero:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"11\" fill=\"{}\" fill-opacity=\"0.75\" stroke=\"#000\" stroke-width=\"0.5\"/>",
            y - 6.5,
            at - zero,
            row.colour
        ),
    );
    if let Some(ci95) = row.ci95 {
        stroke(out, ci95.map(|v| x.at(v)), y - 1.0, 3.6, "#fff");
        stroke(out, ci95.map(|v| x.at(v)), y - 1.0, 1.6, "#000");
    }
    dots(out, row, y + 10.0, x);
}

fn dumbbell(out: &mut String, row: &Row, from: f64, y: f64, x: &Scale) {
    let (from, at, colour) = (x.at(from), x.at(row.value), row.colour);
    stroke(out, [from, at], y, 3.0, colour);
    push(
        out,
        format_args!(
            "<circle cx=\"{from:.1}\" cy=\"{y:.1}\" r=\"4.6\" fill=\"#fff\" stroke=\"{colour}\" stroke-width=\"1.8\"/>\
             <circle cx=\"{at:.1}\" cy=\"{y:.1}\" r=\"5.2\" fill=\"{colour}\"/>"
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(label: &str, value: f64, kind: Kind) -> Row {
        Row {
            label: label.into(),
            text: "t".into(),
            value,
            ci95: Some([value - 0.1, value + 0.1]),
            thin: None,
            dots: vec![value],
            colour: "#000",
            kind,
        }
    }

    #[test]
    fn no_rows_no_picture() {
        assert_eq!(rows("l", "a", &[]), "");
    }

    #[test]
    fn long_names_are_cut() {
        let text = rows("l", "a", &[row(&"n".repeat(200), 0.5, Kind::Bar)]);
        assert!(text.contains('…') && !text.contains(&"n".repeat(CHARACTERS)));
    }

    #[test]
    fn a_wide_thin_interval_does_not_squeeze_the_rest() {
        let wide = Row {
            thin: Some([-9.0, 10.0]),
            ..row("n", 0.5, Kind::Difference)
        };
        let scale = scale(&[wide]);
        assert!(scale.low > -0.5 && scale.high < 1.1, "{scale:?}");
    }

    #[test]
    fn zero_is_on_the_axis() {
        let text = rows("l", "a", &[row("n", 0.5, Kind::Difference)]);
        assert_eq!(text.matches("class=\"zero\"").count(), 1);
    }
}

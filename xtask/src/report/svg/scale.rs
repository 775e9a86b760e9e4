//! From values to places on an axis, and the round values at which an axis is labelled.

/// An axis from `low` to `high`, drawn from `from` to `to`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    /// The least value.
    pub low: f64,
    /// The greatest value, above `low`.
    pub high: f64,
    /// Place of the least value.
    pub from: f64,
    /// Place of the greatest.
    pub to: f64,
    /// Whether equal ratios are equally far apart; values must be positive then.
    pub is_log: bool,
}

impl Scale {
    /// The place of a value; values outside are drawn at the ends.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        let share = if self.is_log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share
    }

    /// Round values on the axis: about `n` for a linear one; one, two and five times powers of ten for a
    /// logarithmic one.
    pub(super) fn ticks(&self, n: usize) -> Vec<f64> {
        if self.is_log {
            self.log_ticks()
        } else {
            self.linear_ticks(n)
        }
    }

    fn linear_ticks(&self, n: usize) -> Vec<f64> {
        let step = round_step((self.high - self.low) / n as f64);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    fn log_ticks(&self) -> Vec<f64> {
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let ticks = powers.flat_map(|power| [1.0, 2.0, 5.0].map(|v| v * 10_f64.powi(power)));
        ticks
            .filter(|v| (self.low..=self.high).contains(v))
            .collect()
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 5.0]
        .into_iter()
        .find(|f| f * power >= step * 0.999);
    factor.unwrap_or(10.0) * power
}

/// The label of a share on an axis, in percent.
pub(super) fn percent_label(share: f64) -> String {
    let percent = share * 100.0;
    let digits = usize::from((percent - percent.round()).abs() > 1e-6);
    format!("{:.digits$}", percent + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scale(low: f64, high: f64, is_log: bool) -> Scale {
        Scale {
            low,
            high,
            from: 0.0,
            to: 100.0,
            is_log,
        }
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let labels = |scale: Scale| {
            scale
                .ticks(5)
                .into_iter()
                .map(percent_label)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            labels(scale(0.0, 1.0, false)),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            labels(scale(-0.1, 0.35, false)),
            ["-10", "0", "10", "20", "30"]
        );
        assert_eq!(
            labels(scale(0.004, 0.3, true)),
            ["0.5", "1", "2", "5", "10", "20"]
        );
    }

    #[test]
    fn values_outside_are_at_the_ends() {
        let linear = scale(0.0, 2.0, false);
        for (value, place) in [(-1.0, 0.0), (1.0, 50.0), (9.0, 100.0)] {
            assert!((linear.at(value) - place).abs() < 1e-9, "{value}");
        }
        assert!((scale(0.01, 1.0, true).at(0.1) - 50.0).abs() < 1e-9);
    }
}

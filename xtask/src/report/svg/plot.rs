//! Lines over an axis, with intervals as bands: learning curves, the sweep, shares over training.

use super::scale::{Scale, percent_label};
use super::{Look, WIDTH, line, open, push, text};

const HEIGHT: f64 = 270.0;
const LEFT: f64 = 40.0;
/// Wide enough for half of the last label.
const RIGHT: f64 = 26.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 40.0;

/// A value and its 95 % interval over a place.
#[derive(Debug, Clone, Copy)]
pub(in crate::report) struct Point {
    /// The place on the lower axis.
    pub x: f64,
    /// The value, a share or a difference of shares.
    pub y: f64,
    /// Its interval.
    pub ci95: Option<[f64; 2]>,
}

/// One line.
pub(in crate::report) struct Series {
    /// Its name in the legend.
    pub name: String,
    /// How it is told from others.
    pub look: Look,
    /// Its parts; between them nothing was measured.
    pub parts: Vec<Vec<Point>>,
}

/// What the lower axis shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum XAxis {
    /// Counts from 0.
    Counts,
    /// Shares in percent, equal ratios equally far apart.
    LogShares,
    /// Equal parts of training, of which only start and end are named.
    Training,
}

/// Lines over one axis.
pub(in crate::report) struct Plot<'a> {
    /// What it shows, for those who do not see it.
    pub label: &'a str,
    /// What the lower axis is.
    pub x_label: &'a str,
    /// What the other axis is, written above it.
    pub y_label: &'a str,
    /// Kind of the lower axis.
    pub x_axis: XAxis,
    /// The lines.
    pub series: &'a [Series],
}

impl Plot<'_> {
    /// The picture; empty if there is no point.
    pub(in crate::report) fn draw(&self) -> String {
        let points = || self.series.iter().flat_map(|s| s.parts.iter().flatten());
        if points().next().is_none() {
            return String::new();
        }
        let x = x_scale(points().map(|p| p.x), self.x_axis);
        let y = y_scale(points().flat_map(|p| p.ci95.unwrap_or([p.y; 2]).into_iter().chain([p.y])));
        let mut out = open(HEIGHT, self.label);
        self.axes(&mut out, &x, &y);
        for series in self.series {
            for part in &series.parts {
                intervals(&mut out, part, series.look, &x, &y);
            }
        }
        for series in self.series {
            for part in &series.parts {
                let places: Vec<_> = part.iter().map(|p| [x.at(p.x), y.at(p.y)]).collect();
                series.look.polyline(&mut out, &places);
            }
        }
        out.push_str("</svg>");
        out
    }

    fn axes(&self, out: &mut String, x: &Scale, y: &Scale) {
        for tick in y.ticks(5) {
            let at = y.at(tick);
            let class = if tick.abs() < 1e-9 { "zero" } else { "grid" };
            line(out, class, [x.from, at], [x.to, at]);
            text(
                out,
                "tick",
                "end",
                [LEFT - 6.0, at + 4.0],
                &percent_label(tick),
            );
        }
        text(out, "", "start", [2.0, 13.0], self.y_label);
        let under = HEIGHT - BOTTOM + 16.0;
        if self.x_axis == XAxis::Training {
            text(out, "tick", "start", [x.from, under], "start");
            text(out, "tick", "end", [x.to, under], "end");
        } else {
            for tick in x.ticks(4) {
                line(
                    out,
                    "grid",
                    [x.at(tick), y.from],
                    [x.at(tick), y.from + 4.0],
                );
                text(
                    out,
                    "tick",
                    "middle",
                    [x.at(tick), under],
                    &self.x_tick(tick),
                );
            }
        }
        let middle = f64::midpoint(x.from, x.to);
        text(out, "", "middle", [middle, HEIGHT - 6.0], self.x_label);
    }

    fn x_tick(&self, tick: f64) -> String {
        match self.x_axis {
            XAxis::LogShares => percent_label(tick),
            _ => super::super::format::whole(tick),
        }
    }
}

fn x_scale(values: impl Iterator<Item = f64> + Clone, axis: XAxis) -> Scale {
    let low = values.clone().fold(f64::INFINITY, f64::min);
    let high = values.fold(f64::NEG_INFINITY, f64::max);
    let is_log = axis == XAxis::LogShares;
    let (low, high) = match axis {
        XAxis::LogShares => (low / 1.3, high * 1.3),
        XAxis::Counts | XAxis::Training => (0.0, if high > 0.0 { high } else { 1.0 }),
    };
    Scale {
        low,
        high,
        from: LEFT,
        to: WIDTH - RIGHT,
        is_log,
    }
}

/// From 0 (or below it, if a value is) to a little above the greatest value.
fn y_scale(values: impl Iterator<Item = f64> + Clone) -> Scale {
    let low = values.clone().fold(0.0, f64::min);
    let high = values.fold(0.0, f64::max).max(low + 0.05);
    let margin = (high - low) * 0.06;
    let low = if low < 0.0 { low - margin } else { low };
    let high = if high <= 1.0 {
        (high + margin).min(1.0)
    } else {
        high
    };
    Scale {
        low,
        high,
        from: HEIGHT - BOTTOM,
        to: TOP,
        is_log: false,
    }
}

/// The intervals of a part: a band, or a bar where there is a single point.
fn intervals(out: &mut String, part: &[Point], look: Look, x: &Scale, y: &Scale) {
    let bound = |point: &Point, side: usize| Some([x.at(point.x), y.at(point.ci95?[side])]);
    if let [only] = part {
        if let (Some([x, low]), Some([_, high])) = (bound(only, 0), bound(only, 1)) {
            let colour = look.colour;
            push(
                out,
                format_args!("<path d=\"M{x:.1} {low:.1}V{high:.1}\" stroke=\"{colour}\"/>"),
            );
        }
        return;
    }
    let lower = part.iter().filter_map(|point| bound(point, 0));
    let upper = part.iter().rev().filter_map(|point| bound(point, 1));
    let points: Vec<_> = lower
        .chain(upper)
        .map(|[x, y]| format!("{x:.1},{y:.1}"))
        .collect();
    if !points.is_empty() {
        push(
            out,
            format_args!(
                "<polygon class=\"band\" points=\"{}\" fill=\"{}\"/>",
                points.join(" "),
                look.colour
            ),
        );
    }
}

/// The names of lines beside samples of them.
pub(in crate::report) fn legend(series: &[Series]) -> String {
    let mut out = "<p class=\"legend\">".to_owned();
    for series in series {
        out.push_str("<span><svg class=\"key\" viewBox=\"0 0 34 12\" aria-hidden=\"true\">");
        series.look.polyline(&mut out, &[[2.0, 6.0], [32.0, 6.0]]);
        let name = super::super::html::escape(&series.name);
        push(&mut out, format_args!("</svg> {name}</span> "));
    }
    out.push_str("</p>\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::svg::look_of;

    fn draw(series: &[Series]) -> String {
        let x_axis = XAxis::Counts;
        Plot {
            label: "l",
            x_label: "x",
            y_label: "y",
            x_axis,
            series,
        }
        .draw()
    }

    fn series(parts: Vec<Vec<Point>>) -> Series {
        Series {
            name: "a".into(),
            look: look_of(2),
            parts,
        }
    }

    fn point(x: f64) -> Point {
        Point {
            x,
            y: 0.5,
            ci95: Some([0.4, 0.6]),
        }
    }

    #[test]
    fn no_point_no_picture() {
        assert_eq!(draw(&[]), "");
        assert_eq!(draw(&[series(vec![])]), "");
    }

    #[test]
    fn gaps_split_a_line() {
        let parts = vec![vec![point(0.0)], vec![point(2000.0), point(40000.0)]];
        let text = draw(&[series(parts)]);
        assert_eq!(text.matches("<polyline").count(), 2);
        assert_eq!(text.matches("<circle").count(), 3);
        assert_eq!(text.matches("<polygon").count(), 1);
    }

    #[test]
    fn no_label_leaves_the_picture() {
        let text = draw(&[series(vec![vec![point(0.0), point(40_000.0)]])]);
        let last = text
            .split("text-anchor=\"middle\">")
            .filter(|t| t.starts_with("40,000"))
            .count();
        assert_eq!(last, 1);
        // Six characters of at most 7 units, half of them right of the end.
        const { assert!(RIGHT >= 3.0 * 7.0) };
    }
}

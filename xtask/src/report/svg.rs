//! Inline pictures of the report: learning curves with intervals, and small lines over training.

use std::fmt::Write;

use super::{CurvePoint, Report};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 44.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 40.0;

/// Colours that people with the common colour blindnesses tell apart (Okabe and Ito).
const COLOURS: [&str; 7] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000",
];

/// The colour of the arm with that number.
pub(super) fn colour(arm_idx: usize) -> &'static str {
    COLOURS[arm_idx % COLOURS.len()]
}

/// Success over rollouts for every arm, with intervals as bands; nothing if no arm has a curve.
pub(super) fn curves(report: &Report) -> String {
    let all = report.arms.values().flat_map(|arm| &arm.curve);
    let max_rollouts = all.map(|point| point.rollouts).fold(0.0, f64::max);
    if max_rollouts <= 0.0 {
        return String::new();
    }
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"Success under the base harness over rollouts\">"
    );
    axes(&mut out, max_rollouts);
    for (arm_idx, arm) in report.arms.values().enumerate() {
        band(&mut out, &arm.curve, max_rollouts, colour(arm_idx));
        line(&mut out, &arm.curve, max_rollouts, colour(arm_idx));
    }
    out.push_str("</svg>");
    out
}

/// A small line of shares in `[0, 1]`, equally far apart; gaps where a value is missing.
pub(super) fn spark(values: &[Option<f64>], colour: &str) -> String {
    let (width, height) = (120.0, 28.0);
    let step = width / values.len().saturating_sub(1).max(1) as f64;
    let mut out = format!(
        "<svg class=\"spark\" viewBox=\"-2 -2 {} {}\">",
        width + 4.0,
        height + 4.0
    );
    for run in runs(values) {
        let points: Vec<_> = run
            .map(|(i, v)| format!("{:.1},{:.1}", i as f64 * step, height * (1.0 - v)))
            .collect();
        push_polyline(&mut out, &points, colour);
    }
    out.push_str("</svg>");
    out
}

/// Maximal runs of values that are there, with their indices.
fn runs(values: &[Option<f64>]) -> impl Iterator<Item = impl Iterator<Item = (usize, f64)>> {
    let indexed: Vec<(usize, Option<f64>)> = values.iter().copied().enumerate().collect();
    let parts: Vec<Vec<_>> = indexed
        .split(|(_, value)| value.is_none())
        .map(|run| run.iter().filter_map(|(i, v)| Some((*i, (*v)?))).collect())
        .collect();
    parts
        .into_iter()
        .filter(|run| !run.is_empty())
        .map(Vec::into_iter)
}

fn x(rollouts: f64, max_rollouts: f64) -> f64 {
    LEFT + (WIDTH - LEFT - RIGHT) * rollouts / max_rollouts
}

fn y(success: f64) -> f64 {
    TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - success.clamp(0.0, 1.0))
}

fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text)
        .expect("writing to a String cannot fail");
}

fn axes(out: &mut String, max_rollouts: f64) {
    for tick in 0..=4 {
        let share = f64::from(tick) / 4.0;
        let (y, right) = (y(share), WIDTH - RIGHT);
        push(
            out,
            format_args!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{share:.2}</text>",
                LEFT - 6.0,
                y + 4.0
            ),
        );
        let rollouts = max_rollouts * share;
        push(
            out,
            format_args!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{rollouts:.0}</text>",
                x(rollouts, max_rollouts),
                HEIGHT - BOTTOM + 16.0
            ),
        );
    }
    push(
        out,
        format_args!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">rollouts per seed</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            HEIGHT - 6.0
        ),
    );
}

fn band(out: &mut String, curve: &[CurvePoint], max_rollouts: f64, colour: &str) {
    let bound = |point: &CurvePoint, side: usize| {
        let success = point.ci95?[side];
        Some(format!(
            "{:.1},{:.1}",
            x(point.rollouts, max_rollouts),
            y(success)
        ))
    };
    let lower = curve.iter().filter_map(|point| bound(point, 0));
    let upper = curve.iter().rev().filter_map(|point| bound(point, 1));
    let points: Vec<_> = lower.chain(upper).collect();
    push(
        out,
        format_args!(
            "<polygon points=\"{}\" fill=\"{colour}\" fill-opacity=\"0.13\"/>",
            points.join(" ")
        ),
    );
}

fn line(out: &mut String, curve: &[CurvePoint], max_rollouts: f64, colour: &str) {
    let points: Vec<_> = curve
        .iter()
        .map(|p| {
            format!(
                "{:.1},{:.1}",
                x(p.rollouts, max_rollouts),
                y(p.base_success)
            )
        })
        .collect();
    push_polyline(out, &points, colour);
}

/// A line through points, and a dot on each so that a single one is seen.
fn push_polyline(out: &mut String, points: &[String], colour: &str) {
    push(
        out,
        format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>",
            points.join(" ")
        ),
    );
    for (x, y) in points.iter().filter_map(|point| point.split_once(',')) {
        push(
            out,
            format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"2.5\" fill=\"{colour}\"/>"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_split_a_line() {
        let text = spark(&[Some(0.0), None, Some(0.5), Some(1.0)], "#000");
        assert_eq!(text.matches("<polyline").count(), 2);
        assert_eq!(text.matches("<circle").count(), 3);
    }

    #[test]
    fn no_curve_no_picture() {
        assert_eq!(curves(&Report::default()), "");
    }
}

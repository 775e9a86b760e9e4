//! Sections whose pictures are lines: learning curves, the sweep, shares over training.

use super::markup::{folded, note, table};
use crate::report::svg::{Plot, Point, Series, XAxis, legend, look_of};
use crate::report::{ArmReport, Report, SweepLevel, tables, words};
use crate::stats::Estimate;

/// Arms that are drawn in the first picture; the others are variants.
const MAIN: usize = 4;

/// More bands than these hide each other.
const MAX_BANDS: usize = 5;

fn without_bands(series: &mut [Series]) {
    for point in series.iter_mut().flat_map(|s| s.parts.iter_mut().flatten()) {
        point.ci95 = None;
    }
}

/// A picture with its legend and words; nothing if there is nothing to draw.
fn figure(plot: &Plot, text: &str) -> String {
    let picture = plot.draw();
    if picture.is_empty() {
        return picture;
    }
    format!("{picture}\n{}{}", legend(plot.series), note(text))
}

pub(super) fn curves(report: &Report) -> String {
    let arms = tables::arms_in_order(report);
    let (main, other): (Vec<_>, Vec<_>) = arms
        .into_iter()
        .partition(|(name, _)| tables::place(name) < MAIN);
    let reference = main
        .iter()
        .copied()
        .filter(|(name, _)| *name == "harness_s");
    let variants = report
        .ablations
        .iter()
        .map(|(name, a)| (name.as_str(), &a.arm));
    let variants: Vec<_> = other.into_iter().chain(variants).collect();
    let ends = words::curve_ends(report);
    let text = format!(
        "Each line is one way to train: to the right it spends rollouts, upwards it solves more tasks of the dev split under the base harness. \
         Bands are 95 % intervals. Where lines are equally far right they have cost the same. At the last evaluation: {ends}."
    );
    let first = curve_figure(
        "Success under the base harness over rollouts",
        main.iter().copied(),
        &text,
    );
    if !variants.iter().any(|(_, arm)| !arm.curve.is_empty()) {
        return first;
    }
    let text = "The same for variants of the method that each change one thing; harness_s is drawn again for comparison. Their intervals are in the table of ablations.";
    let second = curve_figure(
        "Success of the variants over rollouts",
        reference.chain(variants),
        text,
    );
    format!("{first}<h3>Variants</h3>\n{second}")
}

fn curve_figure<'a>(
    label: &str,
    arms: impl Iterator<Item = (&'a str, &'a ArmReport)>,
    text: &str,
) -> String {
    let mut free = MAIN..;
    let series = arms
        .filter(|(_, arm)| !arm.curve.is_empty())
        .map(|(name, arm)| {
            let place = tables::place(name);
            let look = if place < MAIN {
                place
            } else {
                free.next().unwrap_or_default()
            };
            let points = arm.curve.iter().map(|point| Point {
                x: point.rollouts,
                y: point.base_success,
                ci95: point.ci95,
            });
            Series {
                name: name.to_owned(),
                look: look_of(look),
                parts: vec![points.collect()],
            }
        });
    let mut series: Vec<_> = series.collect();
    if series.len() > MAX_BANDS {
        without_bands(&mut series);
    }
    let plot = Plot {
        label,
        x_label: "environment rollouts per seed",
        y_label: "% of dev tasks solved",
        x_axis: XAxis::Counts,
        series: &series,
    };
    figure(&plot, text)
}

pub(super) fn sweep(report: &Report) -> String {
    let gaps = [
        series("minus the matched control", 2, &report.sweep, |l| {
            l.minus_matched.as_ref()
        }),
        series("minus GRPO alone", 5, &report.sweep, |l| {
            l.minus_policy_only.as_ref()
        }),
    ];
    let (chance, x_label) = match chances(&report.sweep) {
        Some(_) => (
            "the chance of the untrained base per attempt",
            "base's chance per attempt in families that need a skill, % (log)",
        ),
        None => (
            "eps, the demonstrations' chance to do the right thing without a rule",
            "eps, % (log)",
        ),
    };
    let label = "The gap over the base's chance per attempt";
    let y_label = "harness_s ahead, percentage points";
    let said = words::sweep_words(&report.sweep).unwrap_or_default();
    let text = format!(
        "How far rescue is ahead, over {chance}: at the left the base hardly ever succeeds by itself. Above zero siblings pay. {said}"
    );
    let x_axis = XAxis::LogShares;
    let gap = figure(
        &Plot {
            label,
            x_label,
            y_label,
            x_axis,
            series: &gaps,
        },
        &text,
    );
    let first = report.sweep.first();
    let mut arms: Vec<&String> = first
        .into_iter()
        .flat_map(|level| level.arms.keys())
        .collect();
    arms.sort_by_key(|name| tables::place(name));
    let arms = arms
        .into_iter()
        .map(|arm| series(arm, tables::place(arm), &report.sweep, |l| l.arms.get(arm)));
    let arms: Vec<Series> = arms.collect();
    let label = "Success of the arms over the base's chance per attempt";
    let y_label = "% of test tasks solved";
    let success = figure(
        &Plot {
            label,
            x_label,
            y_label,
            x_axis,
            series: &arms,
        },
        "The successes of which the gaps are the differences.",
    );
    let numbers = folded("The sweep as numbers", &table(tables::sweep(report)));
    format!("{gap}{success}{numbers}")
}

/// The base's chance at each level, if it was measured at all of them and is not zero.
fn chances(levels: &[SweepLevel]) -> Option<Vec<f64>> {
    let chance = |level: &SweepLevel| Some(level.base_chance.as_ref()?.mean).filter(|c| *c > 0.0);
    levels.iter().map(chance).collect()
}

fn series<'a>(
    name: &str,
    look: usize,
    levels: &'a [SweepLevel],
    value: impl Fn(&'a SweepLevel) -> Option<&'a Estimate>,
) -> Series {
    let chances = chances(levels).unwrap_or_else(|| levels.iter().map(|level| level.eps).collect());
    let points = levels.iter().zip(chances).filter(|(_, x)| *x > 0.0);
    let points = points.filter_map(|(level, x)| {
        let value = value(level)?;
        Some(Point {
            x,
            y: value.mean,
            ci95: Some(value.ci95),
        })
    });
    let mut points: Vec<_> = points.collect();
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    Series {
        name: name.to_owned(),
        look: look_of(look),
        parts: vec![points],
    }
}

pub(super) fn training(report: &Report) -> String {
    let failed = over_training(
        report,
        "% of groups",
        "Share of groups in which every attempt failed",
        |arm| arm.all_failed_share.iter().copied().map(Some).collect(),
        "Share of groups in which every attempt failed: the room for rescue. Under GRPO such a group teaches nothing. It shrinks as the policy learns.",
    );
    let rescued = over_training(
        report,
        "% of failed groups",
        "Share of failed groups that were rescued",
        |arm| arm.rescue_rate_curve.clone(),
        "Of these groups, the share in which at least one fresh attempt solved the task, under siblings or, for the matched control, under the base. The distance between the lines is what siblings add. Gaps are parts of training without a failed group.",
    );
    let negative = over_training(
        report,
        "% of the loss",
        "Share of the loss from negative advantages",
        |arm| arm.negative_share.clone(),
        "Share of the loss from negative advantages. For rescued groups it pushes against text that the base rarely writes; it should not grow without bound.",
    );
    let titled = |title: &str, content: String| {
        if content.is_empty() {
            content
        } else {
            format!("<h3>{title}</h3>\n{content}")
        }
    };
    [
        titled("Groups in which all attempts failed", failed),
        titled("Rescue rate", rescued),
        titled("Negative advantages", negative),
    ]
    .concat()
}

fn over_training(
    report: &Report,
    y_label: &str,
    label: &str,
    values: impl Fn(&ArmReport) -> Vec<Option<f64>>,
    text: &str,
) -> String {
    let arms = tables::arms_in_order(report).into_iter();
    let arms = arms.filter(|(name, _)| tables::place(name) < MAIN);
    let series = arms.map(|(name, arm)| Series {
        name: name.to_owned(),
        look: look_of(tables::place(name)),
        parts: parts(&values(arm)),
    });
    let series: Vec<_> = series.filter(|s| !s.parts.is_empty()).collect();
    let x_axis = XAxis::Training;
    figure(
        &Plot {
            label,
            x_label: "training",
            y_label,
            x_axis,
            series: &series,
        },
        text,
    )
}

/// Maximal runs of values that are there, each at its number.
pub(super) fn parts(values: &[Option<f64>]) -> Vec<Vec<Point>> {
    let points: Vec<Option<Point>> = (0..)
        .zip(values)
        .map(|(x, value)| {
            Some(Point {
                x: f64::from(x),
                y: (*value)?,
                ci95: None,
            })
        })
        .collect();
    let runs = points.split(Option::is_none).filter(|run| !run.is_empty());
    runs.map(|run| run.iter().copied().flatten().collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::rich;

    #[test]
    fn gaps_split_a_line() {
        let lengths =
            |values: &[Option<f64>]| parts(values).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(
            lengths(&[Some(0.0), None, Some(0.5), Some(1.0), None]),
            [1, 2]
        );
        assert_eq!(lengths(&[None]), [0; 0]);
    }

    #[test]
    fn curves_have_a_line_and_a_band_for_each_arm() {
        let report = rich();
        let page = curves(&report);
        let main = page.split("<h3>").next().unwrap();
        assert_eq!(main.matches("class=\"band\"").count(), 4);
        assert!(page.contains("<h3>Variants</h3>"));
    }

    #[test]
    fn the_sweep_uses_eps_where_the_chance_is_not_known() {
        let mut report = rich();
        assert!(sweep(&report).contains("families that need a skill"));
        report.sweep[0].base_chance = None;
        assert!(sweep(&report).contains("eps, % (log)"));
    }
}

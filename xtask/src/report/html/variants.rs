//! Sections that compare whole runs: arms, ablations, negative controls, families, costs.

use super::markup::{note, table};
use crate::report::format::{estimate, points};
use crate::report::svg::{Kind, Row, colours, look_of, rows};
use crate::report::{ArmReport, Report, tables};
use crate::stats::Estimate;

pub(super) fn arms(report: &Report) -> String {
    let arms = tables::arms_in_order(report);
    let initial = report.initial.base_success.as_ref();
    let initial = initial.map(|value| bar("initial policy", value, &[], "#999999"));
    let bars = arms
        .into_iter()
        .filter_map(|(name, arm): (&str, &ArmReport)| {
            let value = arm.base_success.as_ref()?;
            Some(bar(
                name,
                value,
                &arm.per_seed,
                look_of(tables::place(name)).colour,
            ))
        });
    let bars: Vec<_> = initial.into_iter().chain(bars).collect();
    let picture = rows(
        "Success of each arm",
        "% of test tasks solved under the base harness",
        &bars,
    );
    let numbers = [tables::arms(report), tables::outcomes(report)]
        .map(table)
        .concat();
    if picture.is_empty() {
        return numbers;
    }
    let text = "Share of test tasks solved when the policy is returned to the base harness, all arms at the same budget of rollouts. \
                The thin line is the 95 % interval, circles are seeds. Intervals of two arms may overlap though their paired difference is sure; the differences are at the top.";
    format!("{picture}{}{numbers}", note(text))
}

fn bar(name: &str, value: &Estimate, per_seed: &[f64], colour: &'static str) -> Row {
    Row {
        label: name.to_owned(),
        text: estimate(Some(value)),
        value: value.mean,
        ci95: Some(value.ci95),
        thin: None,
        dots: per_seed.to_vec(),
        colour,
        kind: Kind::Bar,
    }
}

fn difference(name: &str, value: &Estimate, thin: Option<&Estimate>) -> Row {
    Row {
        label: name.to_owned(),
        text: points(Some(value)),
        value: value.mean,
        ci95: Some(value.ci95),
        thin: thin.map(|t| t.ci95),
        dots: Vec::new(),
        colour: colours::BLUE,
        kind: Kind::Difference,
    }
}

pub(super) fn ablations(report: &Report) -> String {
    let differences = report.ablations.iter();
    let differences = differences.filter_map(|(name, ablation)| {
        Some(difference(name, ablation.minus_harness_s.as_ref()?, None))
    });
    let differences: Vec<_> = differences.collect();
    let picture = rows(
        "Variants minus harness_s",
        "percentage points against harness_s",
        &differences,
    );
    let text = if picture.is_empty() {
        String::new()
    } else {
        note(
            "Each variant minus harness_s on the same seeds. Left of zero the variant does worse: what it takes away was worth that much. An interval across zero says that the part was not shown to matter.",
        )
    };
    format!("{picture}{text}{}", table(tables::ablations(report)))
}

pub(super) fn controls(report: &Report) -> String {
    let differences = report.controls.iter().filter_map(|(name, control)| {
        Some(difference(
            name,
            control.difference.as_ref()?,
            control.t_interval.as_ref(),
        ))
    });
    let differences: Vec<_> = differences.collect();
    let picture = rows(
        "Differences of the negative controls",
        "percentage points",
        &differences,
    );
    let numbers = table(tables::controls(report));
    if numbers.is_empty() {
        return numbers;
    }
    let text = "Runs in which siblings cannot help. If rescue gained here, the gain at the top would come from something else than siblings. \
                The thick line is the bootstrap interval, the thin one the t interval over seeds.";
    format!("{picture}{}{numbers}", note(text))
}

pub(super) fn families(report: &Report) -> String {
    let numbers = table(tables::families(report));
    if numbers.is_empty() {
        return numbers;
    }
    format!(
        "{numbers}{}",
        note("Success by family of tasks: where rescue helps and where it has nothing to add.")
    )
}

pub(super) fn costs(report: &Report) -> String {
    let numbers = table(tables::costs(report));
    if numbers.is_empty() {
        return numbers;
    }
    let text = "All arms spend the same budget, anchor probes included. Building the pool is charged in the headline that says so. \
                Measuring is charged to nobody.";
    format!("{numbers}{}", note(text))
}

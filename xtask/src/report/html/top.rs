//! The top of the page: the answer, how sure it is, why, and what made it.

use super::markup::{escape, folded, list, note, section, table};
use crate::report::format::points;
use crate::report::svg::{Kind, Row, colours, rows};
use crate::report::tables::{self, NamedDelta, named_deltas};
use crate::report::{Report, words};

pub(super) fn top(report: &Report) -> String {
    [
        verdict(report),
        warnings(report),
        forest(report),
        terms(),
        provenance(report),
    ]
    .concat()
}

fn verdict(report: &Report) -> String {
    let question = "Does rescue by sibling harnesses beat the same number of rollouts spent on the base harness?";
    let reasons = words::reasons(report);
    let why = if reasons.is_empty() {
        String::new()
    } else {
        format!("<h3>Why</h3>\n{}", list(&reasons))
    };
    let evidence = words::evidence(report);
    let sure = if evidence.is_empty() {
        String::new()
    } else {
        format!("<h3>How much, and how sure</h3>\n{}", list(&evidence))
    };
    format!(
        "<p class=\"note\">{question}</p>\n<div class=\"verdict\">\n<p>{}</p>\n{sure}{why}</div>\n",
        escape(&words::verdict(report))
    )
}

fn warnings(report: &Report) -> String {
    if report.warnings.is_empty() {
        return String::new();
    }
    format!(
        "<div class=\"warning\">\n<p><strong>Do not overlook</strong></p>\n{}</div>\n",
        list(&report.warnings)
    )
}

fn forest(report: &Report) -> String {
    let measured: Vec<Row> = named_deltas(report).iter().filter_map(row).collect();
    let picture = rows(
        "Differences of success with intervals",
        "percentage points; right of zero rescue is ahead",
        &measured,
    );
    let legend = if picture.is_empty() {
        String::new()
    } else {
        note(
            "Each diamond is a difference of success under the base harness. \
             The thick line is its bootstrap interval, the thin line beneath its t interval over seeds, \
             the small circles are single seeds; a line that runs to the edge goes on beyond it. \
             If a line crosses zero, luck of the draw can explain the difference.",
        )
    };
    let numbers = folded("The differences as numbers", &table(tables::deltas(report)));
    section("Differences", &format!("{picture}{legend}{numbers}"))
}

fn row(delta: &NamedDelta) -> Option<Row> {
    let value = delta.value?;
    Some(Row {
        label: delta.words.to_owned(),
        text: points(Some(value)),
        value: value.mean,
        ci95: Some(value.ci95),
        thin: delta.t_interval.map(|t| t.ci95),
        dots: delta.per_seed.to_vec(),
        colour: colours::BLUE,
        kind: Kind::Difference,
    })
}

fn terms() -> String {
    let terms = words::TERMS.iter().map(|(term, meaning)| {
        format!(
            "<li><strong>{}</strong>: {}</li>\n",
            escape(term),
            escape(meaning)
        )
    });
    let content = format!(
        "<ul>\n{}</ul>\n{}",
        terms.collect::<String>(),
        note(&words::EXPLANATION.join(" "))
    );
    section("What the words mean", &content)
}

fn provenance(report: &Report) -> String {
    let pairs = words::provenance(report)
        .into_iter()
        .map(|(name, value)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(&value)));
    section(
        "What made these numbers",
        &format!("<dl>\n{}</dl>\n", pairs.collect::<String>()),
    )
}

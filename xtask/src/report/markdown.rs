//! `report.md`: the report as text, with the sentences and tables of the page.

use std::fmt::Write;

use super::tables::{self, Matrix, Table};
use super::{ProfileRow, Report, words};

/// The report as Markdown, one sentence per line.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    for section in [
        head,
        deltas,
        comparisons,
        heat_maps,
        method,
        pool,
        profiles,
        costs,
    ] {
        section(report, &mut out);
    }
    out
}

fn line(out: &mut String, text: impl std::fmt::Display) {
    writeln!(out, "{text}").expect("writing to a String cannot fail");
}

/// A title and its table, or nothing.
fn table(out: &mut String, title: &str, table: Option<Table>) {
    let Some(Table { header, rows }) = table else {
        return;
    };
    if !title.is_empty() {
        line(out, format_args!("## {title}\n"));
    }
    let mut row = |cells: &[String]| {
        let cells: Vec<_> = cells
            .iter()
            .map(|cell| safe(cell).replace('|', "\\|"))
            .collect();
        line(out, format_args!("| {} |", cells.join(" | ")));
    };
    row(&header);
    let rule: Vec<_> = (0..header.len())
        .map(|i| if i == 0 { "---" } else { "--:" }.to_owned())
        .collect();
    row(&rule);
    for cells in &rows {
        row(cells);
    }
    line(out, "");
}

/// Text on one line that is no markup.
fn safe(text: &str) -> String {
    text.replace('\n', " ").replace('<', "&lt;")
}

fn sentence(out: &mut String, text: Option<String>) {
    if let Some(text) = text {
        line(out, format_args!("{}\n", safe(&text)));
    }
}

fn items(out: &mut String, items: &[String]) {
    for item in items {
        line(out, format_args!("- {}", safe(item)));
    }
    if !items.is_empty() {
        line(out, "");
    }
}

fn head(report: &Report, out: &mut String) {
    let (env, scale) = (safe(&report.env), safe(&report.scale));
    line(out, format_args!("# Harness-S on {env}, scale {scale}\n"));
    line(out, format_args!("**{}**\n", words::verdict(report)));
    items(out, &words::evidence(report));
    items(out, &words::reasons(report));
    if !report.warnings.is_empty() {
        line(out, "Do not overlook:\n");
        items(out, &report.warnings);
    }
    for text in words::EXPLANATION {
        line(out, text);
    }
    line(out, "");
    let pairs = words::provenance(report).into_iter();
    let pairs: Vec<_> = pairs
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    items(out, &pairs);
}

fn deltas(report: &Report, out: &mut String) {
    table(out, "Differences", tables::deltas(report));
}

fn comparisons(report: &Report, out: &mut String) {
    table(out, "Arms", tables::arms(report));
    table(out, "How training attempts ended", tables::outcomes(report));
    table(out, "Gap over the base's chance", tables::sweep(report));
    sentence(out, words::sweep_words(&report.sweep));
    table(out, "Ablations", tables::ablations(report));
    table(out, "Negative controls", tables::controls(report));
    table(out, "Families", tables::families(report));
}

fn matrix(out: &mut String, title: &str, corner: &str, values: &Matrix) {
    table(out, title, tables::matrix(corner, values));
}

fn heat_maps(report: &Report, out: &mut String) {
    for moment in report.harness_by_family.iter().flatten() {
        let title = format!(
            "Harness by family: {} ({} rollouts per seed)",
            safe(&moment.at),
            super::format::whole(moment.rollouts)
        );
        matrix(out, &title, "harness", &moment.success);
        sentence(out, words::matrix_words(moment));
    }
}

fn method(report: &Report, out: &mut String) {
    for (name, arm) in tables::arms_in_order(report) {
        let title = format!("Where rescues of {} went: solved of attempts", safe(name));
        table(out, &title, tables::routed(&arm.routed));
    }
    table(
        out,
        "Transfer to the base harness",
        tables::transfer(report),
    );
    sentence(out, words::support_words(report));
    table(out, "Nonstationarity", tables::nonstationarity(report));
    sentence(out, words::nonstationarity_words(report));
    table(
        out,
        "Rank-1: one harness for each task",
        tables::rank1(report),
    );
    sentence(out, words::rank1_words(report));
}

fn pool(report: &Report, out: &mut String) {
    let Some(pool) = &report.pool else { return };
    line(out, "## Pool of siblings\n");
    let text = format!(
        "{} siblings; {} candidates rejected; {} rollouts.",
        pool.size,
        pool.rejected,
        super::format::count(pool.rollouts)
    );
    sentence(out, Some(text));
    items(out, &pool.confirmed);
    matrix(
        out,
        "Locality: failed tasks solved",
        "sibling",
        &pool.locality,
    );
    sentence(out, words::complementarity_words(report));
    table(out, "Candidates of evolution", tables::candidates(pool));
}

fn profiles(report: &Report, out: &mut String) {
    for at in ["start", "end"] {
        let rows: Vec<&ProfileRow> = report.profiles.iter().filter(|row| row.at == at).collect();
        table(out, &format!("Profiles: {at}"), tables::profiles(&rows));
    }
}

fn costs(report: &Report, out: &mut String) {
    table(out, "Costs", tables::costs(report));
}

#[cfg(test)]
mod tests {
    use super::super::sample::rich;
    use super::super::summarise::tests::sample;
    use super::*;

    #[test]
    fn every_table_has_equal_rows() {
        let mut width = None;
        for line in markdown(&rich()).lines() {
            let n = line
                .starts_with('|')
                .then(|| line.replace("\\|", "").matches('|').count());
            if let (Some(now), Some(before)) = (n, width) {
                assert_eq!(now, before, "{line}");
            }
            width = n;
        }
    }

    #[test]
    fn what_was_not_measured_is_a_dash() {
        let text = markdown(&sample());
        let line = text
            .lines()
            .find(|l| l.starts_with("| harness_s_minus_policy_only_matched |"));
        assert!(line.unwrap().contains('–'));
        assert!(!text.contains("## Rank-1"));
    }

    #[test]
    fn a_rich_report_has_every_table() {
        let text = markdown(&rich());
        for title in [
            "Differences",
            "Arms",
            "Gap over",
            "Ablations",
            "Negative controls",
            "Families",
            "Harness by family: end",
            "Where rescues of harness_s went",
            "Transfer",
            "Nonstationarity",
            "Rank-1",
            "Locality",
            "Candidates",
            "Profiles: end",
            "Costs",
        ] {
            assert!(text.contains(&format!("## {title}")), "{title}");
        }
    }

    #[test]
    fn an_empty_report_is_still_a_report() {
        assert!(markdown(&Report::default()).starts_with("# Harness-S"));
    }
}

//! `report.html`: the report as one file that needs no network and no script.

use std::collections::{BTreeMap, BTreeSet};

use super::markdown::{EXPLANATION, estimate, family_names, named_deltas, number, rank1_columns};
use super::{Rank1Row, Report, svg};
use crate::stats::Estimate;

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;color:#1b1b1b;background:#fff;max-width:60rem;margin:0 auto;padding:1rem}\
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}\
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}\
th,td{padding:.3rem .6rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\
th:first-child,td:first-child{text-align:left}\
svg{width:100%;height:auto;font:11px system-ui,sans-serif}svg.spark{width:120px;height:32px}\
.grid{stroke:#e4e4e4}.key{display:inline-block;width:.8em;height:.8em;margin-right:.4em}\
.note{color:#555}.headline{font-size:1.1rem}";

/// The report as a page that stands alone and reads well on a phone.
pub fn html(report: &Report) -> String {
    let title = escape(&format!(
        "Harness-S on {}, scale {}",
        report.env, report.scale
    ));
    let sections = [head, curves, arms, families, matrices, pool, more, rank1];
    let body: String = sections.iter().map(|section| section(report)).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

/// Text that cannot be mistaken for markup, inside attributes too.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// A table of cells that are markup already.
fn table(header: &[String], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let cells = |tag: &str, cells: &[String]| -> String {
        let cells = cells.iter().map(|cell| format!("<{tag}>{cell}</{tag}>"));
        cells.collect::<Vec<_>>().concat()
    };
    let rows = rows
        .into_iter()
        .map(|row| format!("<tr>{}</tr>\n", cells("td", &row)));
    let rows = rows.collect::<Vec<_>>().concat();
    format!(
        "<div class=\"scroll\"><table>\n<tr>{}</tr>\n{rows}</table></div>\n",
        cells("th", header)
    )
}

fn header(names: impl IntoIterator<Item = impl AsRef<str>>) -> Vec<String> {
    names
        .into_iter()
        .map(|name| escape(name.as_ref()))
        .collect()
}

fn head(report: &Report) -> String {
    let rows = named_deltas(&report.delta)
        .into_iter()
        .map(|(name, value)| {
            let per_seed = report
                .delta
                .per_seed
                .get(name)
                .map_or_else(String::new, |values| {
                    let values: Vec<_> = values.iter().map(|v| format!("{v:+.3}")).collect();
                    values.join(", ")
                });
            vec![
                escape(name),
                estimate(value),
                per_seed,
                estimate(report.delta.t_interval.get(name)),
            ]
        });
    let charged = report
        .delta
        .charged
        .harness_s_minus_policy_only_matched
        .as_ref();
    let charged = vec![
        "harness_s_minus_policy_only_matched, pool charged".into(),
        estimate(charged),
        String::new(),
        estimate(None),
    ];
    let columns = ["difference", "mean", "per seed", "t interval over seeds"];
    format!(
        "<p class=\"note\">{}</p>\n<p>Seeds: {}. Test tasks: {} in {} scenarios. Initial policy: {}.</p>\n\
         <h2>Differences</h2>\n{}",
        EXPLANATION.join(" "),
        escape(&format!("{:?}", report.seeds)),
        report.n_test_tasks,
        report.n_test_scenarios,
        estimate(report.initial.base_success.as_ref()),
        table(&header(columns), rows.chain([charged]))
    )
}

fn curves(report: &Report) -> String {
    let picture = svg::curves(report);
    if picture.is_empty() {
        return picture;
    }
    let note = "Success on the dev split under the base harness; bands are 95 % intervals.";
    let keys = report.arms.keys().enumerate();
    let keys = keys.map(|(arm_idx, name)| format!("<span>{}</span>", key(arm_idx, name)));
    let keys = keys.collect::<Vec<_>>().join(" &nbsp; ");
    format!("<h2>Learning curves</h2>\n<p class=\"note\">{note}</p>\n{picture}\n<p>{keys}</p>\n")
}

/// An arm's name with its colour.
fn key(arm_idx: usize, name: &str) -> String {
    format!(
        "<span class=\"key\" style=\"background:{}\"></span>{}",
        svg::colour(arm_idx),
        escape(name)
    )
}

fn arms(report: &Report) -> String {
    let rows = report
        .arms
        .iter()
        .enumerate()
        .map(|(arm_idx, (name, arm))| {
            let colour = svg::colour(arm_idx);
            let all_failed: Vec<_> = arm.all_failed_share.iter().copied().map(Some).collect();
            vec![
                key(arm_idx, name),
                estimate(arm.base_success.as_ref()),
                estimate(arm.base_success_greedy.as_ref()),
                arm.rollouts.to_string(),
                arm.tokens.to_string(),
                number(arm.rescue_rate),
                svg::spark(&arm.rescue_rate_curve, colour),
                svg::spark(&all_failed, colour),
            ]
        });
    let columns = [
        "arm",
        "success",
        "greedy",
        "rollouts",
        "tokens",
        "rescue rate",
        "over training",
        "all-failed share over training",
    ];
    let outcomes = report.arms.iter().map(|(name, arm)| {
        let counts = harness_core::Outcome::ALL.map(|outcome| {
            let count = arm.outcomes.get(outcome.as_str()).copied();
            count.unwrap_or_default().to_string()
        });
        std::iter::once(escape(name)).chain(counts).collect()
    });
    let outcome_names = harness_core::Outcome::ALL.map(harness_core::Outcome::as_str);
    let outcome_columns = std::iter::once("training attempts").chain(outcome_names);
    format!(
        "<h2>Arms</h2>\n{}{}",
        table(&header(columns), rows),
        table(&header(outcome_columns), outcomes)
    )
}

fn families(report: &Report) -> String {
    let names = family_names(report);
    if names.is_empty() {
        return String::new();
    }
    let rows = names.iter().map(|family| {
        let arms = report.arms.values().map(|arm| arm.per_family.get(*family));
        let cells = std::iter::once(report.initial.per_family.get(*family)).chain(arms);
        std::iter::once(escape(family))
            .chain(cells.map(estimate))
            .collect()
    });
    let columns = ["family", "initial"].into_iter();
    let columns = columns.chain(report.arms.keys().map(String::as_str));
    format!("<h2>Families</h2>\n{}", table(&header(columns), rows))
}

fn matrices(report: &Report) -> String {
    let matrices = report.harness_by_family.iter().flatten();
    let tables = matrices.map(|matrix| {
        let title = format!("Harness by family: {}", matrix.at);
        format!(
            "<h2>{}</h2>\n{}",
            escape(&title),
            heat_map("harness", &matrix.success)
        )
    });
    tables.collect::<Vec<_>>().concat()
}

/// A table of shares whose background shows them.
fn heat_map(corner: &str, rows: &BTreeMap<String, BTreeMap<String, Option<f64>>>) -> String {
    let columns: BTreeSet<&String> = rows.values().flat_map(BTreeMap::keys).collect();
    let cell = |value: Option<f64>| {
        let share = value.unwrap_or_default().clamp(0.0, 1.0);
        let text = number(value);
        format!(
            "<span style=\"background:rgba(0,114,178,{:.2});padding:.1rem .4rem\">{text}</span>",
            share * 0.45
        )
    };
    let body = rows.iter().map(|(name, row)| {
        let cells = columns
            .iter()
            .map(|column| cell(row.get(*column).copied().flatten()));
        std::iter::once(escape(name)).chain(cells).collect()
    });
    let names = std::iter::once(corner).chain(columns.iter().map(|column| column.as_str()));
    table(&header(names), body)
}

fn pool(report: &Report) -> String {
    let Some(pool) = &report.pool else {
        return String::new();
    };
    let mut out = format!(
        "<h2>Pool of siblings</h2>\n<p>{} siblings from {} directions; {} candidates rejected; {} rollouts.</p>\n",
        pool.size,
        pool.directions.len(),
        pool.rejected,
        pool.rollouts
    );
    if !pool.locality.is_empty() {
        out.push_str(
            "<p class=\"note\">Share solved of the tasks that the base failed, by direction.</p>\n",
        );
        out.push_str(&heat_map("sibling", &pool.locality));
    }
    if let Some(gain) = &pool.complementarity {
        let text = format!(
            "<p>Union of siblings minus the best one: {}. As many re-runs of the base minus one: {}.</p>\n",
            estimate(gain.union_gain.as_ref()),
            estimate(gain.retry_gain.as_ref())
        );
        out.push_str(&text);
    }
    out
}

fn more(report: &Report) -> String {
    let mut out = String::new();
    if let Some(n) = &report.nonstationarity {
        let rows = [
            ("rank correlation", n.rank_corr, n.rank_corr_repeat),
            ("sign flips", n.sign_flips, n.sign_flips_repeat),
        ];
        let rows = rows.map(|(name, a, b)| vec![name.into(), number(a), number(b)]);
        let columns = header(["measure", "between checkpoints", "repeat at one"]);
        out.push_str("<h2>Nonstationarity</h2>\n");
        out.push_str(&table(&columns, rows));
    }
    if let Some(transfer) = &report.transfer {
        let rows = transfer.behaviours.iter().flat_map(|(behaviour, arms)| {
            arms.iter().map(move |(arm, rate)| {
                let name = escape(&format!("{behaviour}, {arm}"));
                vec![name, number(rate.before), number(rate.after)]
            })
        });
        let columns = header(["behaviour under the base", "before", "after"]);
        let gap: Vec<_> = transfer.support_gap.iter().copied().map(Some).collect();
        out.push_str("<h2>Transfer to the base harness</h2>\n");
        out.push_str(&table(&columns, rows));
        out.push_str("<p>Best sibling minus base over training: ");
        out.push_str(&svg::spark(&gap, svg::colour(0)));
        out.push_str("</p>\n");
    }
    out
}

fn rank1(report: &Report) -> String {
    let Some(rank1) = &report.rank1 else {
        return String::new();
    };
    let rows = [("initial", &rank1.initial), ("trained", &rank1.trained)];
    let rows = rows.into_iter().filter_map(|(policy, row)| {
        let cells =
            rank1_columns(row.as_ref()?).map(|(_, value): (_, Option<&Estimate>)| estimate(value));
        Some(std::iter::once(policy.to_owned()).chain(cells).collect())
    });
    let names = rank1_columns(&Rank1Row::default()).map(|(name, _)| name);
    let columns = std::iter::once("policy").chain(names);
    format!(
        "<h2>Rank-1: one harness for each task</h2>\n{}",
        table(&header(columns), rows)
    )
}

#[cfg(test)]
mod tests {
    use super::super::summarise::tests::sample;
    use super::*;

    #[test]
    fn names_cannot_become_markup() {
        let page = html(&sample());
        assert!(!page.contains("<first>") && !page.contains("<hard>"));
        assert!(page.contains("&lt;first&gt;") && page.contains("&lt;hard&gt;"));
    }

    #[test]
    fn the_page_needs_nothing_else() {
        let page = html(&sample());
        for outside in ["http:", "https:", "<script", "<link", "url(", " src="] {
            assert!(!page.contains(outside), "{outside}");
        }
    }

    #[test]
    fn every_tag_is_closed() {
        let page = html(&sample());
        for tag in ["table", "tr", "td", "th", "svg", "span", "p", "div", "h2"] {
            let open = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(open, page.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn curves_have_a_line_and_a_band_for_each_arm() {
        let page = html(&sample());
        assert_eq!(page.matches("<polygon").count(), 2);
    }

    #[test]
    fn an_empty_report_is_still_a_page() {
        assert!(html(&Report::default()).ends_with("</html>\n"));
    }
}

//! The section on the pool: what was proposed in each direction, what was admitted and why not the rest.

use super::markup::{escape, folded, heat_map, list, note};
use crate::report::format::{percent, probability, signed};
use crate::report::svg::{sign, tree};
use crate::report::tables::fate;
use crate::report::{Candidate, Fate, PoolReport, Report, words};

pub(super) fn evolution(report: &Report) -> String {
    let Some(pool) = &report.pool else {
        return String::new();
    };
    [
        summary(pool),
        directions(pool),
        locality(pool),
        together(report),
    ]
    .concat()
}

fn summary(pool: &PoolReport) -> String {
    let text = format!(
        "The pool holds {} siblings; {} candidates were rejected; building it took {} rollouts.",
        pool.size,
        pool.rejected,
        crate::report::format::count(pool.rollouts)
    );
    let confirmed = if pool.confirmed.is_empty() {
        String::new()
    } else {
        format!("<p>Confirmed siblings:</p>\n{}", list(&pool.confirmed))
    };
    format!("<p>{}</p>\n{confirmed}", escape(&text))
}

fn directions(pool: &PoolReport) -> String {
    if pool.tree.is_empty() {
        return String::new();
    }
    let fates = [
        Fate::Admitted,
        Fate::NotConfirmed,
        Fate::Outranked,
        Fate::Refused,
    ];
    let meanings = [
        "in the pool",
        "the best of its direction, but no better than base retries on fresh tasks",
        "rerun on the search tasks, another was better",
        "refused before any rerun",
    ];
    let key = fates
        .into_iter()
        .zip(meanings)
        .map(|(one, meaning)| format!("<span>{} {}: {meaning}</span> ", icon(one), fate(one)));
    let text = "Each tree is one repair direction. It grows from the base at the left; a column is a round of proposals, a branch leads from the harness that was edited to the candidate. \
                Numbers at candidates are their gain over the base on the search tasks, which only ranks them: one candidate of a direction is tested once, on other tasks, against as many base retries.";
    let blocks: String = (0..pool.directions.len().max(last_direction(pool) + 1))
        .map(|number| direction(pool, number))
        .collect();
    format!(
        "<h3>Evolution</h3>\n{}<p class=\"legend fates\">{}</p>\n{blocks}",
        note(text),
        key.collect::<String>()
    )
}

fn last_direction(pool: &PoolReport) -> usize {
    pool.tree
        .iter()
        .map(|c| c.direction)
        .max()
        .unwrap_or_default()
}

fn icon(fate: Fate) -> String {
    format!(
        "<svg class=\"sign\" viewBox=\"0 0 16 16\" aria-hidden=\"true\">{}</svg>",
        sign([8.0, 8.0], fate)
    )
}

fn direction(pool: &PoolReport, number: usize) -> String {
    let own: Vec<&Candidate> = pool.tree.iter().filter(|c| c.direction == number).collect();
    if own.is_empty() {
        return String::new();
    }
    let name = pool
        .directions
        .get(number)
        .map_or("direction without a name", String::as_str);
    let picture = tree(&format!("Candidates of direction {name}"), &own);
    let (tested, rest): (Vec<_>, Vec<_>) = own
        .into_iter()
        .partition(|c| matches!(c.fate, Fate::Admitted | Fate::NotConfirmed));
    let rest = folded("Refused or outranked, and why", &candidates(&rest));
    format!(
        "<h3>{}</h3>\n{picture}\n{}{rest}",
        escape(name),
        candidates(&tested)
    )
}

fn candidates(all: &[&Candidate]) -> String {
    if all.is_empty() {
        return String::new();
    }
    let items: String = all.iter().map(|candidate| item(candidate)).collect();
    format!("<ul class=\"candidates\">\n{items}</ul>\n")
}

fn item(candidate: &Candidate) -> String {
    let id = candidate
        .id
        .as_deref()
        .map_or_else(String::new, |id| format!(" {}", escape(id)));
    let edits = escape(&candidate.edits.join("; "));
    let reason = escape(&candidate.reason);
    let measured = measured(candidate);
    format!(
        "<li>{} <span class=\"fate\">{}</span>{id}: {edits}. <span class=\"note\">{reason}{measured}</span></li>\n",
        icon(candidate.fate),
        fate(candidate.fate)
    )
}

/// What was measured of a candidate, after its reason.
fn measured(candidate: &Candidate) -> String {
    let search = candidate
        .search_gain
        .map(|gain| format!("search gain {} points", signed(gain)));
    let confirm = candidate.confirm_success.map(|own| {
        let retries = candidate.retry_success.map_or_else(String::new, |retry| {
            format!(" against {} % of base retries", percent(retry))
        });
        format!("confirmed at {} %{retries}", percent(own))
    });
    let p = candidate.p_value.map(|p| {
        let threshold = candidate.threshold.map_or_else(String::new, |level| {
            format!(", must be below {}", probability(Some(level)))
        });
        format!("p {}{threshold}", probability(Some(p)))
    });
    let parts: Vec<_> = [search, confirm, p].into_iter().flatten().collect();
    if parts.is_empty() {
        return String::new();
    }
    format!(" ({})", parts.join("; "))
}

fn locality(pool: &PoolReport) -> String {
    if pool.locality.is_empty() {
        return String::new();
    }
    let text = "Share solved of the tasks that the base failed, by sibling (rows) and direction of the failure (columns). A sibling that solves its own direction and little else is local.";
    format!(
        "<h3>Locality</h3>\n{}{}",
        heat_map("Failed tasks solved", "sibling", &pool.locality),
        note(text)
    )
}

fn together(report: &Report) -> String {
    words::complementarity_words(report).map_or_else(String::new, |text| {
        let reading = "Only if the first number is above the second do siblings complement each other; any retries solve something more.";
        format!("<h3>Complementarity</h3>\n<p>{}</p>\n{}", escape(&text), note(reading))
    })
}

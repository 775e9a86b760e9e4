//! The candidates of evolution as a forest that grows from the base, a block for each direction.

use std::collections::BTreeMap;

use super::colours::{GREEN, ORANGE, VERMILION};
use super::{WIDTH, open, push, text};
use crate::report::{Candidate, Fate};

const LEFT: f64 = 46.0;
const STEP: f64 = 19.0;

/// The candidates of one direction, the base at the left and a column for each round; empty without any.
pub(in crate::report) fn tree(label: &str, candidates: &[&Candidate]) -> String {
    let Some(n_rounds) = candidates.iter().map(|c| c.round + 1).max() else {
        return String::new();
    };
    let places = places(candidates, n_rounds);
    let lowest = places.iter().map(|[_, y]| *y).fold(0.0, f64::max);
    let base = [14.0, f64::midpoint(32.0, lowest)];
    let mut out = open(lowest + 14.0, label);
    for round in 0..n_rounds {
        let x = LEFT + f64::from(round) * column(n_rounds);
        text(
            &mut out,
            "tick",
            "start",
            [x, 12.0],
            &format!("round {round}"),
        );
    }
    let by_id: BTreeMap<&str, [f64; 2]> = candidates
        .iter()
        .zip(&places)
        .filter_map(|(c, place)| Some((c.id.as_deref()?, *place)))
        .collect();
    for (candidate, place) in candidates.iter().zip(&places) {
        let parent = by_id.get(candidate.parent.as_str());
        let parent = parent.filter(|[x, _]| *x < place[0]);
        let parent = parent.map_or(base, |[x, y]| [x + behind_label(n_rounds), *y]);
        branch(&mut out, parent, *place, candidate.fate);
    }
    let [x, y] = base;
    push(
        &mut out,
        format_args!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"12\" height=\"12\"/>",
            x - 6.0,
            y - 6.0
        ),
    );
    text(&mut out, "", "start", [2.0, y + 20.0], "base");
    for (candidate, place) in candidates.iter().zip(&places) {
        node(&mut out, candidate, *place, column(n_rounds));
    }
    out.push_str("</svg>");
    out
}

fn column(n_rounds: u32) -> f64 {
    (WIDTH - LEFT) / f64::from(n_rounds)
}

/// How far right of a candidate its branches start, so that they do not cross its label.
fn behind_label(n_rounds: u32) -> f64 {
    (column(n_rounds) - 30.0).max(0.0)
}

/// Where each candidate stands: its round gives the column, its number there the line.
fn places(candidates: &[&Candidate], n_rounds: u32) -> Vec<[f64; 2]> {
    let mut used: BTreeMap<u32, u32> = BTreeMap::new();
    let mut place = |candidate: &Candidate| {
        let line = used.entry(candidate.round).or_default();
        let y = 32.0 + f64::from(*line) * STEP;
        *line += 1;
        [
            LEFT + 8.0 + f64::from(candidate.round) * column(n_rounds),
            y,
        ]
    };
    candidates
        .iter()
        .map(|candidate| place(candidate))
        .collect()
}

fn branch(out: &mut String, [x1, y1]: [f64; 2], [x2, y2]: [f64; 2], fate: Fate) {
    let dash = if fate == Fate::Admitted { "" } else { "2 3" };
    let middle = x2 - 16.0;
    push(
        out,
        format_args!(
            "<path d=\"M{x1:.1} {y1:.1}C{middle:.1} {y1:.1} {middle:.1} {y2:.1} {x2:.1} {y2:.1}\" fill=\"none\" \
             stroke=\"#999\" stroke-dasharray=\"{dash}\"/>"
        ),
    );
}

/// The sign of a fate: a tick, an empty diamond, an empty circle or a cross.
pub(in crate::report) fn sign([x, y]: [f64; 2], fate: Fate) -> String {
    match fate {
        Fate::Admitted => format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"7\" fill=\"{GREEN}\"/>\
             <path d=\"M{:.1} {y:.1}l2.5 3 5 -6\" fill=\"none\" stroke=\"#fff\" stroke-width=\"1.8\"/>",
            x - 3.8
        ),
        Fate::NotConfirmed => format!(
            "<path d=\"M{:.1} {y:.1}l6 -6 6 6 -6 6z\" fill=\"#fff\" stroke=\"{ORANGE}\" stroke-width=\"2.5\"/>",
            x - 6.0
        ),
        Fate::Outranked => format!(
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.6\" fill=\"#fff\" stroke=\"#666\" stroke-width=\"1.6\"/>"
        ),
        Fate::Refused => format!(
            "<path d=\"M{:.1} {:.1}l8 8m0 -8l-8 8\" stroke=\"{VERMILION}\" stroke-width=\"2\"/>",
            x - 4.0,
            y - 4.0
        ),
    }
}

fn node(out: &mut String, candidate: &Candidate, [x, y]: [f64; 2], width: f64) {
    out.push_str(&sign([x, y], candidate.fate));
    let gain = candidate.search_gain.map(super::super::format::signed);
    let id = candidate.id.as_deref().unwrap_or("refused");
    let fits = (width - 24.0) / 7.4;
    let with_gain = gain.map(|gain| format!("{id} {gain}"));
    let label = with_gain.filter(|label| label.chars().count() as f64 <= fits);
    let label = label.unwrap_or_else(|| id.to_owned());
    if label.chars().count() as f64 <= fits {
        text(out, "halo", "start", [x + 11.0, y + 4.0], &label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_candidate_no_picture() {
        assert_eq!(tree("l", &[]), "");
    }

    #[test]
    fn a_branch_and_a_sign_for_each() {
        let first = Candidate {
            id: Some("aa".into()),
            parent: "base".into(),
            fate: Fate::Outranked,
            ..Candidate::default()
        };
        let second = Candidate {
            round: 1,
            id: Some("bb".into()),
            parent: "aa".into(),
            fate: Fate::Admitted,
            ..Candidate::default()
        };
        let text = tree("l", &[&first, &second]);
        assert_eq!(text.matches('C').count(), 2);
        assert_eq!(text.matches("<circle").count(), 2);
    }
}

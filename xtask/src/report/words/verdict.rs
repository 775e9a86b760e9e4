//! The answer of a report, how sure it is and why, from the intervals of its differences.

use std::collections::BTreeMap;

use crate::report::format::{bounds, percent, signed, whole};
use crate::report::tables::{NamedDelta, named_deltas};
use crate::report::{BeforeAfter, Report};
use crate::stats::Estimate;

/// How a difference stands to zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Above,
    Below,
    Open,
}

fn sign(estimate: &Estimate) -> Sign {
    match estimate.ci95 {
        [low, _] if low > 0.0 => Sign::Above,
        [_, high] if high < 0.0 => Sign::Below,
        _ => Sign::Open,
    }
}

/// The answer in one sentence.
pub(in crate::report) fn verdict(report: &Report) -> String {
    let [matched, alone, _, charged] = named_deltas(report);
    let Some(value) = matched.value else {
        return match alone.value {
            Some(_) => "Open: rescue was compared with GRPO alone, but not with the matched control, so siblings cannot be told from more rollouts.".into(),
            None => "No answer: this run did not compare rescue with the same rollouts spent on the base.".into(),
        };
    };
    let text = match (sign(value), matched.t_interval.map(sign)) {
        (Sign::Above, Some(Sign::Above)) => {
            "Yes: rescue by siblings beats the same number of rollouts spent on the base."
        }
        (Sign::Above, _) => {
            "Probably: rescue by siblings is ahead of the same number of rollouts spent on the base, but the seeds alone do not settle it."
        }
        (Sign::Below, _) => {
            "No: rescue by siblings does worse than the same number of rollouts spent on the base."
        }
        (Sign::Open, _) => {
            "Not shown: rescue by siblings cannot be told apart from the same number of rollouts spent on the base."
        }
    };
    format!("{text}{}", if_charged(value, charged.value))
}

/// What to add to the answer if it does not survive that the pool is charged.
fn if_charged(amortised: &Estimate, charged: Option<&Estimate>) -> &'static str {
    match (sign(amortised), charged.map(sign)) {
        (Sign::Above, Some(Sign::Open)) => {
            " That takes the pool as given: with the cost of building it charged, no lead is shown."
        }
        (Sign::Above, Some(Sign::Below)) => {
            " That takes the pool as given: with the cost of building it charged, rescue is behind."
        }
        _ => "",
    }
}

/// The sentences under the verdict: the headline both ways, and the comparison with GRPO alone.
pub(in crate::report) fn evidence(report: &Report) -> Vec<String> {
    let [matched, alone, _, charged] = named_deltas(report);
    let matched = compared(report, "policy_only_matched", "matched control", &matched);
    let alone = compared(report, "policy_only", "GRPO alone", &alone);
    let mut out = Vec::new();
    out.extend(matched.map(|text| format!("Pool taken as given (amortised): {text}")));
    out.extend(charged_words(report, &charged));
    out.extend(alone.map(|text| format!("Against GRPO alone: {text}")));
    out
}

fn compared(report: &Report, other: &str, other_words: &str, delta: &NamedDelta) -> Option<String> {
    let value = delta.value?;
    let success = |arm: &str| report.arms.get(arm)?.base_success.as_ref();
    let solved = match (success("harness_s"), success(other)) {
        (Some(own), Some(other)) => format!(
            "on {} test tasks harness_s solved {} %, {other_words} {} %: ",
            report.n_test_tasks,
            percent(own.mean),
            percent(other.mean)
        ),
        _ => String::new(),
    };
    Some(format!("{solved}{}", difference_words(value, delta)))
}

/// `+12.3 points (95 % interval [..] by bootstrap, [..] by t over seeds: both exclude zero). All 5 seeds have this sign.`
fn difference_words(value: &Estimate, delta: &NamedDelta) -> String {
    let intervals = match delta.t_interval {
        None => format!("{}, which {}", bounds(value.ci95, signed), excludes(value)),
        Some(t) => format!(
            "{} by bootstrap, {} by t over seeds: {}",
            bounds(value.ci95, signed),
            bounds(t.ci95, signed),
            both_exclude(value, t)
        ),
    };
    let agreement = delta.agreement.map_or_else(String::new, |a| {
        if a.agree == a.n {
            format!(" Every one of the {} seeds has this sign.", a.n)
        } else {
            format!(" {} of {} seeds have this sign.", a.agree, a.n)
        }
    });
    format!(
        "{} points (95 % interval {intervals}).{agreement}",
        signed(value.mean)
    )
}

fn both_exclude(bootstrap: &Estimate, over_seeds: &Estimate) -> &'static str {
    let is_open = |estimate| sign(estimate) == Sign::Open;
    match (is_open(bootstrap), is_open(over_seeds)) {
        (false, false) => "both exclude zero",
        (true, true) => "both include zero",
        (false, true) => "only the bootstrap excludes zero",
        (true, false) => "only t excludes zero",
    }
}

pub(super) fn excludes(estimate: &Estimate) -> &'static str {
    match sign(estimate) {
        Sign::Open => "includes zero",
        _ => "excludes zero",
    }
}

fn charged_words(report: &Report, charged: &NamedDelta) -> Option<String> {
    let value = charged.value?;
    let at = report
        .delta
        .charged
        .at_rollouts
        .map_or_else(String::new, |at| {
            format!(
                "harness_s judged at {} rollouts per seed, what the pool left of the budget: ",
                whole(at)
            )
        });
    let words = difference_words(value, charged);
    Some(format!("Pool charged: {at}{words}"))
}

/// Why the answer is what it is: what rescue could and did do during training.
pub(in crate::report) fn reasons(report: &Report) -> Vec<String> {
    let mut out = Vec::new();
    let arm = |name: &str| report.arms.get(name);
    if let Some(own) = arm("harness_s")
        && let Some(failed) = own.all_failed_share.first()
    {
        out.push(format!(
            "Room for rescue: in the first part of training every attempt failed in {} % of the groups of harness_s.",
            percent(*failed)
        ));
    }
    let rate = |name: &str| arm(name)?.rescue_rate;
    if let Some(own) = rate("harness_s") {
        let other = rate("policy_only_matched").map_or_else(String::new, |other| {
            format!(
                "; as many more attempts under the base rescued {} %",
                percent(other)
            )
        });
        out.push(format!(
            "Rescue: siblings solved the task in {} % of the failed groups{other}.",
            percent(own)
        ));
    }
    out.extend(behaviour_words(report));
    out
}

/// The behaviour that rose most under the base with `harness_s`.
fn behaviour_words(report: &Report) -> Option<String> {
    let behaviours = &report.transfer.as_ref()?.behaviours;
    let rise = |arms: &BTreeMap<String, BeforeAfter>| {
        let rate = arms.get("harness_s")?;
        Some((rate.before?, rate.after?))
    };
    let (name, arms, (before, after)) = behaviours
        .iter()
        .filter_map(|(name, arms)| Some((name, arms, rise(arms)?)))
        .max_by(|a, b| (a.2.1 - a.2.0).total_cmp(&(b.2.1 - b.2.0)))?;
    let control = arms.get("policy_only_matched").and_then(|rate| rate.after);
    let control = control.map_or_else(String::new, |after| {
        format!(
            "; with the matched control it ended at {} %",
            percent(after)
        )
    });
    Some(format!(
        "Transfer: under the base the behaviour “{name}” went from {} % to {} % with harness_s{control}.",
        percent(before),
        percent(after)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample::rich;

    #[track_caller]
    fn check(matched: [f64; 2], t: [f64; 2], charged: [f64; 2], expect: &str) {
        let mut report = rich();
        let estimate = |ci95: [f64; 2]| Estimate {
            mean: f64::midpoint(ci95[0], ci95[1]),
            ci95,
            n: 5,
        };
        let name = "harness_s_minus_policy_only_matched";
        report.delta.harness_s_minus_policy_only_matched = Some(estimate(matched));
        report.delta.t_interval.insert(name.into(), estimate(t));
        report.delta.charged.harness_s_minus_policy_only_matched = Some(estimate(charged));
        let text = verdict(&report);
        assert!(text.starts_with(expect), "{text}");
    }

    #[test]
    fn the_verdict_is_that_of_the_intervals() {
        let (up, open, down) = ([0.1, 0.3], [-0.1, 0.3], [-0.3, -0.1]);
        check(up, up, up, "Yes");
        check(up, open, up, "Probably");
        check(open, up, up, "Not shown");
        check(open, open, open, "Not shown");
        check(down, down, down, "No:");
    }

    #[test]
    fn a_lead_that_the_pool_eats_is_said_to_be_none() {
        let mut report = rich();
        let charged = &mut report.delta.charged.harness_s_minus_policy_only_matched;
        *charged = Some(Estimate {
            mean: 0.0,
            ci95: [-0.1, 0.1],
            n: 5,
        });
        assert!(verdict(&report).ends_with("no lead is shown."));
    }

    #[test]
    fn without_the_control_siblings_are_not_told_from_rollouts() {
        let mut report = rich();
        report.delta.harness_s_minus_policy_only_matched = None;
        assert!(verdict(&report).starts_with("Open"));
        assert!(
            evidence(&report)
                .iter()
                .any(|text| text.starts_with("Against GRPO alone"))
        );
    }

    #[test]
    fn evidence_reads_as_a_sentence() {
        let text = &evidence(&rich())[0];
        let expect = "Pool taken as given (amortised): on 96 test tasks harness_s solved 61.7 %, matched control 42.4 %: \
                      +19.3 points (95 % interval [+14.7, +24.4] by bootstrap, [+14.3, +24.3] by t over seeds: \
                      both exclude zero). Every one of the 5 seeds has this sign.";
        assert_eq!(text, expect);
    }
}

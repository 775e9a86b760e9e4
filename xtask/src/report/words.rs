//! What the numbers of a report say, in sentences for both of its forms. Every number in them is one of the
//! report.

use super::format::{DASH, bounds, decimal, estimate, percent, share, signed, whole};
use super::tables::{NamedDelta, arms_in_order, named_deltas};
use super::{HarnessMatrix, Report, SweepLevel};
use crate::stats::Estimate;

/// What the numbers of a report mean.
pub(super) const EXPLANATION: [&str; 5] = [
    "Success is the share of test tasks solved at temperature one under the base harness, at the last checkpoint.",
    "Shares are in percent, their differences in percentage points.",
    "Brackets are 95 % intervals: a bootstrap crossed over seeds and scenarios, or a t interval over seeds where it is said.",
    "An interval that excludes zero is unlikely to be luck of the draw.",
    "A dash is something that this run did not measure.",
];

/// What a newcomer must know, by term.
pub(super) const TERMS: [(&str, &str); 5] = [
    (
        "Base harness",
        "the prompts, rules and limits around the model with which it is judged in the end.",
    ),
    (
        "Sibling",
        "the base harness plus a few rules that repair one kind of failure.",
    ),
    (
        "Rescue (harness_s)",
        "where every attempt of a group fails under the base, fresh attempts under siblings replace the group before the policy learns from it.",
    ),
    (
        "Matched control (policy_only_matched)",
        "the same, but the fresh attempts are made under the base: as many rollouts, no sibling. If it does as well, siblings are not the reason.",
    ),
    (
        "GRPO alone (policy_only)",
        "no fresh attempts: a group in which all failed teaches nothing.",
    ),
];

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
pub(super) fn verdict(report: &Report) -> String {
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
pub(super) fn evidence(report: &Report) -> Vec<String> {
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

/// `+12.3 points (95 % interval [..] by bootstrap, [..] by t over seeds: both exclude zero). All 5 seeds agree.`
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
            format!(" Every one of the {} seeds agrees.", a.n)
        } else {
            format!(" {} of {} seeds agree.", a.agree, a.n)
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

fn excludes(estimate: &Estimate) -> &'static str {
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
pub(super) fn reasons(report: &Report) -> Vec<String> {
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
    let rise = |arms: &std::collections::BTreeMap<String, super::BeforeAfter>| {
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

/// Where each arm's curve ends.
pub(super) fn curve_ends(report: &Report) -> String {
    let arms = arms_in_order(report).into_iter();
    let ends = arms.filter_map(|(name, arm)| {
        let last = arm.curve.last()?;
        Some(format!("{name} {} %", percent(last.base_success)))
    });
    ends.collect::<Vec<_>>().join(", ")
}

/// The gap at the least and at the greatest chance of the base.
pub(super) fn sweep_words(levels: &[SweepLevel]) -> Option<String> {
    let measured: Vec<_> = levels
        .iter()
        .filter_map(|level| Some((level, level.minus_matched.as_ref()?)))
        .collect();
    let say = |(level, gap): &(&SweepLevel, &Estimate)| {
        let chance = level.base_chance.as_ref().map_or_else(
            || format!("eps is {}", level.eps),
            |chance| {
                format!(
                    "the untrained base solves {} % of its attempts (eps {})",
                    percent(chance.mean),
                    level.eps
                )
            },
        );
        format!(
            "Where {chance}, rescue is {} points from the matched control {}, which {}.",
            signed(gap.mean),
            bounds(gap.ci95, signed),
            excludes(gap)
        )
    };
    let first = measured.first().map(say)?;
    let last = measured.get(1..).and_then(<[_]>::last).map(say);
    Some(
        [Some(first), last]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" "),
    )
}

/// Where a sibling is furthest ahead of the base.
pub(super) fn matrix_words(matrix: &HarnessMatrix) -> Option<String> {
    let base = matrix.success.get("base")?;
    let siblings = matrix.success.iter().filter(|(name, _)| *name != "base");
    let gaps = siblings.flat_map(|(name, row)| {
        row.iter().filter_map(move |(family, own)| {
            Some((name, family, (*own)?, base.get(family).copied().flatten()?))
        })
    });
    let (name, family, own, base) = gaps.max_by(|a, b| (a.2 - a.3).total_cmp(&(b.2 - b.3)))?;
    let (own, base) = (percent(own), percent(base));
    Some(format!(
        "A sibling is furthest ahead of the base in family “{family}”: “{name}” {own} %, base {base} %."
    ))
}

/// Whether ranks change more between checkpoints than between two measurements at one.
pub(super) fn nonstationarity_words(report: &Report) -> Option<String> {
    let n = report.nonstationarity.as_ref()?;
    let (between, repeat) = (n.rank_corr?, n.rank_corr_repeat?);
    let reading = if between < repeat {
        "ranks agree less than between repeats: which sibling helps changes as the policy learns"
    } else {
        "ranks agree as well as between repeats: no change beyond noise is seen"
    };
    Some(format!(
        "Between checkpoints the rank correlation is {}, between two measurements at one checkpoint {}: {reading}.",
        decimal(Some(between)),
        decimal(Some(repeat))
    ))
}

/// Code, settings and size of the run, as pairs of name and value.
pub(super) fn provenance(report: &Report) -> Vec<(&'static str, String)> {
    let p = &report.provenance;
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| DASH.into());
    let committed = if p.is_config_committed {
        "yes: the settings stand in that commit as they were used"
    } else {
        "NO: the settings were not committed as they were used"
    };
    let seeds: Vec<_> = report.seeds.iter().map(u64::to_string).collect();
    let mut out = vec![
        ("seeds", seeds.join(", ")),
        ("warm starts", report.warm_starts.join(", ")),
        (
            "test",
            format!(
                "{} tasks in {} scenarios",
                report.n_test_tasks, report.n_test_scenarios
            ),
        ),
        (
            "initial policy",
            estimate(report.initial.base_success.as_ref()),
        ),
        ("commit of the code", text(&p.commit)),
        ("commit of the settings", text(&p.config_commit)),
        ("settings committed", committed.to_owned()),
        ("hash of the settings", text(&p.config_hash)),
    ];
    out.extend(report.started.clone().map(|at| ("started", at)));
    out.extend(report.ended.clone().map(|at| ("ended", at)));
    let rates = report
        .demo_rates
        .iter()
        .map(|(name, rate)| format!("{name} {rate}"));
    let rates: Vec<_> = rates.collect();
    out.extend((!rates.is_empty()).then(|| ("demonstrations", rates.join(", "))));
    out
}

/// What siblings solve together against what one choice alone would.
pub(super) fn complementarity_words(report: &Report) -> Option<String> {
    let gain = report.pool.as_ref()?.complementarity.as_ref()?;
    Some(format!(
        "All siblings together solve {} points more of the failed tasks than the best one alone; as many re-runs of the base gain {} points over one.",
        super::format::points(gain.union_gain.as_ref()),
        super::format::points(gain.retry_gain.as_ref())
    ))
}

/// The support gap at its moments.
pub(super) fn support_words(report: &Report) -> Option<String> {
    let gap = &report.transfer.as_ref()?.support_gap;
    let (first, last) = (gap.first()?, gap.last()?);
    Some(format!(
        "Best sibling minus base: {} points at the start, {} at the end. A gap that closes means that the base has learned what the siblings knew.",
        signed(*first),
        signed(*last)
    ))
}

/// How the router does against the base, with the trained policy or else the initial one.
pub(super) fn rank1_words(report: &Report) -> Option<String> {
    let rows = super::tables::rank1_rows(report);
    let (policy, row) = rows.last()?;
    let (router, base) = (row.router.as_ref()?, row.base.as_ref()?);
    Some(format!(
        "With the {policy} the router's choice solves {}, always the base {}.",
        share(Some(router.mean)),
        share(Some(base.mean))
    ))
}

#[cfg(test)]
mod tests {
    use super::super::sample::rich;
    use super::*;

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
                      both exclude zero). Every one of the 5 seeds agrees.";
        assert_eq!(text, expect);
    }
}

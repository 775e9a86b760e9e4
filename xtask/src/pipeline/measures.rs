//! The measures that explain a headline, each with its null: pure functions of what was run.

use std::collections::{BTreeMap, BTreeSet};

use env_appworld::BEHAVIOURS;
use harness_core::HarnessId;
use harness_pool::complementarity;

use super::arms::{ArmResult, BASE};
use super::evaluate::{Attempt, Evaluation, count};
use super::moments::Moment;
use super::study::Study;
use super::tables::Rank1Table;
use super::world::World;
use crate::arm::Arm;
use crate::report::{
    BeforeAfter, Complementarity, HarnessMatrix, Nonstationarity, Rank1, Rank1Row, Transfer,
};
use crate::stats::{Bootstrap, Cells, Estimate, rank_correlation};

/// The measured runs of `harness_s`, each with its world.
pub(super) fn measured(study: &Study) -> Vec<(&World, &ArmResult)> {
    let ours = study.main.iter().filter(|r| r.arm == Arm::HarnessS);
    let placed = ours
        .zip(0..)
        .map(|(r, seed_idx)| (study.world_of(seed_idx), r));
    placed.filter(|(_, r)| !r.moments.is_empty()).collect()
}

/// Success by harness and family at start, middle and end, over the seeds of the first warm start, whose pool
/// they share.
pub(super) fn matrices(study: &Study) -> Vec<HarnessMatrix> {
    let first = study.worlds.first();
    let Some(start) = first.and_then(|w| w.initial.start.as_ref()) else {
        return Vec::new();
    };
    let own = measured(study);
    let own = own
        .iter()
        .filter(|(w, _)| Some(&w.hash) == first.map(|f| &f.hash));
    let results: Vec<&ArmResult> = own.map(|(_, r)| *r).collect();
    let later = ["middle", "end"].into_iter().filter_map(|at| {
        let moments = results
            .iter()
            .flat_map(|r| &r.moments)
            .filter(|m| m.at == at);
        matrix(&moments.collect::<Vec<_>>())
    });
    matrix(&[start]).into_iter().chain(later).collect()
}

fn matrix(moments: &[&Moment]) -> Option<HarnessMatrix> {
    let first = moments.first()?;
    let cell = |harness: &str, family: &str| {
        let rates = moments.iter().filter_map(|m| m.rate(harness, family));
        mean(rates)
    };
    let row = |harness: &str| {
        let cells = first.families().map(|f| (f.to_owned(), cell(harness, f)));
        (harness.to_owned(), cells.collect())
    };
    Some(HarnessMatrix {
        at: first.at.clone(),
        rollouts: mean(moments.iter().map(|m| m.rollouts as f64))?,
        success: first.harnesses().map(row).collect(),
    })
}

/// How the siblings' utilities change between start and end, against repeats at one checkpoint.
pub(super) fn nonstationarity(study: &Study) -> Option<Nonstationarity> {
    let mut made = Nonstationarity::default();
    let mut sizes = Vec::new();
    for (world, result) in measured(study) {
        let (Some(start), Some(end)) = (&world.initial.start, result.moments.last()) else {
            continue;
        };
        let across: Vec<(usize, usize)> = vec![(0, 0), (0, 1), (1, 0), (1, 1)];
        let across: Vec<Pairs> = across
            .iter()
            .map(|(a, b)| pairs((start, *a), (end, *b)))
            .collect();
        let repeats = [start, end].map(|m| pairs((m, 0), (m, 1)));
        sizes.extend(repeats.iter().map(|p| p.len() as f64));
        let values = [
            (
                "rank_corr",
                mean(across.iter().filter_map(|p| rank_correlation(p))),
            ),
            (
                "rank_corr_repeat",
                mean(repeats.iter().filter_map(|p| rank_correlation(p))),
            ),
            ("sign_flips", mean(across.iter().filter_map(sign_flips))),
            (
                "sign_flips_repeat",
                mean(repeats.iter().filter_map(sign_flips)),
            ),
        ];
        for (name, value) in values {
            made.per_seed
                .entry(name.to_owned())
                .or_default()
                .extend(value);
        }
    }
    let of = |name: &str| mean(made.per_seed.get(name)?.iter().copied());
    made.rank_corr = of("rank_corr");
    made.rank_corr_repeat = of("rank_corr_repeat");
    made.sign_flips = of("sign_flips");
    made.sign_flips_repeat = of("sign_flips_repeat");
    made.n_utilities = mean(sizes)?;
    Some(made)
}

type Pairs = Vec<(f64, f64)>;

/// The utilities that both measurements have.
fn pairs(a: (&Moment, usize), b: (&Moment, usize)) -> Pairs {
    let (a, b) = (a.0.utilities(a.1), b.0.utilities(b.1));
    let both = a.iter().filter_map(|(key, x)| Some((*x, *b.get(key)?)));
    both.collect()
}

/// Share of utilities that are above 0 in one and below 0 in the other.
fn sign_flips(pairs: &Pairs) -> Option<f64> {
    let flips = pairs.iter().filter(|(a, b)| a * b < 0.0).count();
    (!pairs.is_empty()).then(|| flips as f64 / pairs.len() as f64)
}

/// What reached the base harness: rates of behaviours on test in the family that needs them, and how far the
/// best siblings are ahead of the base.
pub(super) fn transfer(study: &Study) -> Option<Transfer> {
    let initial: Vec<&Evaluation> = study.worlds.iter().map(|w| &w.initial.test).collect();
    if initial.iter().all(|e| e.rows.is_empty()) {
        return None;
    }
    let mut behaviours = BTreeMap::new();
    for behaviour in BEHAVIOURS {
        let rate = |evaluations: &[&Evaluation]| {
            let rows = evaluations.iter().flat_map(|e| &e.rows);
            let own = rows.filter(|r| !r.is_greedy && r.family == behaviour.family.name());
            let shown = own.map(|r| r.behaviours.iter().any(|b| b == behaviour.flag));
            mean(shown.map(|shown| f64::from(u8::from(shown))))
        };
        let before = rate(&initial);
        let mut arms: BTreeMap<String, Vec<&Evaluation>> = BTreeMap::new();
        for result in &study.main {
            arms.entry(result.arm.to_string())
                .or_default()
                .push(&result.test);
        }
        let arms = arms.into_iter().map(|(arm, tests)| {
            let after = rate(&tests);
            (arm, BeforeAfter { before, after })
        });
        let name = format!("{} ({})", behaviour.says, behaviour.family.name());
        behaviours.insert(name, arms.collect());
    }
    Some(Transfer {
        behaviours,
        support_gap: support_gap(study),
    })
}

fn support_gap(study: &Study) -> Vec<f64> {
    let measured = measured(study);
    let starts = measured
        .iter()
        .filter_map(|(w, _)| w.initial.start.as_ref());
    let gap = |moments: Vec<&Moment>| mean(moments.iter().filter_map(|m| m.support_gap()));
    let later = ["middle", "end"].map(|at| {
        let moments = measured.iter().flat_map(|(_, r)| &r.moments);
        gap(moments.filter(|m| m.at == at).collect())
    });
    let gaps = [gap(starts.collect())].into_iter().chain(later);
    gaps.flatten().collect()
}

/// Success of ways to choose one harness for each task, for the initial and the trained policy.
pub(super) fn rank1(study: &Study, bootstrap: Bootstrap) -> Option<Rank1> {
    let initial = (0..).zip(&study.worlds);
    let initial: Vec<(u64, &Rank1Table)> = initial
        .filter_map(|(i, w)| Some((i, w.initial.rank1.as_ref()?)))
        .collect();
    let trained = measured(study);
    let trained: Vec<(u64, &Rank1Table)> = trained
        .iter()
        .filter_map(|(_, r)| Some((r.seed, r.rank1.as_ref()?)))
        .collect();
    let made = Rank1 {
        initial: rank1_row(&initial, bootstrap),
        trained: rank1_row(&trained, bootstrap),
    };
    (made.initial.is_some() || made.trained.is_some()).then_some(made)
}

fn rank1_row(tables: &[(u64, &Rank1Table)], bootstrap: Bootstrap) -> Option<Rank1Row> {
    if tables.is_empty() {
        return None;
    }
    let estimate = |way: &dyn Fn(&Choice<'_>) -> Option<f64>| {
        let cells = tables.iter().flat_map(|(seed, table)| {
            let by_task = choices(table).into_iter();
            let values = by_task.filter_map(|c| Some((c.scenario.to_owned(), way(&c)?)));
            per_scenario(values).map(|(scenario, value)| (*seed, scenario, value))
        });
        Cells::from_values(cells).estimate(bootstrap)
    };
    let siblings = |c: &Choice<'_>| {
        let names = c.rows.keys().filter(|name| **name != BASE);
        mean(names.filter_map(|name| c.rate(name, Half::Both)))
    };
    Some(Rank1Row {
        base: estimate(&|c| c.rate(BASE, Half::Both)),
        router: estimate(&|c| c.rate(c.pick, Half::Both)),
        random: estimate(&siblings),
        best_fixed: estimate(&|c| c.rate(c.best_fixed, Half::Both)),
        oracle: estimate(&|c| {
            let ways = [(Half::Even, Half::Odd), (Half::Odd, Half::Even)];
            let [a, b] = ways.map(|(choose, score)| c.rate(c.best(choose)?, score));
            Some(f64::midpoint(a?, b?))
        }),
    })
}

/// One task with the attempts of every harness and the ways to choose among them.
struct Choice<'a> {
    scenario: &'a str,
    pick: &'a str,
    best_fixed: &'a str,
    rows: BTreeMap<&'a str, Vec<&'a Attempt>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Half {
    Even,
    Odd,
    Both,
}

impl<'a> Choice<'a> {
    fn rate(&self, harness: &str, half: Half) -> Option<f64> {
        let is_in = |r: &&&Attempt| match half {
            Half::Both => true,
            Half::Even => r.number.is_multiple_of(2),
            Half::Odd => !r.number.is_multiple_of(2),
        };
        let rows = self.rows.get(harness)?.iter().filter(is_in);
        let [solved, valid] = count(rows.copied());
        (valid > 0).then(|| solved as f64 / valid as f64)
    }

    /// The harness that is best on half of the attempts; ties go to the base, then to the first.
    fn best(&self, half: Half) -> Option<&'a str> {
        let mut best = (BASE, self.rate(BASE, half)?);
        for name in self.rows.keys() {
            match self.rate(name, half) {
                Some(rate) if rate > best.1 => best = (*name, rate),
                _ => {}
            }
        }
        Some(best.0)
    }
}

fn choices(table: &Rank1Table) -> Vec<Choice<'_>> {
    let mut made: BTreeMap<&str, Choice<'_>> = BTreeMap::new();
    for (harness, rows) in &table.rows {
        for row in rows {
            let pick = table.picks.get(&row.task).map_or(BASE, String::as_str);
            let choice = made.entry(&row.task).or_insert_with(|| Choice {
                scenario: &row.scenario,
                pick,
                best_fixed: &table.best_fixed,
                rows: BTreeMap::new(),
            });
            choice.rows.entry(harness).or_default().push(row);
        }
    }
    made.into_values().collect()
}

/// Share solved of the tasks that the base failed, by sibling and direction.
pub(super) fn locality(world: &World) -> BTreeMap<String, BTreeMap<String, Option<f64>>> {
    let Some(table) = &world.initial.rescue else {
        return BTreeMap::new();
    };
    let directions: BTreeSet<&str> = table.tasks.values().map(|t| t.direction.as_str()).collect();
    let shared = world.shared();
    let rows = shared.harnesses().map(|(name, harness)| {
        let id = harness.id();
        let of = |direction: &str| {
            let own = table.rows.iter().filter(|r| {
                let task = table.tasks.get(r.task.as_str());
                r.harness == id && task.is_some_and(|t| t.direction == direction)
            });
            mean(own.map(|r| f64::from(u8::from(r.solved))))
        };
        let cells = directions.iter().map(|d| ((*d).to_owned(), of(d)));
        (name.to_owned(), cells.collect())
    });
    rows.collect()
}

/// What one attempt under each sibling covers beyond as many under the best one, and what as many fresh base
/// retries cover beyond one; on test tasks that the initial policy fails under the base.
pub(super) fn complement(world: &World, bootstrap: Bootstrap) -> Option<Complementarity> {
    let table = world.initial.rescue.as_ref()?;
    let siblings: Vec<HarnessId> = world.pool.ids().to_vec();
    let base = world.pool.base_id();
    let of = complementarity(&table.rows, &siblings, base)?;
    let scenario = |task: &str| table.tasks.get(task).map(|t| t.scenario.clone());
    let estimate = |gain: &dyn Fn(&harness_pool::TaskCoverage) -> Option<f64>| {
        let values = of.per_task.iter();
        let values = values.filter_map(|(task, c)| Some((scenario(task.as_str())?, gain(c)?)));
        let cells = per_scenario(values).map(|(scenario, value)| (0, scenario, value));
        Cells::from_values(cells).estimate(bootstrap)
    };
    Some(Complementarity {
        union_gain: estimate(&|c| Some(c.union - c.single)),
        retry_gain: estimate(&|c| Some(c.retry? - c.retry_once?)),
    })
}

/// The base's success per attempt in families that need a skill.
pub(super) fn base_chance(world: &World, bootstrap: Bootstrap) -> Option<Estimate> {
    let rows = world.initial.test.eval_rows("initial", 0, 0);
    let hard = rows
        .iter()
        .filter(|r| !r.greedy && super::world::needs_skill(&r.family));
    Cells::of(hard).estimate(bootstrap)
}

/// The mean over the values of each scenario.
fn per_scenario(
    values: impl Iterator<Item = (String, f64)>,
) -> impl Iterator<Item = (String, f64)> {
    let mut by: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (scenario, value) in values {
        by.entry(scenario).or_default().push(value);
    }
    by.into_iter().filter_map(|(s, v)| Some((s, mean(v)?)))
}

/// The mean; `None` of nothing.
pub(super) fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values
        .into_iter()
        .fold((0.0, 0_usize), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / n as f64)
}

#[cfg(test)]
mod tests {
    use harness_core::{Outcome, Seed};

    use super::*;

    const BOOTSTRAP: Bootstrap = Bootstrap {
        n_resamples: 50,
        seed: Seed::new(1),
    };

    fn attempts(task: &str, solved: [u8; 4]) -> Vec<Attempt> {
        let attempt = |(number, solved): (u32, u8)| Attempt {
            task: task.into(),
            scenario: format!("scenario of {task}"),
            family: "f".into(),
            number,
            outcome: if solved == 1 {
                Outcome::Solved
            } else {
                Outcome::Failed
            },
            is_greedy: false,
            turns: 1,
            behaviours: Vec::new(),
        };
        (0..).zip(solved).map(attempt).collect()
    }

    fn table() -> Rank1Table {
        let rows = |easy, hard| [attempts("easy", easy), attempts("hard", hard)].concat();
        Rank1Table {
            picks: [("easy", "base"), ("hard", "a")]
                .map(|(task, pick)| (task.to_owned(), pick.to_owned()))
                .into(),
            best_fixed: "b".into(),
            rows: BTreeMap::from([
                (BASE.to_owned(), rows([1, 1, 1, 1], [0, 0, 0, 0])),
                ("a".to_owned(), rows([0, 0, 0, 0], [1, 1, 1, 0])),
                ("b".to_owned(), rows([1, 0, 0, 1], [0, 1, 0, 0])),
            ]),
            n_rollouts: 16,
        }
    }

    #[test]
    fn ways_to_choose_one_harness() {
        let row = rank1_row(&[(1, &table())], BOOTSTRAP).unwrap();
        let mean = |estimate: Option<Estimate>| estimate.unwrap().mean;
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        close(mean(row.base), 0.5);
        close(mean(row.router), 0.875);
        close(mean(row.random), f64::midpoint(0.25, 0.5));
        close(mean(row.best_fixed), 0.375);
        // Chosen on attempts 0 and 2 (a), scored on 1 and 3 (half); on 1 and 3 a and b tie, a comes first.
        close(
            mean(row.oracle),
            f64::midpoint(1.0, f64::midpoint(0.5, 1.0)),
        );
        assert!(rank1_row(&[], BOOTSTRAP).is_none());
    }

    #[test]
    fn a_flip_is_a_change_of_sign_and_not_a_zero() {
        let pairs = vec![(0.5, -0.1), (0.5, 0.1), (0.0, -0.5), (-0.2, 0.3)];
        assert_eq!(sign_flips(&pairs), Some(0.5));
        assert_eq!(sign_flips(&Vec::new()), None);
    }
}

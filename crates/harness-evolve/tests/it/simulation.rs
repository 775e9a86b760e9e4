//! Many evolutions with known truth: how often nothing enters as something, and something as something.

use harness_core::Seed;
use harness_evolve::evolve;

use crate::toy::{World, config, input, proposer, said};

/// Sizes of a simulation.
struct Simulation {
    n_evolutions: u64,
    n_directions: usize,
    tasks_per_direction: usize,
    /// What a fitting rule adds to the success rate.
    effect: f64,
}

/// What a simulation counted.
#[derive(Debug, Default)]
struct Counted {
    /// Confirmations made: without them nothing could enter, and the rates below would say nothing.
    n_confirmed: u64,
    /// Evolutions into whose pool a sibling without effect entered.
    with_null: u64,
    /// Siblings with effect that entered.
    n_true: u64,
    /// Those of them that hold the one edit that helps, and no other.
    n_lean: u64,
}

impl Simulation {
    fn run(&self) -> Counted {
        let mut counted = Counted::default();
        for i in 0..self.n_evolutions {
            let mut world = World::new(self.effect);
            let mut proposer = proposer(self.n_directions);
            let input = input(self.n_directions, self.tasks_per_direction);
            let config = config(self.tasks_per_direction);
            let seed = Seed::new(11).derive("simulation", &[i]);
            let got = evolve(input, &mut proposer, &mut world, &config, seed).expect("a toy runs");
            let is_true = |s: &&harness_pool::Sibling| {
                let kind = s.direction.chars().last().unwrap_or(' ');
                let fix = format!("fix {kind} now");
                self.effect > 0.0 && said(&s.harness).contains(&fix.as_str())
            };
            let n_true = got.pool.siblings().iter().filter(is_true).count();
            let is_lean = |s: &&harness_pool::Sibling| is_true(s) && s.lineage.len() == 1;
            counted.n_lean += got.pool.siblings().iter().filter(is_lean).count() as u64;
            counted.n_confirmed += got.report.confirmations.len() as u64;
            counted.n_true += n_true as u64;
            counted.with_null += u64::from(n_true < got.pool.len());
        }
        counted
    }
}

/// With 200 evolutions at 5 % the count is at most 20 with chance 0.999.
#[test]
fn e10_null_siblings_rarely_enter() {
    let simulation = Simulation {
        n_evolutions: 200,
        n_directions: 3,
        tasks_per_direction: 16,
        effect: 0.0,
    };
    let got = simulation.run();
    assert!(got.n_confirmed >= 400, "too few tests to judge by: {got:?}");
    assert_eq!(got.n_true, 0);
    assert!(got.with_null <= 20, "{got:?}");
}

/// Four directions of 48 tasks, four attempts each, base rates 0.1 to 0.3.
#[test]
fn twenty_points_enter_at_a_realistic_size() {
    let simulation = Simulation {
        n_evolutions: 25,
        n_directions: 4,
        tasks_per_direction: 48,
        effect: 0.2,
    };
    let got = simulation.run();
    assert!(got.n_true >= 80, "{got:?} of 100");
    assert!(2 * got.n_lean >= got.n_true, "{got:?}");
    assert!(got.with_null <= 5, "{got:?}");
}

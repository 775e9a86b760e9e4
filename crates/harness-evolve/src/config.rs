//! Configuration of an evolution. The abstract gives no numbers: every default is ours.

use serde::{Deserialize, Serialize};

use crate::check::CheckConfig;
use crate::error::ConfigError;
use crate::packet::PacketBounds;

/// How an evolution is run. Unknown keys are errors (bug report E9).
///
/// # Example
/// ```
/// let config = harness_evolve::EvolveConfig { rounds: 3, ..Default::default() };
/// assert!(config.validate().is_ok());
/// assert!(serde_json::from_str::<harness_evolve::EvolveConfig>(r#"{"ronds": 3}"#).is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EvolveConfig {
    /// Base attempts a task, where the caller brings none; 1 to 64. Default 4.
    pub base_attempts: u32,
    /// Tasks that the base solves in a larger share of its attempts are left out of directions, since
    /// rescue acts on tasks that the base fails; in \[0, 1\]. Default 0.5.
    pub max_base_rate: f64,
    /// Size of packets.
    pub packet: PacketBounds,
    /// An action sent so often counts as repeated; at least 2. Default 3.
    pub repeat_threshold: usize,
    /// An attempt that ends of itself within so many turns stopped early. Default 2.
    pub early_turns: usize,
    /// With fewer directions, left-over failures are grouped without mechanism; a wish, not a bound.
    /// Default 4.
    pub min_directions: usize,
    /// Most directions, the largest are kept; at least 1. Default 8.
    pub max_directions: usize,
    /// Least distinct tasks to search on; at least 2. Default 12.
    pub min_search_tasks: usize,
    /// Least distinct tasks to confirm on; at least 2. Default 12, where a repair of +20 points is mostly
    /// missed: four directions need 32, and 40 if only one can be repaired; see the README.
    pub min_confirm_tasks: usize,
    /// Most tasks to search on; at least `min_search_tasks`. Default 24.
    pub max_search_tasks: usize,
    /// Most tasks to confirm on; at least `min_confirm_tasks`. Default 48.
    pub max_confirm_tasks: usize,
    /// Most packets shown to a proposer; at least 1. Default 12.
    pub packets_per_brief: usize,
    /// Rounds of a direction; at least 1. Default 2.
    pub rounds: u32,
    /// Candidates of a round; at least 1. Default 6.
    pub candidates_per_round: usize,
    /// Share of a later round's candidates that are stacked onto the best so far; the others start from the
    /// base; in \[0, 1\]. Default 0.5.
    pub stack_share: f64,
    /// Attempts a task in a search rerun, for candidates and base alike; 1 to 64. Default 2.
    pub search_attempts: u32,
    /// What every edit beyond the first must add to the success rate to be preferred; in \[0, 1\]. Keeps
    /// idle edits out of a stack, which noise would else put there: 0.02 let one into half of the siblings
    /// of the simulation in this crate's tests (48 search tasks, 2 attempts), 0.08 into a fifth, with as
    /// many repairs found; with 24 search tasks 0.08 lets one into a third. That world has no edits that help together, so it cannot say what a higher cost
    /// would lose. Default 0.08.
    pub edit_cost: f64,
    /// Attempts a task in the confirmation, for sibling and base retries alike; 1 to 64. Default 4.
    pub confirm_attempts: u32,
    /// Family-wise error rate over all confirmations of a run; in (0, 1). Default 0.05.
    pub alpha: f64,
    /// Whether the union coverage that a sibling adds must exceed what a base retry adds. Default true.
    pub require_union_gain: bool,
    /// Most base-solved confirmation tasks on which regressions of a confirmed sibling are counted, one
    /// attempt each; 0 counts none. Default 12.
    pub regression_tasks: usize,
    /// Whether a sibling with more regressions than a base retry is refused. Default false.
    pub seesaw_gate: bool,
    /// Ablation: all failures make *one* group, without labels, with the search and confirmation budget
    /// that the directed run would have; how it is matched is told at
    /// [`UndirectedBudget`](crate::report::UndirectedBudget). Default false.
    pub undirected: bool,
    /// What makes a proposal unfit.
    pub check: CheckConfig,
}

impl Default for EvolveConfig {
    fn default() -> Self {
        Self {
            base_attempts: 4,
            max_base_rate: 0.5,
            packet: PacketBounds::default(),
            repeat_threshold: 3,
            early_turns: 2,
            min_directions: 4,
            max_directions: 8,
            min_search_tasks: 12,
            min_confirm_tasks: 12,
            max_search_tasks: 24,
            max_confirm_tasks: 48,
            packets_per_brief: 12,
            rounds: 2,
            candidates_per_round: 6,
            stack_share: 0.5,
            search_attempts: 2,
            edit_cost: 0.08,
            confirm_attempts: 4,
            alpha: 0.05,
            require_union_gain: true,
            regression_tasks: 12,
            seesaw_gate: false,
            undirected: false,
            check: CheckConfig::default(),
        }
    }
}

impl EvolveConfig {
    /// Checks every field.
    ///
    /// # Errors
    /// [`ConfigError`] naming the first field out of its range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        for (field, expected, holds) in self.slices().into_iter().chain(self.stages()) {
            ConfigError::check(field, expected, holds)?;
        }
        self.packet.validate()?;
        self.check.validate()
    }

    /// What packets, labels and slices need.
    fn slices(&self) -> Vec<FieldCheck> {
        vec![
            ("base_attempts", "1 to 64", is_attempts(self.base_attempts)),
            ("max_base_rate", "in [0, 1]", is_share(self.max_base_rate)),
            ("repeat_threshold", "at least 2", self.repeat_threshold >= 2),
            ("max_directions", "at least 1", self.max_directions >= 1),
            ("min_search_tasks", "at least 2", self.min_search_tasks >= 2),
            (
                "min_confirm_tasks",
                "at least 2",
                self.min_confirm_tasks >= 2,
            ),
            (
                "max_search_tasks",
                "at least min_search_tasks",
                self.max_search_tasks >= self.min_search_tasks,
            ),
            (
                "max_confirm_tasks",
                "at least min_confirm_tasks, at most 10000",
                (self.min_confirm_tasks..=10_000).contains(&self.max_confirm_tasks),
            ),
        ]
    }

    /// What search, confirmation and gates need.
    fn stages(&self) -> Vec<FieldCheck> {
        vec![
            (
                "packets_per_brief",
                "at least 1",
                self.packets_per_brief >= 1,
            ),
            ("rounds", "1 to 100", (1..=100).contains(&self.rounds)),
            (
                "candidates_per_round",
                "1 to 1000",
                (1..=1000).contains(&self.candidates_per_round),
            ),
            ("stack_share", "in [0, 1]", is_share(self.stack_share)),
            (
                "search_attempts",
                "1 to 64",
                is_attempts(self.search_attempts),
            ),
            ("edit_cost", "in [0, 1]", is_share(self.edit_cost)),
            (
                "confirm_attempts",
                "1 to 64",
                is_attempts(self.confirm_attempts),
            ),
            ("alpha", "in (0, 1)", self.alpha > 0.0 && self.alpha < 1.0),
            (
                "seesaw_gate",
                "off while regression_tasks is 0",
                !self.seesaw_gate || self.regression_tasks > 0,
            ),
        ]
    }
}

/// A field, what it must be, and whether it is.
type FieldCheck = (&'static str, &'static str, bool);

fn is_share(x: f64) -> bool {
    (0.0..=1.0).contains(&x)
}

fn is_attempts(n: u32) -> bool {
    (1..=64).contains(&n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_is_valid_and_round_trips() {
        let config = EvolveConfig::default();
        config.validate().unwrap();
        let json = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<EvolveConfig>(&json).unwrap(), config);
    }

    #[test]
    fn e9_misspelt_keys_are_errors_at_every_depth() {
        let refuses = |json: &str, key: &str| {
            let error = serde_json::from_str::<EvolveConfig>(json).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
        };
        refuses(r#"{"ronds": 3}"#, "ronds");
        refuses(r#"{"undirectd": true}"#, "undirectd");
        refuses(r#"{"check": {"max_text_char": 3}}"#, "max_text_char");
        refuses(r#"{"packet": {"max_step": 3}}"#, "max_step");
        let got: EvolveConfig = serde_json::from_str(r#"{"rounds": 3}"#).unwrap();
        assert_eq!(
            got,
            EvolveConfig {
                rounds: 3,
                ..EvolveConfig::default()
            }
        );
    }

    #[track_caller]
    fn refuses(field: &str, change: impl FnOnce(&mut EvolveConfig)) {
        let mut config = EvolveConfig::default();
        change(&mut config);
        assert_eq!(config.validate().unwrap_err().field, field);
    }

    #[test]
    fn bad_fields_are_named() {
        refuses("alpha", |c| c.alpha = f64::NAN);
        refuses("rounds", |c| c.rounds = 0);
        refuses("max_search_tasks", |c| c.max_search_tasks = 3);
        refuses("confirm_attempts", |c| c.confirm_attempts = 65);
        refuses("packet.max_steps", |c| c.packet.max_steps = 0);
        refuses("check.ngram_words", |c| c.check.ngram_words = 1);
        refuses("seesaw_gate", |c| {
            (c.seesaw_gate, c.regression_tasks) = (true, 0);
        });
    }
}

//! Your own environment and base harness, trained with rescue-GRPO on the processor, in seconds:
//! `cargo run -p rescue-grpo --example train_own_environment`.
//!
//! Four locks, each opened by one letter. The policy has learnt to say what a note tells it, and `a` without a
//! note: under the base it opens one lock of four, and GRPO alone ends with two (`RescueMode::Off`). Each
//! sibling has a note that names a letter. In the end there is no note, and all locks open.

#![expect(
    clippy::wildcard_imports,
    reason = "a short list of imports for a short program"
)]

use std::{error::Error, sync::Arc};

use harness_core::{testing::*, *};
use harness_pool::{PoolBuilder, Sibling};
use harness_router::{Router, RouterConfig, embedded_voters};
use rescue_grpo::*;

#[derive(Default)]
struct Lock {
    letter: String,
    is_open: bool,
}

impl Environment for Lock {
    fn reset(&mut self, task: &Task, _: Deadline) -> Result<Facts, EnvError> {
        self.letter = task.data.as_str().unwrap_or_default().to_owned();
        Ok(Facts::new())
    }

    fn step(&mut self, action: &Action, _: Deadline) -> Result<StepResult, EnvError> {
        self.is_open = matches!(action, Action::Text(text) if *text == self.letter);
        Ok(StepResult::new(vec![Part::Text("click".into())], true))
    }

    fn evaluate(&mut self, _: Deadline) -> Result<Verdict, EnvError> {
        Ok(Verdict::from_solved(self.is_open))
    }
}

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn Error>> {
    let codec = ByteCodec;
    let base = HarnessSpec::base(BaseHarness::default());
    let mut pool = PoolBuilder::new(base.clone(), "example".into(), "locks".into());
    let (mut tasks, mut demos) = (Vec::new(), Vec::new());
    let letters = ["a", "b", "c", "d"];
    for (number, letter) in (1..).zip(letters) {
        let note = HarnessEdit::AddNote(format!("say {letter}"));
        pool.add(Sibling::by_hand(letter, &base, vec![note])?)?;
        let mut task = toy_task(number, "");
        (task.instruction, task.data) = (format!("lock {number}"), letter.into());
        let lock = Message::new(Role::User, &task.instruction);
        demos.push(SupervisedRow::of(&codec, &[lock.clone()], "a"));
        for letter in letters {
            let note = Message::new(Role::System, format!("say {letter}"));
            demos.push(SupervisedRow::of(&codec, &[note, lock.clone()], letter));
        }
        tasks.push(Arc::new(task));
    }
    let pool = pool.freeze();

    let model = ModelConfig::nano(codec.vocab_size(), 256);
    let mut weights = model.init(Seed::new(2));
    let mut warm = SupervisedConfig::default();
    (warm.steps, warm.batch) = (100, 20);
    train_supervised(&model, &mut weights, &demos, &warm, Seed::new(3), |_| true)?;

    let config = NanoLearnerConfig::new(codec.stop_ids());
    let mut learner = NanoLearner::new(model, weights, PolicyVersion(0), config)?;
    let mut router = Router::new(&pool, embedded_voters(), RouterConfig::default())?;
    let exec = ExecOptions::new(RunId::new("example")?);
    let config = GrpoConfig::default();
    for number in 0..60 {
        let mut runtime = Runtime {
            codec: &codec,
            envs: &make_default::<Lock>,
            exec: &exec,
            n_threads: 1,
            seed: Seed::new(4),
            step: number,
            sink: &mut |_| Ok(()),
        };
        let report = step(
            &mut learner,
            &tasks,
            &mut runtime,
            &pool,
            &mut router,
            &config,
        )?;
        let (solved, rescued) = (report.base.solved, report.groups.rescued);
        println!("step {number:2}: the base solves {solved:2} of 32, groups rescued: {rescued}");
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}

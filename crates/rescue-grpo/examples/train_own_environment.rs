//! Your own environment and base harness, trained with rescue-GRPO on the processor, in seconds:
//! `cargo run --example train_own_environment`.
//! Four locks, each opened by one letter. The policy says what a note tells it, and `a` without a note: the base
//! opens one lock of four, GRPO alone ends with two (`RescueMode::Off`), and rescue, with notes, opens all.

use std::{error::Error, sync::Arc};

use harness_core::testing::{ByteCodec, toy_task};
use harness_core::{
    Action, BaseHarness, Codec, Deadline, EnvError, Environment, ExecOptions, Facts, HarnessEdit,
    HarnessSpec, Message, Part, PolicyVersion, Role, RunId, Seed, StepResult, Task, Verdict,
};
use harness_pool::{PoolBuilder, Sibling};
use harness_router::{Router, RouterConfig, embedded_voters};
use rescue_grpo::{
    GrpoConfig, ModelConfig, NanoLearner, NanoLearnerConfig, Runtime, SupervisedConfig,
    SupervisedRow, step, train_supervised,
};

#[derive(Default)]
struct Lock {
    letter: String,
    is_open: bool,
}

impl Environment for Lock {
    fn reset(&mut self, task: &Task, _: Deadline) -> Result<Facts, EnvError> {
        self.letter = task.data.as_str().unwrap_or_default().into();
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
    let base = HarnessSpec::base(BaseHarness::default());
    let mut pool = PoolBuilder::new(base.clone(), "example".into(), "locks".into());
    let (mut tasks, mut demos, letters) = (Vec::new(), Vec::new(), ["a", "b", "c", "d"]);
    for (number, letter) in (1..).zip(letters) {
        let note = HarnessEdit::AddNote(format!("say {letter}"));
        pool.add(Sibling::by_hand(letter, &base, vec![note])?)?;
        let mut task = toy_task(number, "");
        (task.instruction, task.data) = (format!("lock {number}"), letter.into());
        let lock = Message::new(Role::User, &task.instruction);
        let mut said = [lock.clone(), lock];
        demos.push(SupervisedRow::of(&ByteCodec, &said[1..], "a"));
        for letter in letters {
            said[0] = Message::new(Role::System, format!("say {letter}"));
            demos.push(SupervisedRow::of(&ByteCodec, &said, letter));
        }
        tasks.push(Arc::new(task));
    }
    let pool = pool.freeze();
    let model = ModelConfig::nano(ByteCodec.vocab_size(), 256);
    let mut weights = model.init(Seed::new(2));
    let mut warm = SupervisedConfig::default();
    (warm.steps, warm.batch) = (100, 20);
    train_supervised(&model, &mut weights, &demos, &warm, Seed::new(3), |_| true)?;
    let config = NanoLearnerConfig::new(ByteCodec.stop_ids());
    let mut learner = NanoLearner::new(model, weights, PolicyVersion(0), config)?;
    let mut router = Router::new(&pool, embedded_voters(), RouterConfig::default())?;
    let exec = ExecOptions::new(RunId::new("example")?);
    let grpo = GrpoConfig::default();
    for number in 0..60 {
        let mut runtime = Runtime {
            codec: &ByteCodec,
            envs: &harness_core::make_default::<Lock>,
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
            &grpo,
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

//! `cargo xtask show`: what a run is doing, or did, read from its folder alone.
//!
//! - [`state`], `table`: where each arm with each seed stands;
//! - `attempts`: lists of kept attempts, and one by its id;
//! - `transcript`: one attempt as text.
//!
//! Nothing is written, and nothing outside the folder is read but, for texts of token ids, tokenizers.
//! Files are read line by line; what is held does not grow with the length of a run.

mod attempts;
#[cfg(feature = "train")]
mod codec;
mod harnesses;
mod jobs;
mod rows;
pub mod state;
mod table;
mod transcript;

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::arm::Arm;
use crate::run_dir::RunDir;
use crate::say;
use attempts::Filter;
use harnesses::Harnesses;
use state::RunState;

/// Examples of `show`.
pub const EXAMPLES: &str = "\
Examples:
  cargo xtask show runs/full                        a table: how far, how well, what is left
  cargo xtask show runs/full --watch 10             the same every 10 seconds, until the run is done
  cargo xtask show runs/full --json                 the same for another program
  cargo xtask show runs/full --list                 the attempts that the run kept, one a line
  cargo xtask show runs/full --list --arm harness_s --role rescue --outcome failed
  cargo xtask show runs/full --rollout harness_s-s1/s0-t1-r0    what happened in one of them

In an attempt's text, `|` marks what the policy wrote and is trained on, `:` what it only read.
A run keeps the attempts of every run.keep_every_steps-th step.";

/// What is asked for.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The run's folder, for instance runs/appworld-20260101T000000Z
    dir: PathBuf,
    /// Show one attempt as text; its id is that of --list
    #[arg(long, value_name = "ID", conflicts_with_all = ["list", "json", "watch"])]
    rollout: Option<String>,
    /// List the attempts that the run kept, one a line
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    list: bool,
    /// Only this arm
    #[arg(long, value_name = "ARM")]
    arm: Option<String>,
    /// With --list: only attempts that ended so, for instance solved, failed or truncated
    #[arg(long, value_name = "OUTCOME", requires = "list")]
    outcome: Option<String>,
    /// With --list: only attempts made for this: base, rescue, probe or eval
    #[arg(long, value_name = "ROLE", requires = "list")]
    role: Option<String>,
    /// Print the table's content as JSON
    #[arg(long)]
    json: bool,
    /// Print the table again and again, every so many seconds, until the run is done
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    watch: Option<u64>,
}

/// Prints what is asked for.
///
/// # Errors
/// A [`UsageError`](crate::usage::UsageError) for a folder without a run and for unknown names; an error of the
/// file system.
pub fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let run = RunDir::open(&args.dir)?;
    let arm = args.arm.as_deref().map(str::parse::<Arm>).transpose()?;
    if args.list {
        let filter = Filter::new(arm, args.outcome.as_deref(), args.role.as_deref())?;
        return attempts::list(&run, filter);
    }
    if let Some(id) = &args.rollout {
        let (name, attempt) = attempts::find(&run, id, arm)?;
        let is_coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        let harnesses = Harnesses::read(&run);
        #[cfg(feature = "train")]
        let codec = codec::for_attempt(&run, &attempt);
        #[cfg(not(feature = "train"))]
        let codec: Option<Box<dyn harness_core::Codec>> = None;
        let text = transcript::text(
            &name,
            &attempt,
            harnesses.get(&attempt.harness_id),
            codec.as_deref(),
            is_coloured,
        );
        say::out(text.trim_end());
        return Ok(());
    }
    loop {
        let mut state = RunState::read(&run)?;
        state
            .jobs
            .retain(|job| arm.is_none_or(|arm| job.arm == arm.as_str()));
        if args.watch.is_some() && std::io::stdout().is_terminal() {
            say::out("\x1b[2J\x1b[H");
        }
        if args.json {
            say::out(serde_json::to_string_pretty(&state)?);
        } else {
            say::out(table::text(&state).trim_end());
        }
        match args.watch {
            Some(seconds) if state.ended.is_none() => {
                std::thread::sleep(Duration::from_secs(seconds));
            }
            _ => return Ok(()),
        }
    }
}

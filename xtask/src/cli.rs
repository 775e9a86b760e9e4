//! The command line: what can be asked for, and who answers it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};
use tracing::level_filters::LevelFilter;

use crate::arm::Arm;
use crate::cache::{Cache, build_fingerprint};
use crate::config::{Config, Device, Scale, SettingsFile, check_environment};
use crate::run_dir::RunDir;
use crate::run_lock::RunLock;
use crate::show::{self, ShowArgs};
use crate::usage::UsageError;
use crate::{api, go_on, instructions, log, say, schema, tidy};

/// Where stage results are kept, relative to the workspace.
pub(crate) const CACHE_FOLDER: &str = "target/harness-s-cache";

/// Runs Harness-S experiments and checks the workspace.
///
/// Exit codes: 0 done, 1 something failed, 2 wrong usage (nothing was written).
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the whole method on an environment and report what came of it
    #[command(after_help = reproduce_help())]
    Reproduce(Box<ReproduceArgs>),
    /// Rebuild report.md and report.html of a run from its report.json alone
    Report {
        /// The run's folder, for instance runs/appworld-20260101T000000Z
        dir: PathBuf,
    },
    /// Show where a run stands, or one of its attempts as text
    #[command(after_help = show::EXAMPLES)]
    Show(ShowArgs),
    /// Rebuild the initial policy that is shipped with an environment
    WarmStart {
        /// The environment: appworld
        env: String,
        /// Replace one setting, for instance `warm_start.steps=800`; may be given several times
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Measure speed, in turns with a twin in JAX, and the machine's own limits
    ///
    /// The twin (`bench/peers/jax_twin.py`) is installed under target/ at first; without a network or Python
    /// this side is measured alone.
    #[cfg(feature = "train")]
    Bench(BenchArgs),
    /// Count the instructions of the hot paths under valgrind, into bench/instructions.txt
    ///
    /// Needs no policy model itself but builds all benches: cargo run -p xtask --no-default-features -- instructions
    Instructions {
        /// Write nothing, and fail if a path takes more than 10 % more than the file says
        #[arg(long)]
        check: bool,
    },
    /// Check crate edges, module docs, lints, licences and stray notes
    ///
    /// Builds in seconds without the policy model: cargo run -p xtask --no-default-features -- tidy
    Tidy,
    /// Write the JSON Schemas of harnesses, edits, pools, profiles, trajectories and reports to schemas/
    ///
    /// Files <name>.strict.json are for models that answer in a strict structured-output mode.
    Schema {
        /// Write nothing, and fail with the names of the files that are not those of the code
        #[arg(long)]
        check: bool,
    },
    /// Write the public items of each library crate to api/, one a line
    ///
    /// Builds the documentation of the workspace, with the policy model's metadata.
    Api {
        /// Write nothing, and fail with the lines that are not those of the code
        #[arg(long)]
        check: bool,
    },
}

/// Examples of `reproduce`, and what its arms are.
fn reproduce_help() -> String {
    let arms = Arm::ALL.map(|arm| format!("  {:<24} {}", arm.as_str(), arm.changes()));
    format!(
        "{REPRODUCE_EXAMPLES}\n\nArms for --arms, the four standard ones first:\n{}",
        arms.join("\n")
    )
}

const REPRODUCE_EXAMPLES: &str = "\
Examples:
  cargo xtask reproduce appworld --scale smoke       every stage once, in under 90 seconds
  cargo xtask reproduce appworld                     the default scale, minutes
  cargo xtask reproduce appworld --arms harness_s,policy_only_matched --seeds 3
  cargo xtask reproduce appworld --scale full --out runs/full    variants, controls, sweep
  cargo xtask reproduce appworld --scale full --out runs/full --resume
  cargo xtask reproduce appworld --dev-only --set grpo.learning_rate=1e-3    to choose settings
  cargo xtask reproduce appworld --set grpo.learning_rate=5e-4 --dry-run
  cargo xtask reproduce appworld --dry-run > mine.toml    every setting, to edit and give back:
  cargo xtask reproduce appworld --config mine.toml
  cargo xtask reproduce appworld --config runs/full/config.toml --set run.seeds=[6,7]

--dry-run prints every setting with its value and what it means; more is said in xtask/src/config.rs.
A setting comes from the scale, then --config, then --set, then the other options: the last one stands.";

#[expect(
    clippy::struct_excessive_bools,
    reason = "independent switches of a command line"
)]
#[derive(Debug, Args)]
struct ReproduceArgs {
    /// The environment: appworld (dbbench and swe-gym are not there yet)
    env: String,
    /// How much to run: smoke (shows that it runs), default (minutes), full (five seeds)
    /// [default: that of --config, else default]
    #[arg(long)]
    scale: Option<String>,
    /// Read settings from a TOML file, all or a few: they stand above the scale and below --set; the
    /// config.toml of a run is such a file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use the seeds 1 to N
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// Which arms to run, in this order
    #[arg(long, value_name = "A,B,..", value_delimiter = ',')]
    arms: Option<Vec<String>>,
    /// The run's folder: new, empty, or that of an earlier run, which is replaced
    /// [default: runs/<env>-<stamp>]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Go on with the run in --out, which was stopped: the end is the same, byte for byte, as if it had not
    /// been; a finished one is only reported anew
    #[arg(long, requires = "out")]
    resume: bool,
    /// Leave test unread: everything is measured on dev, as when settings are chosen
    #[arg(long)]
    dev_only: bool,
    /// Make every stage anew: neither read nor write target/harness-s-cache, only the run's own folder
    #[arg(long)]
    no_cache: bool,
    /// Print the settings and stop; nothing is written
    #[arg(long)]
    dry_run: bool,
    /// Threads; 0 is as many as the machine has; no result depends on it
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Where tensors live: cpu or cuda
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Start from the warm start in this folder (appworld-nano.safetensors and appworld-nano.bpe.json)
    /// [default: the shipped one, if the settings are its own]
    #[arg(long, value_name = "DIR")]
    policy: Option<PathBuf>,
    /// Use this frozen pool, for instance runs/first/pool.json, and evolve none
    #[arg(long, value_name = "FILE")]
    pool: Option<PathBuf>,
    /// What goes into the run's logs/run.jsonl: off, error, warn, info, debug or trace
    /// [default: the variable `HARNESS_S_LOG`, else info]
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// Replace one setting, for instance `grpo.learning_rate=5e-4`; may be given several times, stands
    /// above the scale and below the other options
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[cfg(feature = "train")]
#[derive(Debug, Args)]
struct BenchArgs {
    /// What to measure
    what: crate::bench::What,
    /// Write there what is printed, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Timed windows of each side, in turns; medians are over these
    #[arg(long, value_name = "N", default_value = "7", value_parser = clap::value_parser!(u16).range(1..))]
    repeats: u16,
    /// Threads of each side, on as many cores
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,
    /// A Python with jax and numpy [default: one that is made under target/]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,
}

/// What an experiment is given.
#[derive(Debug)]
pub struct Plan {
    /// Every setting.
    pub config: Config,
    /// Where it writes.
    pub run_dir: RunDir,
    /// Where it keeps stages.
    pub cache: Cache,
    /// Policy and pool from elsewhere, read and checked.
    pub inputs: train::Inputs,
    /// Whether the command line changed a setting, a policy or a pool, other than seeds, arms, threads and
    /// folders.
    pub is_custom: bool,
}

/// Reads the command line, does what it asks for, and tells errors: exit code 2 for wrong usage, else 1.
pub fn main() -> ExitCode {
    match Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            tell(&error);
            ExitCode::from(if error.is::<UsageError>() { 2 } else { 1 })
        }
    }
}

impl Cli {
    fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Reproduce(args) => return reproduce(&args),
            Command::Report { dir } => report(&dir)?,
            Command::Show(args) => show::show(&args)?,
            Command::WarmStart { env, set } => warm_start(&env, &set)?,
            #[cfg(feature = "train")]
            Command::Bench(args) => crate::bench::run(&args.into())?,
            Command::Instructions { check } => return instructions::main(check),
            Command::Tidy => return check_tidy(),
            Command::Api { check } => return api::main(check),
            Command::Schema { check: true } => return check_schemas(),
            Command::Schema { check: false } => {
                schema::files(&tidy::workspace_root())?.write()?;
                say::out(format_args!("schemas: {}/", schema::FOLDER));
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn reproduce(args: &ReproduceArgs) -> anyhow::Result<ExitCode> {
    let config = args.config()?;
    let log_level = log::level(args.log.as_deref())?;
    if args.dry_run {
        say::out(config.to_commented_toml()?.trim_end());
        return Ok(ExitCode::SUCCESS);
    }
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| RunDir::default_path(&config.env));
    RunDir::check(&out)?;
    require_trainer()?;
    let inputs = train::read_inputs(args.policy.as_deref(), args.pool.as_deref())?;
    let _lock = RunLock::take(&out)?;
    if let Err(error) = run(args, config, inputs, &out, log_level) {
        if error.is::<UsageError>() {
            return Err(error);
        }
        tell(&error);
        say::note(format_args!("go on with: {}", go_on::command(&out)));
        return Ok(ExitCode::FAILURE);
    }
    say::out(format_args!(
        "report: {}",
        out.join("report.html").display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Runs in a folder that is this process's alone.
fn run(
    args: &ReproduceArgs,
    config: Config,
    inputs: train::Inputs,
    out: &Path,
    log_level: LevelFilter,
) -> anyhow::Result<()> {
    let run_dir = if args.resume {
        RunDir::resume(out, &config)?
    } else {
        RunDir::create(out, &config)?
    };
    log::start(&run_dir.log_path(log::FILE), log_level)?;
    let cache = cache(args.no_cache, &run_dir)?;
    #[cfg(feature = "train")]
    crate::interrupt::tell_how_to_go_on(out)?;
    train::reproduce(&Plan {
        config,
        run_dir,
        cache,
        inputs,
        is_custom: args.is_custom(),
    })
}

/// Tells an error, and what to do about it if that is known.
fn tell(error: &anyhow::Error) {
    say::note(format_args!("error: {error:#}"));
    if let Some(remedy) = go_on::remedy(error) {
        say::note(format_args!("  {remedy}"));
    }
}

fn report(dir: &Path) -> anyhow::Result<()> {
    RunDir::open(dir)?.rebuild_report()?;
    say::out(format_args!(
        "report: {}",
        dir.join("report.html").display()
    ));
    Ok(())
}

fn warm_start(env: &str, overrides: &[String]) -> anyhow::Result<()> {
    let config = Config::builtin(env, Scale::Default)?.with_overrides(overrides)?;
    require_trainer()?;
    train::warm_start(&config)
}

fn check_tidy() -> anyhow::Result<ExitCode> {
    let problems = tidy::check(&tidy::workspace_root())?;
    for problem in &problems {
        say::out(problem);
    }
    if problems.is_empty() {
        say::out("tidy: all is well");
        return Ok(ExitCode::SUCCESS);
    }
    say::note(format_args!("tidy: {} problems", problems.len()));
    Ok(ExitCode::FAILURE)
}

fn check_schemas() -> anyhow::Result<ExitCode> {
    let names = schema::files(&tidy::workspace_root())?.differing()?;
    for name in &names {
        say::out(format_args!(
            "{}/{name}: not that of the code",
            schema::FOLDER
        ));
    }
    if names.is_empty() {
        say::out("schema: all are those of the code");
        return Ok(ExitCode::SUCCESS);
    }
    say::note("schema: write them with `cargo xtask schema`, and look at what changed");
    Ok(ExitCode::FAILURE)
}

#[cfg(feature = "train")]
impl From<BenchArgs> for crate::bench::Options {
    fn from(args: BenchArgs) -> Self {
        Self {
            what: args.what,
            repeats: args.repeats.into(),
            threads: args.threads.into(),
            python: args.python,
            json: args.json,
        }
    }
}

impl ReproduceArgs {
    fn is_custom(&self) -> bool {
        !self.set.is_empty()
            || self.config.is_some()
            || self.policy.is_some()
            || self.pool.is_some()
    }

    /// The settings: those of the scale, then `--config`, then `--set`, then the other options.
    fn config(&self) -> anyhow::Result<Config> {
        check_environment(&self.env)?;
        let scale = self.scale.as_deref().map(Scale::parse).transpose()?;
        let config = match &self.config {
            Some(path) => SettingsFile::read(path)?.over(&self.env, scale)?,
            None => Config::builtin(&self.env, scale.unwrap_or(Scale::Default))?,
        };
        let mut config = config.with_overrides(&self.set)?;
        if let Some(n) = self.seeds {
            config.run.seeds = (1..=n).collect();
            config.study.n_seeds = config.study.n_seeds.min(n as usize);
        }
        config.run.dev_only |= self.dev_only;
        if let Some(arms) = &self.arms {
            config.run.arms = arms
                .iter()
                .map(|arm| arm.trim().parse())
                .collect::<Result<Vec<Arm>, _>>()?;
            let is_listed = |arm: &Arm| config.run.arms.contains(arm);
            config.study.ablations.retain(|arm| !is_listed(arm));
        }
        if let Some(device) = &self.device {
            config.device = Device::parse(device)?;
        }
        config.threads = self.threads.unwrap_or(config.threads);
        config.validate()?;
        Ok(config)
    }
}

/// The cache that runs share, or one of this run alone, from which it can go on all the same.
fn cache(is_private: bool, run_dir: &RunDir) -> anyhow::Result<Cache> {
    let root = if is_private {
        run_dir.stages_path()
    } else {
        let root = tidy::workspace_root().join(CACHE_FOLDER);
        fs::create_dir_all(&root).with_context(|| format!("creating `{}`", root.display()))?;
        root
    };
    Ok(Cache::new(root, build_fingerprint()))
}

/// Refuses before anything is written if this build cannot train.
fn require_trainer() -> anyhow::Result<()> {
    anyhow::ensure!(
        cfg!(feature = "train"),
        "this build has no policy model: build it with the feature `train` (cargo xtask does by default)"
    );
    Ok(())
}

#[cfg(feature = "train")]
use crate::pipeline as train;

/// Stands in for the pipeline; never reached, since [`require_trainer`] comes first.
#[cfg(not(feature = "train"))]
mod train {
    use std::path::Path;

    use super::{Config, Plan, require_trainer};

    /// Nothing can be read without a policy model.
    #[derive(Debug)]
    pub struct Inputs;

    pub(super) fn read_inputs(_: Option<&Path>, _: Option<&Path>) -> anyhow::Result<Inputs> {
        require_trainer().map(|()| Inputs)
    }

    pub(super) fn reproduce(_: &Plan) -> anyhow::Result<()> {
        require_trainer()
    }

    pub(super) fn warm_start(_: &Config) -> anyhow::Result<()> {
        require_trainer()
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    fn config(args: &[&str]) -> anyhow::Result<Config> {
        let command = ["xtask", "reproduce", "appworld"].iter().chain(args);
        match Cli::try_parse_from(command)?.command {
            Command::Reproduce(args) => args.config(),
            other => panic!("another command: {other:?}"),
        }
    }

    #[test]
    fn options_stand_above_settings() {
        let args = ["--set", "threads=3", "--threads", "2", "--seeds", "3"];
        let config = config(&args).unwrap();
        assert_eq!((config.threads, config.run.seeds), (2, vec![1, 2, 3]));
    }

    #[test]
    fn arms_keep_their_order() {
        let config = config(&["--arms", "harness_s, policy_only"]).unwrap();
        assert_eq!(config.run.arms, [Arm::HarnessS, Arm::PolicyOnly]);
    }

    #[test]
    fn no_seeds_are_refused() {
        let error = config(&["--seeds", "0"]).unwrap_err();
        assert!(error.is::<UsageError>(), "{error}");
    }
}

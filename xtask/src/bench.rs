//! `cargo xtask bench`: tokens a second of the update and of sampling, in turns with a twin in JAX, and
//! rollouts a second of a training step.
//!
//! The machine may be shared and noisy. So both sides run on the same cores and in turns, medians are
//! compared, and rates are also given per CPU-second, which waiting for other people's work does not stretch.
//! Before anything is timed both sides compute the same update from the same weights, and a difference beyond
//! `agree`'s bounds is an error.
//!
//! Left out on purpose: time per operation. A profiler shows that better.

mod agree;
mod flops;
mod machine;
mod measure;
mod ours;
mod peer;
mod stages;
mod work;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{clock, files, say, tidy};
use agree::Agreement;
use machine::Machine;
use measure::{Rates, Side, alternate};
use peer::Peer;
use work::{SampleWork, TrainWork};

/// What can be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// The update: forward, backward, optimizer
    Train,
    /// Batched sampling with a key-value cache
    Sample,
    /// A training step on the embedded world: sampling, environment, update
    Pipeline,
}

/// How it is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// What.
    pub what: What,
    /// Timed windows of each side, at least 1; medians are over these.
    pub repeats: usize,
    /// Threads and cores of each side, at least 1.
    pub threads: usize,
    /// A Python that has `jax` and `numpy`; else one is made under `target/`.
    pub python: Option<PathBuf>,
    /// Where the numbers are written.
    pub json: Option<PathBuf>,
}

/// The shape whose numbers stand at the top of the JSON: the one with a bar for products.
const HEADLINE: &str = "d192";

/// Measures, prints, and writes the JSON file if one is asked for.
///
/// # Errors
/// If the two sides compute different things, the twin breaks off, or a file cannot be written. A twin that
/// cannot be installed is a warning: this side is then measured alone.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let cores = machine::pin(options.threads);
    let machine = Machine::measure(cores);
    say::out(&machine);
    let found = match options.what {
        What::Train => train(options, &machine)?,
        What::Sample => sample(options)?,
        What::Pipeline => stages::pipeline(options)?,
    };
    let Some(path) = &options.json else {
        return Ok(());
    };
    let name = match options.what {
        What::Train => "train",
        What::Sample => "sample",
        What::Pipeline => "pipeline",
    };
    let mut all = Map::new();
    all.insert(name.into(), found);
    all.insert("machine".into(), serde_json::to_value(&machine)?);
    all.insert("taken".into(), json!(clock::now_rfc3339()));
    all.insert("threads".into(), json!(options.threads));
    all.insert("repeats".into(), json!(options.repeats));
    files::write_atomic(path, serde_json::to_string_pretty(&all)?.as_bytes())
}

/// One shape's numbers.
#[derive(Debug, Serialize)]
struct Compared {
    /// Tokens a second of ours, wall clock, median.
    ours_tok_s: f64,
    /// Of the twin.
    peer_tok_s: Option<f64>,
    /// Medians of tokens per CPU-second, ours over the twin's.
    ratio: Option<f64>,
    /// The same by the wall clock.
    ratio_wall: Option<f64>,
    ours: Rates,
    peer: Option<Rates>,
    agreement: Option<Agreement>,
    #[serde(flatten)]
    shares: Option<flops::Shares>,
}

impl Compared {
    fn new(ours: Rates, peer: Option<Rates>, agreement: Option<Agreement>) -> Self {
        Self {
            ours_tok_s: ours.tok_s,
            peer_tok_s: peer.as_ref().map(|p| p.tok_s),
            ratio: peer.as_ref().map(|p| ours.tok_cpu_s / p.tok_cpu_s),
            ratio_wall: peer.as_ref().map(|p| ours.tok_s / p.tok_s),
            ours,
            peer,
            agreement,
            shares: None,
        }
    }

    fn print(&self, what: &str, shape: &str) {
        say::out(format_args!("{what} {shape}"));
        say::out(format_args!("  ours  {}", self.ours));
        if let (Some(peer), Some(ratio), Some(wall)) = (&self.peer, self.ratio, self.ratio_wall) {
            say::out(format_args!("  JAX   {peer}"));
            say::out(format_args!(
                "  ratio {ratio:.2} per CPU-second, {wall:.2} by the wall clock"
            ));
        }
        if let Some(agreement) = &self.agreement {
            say::out(format_args!("  both agree: {agreement}"));
        }
        if let Some(shares) = &self.shares {
            say::out(format_args!("  {shares}"));
        }
    }
}

/// The folder through which both sides exchange a shape's weights and results.
fn exchange(what: &str, shape: &str) -> anyhow::Result<PathBuf> {
    let folder = tidy::workspace_root().join(format!("target/bench/{what}-{shape}"));
    std::fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The shapes' numbers, those of the headline at the top.
fn by_shape(compared: Vec<(&'static str, Compared)>) -> anyhow::Result<Value> {
    let (mut top, mut shapes) = (Map::new(), Map::new());
    for (shape, compared) in compared {
        let value = serde_json::to_value(compared)?;
        if shape == HEADLINE
            && let Value::Object(fields) = &value
        {
            top.clone_from(fields);
        }
        shapes.insert(shape.into(), value);
    }
    top.insert("headline_shape".into(), json!(HEADLINE));
    top.insert("shapes".into(), shapes.into());
    Ok(top.into())
}

fn train(options: &Options, machine: &Machine) -> anyhow::Result<Value> {
    let python = peer::python(options.python.as_deref());
    let mut found = Vec::new();
    for work in TrainWork::all()? {
        let folder = exchange("train", work.shape)?;
        let mut peer = start(python.as_deref(), &folder, |folder| work.write(folder))?;
        let mut ours = ours::OurTrain::new(&work, options.threads)?;
        let mine = ours.first()?;
        let agreement = peer.is_some().then(|| agree::train(&folder, &mine));
        let agreement = agreement.transpose()?;
        let other = peer.as_mut().map(|p| p as &mut dyn Side);
        let (a, b) = alternate(&mut ours, other, work.n_tokens(), options.repeats)?;
        let mut compared = Compared::new(a, b, agreement);
        let flops = flops::of_update(&work);
        let peer_peak = peer.as_ref().map(|p| p.gemm_gflops);
        compared.shares = Some(flops::Shares::new(
            flops,
            &work,
            &compared.ours,
            machine,
            peer_peak,
        ));
        compared.print("update", &work.to_string());
        found.push((work.shape, compared));
    }
    by_shape(found)
}

fn sample(options: &Options) -> anyhow::Result<Value> {
    let python = peer::python(options.python.as_deref());
    let mut found = Vec::new();
    for work in SampleWork::all()? {
        let folder = exchange("sample", work.shape)?;
        let mut peer = start(python.as_deref(), &folder, |folder| work.write(folder))?;
        let mut ours = ours::OurSample::new(&work, options.threads)?;
        let agreement = peer.is_some().then(|| agree::sample(&folder, &work));
        let agreement = agreement.transpose()?;
        let other = peer.as_mut().map(|p| p as &mut dyn Side);
        let (a, b) = alternate(&mut ours, other, work.n_drawn(), options.repeats)?;
        let compared = Compared::new(a, b, agreement);
        compared.print("sampling", &work.to_string());
        found.push((work.shape, compared));
    }
    by_shape(found)
}

/// The twin at work in `folder`, if there is a Python for it.
fn start(
    python: Option<&Path>,
    folder: &Path,
    write: impl FnOnce(&Path) -> anyhow::Result<()>,
) -> anyhow::Result<Option<Peer>> {
    write(folder)?;
    python.map(|python| Peer::start(python, folder)).transpose()
}

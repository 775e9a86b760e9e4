//! The twin in JAX: where its Python comes from, and a child process that answers line by line.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context as _, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::measure::{Side, Spent};
use crate::{say, tidy};

/// What the twin is installed with.
const PACKAGES: [&str; 3] = ["jax==0.10.2", "jaxlib==0.10.2", "numpy==2.4.6"];

/// A Python that can run the twin: the given one, or one under `target/` that is made at first. `None`, with a
/// warning, if none can be had, for instance without a network.
pub(super) fn python(given: Option<&Path>) -> Option<PathBuf> {
    let python = match given {
        Some(python) => Ok(python.to_owned()),
        None => installed(),
    };
    let checked = python.and_then(|python| {
        run(Command::new(&python).args(["-c", "import jax, numpy"]))?;
        Ok(python)
    });
    match checked {
        Ok(python) => Some(python),
        Err(error) => {
            say::warn(format_args!(
                "no twin in JAX ({error:#}): this side is measured alone; --python FILE names a Python \
                 with {}",
                PACKAGES.join(", ")
            ));
            None
        }
    }
}

/// The Python of `target/bench-venv`, which is made if it is not there.
fn installed() -> anyhow::Result<PathBuf> {
    let folder = tidy::workspace_root().join("target/bench-venv");
    let python = folder.join("bin/python");
    let is_there = || run(Command::new(&python).args(["-c", "import jax, numpy"])).is_ok();
    if !is_there() {
        say::note("bench: installing the twin's packages under target/bench-venv");
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        let mut pip = Command::new(&python);
        run(pip.args(["-m", "pip", "install", "--quiet"]).args(PACKAGES))?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let shown = format!("{command:?}");
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("starting {shown}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    let last = said.lines().last().unwrap_or_default();
    ensure!(done.status.success(), "{shown}: {last}");
    Ok(())
}

/// The twin, compiled and warm.
pub(super) struct Peer {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    /// What its own large square product reaches, GFLOP/s.
    pub(super) gemm_gflops: f64,
}

/// The twin's first line.
#[derive(Deserialize)]
struct First {
    gemm_gflops: f64,
}

impl Peer {
    /// Starts the twin on the job in `folder` and waits until it has compiled and left its first results there.
    ///
    /// # Errors
    /// If it breaks off; what it said stands above.
    pub(super) fn start(python: &Path, folder: &Path) -> anyhow::Result<Self> {
        let script = tidy::workspace_root().join("bench/peers/jax_twin.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("starting the twin")?;
        let input = child.stdin.take();
        let output = child.stdout.take().context("the twin has no output")?;
        let mut peer = Self {
            child,
            input,
            output: BufReader::new(output),
            gemm_gflops: 0.0,
        };
        peer.gemm_gflops = peer.answer::<First>()?.gemm_gflops;
        Ok(peer)
    }

    fn answer<T: DeserializeOwned>(&mut self) -> anyhow::Result<T> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the twin broke off");
        serde_json::from_str(&line).with_context(|| format!("the twin answered: {}", line.trim()))
    }
}

impl Side for Peer {
    fn go(&mut self, n: usize) -> anyhow::Result<Spent> {
        let input = self.input.as_mut().context("the twin has no input")?;
        writeln!(input, "go {n}").context("asking the twin")?;
        self.answer()
    }
}

impl Drop for Peer {
    /// The end of its input ends the twin.
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

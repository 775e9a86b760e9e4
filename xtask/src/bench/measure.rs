//! Timed windows in turns, and what is read from them.

use std::fmt;
use std::time::Instant;

use serde::Serialize;

/// Seconds that a window aims at: long enough for the kernel's clock of CPU time (10 ms).
const WINDOW_S: f64 = 1.0;

/// What a window took.
#[derive(Debug, Clone, Copy, serde::Deserialize)]
pub(super) struct Spent {
    pub(super) wall_s: f64,
    pub(super) cpu_s: f64,
}

/// One of those who are compared.
pub(super) trait Side {
    /// Does the work `n` times.
    ///
    /// # Errors
    /// If it cannot.
    fn go(&mut self, n: usize) -> anyhow::Result<Spent>;
}

/// Rates of one side over its windows.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Rates {
    /// Tokens a second by the wall clock, median.
    pub(super) tok_s: f64,
    /// Tokens per CPU-second, median.
    pub(super) tok_cpu_s: f64,
    /// Lowest and highest of `tok_cpu_s`.
    spread_cpu: [f64; 2],
    /// Lowest and highest of `tok_s`.
    spread: [f64; 2],
}

impl fmt::Display for Rates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [low, high] = self.spread_cpu;
        write!(
            f,
            "{:>7.0} tokens/CPU-s [{low:.0}, {high:.0}], {:.0} tokens/s",
            self.tok_cpu_s, self.tok_s
        )
    }
}

impl Rates {
    fn new(n_tokens: usize, windows: &[(usize, Spent)]) -> Self {
        let of = |seconds: fn(&Spent) -> f64| {
            let rate = |(n, spent): &(usize, Spent)| (n * n_tokens) as f64 / seconds(spent);
            sorted(windows.iter().map(rate).collect())
        };
        let (wall, cpu) = (of(|s| s.wall_s), of(|s| s.cpu_s));
        Self {
            tok_s: median(&wall),
            tok_cpu_s: median(&cpu),
            spread_cpu: [cpu[0], cpu[cpu.len() - 1]],
            spread: [wall[0], wall[wall.len() - 1]],
        }
    }
}

/// Times A B A B .. in windows of about a second. `n_tokens` are those of one piece of work.
///
/// # Errors
/// If a side fails.
pub(super) fn alternate(
    ours: &mut dyn Side,
    mut peer: Option<&mut dyn Side>,
    n_tokens: usize,
    repeats: usize,
) -> anyhow::Result<(Rates, Option<Rates>)> {
    let n_ours = per_window(ours)?;
    let n_peer = peer.as_mut().map(|p| per_window(*p)).transpose()?;
    let (mut a, mut b) = (Vec::new(), Vec::new());
    for _ in 0..repeats {
        a.push((n_ours, ours.go(n_ours)?));
        if let (Some(peer), Some(n)) = (&mut peer, n_peer) {
            b.push((n, peer.go(n)?));
        }
    }
    let peer = (!b.is_empty()).then(|| Rates::new(n_tokens, &b));
    Ok((Rates::new(n_tokens, &a), peer))
}

/// How often a side's work fits a window; its first go also warms it up.
fn per_window(side: &mut dyn Side) -> anyhow::Result<usize> {
    side.go(1)?;
    let once = side.go(1)?;
    let cost = once.cpu_s.max(0.01);
    Ok((WINDOW_S / cost).ceil().clamp(1.0, 1000.0) as usize)
}

/// Times a piece of this process's own work.
pub(super) fn timed(work: impl FnOnce()) -> Spent {
    let (wall, cpu) = (Instant::now(), cpu_seconds());
    work();
    let wall_s = wall.elapsed().as_secs_f64();
    let cpu_s = match (cpu, cpu_seconds()) {
        (Some(before), Some(after)) => after - before,
        _ => wall_s,
    };
    Spent { wall_s, cpu_s }
}

/// CPU seconds of this process and its threads so far, to 10 ms; `None` where there is no `/proc`.
fn cpu_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit(") ").next()?.split(' ').skip(11);
    let mut ticks = || fields.next()?.parse::<f64>().ok();
    Some((ticks()? + ticks()?) / 100.0)
}

/// The values in ascending order.
pub(super) fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// The middle of sorted values, the mean of the two middle ones if their number is even.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let n = sorted.len();
    f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2])
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the compared values are exact")]
mod tests {
    use super::*;

    #[test]
    fn rates_are_medians_of_windows() {
        let spent = |cpu_s| Spent {
            wall_s: 2.0 * cpu_s,
            cpu_s,
        };
        let windows = [(2, spent(1.0)), (2, spent(4.0)), (2, spent(2.0))];
        let rates = Rates::new(10, &windows);
        assert_eq!((rates.tok_cpu_s, rates.tok_s), (10.0, 5.0));
        assert_eq!(rates.spread_cpu, [5.0, 20.0]);
    }

    #[test]
    fn sides_take_turns() {
        struct Log<'a>(char, &'a std::cell::RefCell<String>);
        impl Side for Log<'_> {
            fn go(&mut self, n: usize) -> anyhow::Result<Spent> {
                self.1.borrow_mut().push(self.0);
                let cpu_s = 0.5 * n as f64;
                let wall_s = cpu_s;
                Ok(Spent { wall_s, cpu_s })
            }
        }
        let log = std::cell::RefCell::default();
        let mut b = Log('b', &log);
        let found = alternate(&mut Log('a', &log), Some(&mut b), 10, 2).unwrap();
        assert_eq!(found.0.tok_s, 20.0);
        assert_eq!(log.into_inner(), "aabbabab");
    }

    #[test]
    fn the_median_of_two_lies_between() {
        assert_eq!(median(&sorted(vec![3.0, 1.0])), 2.0);
    }
}

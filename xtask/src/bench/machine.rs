//! The machine's own limits, on the cores that are measured.

use std::fmt;
use std::process::Command;

use rescue_grpo::ModelConfig;
use rescue_grpo::matmul::{Mat, MatMut};
use serde::Serialize;

use super::measure::{median, sorted, timed};

/// Rows of the projections' products: tokens of a micro-batch.
const N_ROWS: usize = 1024;
/// Values of each array that bandwidth is measured with: 64 MiB.
const N_STREAM: usize = 16 << 20;

/// What the machine can do.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    /// Name of the processor.
    processor: String,
    /// The cores that were used, as `taskset` writes them; absent if nothing could be pinned.
    cores: Option<String>,
    /// GFLOP per CPU-second of one thread in a square f32 product of 1024, by the `gemm` crate as this build has it.
    pub(super) gemm_gflops: f64,
    /// GB per CPU-second of one thread in `a = b + s c`, read and written bytes; arrays of 64 MiB, which a large last
    /// cache may hold.
    triad_gb_s: f64,
    /// One-minute load average of the whole machine at the start.
    load: Option<f64>,
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}; cores {}; load {:.1}; product {:.0} GFLOP/s, triad {:.1} GB/s a thread",
            self.processor,
            self.cores.as_deref().unwrap_or("not pinned"),
            self.load.unwrap_or(f64::NAN),
            self.gemm_gflops,
            self.triad_gb_s
        )
    }
}

/// Keeps this process, and those that it starts, on the last `n` of its cores; the first ones serve interrupts.
/// `None` where `taskset` is missing.
pub(super) fn pin(n: usize) -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let allowed = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))?;
    let cores = cores(allowed.trim())?;
    let used = &cores[cores.len().saturating_sub(n)..];
    let names: Vec<String> = used.iter().map(ToString::to_string).collect();
    let list = names.join(",");
    let process = std::process::id().to_string();
    let mut taskset = Command::new("taskset");
    let done = taskset.args(["-a", "-c", "-p", &list, &process]).output();
    done.ok()?.status.success().then_some(list)
}

/// `0-2,5` as numbers.
fn cores(list: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for range in list.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        cores.extend(low.parse::<usize>().ok()?..=high.parse().ok()?);
    }
    Some(cores)
}

impl Machine {
    /// Measures it.
    pub(super) fn measure(cores: Option<String>) -> Self {
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = info.lines().find_map(|l| l.strip_prefix("model name"));
        let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
        Self {
            processor: name
                .map_or("unknown", |n| n.trim_matches([' ', '\t', ':']))
                .into(),
            cores,
            gemm_gflops: product_rate(&[Product::plain(1024, 1024, 1024)]),
            triad_gb_s: triad_rate(),
            load: load.split(' ').next().and_then(|l| l.parse().ok()),
        }
    }

    /// GFLOP per CPU-second of one thread over all products of the projections, forward and backward.
    pub(super) fn projections(c: &ModelConfig) -> f64 {
        let (d, kv, ff) = (c.d_model, c.kv_dim(), c.d_ff);
        let matrices = [
            (d, d),
            (d, kv),
            (d, kv),
            (d, d),
            (d, ff),
            (d, ff),
            (ff, d),
            (d, c.vocab),
        ];
        let products: Vec<Product> = matrices
            .into_iter()
            .flat_map(|(k, n)| {
                [
                    Product::plain(N_ROWS, k, n),
                    Product {
                        is_right_turned: true,
                        ..Product::plain(N_ROWS, n, k)
                    },
                    Product {
                        is_left_turned: true,
                        ..Product::plain(k, N_ROWS, n)
                    },
                ]
            })
            .collect();
        product_rate(&products)
    }
}

/// `[m, k] x [k, n]`, either of which may lie turned in memory.
#[derive(Debug, Clone, Copy)]
struct Product {
    m: usize,
    k: usize,
    n: usize,
    is_left_turned: bool,
    is_right_turned: bool,
}

impl Product {
    const fn plain(m: usize, k: usize, n: usize) -> Self {
        Self {
            m,
            k,
            n,
            is_left_turned: false,
            is_right_turned: false,
        }
    }

    /// # Panics
    /// If a slice is not as long as its matrix.
    fn run(self, left: &[f32], right: &[f32], out: &mut [f32]) {
        let Self { m, k, n, .. } = self;
        assert_eq!((left.len(), right.len(), out.len()), (m * k, k * n, m * n));
        let mat = |data, n_rows, n_columns, is_turned| {
            if is_turned {
                Mat::new(data, n_rows).t()
            } else {
                Mat::new(data, n_columns)
            }
        };
        let left = mat(left, m, k, self.is_left_turned);
        MatMut::new(out, n).set(left, mat(right, k, n, self.is_right_turned));
    }
}

/// GFLOP per CPU-second over all products together.
fn product_rate(products: &[Product]) -> f64 {
    let (mut flop, mut seconds) = (0.0, 0.0);
    for product in products {
        let Product { m, k, n, .. } = *product;
        let (left, right) = (vec![0.5; m * k], vec![0.25; k * n]);
        let mut out = vec![0.0; m * n];
        flop += 2.0 * (m * k * n) as f64;
        seconds += cost(|| product.run(&left, &right, &mut out));
    }
    flop / seconds / 1e9
}

fn triad_rate() -> f64 {
    let (b, c) = (vec![1.0f32; N_STREAM], vec![2.0f32; N_STREAM]);
    let mut a = vec![0.0f32; N_STREAM];
    let seconds = cost(|| {
        for ((a, b), c) in a.iter_mut().zip(&b).zip(&c) {
            *a = b + 0.5 * c;
        }
        std::hint::black_box(&mut a);
    });
    (3 * 4 * N_STREAM) as f64 / seconds / 1e9
}

/// CPU seconds of one run, the median of five windows of at least a tenth of a second, after a run that warms
/// up: other people's work does not count, though what it does to caches and clock rates does.
fn cost(mut work: impl FnMut()) -> f64 {
    let mut window = |n: usize| timed(|| (0..n).for_each(|_| work())).cpu_s;
    window(1);
    let mut n = 1;
    while window(n) < 0.1 {
        n *= 2;
    }
    median(&sorted((0..5).map(|_| window(n) / n as f64).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read() {
        assert_eq!(cores("0-2,5"), Some(vec![0, 1, 2, 5]));
        assert_eq!(cores("x"), None);
    }

    #[test]
    fn products_are_those_of_three_loops() {
        for (is_left_turned, is_right_turned) in [(false, false), (true, false), (false, true)] {
            let product = Product {
                is_left_turned,
                is_right_turned,
                ..Product::plain(3, 5, 7)
            };
            let left: Vec<f32> = (0..3 * 5).map(|i| i as f32).collect();
            let right: Vec<f32> = (0..5 * 7).map(|i| (i % 4) as f32).collect();
            let mut out = vec![0.0; 3 * 7];
            product.run(&left, &right, &mut out);
            // Where an element of a matrix of that shape lies.
            let place = |[rows, columns]: [usize; 2], is_turned, row: usize, column: usize| {
                if is_turned {
                    column * rows + row
                } else {
                    row * columns + column
                }
            };
            for (at, got) in out.iter().enumerate() {
                let part = |i| {
                    left[place([3, 5], is_left_turned, at / 7, i)]
                        * right[place([5, 7], is_right_turned, i, at % 7)]
                };
                let want: f32 = (0..5).map(part).sum();
                assert!(
                    (got - want).abs() < 1e-3,
                    "{product:?} at {at}: {got}, not {want}"
                );
            }
        }
    }
}

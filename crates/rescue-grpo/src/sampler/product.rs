//! The matrix product of the decoder: four rows share one reading of the packed weights.
#![expect(
    clippy::inline_always,
    reason = "vector features reach only inlined code"
)]

use pulp::{Simd, WithSimd};

use super::kernels::{LANES, ROWS, padded};

/// Facts about a vector unit.
pub(super) struct Width<S>(std::marker::PhantomData<S>);

impl<S: Simd> Width<S> {
    /// Whether a run of [`LANES`] takes an even number of vectors, so that they can be used in pairs.
    pub(super) const IS_NARROW: bool = (LANES / S::F32_LANES).is_multiple_of(2);
}

/// A weight matrix `[k, n]` in panels of [`LANES`] columns, each `[k, LANES]`; missing columns are zero.
#[derive(Debug, Clone)]
pub(super) struct Panels {
    values: Vec<f32>,
    k: usize,
}

impl Panels {
    /// Packs columns: `at(k, n)` of `n` columns.
    pub(super) fn pack(k: usize, n: usize, at: impl Fn(usize, usize) -> f32) -> Self {
        let mut values = vec![0.0; k * padded(n)];
        for column in 0..n {
            for row in 0..k {
                let panel = column / LANES * k * LANES;
                values[panel + row * LANES + column % LANES] = at(row, column);
            }
        }
        Self { values, k }
    }

    /// Columns, padding included.
    pub(super) fn width(&self) -> usize {
        self.values.len() / self.k
    }
}

/// `y = x w`, or `y += x w`: `x` is `[n, stride_x]`, `y` is `[n, w.width()]`, `n` a multiple of [`ROWS`].
pub(super) struct Product<'a> {
    pub(super) x: &'a [f32],
    pub(super) stride_x: usize,
    pub(super) w: &'a Panels,
    pub(super) y: &'a mut [f32],
    pub(super) adds: bool,
}

impl Product<'_> {
    #[inline(always)]
    fn run<S: Simd, const W: usize>(self, simd: S) {
        let (width, k, stride) = (self.w.width(), self.w.k, self.stride_x);
        for (p, panel) in self.w.values.chunks_exact(k * LANES).enumerate() {
            let panel = S::as_simd_f32s(panel).0;
            let blocks = self.x.chunks_exact(ROWS * stride);
            for (x, y) in blocks.zip(self.y.chunks_exact_mut(ROWS * width)) {
                let rows = [0, 1, 2, 3].map(|r| &x[r * stride..][..k]);
                for j in (0..LANES / S::F32_LANES).step_by(W) {
                    let sums = cell::<S, W>(simd, rows, panel, j);
                    for (r, sums) in sums.iter().enumerate() {
                        let out = &mut y[r * width + p * LANES..][..LANES];
                        let out = &mut S::as_mut_simd_f32s(out).0[j..][..W];
                        for (o, s) in out.iter_mut().zip(sums) {
                            *o = if self.adds { simd.add_f32s(*o, *s) } else { *s };
                        }
                    }
                }
            }
        }
    }
}

/// `W` vectors from the `j`-th on of a panel for [`ROWS`] rows, summed over `k` in order.
#[inline(always)]
fn cell<S: Simd, const W: usize>(
    simd: S,
    rows: [&[f32]; ROWS],
    panel: &[S::f32s],
    j: usize,
) -> [[S::f32s; W]; ROWS] {
    let mut sums = [[simd.splat_f32s(0.0); W]; ROWS];
    let weights = panel.chunks_exact(LANES / S::F32_LANES);
    let [x0, x1, x2, x3] = rows;
    for ((((run, x0), x1), x2), x3) in weights.zip(x0).zip(x1).zip(x2).zip(x3) {
        let run = &run[j..][..W];
        for (sums, x) in sums.iter_mut().zip([x0, x1, x2, x3]) {
            let factor = simd.splat_f32s(*x);
            for (sum, weight) in sums.iter_mut().zip(run) {
                *sum = simd.add_f32s(*sum, simd.mul_f32s(factor, *weight));
            }
        }
    }
    sums
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        if Width::<S>::IS_NARROW {
            self.run::<S, 2>(simd);
        } else {
            self.run::<S, 1>(simd);
        }
    }
}

//! The matrix product of the decoder: tiles of rows and columns that stay in registers.
#![expect(
    clippy::inline_always,
    reason = "vector features reach only inlined code"
)]

use pulp::{Simd, WithSimd};

use super::aligned::Aligned;
use super::kernels::{LANES, ROWS, padded};

/// Rows of a tile where all of them are there.
const TILE: usize = 2 * ROWS;

/// Facts about a vector unit.
pub(super) struct Width<S>(std::marker::PhantomData<S>);

impl<S: Simd> Width<S> {
    /// Whether a run of [`LANES`] takes an even number of vectors, so that they can be used in pairs.
    pub(super) const IS_NARROW: bool = (LANES / S::F32_LANES).is_multiple_of(2);
}

/// A weight matrix `[k, n]` in panels of [`LANES`] columns, each `[k, LANES]`; missing columns are zero.
#[derive(Debug)]
pub(super) struct Panels {
    values: Aligned,
    k: usize,
}

impl Panels {
    /// Packs columns: `at(k, n)` of `n` columns.
    pub(super) fn pack(k: usize, n: usize, at: impl Fn(usize, usize) -> f32) -> Self {
        let mut values = Aligned::zeros(k * padded(n));
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

    /// The `i`-th panel, a run of columns for each `k`.
    #[inline(always)]
    fn panel(&self, i: usize) -> &[[f32; LANES]] {
        let runs = self.values[i * self.k * LANES..][..self.k * LANES].as_chunks();
        &runs.0[..self.k]
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
    /// Columns `panel..panel + P` in panels, `W` vectors at a time, for all rows.
    #[inline(always)]
    fn columns<S: Simd, const P: usize, const W: usize>(&mut self, simd: S, panel: usize) {
        let (stride, width) = (self.stride_x, self.w.width());
        let n = self.y.len() / width;
        let mut row = 0;
        while !Width::<S>::IS_NARROW && row + TILE <= n {
            self.tile::<S, TILE, P, W>(simd, (row, stride), (panel, width));
            row += TILE;
        }
        while row + ROWS <= n {
            self.tile::<S, ROWS, P, W>(simd, (row, stride), (panel, width));
            row += ROWS;
        }
    }

    /// `R` rows from `row` on.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const P: usize, const W: usize>(
        &mut self,
        simd: S,
        (row, stride): (usize, usize),
        (panel, width): (usize, usize),
    ) {
        let k = self.w.k;
        let mut panels = [&self.w.panel(panel)[..k]; P];
        for (p, to) in panels.iter_mut().enumerate() {
            *to = &self.w.panel(panel + p)[..k];
        }
        let mut rows = [&self.x[..0]; R];
        for (r, to) in rows.iter_mut().enumerate() {
            *to = &self.x[(row + r) * stride..][..k];
        }
        for j in (0..LANES / S::F32_LANES).step_by(W) {
            let sums = cell::<S, R, P, W>(simd, rows, panels, j);
            for (r, sums) in sums.iter().enumerate() {
                let y = &mut self.y[(row + r) * width + panel * LANES..][..P * LANES];
                if self.adds {
                    add::<S, P, W>(simd, y, j, sums);
                } else {
                    store::<S, P, W>(y, j, sums);
                }
            }
        }
    }
}

/// `W` vectors from the `j`-th on of `P` panels for `R` rows, summed over the rows' width in order. Rows and panels
/// are equally long.
#[inline(always)]
pub(super) fn cell<S: Simd, const R: usize, const P: usize, const W: usize>(
    simd: S,
    rows: [&[f32]; R],
    panels: [&[[f32; LANES]]; P],
    j: usize,
) -> [[[S::f32s; W]; P]; R] {
    let mut sums = [[[simd.splat_f32s(0.0); W]; P]; R];
    // Loops by index, since vector features do not reach into closures.
    for i in 0..rows[0].len() {
        let mut runs = [[simd.splat_f32s(0.0); W]; P];
        for (runs, panel) in runs.iter_mut().zip(&panels) {
            let from = S::as_simd_f32s(&panel[i]).0;
            for (w, run) in runs.iter_mut().enumerate() {
                *run = from[j + w];
            }
        }
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let factor = simd.splat_f32s(row[i]);
            for (sums, runs) in sums.iter_mut().zip(&runs) {
                for (sum, run) in sums.iter_mut().zip(runs) {
                    *sum = simd.mul_add_f32s(factor, *run, *sum);
                }
            }
        }
    }
    sums
}

/// Puts sums of a [`cell`]'s row into the `P` runs of `y`, from the `j`-th vector of each on.
#[inline(always)]
pub(super) fn store<S: Simd, const P: usize, const W: usize>(
    y: &mut [f32],
    j: usize,
    sums: &[[S::f32s; W]; P],
) {
    for (y, sums) in y.as_chunks_mut::<LANES>().0.iter_mut().zip(sums) {
        let y = &mut S::as_mut_simd_f32s(y).0[j..][..W];
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = *sum;
        }
    }
}

/// The same, added to what is there.
#[inline(always)]
fn add<S: Simd, const P: usize, const W: usize>(
    simd: S,
    y: &mut [f32],
    j: usize,
    sums: &[[S::f32s; W]; P],
) {
    for (y, sums) in y.as_chunks_mut::<LANES>().0.iter_mut().zip(sums) {
        let y = &mut S::as_mut_simd_f32s(y).0[j..][..W];
        for (y, sum) in y.iter_mut().zip(sums) {
            *y = simd.add_f32s(*y, *sum);
        }
    }
}

impl WithSimd for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, simd: S) {
        let n_panels = self.w.width() / LANES;
        if Width::<S>::IS_NARROW {
            (0..n_panels).for_each(|panel| self.columns::<S, 1, 2>(simd, panel));
            return;
        }
        let mut panel = 0;
        while panel < n_panels {
            // By threes, and what is left by twos rather than a three and a one.
            let n = match n_panels - panel {
                4 => 2,
                left => left.min(3),
            };
            match n {
                3 => self.columns::<S, 3, 1>(simd, panel),
                2 => self.columns::<S, 2, 1>(simd, panel),
                _ => self.columns::<S, 1, 1>(simd, panel),
            }
            panel += n;
        }
    }
}

//! Matrix products on the processor: a bounds-checked front of the `gemm` crate, one thread. It is the workspace's
//! one unsafe call.
#![expect(
    clippy::many_single_char_names,
    reason = "sizes of matrices by their usual letters"
)]
#![expect(
    unsafe_code,
    reason = "the gemm crate takes pointers; every index that it may touch is checked before the call"
)]

use gemm::Parallelism;

/// A matrix in a slice of f32: entry `(i, j)` is `data[i * row + j * column]`.
#[derive(Debug, Clone, Copy)]
pub struct Mat<'a> {
    data: &'a [f32],
    n_rows: usize,
    n_columns: usize,
    row: usize,
    column: usize,
}

/// The same, writable; rows are contiguous.
#[derive(Debug)]
pub struct MatMut<'a> {
    data: &'a mut [f32],
    n_rows: usize,
    n_columns: usize,
    row: usize,
}

/// Refuses a matrix whose last entry lies outside its slice.
fn check(len: usize, (n_rows, row): (usize, usize), (n_columns, column): (usize, usize)) {
    if n_rows > 0 && n_columns > 0 {
        let last = (n_rows - 1) * row + (n_columns - 1) * column;
        assert!(last < len, "entry {last} of a matrix in {len} values");
    }
}

impl<'a> Mat<'a> {
    /// Rows of `n_columns` values, `stride` apart.
    ///
    /// # Panics
    /// If the last entry lies outside the slice.
    pub fn strided(data: &'a [f32], n_rows: usize, n_columns: usize, stride: usize) -> Self {
        check(data.len(), (n_rows, stride), (n_columns, 1));
        Self {
            data,
            n_rows,
            n_columns,
            row: stride,
            column: 1,
        }
    }

    /// Rows of `n_columns >= 1` values after each other; as many as there are.
    ///
    /// # Panics
    /// If `n_columns` is 0.
    pub fn new(data: &'a [f32], n_columns: usize) -> Self {
        Self::strided(data, data.len() / n_columns, n_columns, n_columns)
    }

    /// The transposed matrix.
    #[must_use]
    pub fn t(self) -> Self {
        Self {
            n_rows: self.n_columns,
            n_columns: self.n_rows,
            row: self.column,
            column: self.row,
            ..self
        }
    }
}

impl<'a> MatMut<'a> {
    /// Rows of `n_columns` values, `stride` apart.
    ///
    /// # Panics
    /// If the last entry lies outside the slice, or `stride` is below `n_columns`.
    pub fn strided(data: &'a mut [f32], n_rows: usize, n_columns: usize, stride: usize) -> Self {
        check(data.len(), (n_rows, stride), (n_columns, 1));
        assert!(
            n_columns <= stride,
            "rows of a written matrix do not overlap"
        );
        Self {
            data,
            n_rows,
            n_columns,
            row: stride,
        }
    }

    /// Rows of `n_columns >= 1` values after each other; as many as there are.
    ///
    /// # Panics
    /// If `n_columns` is 0.
    pub fn new(data: &'a mut [f32], n_columns: usize) -> Self {
        let n_rows = data.len() / n_columns;
        Self::strided(data, n_rows, n_columns, n_columns)
    }

    /// `self = a b`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn set(self, a: Mat<'_>, b: Mat<'_>) {
        self.product(a, b, false);
    }

    /// `self += a b`.
    ///
    /// # Panics
    /// If the shapes do not fit.
    pub fn add(self, a: Mat<'_>, b: Mat<'_>) {
        self.product(a, b, true);
    }

    fn product(self, a: Mat<'_>, b: Mat<'_>, adds: bool) {
        let (m, n, k) = (self.n_rows, self.n_columns, a.n_columns);
        assert_eq!(
            (a.n_rows, b.n_rows, b.n_columns),
            (m, k, n),
            "shapes of a product"
        );
        // SAFETY: the constructors checked that every entry of the three matrices lies in its slice, the shapes
        // agree, the strides fit `isize` because they index slices, and `self` is borrowed exclusively.
        unsafe {
            gemm::gemm(
                m,
                n,
                k,
                self.data.as_mut_ptr(),
                1,
                self.row as isize,
                adds,
                a.data.as_ptr(),
                a.column as isize,
                a.row as isize,
                b.data.as_ptr(),
                b.column as isize,
                b.row as isize,
                1.0,
                1.0,
                false,
                false,
                false,
                Parallelism::None,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bounds-checked twin.
    fn plain(dst: &mut [f32], stride: usize, a: Mat<'_>, b: Mat<'_>, adds: bool) {
        for i in 0..a.n_rows {
            for j in 0..b.n_columns {
                let sum: f32 = (0..a.n_columns)
                    .map(|k| a.data[i * a.row + k * a.column] * b.data[k * b.row + j * b.column])
                    .sum();
                let slot = &mut dst[i * stride + j];
                *slot = if adds { *slot + sum } else { sum };
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_product_is_that_of_the_plain_loops(
            m in 1_usize..20, n in 1_usize..40, k in 1_usize..20, more in 0_usize..3,
            transposed in proptest::bool::ANY, adds in proptest::bool::ANY,
        ) {
            let values = |n: usize, seed: usize| -> Vec<f32> {
                (0..n).map(|i| ((i * 7 + seed) % 11) as f32 - 5.0).collect()
            };
            let (a, b) = (values(m * (k + more), 1), values(n * k, 2));
            let a = Mat::strided(&a, m, k, k + more);
            let b = if transposed { Mat::new(&b, k).t() } else { Mat::new(&b, n) };
            let mut got = values(m * (n + more), 3);
            let mut expected = got.clone();
            plain(&mut expected, n + more, a, b, adds);
            MatMut::strided(&mut got, m, n, n + more).product(a, b, adds);
            proptest::prop_assert_eq!(got, expected);
        }
    }

    #[test]
    #[should_panic(expected = "entry 5 of a matrix in 5 values")]
    fn a_matrix_beyond_its_slice_is_a_bug() {
        Mat::strided(&[0.0; 5], 2, 3, 3);
    }
}

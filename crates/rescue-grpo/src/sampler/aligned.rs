//! Values that begin at a cache line, so that no vector straddles two.

use std::ops::{Deref, DerefMut};

/// Values in a cache line, and the widest vector.
const LINE: usize = 16;

/// A slice of zeros at first, which begins at a multiple of 64 bytes.
#[derive(Debug)]
pub(super) struct Aligned {
    values: Vec<f32>,
    from: usize,
    len: usize,
}

impl Aligned {
    pub(super) fn zeros(len: usize) -> Self {
        let values = vec![0.0; len + LINE - 1];
        let from = values.as_ptr().align_offset(LINE * size_of::<f32>());
        // An offset that cannot be told costs speed only.
        let from = if from < LINE { from } else { 0 };
        Self { values, from, len }
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values[self.from..][..self.len]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values[self.from..][..self.len]
    }
}

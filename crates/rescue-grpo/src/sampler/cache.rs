//! Keys and values of one row.

use super::aligned::Aligned;
use super::kernels::{LANES, padded};

/// Positions that a cache has room for at first.
const FIRST_ROOM: usize = 4 * LANES;

/// Sizes of attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) hd: usize,
    pub(super) layers: usize,
}

/// Per layer and key-value head, keys `[room / LANES, hd, LANES]`, then values `[padded(hd) / LANES, room, LANES]`.
/// It grows with the row, since most rows end long before the window does.
#[derive(Debug)]
pub(super) struct Cache {
    layout: Layout,
    values: Aligned,
    /// Positions that fit; a multiple of [`LANES`].
    room: usize,
}

impl Cache {
    pub(super) fn new(layout: Layout) -> Self {
        Self {
            layout,
            values: Aligned::zeros(0),
            room: 0,
        }
    }

    /// Makes room for `n` positions and keeps the first `used` of what is there.
    pub(super) fn reserve(&mut self, n: usize, used: usize) {
        if n <= self.room {
            return;
        }
        let room = padded(n.max(2 * self.room).max(FIRST_ROOM));
        let l = self.layout;
        let len = l.layers * l.kv_heads * room * (l.hd + padded(l.hd));
        let (values, layout) = (Aligned::zeros(len), l);
        let mut grown = Self {
            layout,
            values,
            room,
        };
        grown.copy_from(self, used);
        *self = grown;
    }

    fn head_len(&self) -> usize {
        self.room * (self.layout.hd + padded(self.layout.hd))
    }

    /// Keys and values of a key-value head of a layer.
    #[inline]
    pub(super) fn head(&self, layer: usize, head: usize) -> (&[f32], &[f32]) {
        let at = layer * self.layout.kv_heads + head;
        let head = &self.values[at * self.head_len()..][..self.head_len()];
        head.split_at(self.room * self.layout.hd)
    }

    /// Stores a position's key and value of every head of a layer; both are `[kv_heads, hd]` at least.
    #[inline]
    pub(super) fn store(&mut self, layer: usize, position: usize, keys: &[f32], values: &[f32]) {
        let (l, len, room) = (self.layout, self.head_len(), self.room);
        let heads = &mut self.values[layer * l.kv_heads * len..][..l.kv_heads * len];
        let of_token = keys.chunks_exact(l.hd).zip(values.chunks_exact(l.hd));
        for (head, (key, value)) in heads.chunks_exact_mut(len).zip(of_token) {
            let (to_keys, to_values) = head.split_at_mut(room * l.hd);
            let block = &mut to_keys.as_chunks_mut::<LANES>().0[position / LANES * l.hd..][..l.hd];
            for (to, from) in block.iter_mut().zip(key) {
                to[position % LANES] = *from;
            }
            let panels = to_values.chunks_exact_mut(room * LANES);
            for (panel, value) in panels.zip(value.chunks(LANES)) {
                panel[position * LANES..][..value.len()].copy_from_slice(value);
            }
        }
    }

    /// Takes the first `n` positions of another cache, for which there must be room.
    pub(super) fn copy_from(&mut self, from: &Self, n: usize) {
        if n == 0 {
            return;
        }
        let hd = self.layout.hd;
        let n_keys = padded(n) * hd;
        let (len, room) = (self.head_len(), self.room);
        let heads = from.values.chunks_exact(from.head_len());
        for (from_head, to_head) in heads.zip(self.values.chunks_exact_mut(len)) {
            let (from_keys, from_values) = from_head.split_at(from.room * hd);
            let (to_keys, to_values) = to_head.split_at_mut(room * hd);
            to_keys[..n_keys].copy_from_slice(&from_keys[..n_keys]);
            let from_panels = from_values.chunks_exact(from.room * LANES);
            for (from, to) in from_panels.zip(to_values.chunks_exact_mut(room * LANES)) {
                to[..n * LANES].copy_from_slice(&from[..n * LANES]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout {
        heads: 2,
        kv_heads: 2,
        hd: 20,
        layers: 3,
    };

    /// What is stored at a position; the dimension counts in the fraction.
    fn value(layer: usize, position: usize, dim: usize) -> f32 {
        (100 * layer + position) as f32 + dim as f32 / 64.0
    }

    fn fill(cache: &mut Cache, positions: std::ops::Range<usize>) {
        for position in positions {
            cache.reserve(position + 1, position);
            for layer in 0..3 {
                let keys: Vec<f32> = (0..40).map(|d| value(layer, position, d)).collect();
                let values: Vec<f32> = keys.iter().map(|k| -k).collect();
                cache.store(layer, position, &keys, &values);
            }
        }
    }

    fn check(cache: &Cache, n: usize) {
        for (layer, head) in (0..3).flat_map(|l| [(l, 0), (l, 1)]) {
            let (keys, values) = cache.head(layer, head);
            for (position, dim) in (0..n).flat_map(|p| (0..20).map(move |d| (p, d))) {
                let expected = value(layer, position, head * 20 + dim);
                let key = keys[(position / LANES * 20 + dim) * LANES + position % LANES];
                let value = values[(dim / LANES * cache.room + position) * LANES + dim % LANES];
                assert_eq!((key, value), (expected, -expected));
            }
        }
    }

    #[test]
    fn a_cache_keeps_what_it_has_while_it_grows() {
        let mut cache = Cache::new(LAYOUT);
        fill(&mut cache, 0..300);
        check(&cache, 300);
        assert!(cache.room < 2 * 300 + LANES);
    }

    #[test]
    fn a_copy_is_equal_and_goes_its_own_way() {
        let (mut from, mut to) = (Cache::new(LAYOUT), Cache::new(LAYOUT));
        fill(&mut from, 0..130);
        to.reserve(131, 0);
        to.copy_from(&from, 130);
        fill(&mut to, 130..140);
        check(&to, 140);
        check(&from, 130);
    }
}

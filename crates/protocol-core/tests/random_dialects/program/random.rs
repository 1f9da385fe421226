//! Random choices that a seed determines.

/// A generator of random numbers: xorshift64.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        // Neighbouring seeds are far apart in this product, which is odd and so never 0.
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        (0..8).for_each(|_| _ = random.below(2));
        random
    }

    /// Returns a number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % bound as u64) as usize
    }

    /// Returns true once in `times`, on average.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// Returns one of `from`, which is not empty.
    pub(super) fn one_of<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Returns one of the latest in `from`, or any of them now and then.
    pub(super) fn recent<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        let oldest = if self.once_in(4) { 0 } else { from.len().saturating_sub(3) };
        let from = &from[oldest..];
        if from.is_empty() { None } else { Some(self.one_of(from)) }
    }
}

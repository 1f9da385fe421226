//! Bytes that are used up, as the choices that a target makes.

use protocol_core::Dialect;

/// Gives zeros after its end, so that cutting bytes off at the end is always legal.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()].clone()
    }

    pub(crate) fn dialect(&mut self) -> Dialect {
        self.pick(Dialect::PRESETS).clone()
    }

    /// The next bytes, fewer at the end.
    pub(crate) fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        taken
    }

    pub(crate) const fn rest(self) -> &'a [u8] {
        self.0
    }
}

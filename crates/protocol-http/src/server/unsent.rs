//! The part of a response that hyper did not take, as both ends of the response see it.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use core::task::Waker;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use protocol_async::hub::Charge;

/// The most bytes that hyper takes at a time, for it keeps what it took however slowly the client reads.
pub(super) const FRAME: usize = 64 << 10;
/// The bytes that a piece counts beside its own.
const PIECE: usize = size_of::<Piece>() + 3 * size_of::<Bytes>();

/// The state of a response.
#[derive(Debug, Default)]
pub(super) struct Unsent {
    pieces: VecDeque<Bytes>,
    /// The sum of the lengths of all pieces.
    pub(super) bytes: usize,
    /// The number of bytes that hyper took.
    pub(super) taken: u64,
    pub(super) is_ended: bool,
    pub(super) is_broken: bool,
    /// The bytes that the client had read when the connection last looked, if the response waited for it.
    pub(super) looked: Option<u64>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
}

/// A part of a body. hyper drops it when it is written.
struct Piece {
    bytes: Vec<u8>,
    _charge: Charge,
}

/// Makes a piece that is charged until hyper drops it. The charge may wake others, so no lock is held here.
pub(super) fn piece(bytes: Vec<u8>, mut charge: Charge) -> Bytes {
    charge.set(bytes.capacity() + PIECE);
    Bytes::from_owner(Piece { bytes, _charge: charge })
}

impl Unsent {
    pub(super) fn push(&mut self, piece: Bytes) {
        self.bytes += piece.len();
        self.pieces.extend((!piece.is_empty()).then_some(piece));
    }

    /// Takes a piece out, or a part of one that is long.
    pub(super) fn pop(&mut self) -> Option<Bytes> {
        let mut piece = self.pieces.pop_front()?;
        if piece.len() > FRAME {
            self.pieces.push_front(piece.split_off(FRAME));
        }
        self.bytes -= piece.len();
        self.taken += piece.len() as u64;
        Some(piece)
    }

    /// Returns the bytes of the pieces, with those of their places.
    pub(super) fn waiting(&self) -> usize {
        self.bytes + self.pieces.len() * PIECE
    }

    /// Returns whether nothing more can be sent before the client has read something.
    pub(super) fn waits_for_client(&self, most: usize) -> bool {
        self.is_ended || self.is_broken || self.waiting() > most
    }

    /// Returns whether hyper has all of it.
    pub(super) fn is_taken(&self) -> bool {
        self.is_ended && !self.is_broken && self.pieces.is_empty()
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Locks a value of this module, or one that is kept in the same way.
pub(super) fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Breaks a response off. What is unsent is dropped without the lock, and both ends are woken.
pub(super) fn break_off(response: &Mutex<Unsent>) {
    let mut it = lock(response);
    (it.is_broken, it.bytes) = (true, 0);
    let _unsent = mem::take(&mut it.pieces);
    let ends = [it.reader.take(), it.writer.take()];
    drop(it);
    ends.into_iter().flatten().for_each(Waker::wake);
}

//! Answers that wait for room in the outbox.

use std::collections::VecDeque;

use protocol_core::{Reply, RequestHandle};

use crate::failure::Answer;

/// Room for so many is kept when there are none.
const KEPT: usize = 64;

/// A queue bounded in bytes, at most one answer for each request in flight. An answer that does not fit
/// is replaced by a refusal, which takes no more than its place in the queue: memory is at most the
/// limit and [`Limits::requests`](protocol_core::Limits::requests) places (G8).
#[derive(Debug)]
pub(super) struct WaitingAnswers {
    queue: VecDeque<(RequestHandle, Waiting)>,
    bytes: usize,
    limit: usize,
    /// Whether an answer did not fit, and none has left since.
    is_full: bool,
}

/// What a request is to be answered with.
#[derive(Debug)]
pub(super) enum Waiting {
    Answer(Answer),
    Refusal(Refused),
}

/// Why we answer a request ourselves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Refused {
    pub(super) code: i64,
    pub(super) message: &'static str,
}

impl WaitingAnswers {
    pub(super) const fn new(limit: usize) -> Self {
        Self { queue: VecDeque::new(), bytes: 0, limit, is_full: false }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether more requests are not to be served: their answers would not fit either.
    pub(super) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Takes an answer of so many bytes if it fits, else what is to be said in its place.
    pub(super) fn push(
        &mut self,
        request: RequestHandle,
        len: usize,
        answer: impl FnOnce() -> Answer,
        otherwise: Refused,
    ) {
        let waiting = if self.bytes + len <= self.limit {
            self.bytes += len;
            Waiting::Answer(answer())
        } else {
            self.is_full = true;
            Waiting::Refusal(otherwise)
        };
        self.queue.push_back((request, waiting));
    }

    pub(super) fn push_refusal(&mut self, request: RequestHandle, refused: Refused) {
        self.queue.push_back((request, Waiting::Refusal(refused)));
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<(RequestHandle, Waiting)> {
        let (request, waiting) = self.queue.pop_front()?;
        self.bytes -= waiting.len();
        Some((request, waiting))
    }

    /// Gives back what was popped and had no room.
    pub(super) fn put_back(&mut self, request: RequestHandle, waiting: Waiting) {
        self.bytes += waiting.len();
        self.queue.push_front((request, waiting));
    }

    /// One has left.
    pub(super) fn made_room(&mut self) {
        self.is_full = false;
        if self.queue.is_empty() {
            self.queue.shrink_to(KEPT);
        }
    }
}

impl Waiting {
    pub(super) fn as_reply(&self) -> Reply<'_> {
        match self {
            Self::Answer(answer) => as_reply(answer),
            Self::Refusal(refused) => refused.as_reply(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Answer(answer) => len(answer),
            Self::Refusal(_) => 0,
        }
    }
}

impl Refused {
    pub(super) const fn as_reply(&self) -> Reply<'static> {
        Reply::Error { code: self.code, message: self.message, data: None }
    }
}

pub(super) fn as_reply(answer: &Answer) -> Reply<'_> {
    match answer {
        Ok(result) => Reply::Result(result),
        Err(failure) => failure.as_reply(),
    }
}

/// The bytes that an answer holds.
pub(super) fn len(answer: &Answer) -> usize {
    match as_reply(answer) {
        Reply::Result(result) => result.get().len(),
        Reply::Error { message, data, .. } => {
            message.len() + data.map_or(0, |data| data.get().len())
        }
        _ => 0,
    }
}

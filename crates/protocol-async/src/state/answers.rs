//! Answers that wait for room in the outbox.

use std::borrow::Cow;
use std::collections::VecDeque;

use protocol_core::{RequestHandle, Response};
use serde_json::value::RawValue;

use crate::failure::{Answer, Failure};

/// Room for so many is kept when there are none.
const KEPT: usize = 64;

/// What a request is to be answered with.
#[derive(Debug)]
pub(crate) enum Given<'a> {
    /// Copied only if it has to wait.
    Result(Cow<'a, RawValue>),
    Failure(Failure),
    /// An error of our own.
    Refusal {
        code: i64,
        message: &'static str,
    },
}

/// A queue bounded in bytes, at most one answer for each request in flight. An answer that does not fit
/// is replaced by a refusal, which takes no more than its place in the queue: memory is at most the
/// limit and [`Limits::requests`](protocol_core::Limits::requests) places (G8).
#[derive(Debug)]
pub(crate) struct WaitingAnswers {
    queue: VecDeque<(RequestHandle, Given<'static>)>,
    bytes: usize,
    limit: usize,
    /// Whether an answer did not fit, and none has left since.
    is_full: bool,
}

impl WaitingAnswers {
    /// The bytes of a place.
    pub(crate) const ROW: usize = size_of::<(RequestHandle, Given<'static>)>();

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

    /// Takes an answer if it fits, else what is to be said in its place.
    pub(super) fn push(
        &mut self,
        request: RequestHandle,
        given: Given<'_>,
        otherwise: Given<'static>,
    ) {
        let fits = self.bytes + given.len() <= self.limit;
        let given = if fits { given.into_owned() } else { otherwise };
        self.is_full |= !fits;
        self.bytes += given.len();
        self.queue.push_back((request, given));
    }

    /// Takes the oldest.
    pub(super) fn pop(&mut self) -> Option<(RequestHandle, Given<'static>)> {
        let (request, given) = self.queue.pop_front()?;
        self.bytes -= given.len();
        Some((request, given))
    }

    /// Gives back what was popped and had no room.
    pub(super) fn put_back(&mut self, request: RequestHandle, given: Given<'static>) {
        self.bytes += given.len();
        self.queue.push_front((request, given));
    }

    /// One has left.
    pub(super) fn made_room(&mut self) {
        self.is_full = false;
        if self.queue.is_empty() {
            self.queue.shrink_to(KEPT);
        }
    }
}

impl Given<'_> {
    pub(super) fn as_reply(&self) -> Response<'_> {
        match self {
            Self::Result(result) => Response::Result(result),
            Self::Failure(failure) => failure.as_reply(),
            Self::Refusal { code, message } => Response::Error { code: *code, message, data: None },
        }
    }

    /// The bytes that it holds.
    fn len(&self) -> usize {
        match self {
            Self::Result(result) => result.get().len(),
            Self::Failure(failure) => match failure.as_reply() {
                Response::Error { message, data, .. } => {
                    message.len() + data.map_or(0, |data| data.get().len())
                }
                _ => 0,
            },
            Self::Refusal { .. } => 0,
        }
    }

    fn into_owned(self) -> Given<'static> {
        match self {
            Self::Result(result) => Given::Result(Cow::Owned(result.into_owned())),
            // Why is for the host alone, and may quote all that the peer said.
            Self::Failure(failure) => Given::Failure(failure.without_reason()),
            Self::Refusal { code, message } => Given::Refusal { code, message },
        }
    }
}

impl From<Answer> for Given<'_> {
    fn from(answer: Answer) -> Self {
        match answer {
            Ok(result) => Self::Result(Cow::Owned(result)),
            Err(failure) => Self::Failure(failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::to_raw_value;

    use super::*;
    use crate::answer::RpcError;

    #[test]
    fn f31_all_that_an_answer_says_counts() {
        let data = to_raw_value(&"x".repeat(98)).unwrap();
        let error = RpcError { data: Some(data.clone()), ..RpcError::new(-1, "no") };
        assert_eq!(Given::Failure(Failure::Error(error)).len(), 2 + 100);
        assert_eq!(Given::Result(Cow::Owned(data)).len(), 100);
    }
}

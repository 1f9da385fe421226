//! Responses that wait for room in the outbox.

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::VecDeque;

use protocol_core::{RequestHandle, Response};
use serde_json::value::RawValue;

use crate::error::RpcError;

/// The number of responses for which an empty queue keeps room.
const KEPT: usize = 64;
/// The message to a request whose response would not fit.
pub(crate) const TOO_MUCH_WAITS: &str =
    "The request was refused: too many responses wait to be read";

/// A response that waits for room.
#[derive(Debug)]
pub(crate) enum Kept {
    Result(Box<RawValue>),
    Error(RpcError),
    ErrorRaw(Box<RawValue>),
    Cancelled,
    /// The dialect's overload code, in place of a response that did not fit.
    Refusal(i64),
}

/// A queue bounded in bytes, with at most one response for each request in flight.
///
/// A response that does not fit is replaced by a refusal, which takes no more than its place in the queue.
/// So memory is at most the limit and [`Limits::requests`](protocol_core::Limits::requests) places (G8).
#[derive(Debug)]
pub(crate) struct WaitingResponses {
    queue: VecDeque<(RequestHandle, Kept)>,
    bytes: usize,
    limit: usize,
    /// Whether a response did not fit, and none has left since.
    is_full: bool,
}

impl WaitingResponses {
    /// The bytes of one place in the queue.
    pub(crate) const ROW: usize = size_of::<(RequestHandle, Kept)>();

    pub(crate) const fn new(limit: usize) -> Self {
        Self { queue: VecDeque::new(), bytes: 0, limit, is_full: false }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of requests whose response waits.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the bytes that are held.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether more requests are not to be served, because their responses would not fit either.
    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Keeps a response if it fits, else an error with the dialect's overload code.
    pub(crate) fn push(&mut self, request: RequestHandle, response: Response<'_>, overload: i64) {
        let bytes = bytes(&response);
        let fits = self.bytes + bytes <= self.limit;
        let kept = if fits { kept(response) } else { Kept::Refusal(overload) };
        self.is_full |= !fits;
        self.bytes += kept.bytes();
        self.queue.push_back((request, kept));
    }

    /// Takes the oldest response.
    pub(crate) fn pop(&mut self) -> Option<(RequestHandle, Kept)> {
        let (request, kept) = self.queue.pop_front()?;
        self.bytes -= kept.bytes();
        Some((request, kept))
    }

    /// Puts back a response that was popped and had no room.
    pub(crate) fn put_back(&mut self, request: RequestHandle, kept: Kept) {
        self.bytes += kept.bytes();
        self.queue.push_front((request, kept));
    }

    /// Notes that a response has left.
    pub(crate) fn made_room(&mut self) {
        self.is_full = false;
        if self.queue.is_empty() {
            self.queue.shrink_to(KEPT);
        }
    }
}

impl Kept {
    pub(crate) fn as_response(&self) -> Response<'_> {
        match self {
            Self::Result(result) => Response::Result(result),
            Self::Error(error) => error.as_response(),
            Self::ErrorRaw(error) => Response::ErrorRaw(error),
            Self::Cancelled => Response::Cancelled,
            Self::Refusal(overload) => {
                Response::Error { code: *overload, message: TOO_MUCH_WAITS, data: None }
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Refusal(_) => 0,
            kept => bytes(&kept.as_response()),
        }
    }
}

fn kept(response: Response<'_>) -> Kept {
    match response {
        Response::Result(result) => Kept::Result(result.to_owned()),
        Response::Error { code, message, data } => {
            let (message, data) = (message.to_owned(), data.map(RawValue::to_owned));
            Kept::Error(RpcError { code, message, data })
        }
        Response::ErrorRaw(error) => Kept::ErrorRaw(error.to_owned()),
        _ => Kept::Cancelled,
    }
}

/// Returns the bytes that a response holds.
fn bytes(response: &Response<'_>) -> usize {
    match response {
        Response::Result(json) | Response::ErrorRaw(json) => json.get().len(),
        Response::Error { message, data, .. } => {
            message.len() + data.map_or(0, |data| data.get().len())
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {

    use serde_json::value::to_raw_value;

    use super::*;

    #[test]
    fn f31_everything_that_a_response_holds_counts() {
        let data = to_raw_value(&"x".repeat(98)).unwrap();
        let error = RpcError { data: Some(data.clone()), ..RpcError::new(-1, "no") };
        assert_eq!(bytes(&error.as_response()), 2 + 100);
        assert_eq!(bytes(&Response::Result(&data)), 100);
    }
}

//! A client without an endpoint, whose host writes the messages and chooses their ids.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};

use protocol_core::WireId;
use tokio::sync::mpsc::channel;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::exchange::{HEAD_TIME, Message};
use super::options::{ClientOptions, Target};
use super::wire::{Said, Task, Wire};
use crate::client::{ClientSession, Lane};

/// An input of [`carry`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Carried {
    /// Posts a message.
    Message(Vec<u8>),
    /// Closes the response streams of the requests with this id, if there are any. It is a cancel in MCP 2026-07-28, and a
    /// lost connection before.
    Loss(WireId),
}

/// Carries messages to a server of MCP and back, as they are. It is for tests of servers: ids may be used
/// twice.
///
/// One input follows the other. A request has to have left first; if the server opens streams in a session, the head of its
/// stream has to have come. A notification waits 50 ms for the head of the request before it. The next input waits until a
/// notification or a response is taken, and until the session is open. A message that the revision has no place for is not
/// posted, and there are no `Mcp-Param-` headers. The session ends with the inputs, and `carry` ends with it.
///
/// `carry` polls `next` for each input, and drops that wait when something else comes first. So `next` itself keeps an input
/// that is half read. `None` ends the inputs.
pub async fn carry(
    target: Target,
    options: ClientOptions,
    mut next: impl FnMut(&mut Context<'_>) -> Poll<Option<Carried>>,
    mut receive: impl AsyncFnMut(Vec<u8>),
) {
    // Nothing overtakes a message that was read.
    let (messages, mut reports) = channel(1);
    let mut carrier = Carrier {
        session: ClientSession::new(options.rules),
        wire: Wire::new(target, options, messages.clone(), messages),
        open: BTreeMap::new(),
        last: 0,
        awaited: None,
        has_heads: false,
        unheard: None,
    };
    loop {
        tokio::select! {
            biased;
            Some((number, said)) = reports.recv() => {
                if matches!(said, Said::SessionGone) {
                    return;
                }
                if let Some(message) = carrier.take(number, said) {
                    receive(message).await;
                }
            },
            Some(number) = carrier.left() => {
                (carrier.awaited, carrier.unheard) = (None, Some(number));
            }
            input = poll_fn(&mut next), if carrier.awaited.is_none() => match input {
                Some(Carried::Message(message)) => carrier.send(message),
                Some(Carried::Loss(id)) => {
                    carrier.open.retain(|_, (request, _)| request.as_ref() != Some(&id));
                }
                None => break,
            },
        }
    }
    carrier.open.clear();
    carrier.wire.leave(&carrier.session).await;
}

struct Carrier {
    session: ClientSession,
    wire: Arc<Wire>,
    /// The exchanges that are not over, with the request that was posted in each.
    open: BTreeMap<u64, (Option<WireId>, Task)>,
    last: u64,
    /// The message that the next one waits for, and its place. The end of this channel is dropped once it has left.
    awaited: Option<(u64, Lane, oneshot::Receiver<()>)>,
    /// Whether the server has begun a stream in the session. Its head says that the server has read the request.
    has_heads: bool,
    /// The last request that has left, until the head of its response comes.
    unheard: Option<u64>,
}

impl Carrier {
    fn send(&mut self, message: Vec<u8>) {
        let Some(out) = self.session.post(&message) else { return };
        let unheard = self.unheard.take_if(|_| out.request.is_none());
        let after = unheard.map(|_| Instant::now() + HEAD_TIME);
        let (leaving, left) = oneshot::channel();
        let (lane, bytes) = (out.lane, message.into());
        let message = Message { out, bytes, _charge: None, leaving: Some(leaving), after };
        let number = self.begin(Some(message));
        self.awaited = Some((number, lane, left));
    }

    /// Posts a message, or asks for the stream of the session.
    fn begin(&mut self, post: Option<Message>) -> u64 {
        self.last += 1;
        let request = post.as_ref().and_then(|it| it.out.request.clone());
        let task = self.wire.begin(self.last, &self.session, None, post);
        self.open.insert(self.last, (request, task));
        self.last
    }

    /// Waits until the message that is awaited has left, and returns its number if that is enough.
    async fn left(&mut self) -> Option<u64> {
        let awaited = self.awaited.as_mut();
        let (number, _, left) = awaited.filter(|it| it.1 == Lane::Free && !self.has_heads)?;
        // Nothing is sent.
        let _ = left.await;
        Some(*number)
    }

    /// Takes a report, and returns the message in it.
    fn take(&mut self, number: u64, said: Said) -> Option<Vec<u8>> {
        let lane = self.awaited.as_ref().filter(|it| it.0 == number).map(|it| it.1);
        let opens = lane == Some(Lane::First);
        match said {
            Said::Message(message, id) => {
                if !opens || self.session.opened(id.as_deref(), &message) {
                    self.heard(number);
                }
                return Some(message);
            }
            Said::Taken => {
                self.has_heads = self.session.rules().has_sessions;
                if !opens {
                    self.heard(number);
                }
            }
            Said::Over(_) => {
                self.open.remove(&number);
                self.heard(number);
                if lane == Some(Lane::Last) && self.session.rules().has_sessions {
                    self.begin(None);
                }
            }
            Said::Parting | Said::SessionGone => {}
        }
        None
    }

    /// Goes on if this was awaited.
    fn heard(&mut self, number: u64) {
        self.unheard.take_if(|it| *it == number);
        self.awaited.take_if(|(awaited, ..)| *awaited == number);
    }
}

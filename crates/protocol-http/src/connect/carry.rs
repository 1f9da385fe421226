//! A client without an endpoint, whose host writes the messages and chooses their ids.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use protocol_core::WireId;
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;
use tokio::time::sleep;

use super::exchange::{Message, Report, Said, Wire};
use super::options::ClientOptions;
use super::target::Target;
use super::tasks::{Task, Tasks};
use crate::client::{ClientSession, Lane};

/// The time that a server has for the head of its response before a notification follows the request. Over another
/// connection that could come first.
const HEAD_TIME: Duration = Duration::from_millis(50);

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
/// Inputs are posted side by side, each once the one before has left. If the server responds with streams in a session, the
/// next input waits for their head instead. A notification gives the head of the request before it 50 ms. A notification or a
/// response is taken first, and the session opened. A message that the revision has no place for is not posted, and there are
/// no `Mcp-Param-` headers. The session ends with the inputs, and `carry` ends with it.
pub async fn carry(
    target: Target,
    options: ClientOptions,
    mut inputs: Receiver<Carried>,
    mut receive: impl AsyncFnMut(Vec<u8>),
) {
    let session = ClientSession::with(options.rules);
    let (mut tasks, mut reports, _) = Tasks::new(Wire::new(target, options));
    // Nothing overtakes a message that was read.
    tasks.reports.heads = tasks.reports.messages.clone();
    let mut carrier = Carrier {
        session,
        tasks,
        open: BTreeMap::new(),
        own: BTreeMap::new(),
        last: 0,
        awaited: None,
        has_heads: false,
        unheard: None,
    };
    loop {
        tokio::select! {
            biased;
            Some(Report { number, said }) = reports.recv() => match said {
                Said::Message(message, id) => {
                    let opens = carrier.awaited.as_ref().is_some_and(|it| it.opens(number));
                    let is_over = opens && carrier.session.opened(id.as_deref(), &message);
                    carrier.heard(number, is_over);
                    receive(message).await;
                }
                Said::Taken => carrier.began(number),
                // A server without a stream of its own may say so with the status of an unknown session.
                Said::SessionGone { .. } if !carrier.own.contains_key(&number) => return,
                _ => carrier.over(number),
            },
            Some(number) = carrier.left() => {
                (carrier.awaited, carrier.unheard) = (None, Some(number));
            }
            input = inputs.recv(), if carrier.awaited.is_none() => match input {
                Some(Carried::Message(message)) => carrier.send(message).await,
                Some(Carried::Loss(id)) => {
                    carrier.open.retain(|_, (request, _)| request.as_ref() != Some(&id));
                }
                None => break,
            },
        }
    }
    carrier.tasks.running.shutdown().await;
    carrier.tasks.wire.leave(&carrier.session).await;
}

struct Carrier {
    session: ClientSession,
    tasks: Tasks,
    /// The exchanges that are not over, with the ids of requests.
    open: BTreeMap<u64, (Option<WireId>, Task)>,
    /// The streams of the session itself. Each message that ends its opening begins one.
    own: BTreeMap<u64, Task>,
    last: u64,
    /// The message that the next one waits for.
    awaited: Option<Awaited>,
    /// Whether the server has begun a stream in the session. Its head says that the server has read the request.
    has_heads: bool,
    /// The last request that has left, until the head of its response comes.
    unheard: Option<u64>,
}

struct Awaited {
    number: u64,
    lane: Lane,
    /// Notified once it has left.
    left: Arc<Notify>,
}

impl Carrier {
    async fn send(&mut self, message: Vec<u8>) {
        let Some(out) = self.session.post(&message) else { return };
        let (lane, request) = (out.lane, out.request.clone());
        let left = Arc::<Notify>::default();
        let message = Message { bytes: message, charge: None, left: Some(left.clone()) };
        if request.is_none() && self.unheard.take().is_some() {
            sleep(HEAD_TIME).await;
        }
        self.last += 1;
        let number = self.last;
        self.awaited = Some(Awaited { number, lane, left });
        let task = match request {
            Some(_) => self.tasks.exchange(number, &self.session, None, Some((out, message))),
            None => {
                self.tasks.spawn(number, self.tasks.wire.clone().post(out.headers, message, false))
            }
        };
        self.open.insert(number, (request, task));
    }

    /// Waits until the message that is awaited has left, and returns its number if that is enough.
    async fn left(&self) -> Option<u64> {
        let is_enough = |it: &&Awaited| it.lane == Lane::Free && !self.has_heads;
        let awaited = self.awaited.as_ref().filter(is_enough)?;
        awaited.left.notified().await;
        Some(awaited.number)
    }

    /// Takes the head of a stream, or that of a response to a message that has no other.
    fn began(&mut self, number: u64) {
        if !matches!(self.open.get(&number), Some((Some(_), _))) {
            return self.over(number);
        }
        self.has_heads = self.session.rules().has_sessions;
        self.heard(number, false);
    }

    /// Goes on if this was awaited. One that opens the session has to be over.
    fn heard(&mut self, number: u64, is_over: bool) -> Option<Awaited> {
        self.unheard.take_if(|it| *it == number);
        self.awaited.take_if(|it| it.number == number && (is_over || !it.opens(number)))
    }

    fn over(&mut self, number: u64) {
        while self.tasks.running.try_join_next().is_some() {}
        self.open.remove(&number);
        self.own.remove(&number);
        let is_last = self.heard(number, true).is_some_and(|it| it.lane == Lane::Last);
        if is_last && self.session.rules().has_sessions {
            self.last += 1;
            self.own.insert(self.last, self.tasks.exchange(self.last, &self.session, None, None));
        }
    }
}

impl Awaited {
    fn opens(&self, number: u64) -> bool {
        self.number == number && self.lane == Lane::First
    }
}

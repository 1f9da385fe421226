//! A client without an endpoint, whose host writes the messages and chooses their ids.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::pending;
use core::time::Duration;

use protocol_core::WireId;
use tokio::sync::Notify;
use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use super::exchange::{Message, Name, Report, Reports, Said, Stream, Wire};
use super::options::ClientOptions;
use super::target::Target;
use super::tasks::Tasks;
use crate::client::{ClientSession, Lane};

/// The messages of one read that wait to be taken.
const REPORTS: usize = 1;

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
    let wire = Arc::new(Wire::new(target, options));
    let (messages, mut reports) = channel(REPORTS);
    let heads = messages.clone();
    let mut carrier = Carrier {
        session,
        tasks: Tasks::new(wire.clone(), Reports { messages, heads }),
        wire,
        streams: BTreeMap::new(),
        last: 0,
        awaited: None,
        has_heads: false,
        unheard: None,
    };
    loop {
        let left = carrier.left();
        tokio::select! {
            biased;
            Some(Report { name, said }) = reports.recv() => match said {
                // A server without a stream of its own may say so with the status of an unknown session.
                Said::SessionGone if name != Name::Stream(Stream::Own) => return,
                Said::Message(message, session) => {
                    carrier.received(name, &message, session.as_deref());
                    receive(message).await;
                }
                Said::Listening => carrier.began(name),
                Said::Over | Said::Refused(_) | Said::Lost(_) | Said::SessionGone => carrier.over(name),
            },
            () = left => carrier.unheard = carrier.awaited.take().map(|it| it.name),
            input = inputs.recv(), if carrier.awaited.is_none() => match input {
                Some(Carried::Message(message)) => carrier.send(message).await,
                Some(Carried::Loss(id)) => carrier.close(&id),
                None => break,
            },
        }
    }
    carrier.tasks.running.shutdown().await;
    carrier.wire.leave(&carrier.session).await;
}

struct Carrier {
    session: ClientSession,
    wire: Arc<Wire>,
    tasks: Tasks,
    /// The response streams that are open, by the numbers of their requests.
    streams: BTreeMap<u32, (WireId, AbortHandle)>,
    last: u32,
    /// The message that the next one waits for.
    awaited: Option<Awaited>,
    /// Whether the server has begun a stream in the session. Its head says that the server has read the request.
    has_heads: bool,
    /// The last request that has left, until the head of its response comes.
    unheard: Option<Name>,
}

struct Awaited {
    name: Name,
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
        let Some(id) = request else {
            if self.unheard.take().is_some() {
                sleep(HEAD_TIME).await;
            }
            let name = Name::InOrder(0);
            self.awaited = Some(Awaited { name, lane, left });
            self.tasks.spawn(name, self.wire.clone().post(out.headers, message, false));
            return;
        };
        self.last += 1;
        let name = Name::Carried(self.last);
        self.awaited = Some(Awaited { name, lane, left });
        let task = self.tasks.exchange(name, &self.session, None, Some((out, message)));
        self.streams.insert(self.last, (id, task));
    }

    fn close(&mut self, id: &WireId) {
        self.streams.retain(|_, (request, task)| {
            let is_named = request == id;
            if is_named {
                task.abort();
            }
            !is_named
        });
    }

    fn received(&mut self, name: Name, message: &[u8], session: Option<&str>) {
        match &self.awaited {
            Some(Awaited { name: awaited, lane: Lane::First, .. }) if *awaited == name => {
                if self.session.opened(session, message) {
                    self.awaited = None;
                }
            }
            _ => self.took(name),
        }
    }

    /// Waits until the message that is awaited has left, if that is enough.
    fn left(&self) -> impl Future<Output = ()> + use<> {
        let is_enough = |it: &&Awaited| it.lane == Lane::Free && !self.has_heads;
        let left = self.awaited.as_ref().filter(is_enough).map(|it| it.left.clone());
        async move {
            match left {
                Some(left) => left.notified().await,
                None => pending().await,
            }
        }
    }

    /// Takes the head of a stream.
    fn began(&mut self, name: Name) {
        self.has_heads = self.session.rules().has_sessions;
        self.took(name);
    }

    /// Goes on if this was awaited, unless it opens the session: then its response is.
    fn took(&mut self, name: Name) {
        self.unheard.take_if(|it| *it == name);
        self.awaited.take_if(|awaited| awaited.name == name && awaited.lane != Lane::First);
    }

    fn over(&mut self, name: Name) {
        self.unheard.take_if(|it| *it == name);
        while self.tasks.running.try_join_next().is_some() {}
        if let Name::Carried(number) = name {
            self.streams.remove(&number);
        }
        let is_awaited = self.awaited.take_if(|awaited| awaited.name == name);
        let rules = self.session.rules();
        if matches!(is_awaited, Some(Awaited { lane: Lane::Last, .. })) && rules.has_sessions {
            self.tasks.exchange(Name::Stream(Stream::Own), &self.session, None, None);
        }
    }
}

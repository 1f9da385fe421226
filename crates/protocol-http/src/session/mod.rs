//! The exchanges of one session: their state, and what they tell the host to do.

mod exchange;
mod inputs;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use protocol_core::{Cause, Timestamp, WireId};

use crate::rules::{OnLoss, Rules};
use crate::store::Store;
use crate::table::Phase;

/// The exchanges of one session: which stream each message goes to, and what a lost stream means.
///
/// Inputs are posted bodies, streams that open and close, messages of the endpoint, and times. After each one, take
/// [`poll_action`](Self::poll_action) until there is none.
///
/// ```
/// use protocol_core::{Cause, Timestamp};
/// use protocol_http::{Action, Posted, RequestHead, Rules, Session, SessionOptions, StreamId};
///
/// let mut session = Session::new(&Rules::MCP_2025_11_25, SessionOptions::default(), Timestamp::ZERO);
/// let body = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#;
/// let head = RequestHead::new("POST", []);
/// let posted = Posted::read(body.to_vec(), &head, &Rules::MCP_2025_11_25).map_err(|it| it.0)?;
/// session.post(StreamId(1), posted, Timestamp::ZERO)?;
/// assert!(matches!(session.poll_action(), Some(Action::Deliver { .. })));
/// assert!(matches!(session.poll_action(), Some(Action::Begin { .. })), "the head leaves at once");
///
/// // A lost stream is no cancel in this revision.
/// session.lost(StreamId(1), Timestamp::ZERO);
/// assert!(std::iter::from_fn(|| session.poll_action()).all(|it| !matches!(it, Action::Cancel { .. })));
/// # Ok::<(), protocol_http::Refusal>(())
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    rules: &'static Rules,
    options: SessionOptions,
    /// The exchanges that are not over, by number. Number 0 is the one of GET streams that name no session of ACP.
    exchanges: BTreeMap<u64, Exchange>,
    next: u64,
    /// The exchange of each request that has no response yet, and that of each token of progress.
    by_id: BTreeMap<WireId, u64>,
    by_token: BTreeMap<WireId, u64>,
    /// The exchanges of the streams of sessions of ACP, by their names.
    scopes: BTreeMap<String, u64>,
    store: Store,
    actions: VecDeque<Action>,
    /// The last sign of the client: a request of it, or the end of a stream that it had.
    heard: Timestamp,
    is_over: bool,
}

/// One HTTP response, by a number that the host chooses and never uses again in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// The options of a [`Session`].
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// The time after which a silent stream has a comment; 1 s. `None` sends none.
    pub comment_every: Option<Duration>,
    /// The meaning of lost streams, in place of that of the [`Rules`].
    pub on_loss: Option<OnLoss>,
    /// The exchanges at the same time; 1,024. One more is refused with status 503. So is a batch with which more messages
    /// than that would be open. In ACP, these are the requests in flight, the responses that wait for a client to listen
    /// and, beside them, the streams of sessions.
    pub exchanges: usize,
    /// The bytes of events that are kept for clients that come back; 1 MiB.
    ///
    /// Above them, the oldest are dropped. In ACP sent events go first, and parts of calls last, the newest first. A response
    /// becomes a short error, or stays if it is as short itself. Our own call is lost.
    pub store_bytes: usize,
    /// The time until a session ends whose client has no stream and sends nothing; 30 min. `None` never ends it.
    ///
    /// The end cancels requests whose streams were lost. Messages of the host do not extend it.
    pub idle_time: Option<Duration>,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self {
            comment_every: Some(Duration::from_secs(1)),
            on_loss: None,
            exchanges: 1_024,
            store_bytes: 1 << 20,
            idle_time: Some(Duration::from_secs(30 * 60)),
        }
    }
}

/// A thing that the host has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Give a body to the endpoint, as one message.
    Deliver {
        /// The body of the POST, as it was read.
        body: Vec<u8>,
    },
    /// Begin a response that is a stream of events: status 200, which no proxy is to buffer.
    Begin {
        /// The response that it is.
        stream: StreamId,
    },
    /// Send a part of a stream of events, and flush it. If no stream has begun, the bytes are the
    /// whole body.
    Write {
        /// The response that it is for.
        stream: StreamId,
        /// The bytes: one whole event, one comment, or a body of JSON.
        bytes: Vec<u8>,
    },
    /// End a response. Its end is no loss, and is not reported.
    Close {
        /// The response that it is for.
        stream: StreamId,
        /// The status of a whole response, such as 200, whose head leaves only now. `None` ends a stream of events.
        status: Option<u16>,
    },
    /// Cancel a request, behind everything that was delivered before.
    Cancel {
        /// The id of the request.
        id: WireId,
        /// The cause: `peer` if the dialect says that a lost stream is a cancel, else `peer_gone`.
        cause: Cause,
    },
    /// Settle the call of ours with this id as lost: its request was dropped, since nobody listened.
    LoseCall {
        /// The id of the call.
        id: WireId,
    },
    /// End the endpoint, once everything that was delivered is read. Nothing follows.
    End,
}

/// One exchange: requests that were posted together, and the stream of their responses.
///
/// By default it is one of GET streams, before the client listens.
#[derive(Clone, Debug, Default)]
struct Exchange {
    phase: Phase,
    stream: Option<StreamId>,
    /// Whether a body began it, whose last response ends it. Otherwise it is one of GET streams.
    is_posted: bool,
    /// Whether the client has listened to it.
    was_heard: bool,
    /// Whether it is the request that opens the session.
    opens_session: bool,
    /// The number of the latest event.
    latest: u64,
    /// The time of its head, its next comment, or the end of its time to resume.
    due: Option<Timestamp>,
}

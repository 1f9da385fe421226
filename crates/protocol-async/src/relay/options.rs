//! The options of a relay, and the arguments of its callbacks.

use std::fmt;
use std::time::Duration;

use protocol_core::{Config, Timestamp};
use protocol_endpoint::{Budgets, PATIENCE, Way};
use protocol_relay::{Guard, RelayEvent, Side};

use crate::options::Noise;

/// The options of a relay.
#[non_exhaustive]
pub struct Options {
    /// The configuration of the connection to the client.
    pub up: Config,
    /// The configuration of the connection to the server.
    pub down: Config,
    /// The limits on the time of the client's requests; none.
    pub guard: Guard,
    /// The time to wait for a side that does not read, once nothing else is left to be done for it; 5 s.
    pub patience: Duration,
    /// The budgets for acts that cost a peer next to nothing and are not forwarded: breaking a rule, and
    /// cancelling what is not in flight.
    ///
    /// If a peer overspends one, it is taken for gone, and the driver's error is an
    /// [`OverBudget`](crate::OverBudget). A cancel that is forwarded is its server's to count.
    pub budgets: Budgets,
    /// The callback that sees every message.
    pub trace: Option<Trace>,
    /// The callback that sees every input of the core, with its time.
    pub inputs: Option<Inputs>,
    /// The callback that sees everything that was not simply forwarded.
    pub observer: Option<Observer>,
    /// The callback that sees output of the server that is no message. Without it the observer sees that.
    pub noise: Option<Noise>,
    /// The time that the requests of a client whose input has ended have to get a response, before they
    /// are cancelled; none.
    ///
    /// The end of input does not tell whether the client is gone, or may still read. It is gone when a
    /// write fails.
    pub answer_after_end: Duration,
    /// The callback that sees what is waited for once the client's input has ended.
    pub waits: Option<Waits>,
}

/// Something that a relay waits for once the client's input has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Wait {
    /// Responses of the server, for a limited time.
    Answers {
        /// The number of these requests.
        requests: usize,
        /// The time that they have, which is [`Options::answer_after_end`].
        within: Duration,
    },
    /// Outcomes of requests that were cancelled, because the client is taken for gone.
    Cancelled {
        /// The number of these requests.
        requests: usize,
        /// The time the server has, which is [`Config::abandoned_grace`].
        within: Duration,
    },
}

/// A callback that sees what a relay waits for once the client's input has ended. It should be quick.
pub type Waits = Box<dyn FnMut(Wait) + Send>;

/// An input of a relay's core.
///
/// The [`Trace`] shows when its messages were taken to be written. With these and the inputs, a [`Relay`](protocol_relay::Relay)
/// does the same again, byte for byte (G10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input<'b> {
    /// A message from this side's peer, without framing.
    Message(Side, &'b [u8]),
    /// The outline of a message over [`Limits::message_bytes`](protocol_core::Limits) that was skipped.
    TooLarge(Side, &'b [u8]),
    /// Bytes in which no message can be found any more.
    Broken(Side, &'b [u8]),
    /// The end of this side's input.
    End {
        /// The side whose input has ended.
        side: Side,
        /// The bytes that were unread then.
        unread: &'b [u8],
        /// The last message, if those bytes are one.
        message: Option<&'b [u8]>,
    },
    /// The time alone.
    Time,
}

/// A callback that sees an input of a relay's core, before it sees the consequences. It should be quick.
pub type Inputs = Box<dyn FnMut(Input<'_>, Timestamp) + Send>;

/// A callback that sees every message, without framing, with the side whose peer sent or received it. It
/// should be quick.
pub type Trace = Box<dyn FnMut(Side, Way, &[u8]) + Send>;

/// A callback that sees everything that was not simply forwarded, for logs. The side is that of the peer
/// who caused it. It should be quick.
pub type Observer = Box<dyn FnMut(Side, RelayEvent) + Send>;

/// The error of a peer that did not read for [`Options::patience`]. Messages to it are lost.
///
/// A [`RelayDriver`](super::RelayDriver) returns it in an error of the kind
/// [`TimedOut`](std::io::ErrorKind::TimedOut).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotRead {
    /// The side of that peer.
    pub side: Side,
}

impl fmt::Display for NotRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = match self.side {
            Side::Up => "client",
            Side::Down => "server",
        };
        write!(f, "the {peer} does not read, and what was left to say to it is lost")
    }
}

impl std::error::Error for NotRead {}

impl Options {
    /// Returns the options of a relay between these two, with the default of every other field.
    #[must_use]
    pub fn new(up: Config, down: Config) -> Self {
        Self {
            up,
            down,
            guard: Guard::default(),
            patience: PATIENCE,
            budgets: Budgets::default(),
            trace: None,
            inputs: None,
            observer: None,
            noise: None,
            answer_after_end: Duration::ZERO,
            waits: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("up", &self.up)
            .field("down", &self.down)
            .finish_non_exhaustive()
    }
}

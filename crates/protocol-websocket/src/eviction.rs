//! The reasons for which a peer is sent away.

use std::error::Error;
use std::fmt;
use std::io;

use tungstenite::protocol::frame::coding::CloseCode;

/// The reason for which a [`Listener`](crate::Listener) ended a connection. The peer kept something for longer,
/// or more of it, than the [`ListenerLimits`](crate::ListenerLimits) allow.
///
/// [`Eviction::of`] finds it in the error that [`Seat::serve`](crate::Seat::serve) ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Eviction {
    /// A message was begun and not finished in time.
    UnfinishedMessage,
    /// The unfinished messages of all connections together were too long, and this one grew.
    UnfinishedBytes,
    /// A message was longer than one can be, or its frames announced that. Headers count too, so empty frames do.
    MessageTooLong,
    /// Our messages did not leave in time, because the peer reads nothing or hardly anything.
    Unread,
    /// Nothing came after a ping, not even its pong, and none of our messages left. A ping for which there is no room
    /// counts too.
    Unanswered,
    /// No message came or went for too long, and nothing was in flight.
    Idle,
}

impl Eviction {
    /// Returns the eviction in an error, if there is one.
    #[must_use]
    pub fn of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref::<Self>().copied()
    }

    /// Returns the code that the peer gets, of RFC 6455 and its registry. A peer that does not read gets none.
    pub(crate) const fn close_code(self) -> Option<CloseCode> {
        match self {
            Self::UnfinishedMessage => Some(CloseCode::Policy),
            Self::MessageTooLong => Some(CloseCode::Size),
            Self::UnfinishedBytes => Some(CloseCode::Again),
            Self::Unanswered | Self::Idle => Some(CloseCode::Away),
            Self::Unread => None,
        }
    }
}

impl fmt::Display for Eviction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnfinishedMessage => "a message was not finished in time (limits.message_time)",
            Self::UnfinishedBytes => {
                "too many bytes of unfinished messages wait (limits.unfinished_bytes)"
            }
            Self::MessageTooLong => "a message was too long (limits.message_bytes)",
            Self::Unread => "what was sent was not read in time (limits.write_time)",
            Self::Unanswered => "a ping was not answered in time (limits.ping_time)",
            Self::Idle => "no message came or went for too long (limits.idle_time)",
        })
    }
}

impl Error for Eviction {}

impl From<Eviction> for io::Error {
    fn from(eviction: Eviction) -> Self {
        Self::new(io::ErrorKind::TimedOut, eviction)
    }
}

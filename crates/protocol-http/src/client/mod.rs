//! The decisions of a client: the headers of a message, and the meaning of a response and of its end.

mod session;
mod stream;
mod table;

pub use self::session::{ClientSession, Lane, Outgoing};
pub use self::stream::{ReceivedHead, ResponseStream, StreamLimits};
pub use self::table::{StreamInput, StreamPhase, StreamStep, StreamTransition};

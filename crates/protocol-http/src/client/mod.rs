//! The decisions of a client: the headers of a message, and the meaning of a response and of its end.

mod mirrors;
mod session;
mod stream;

pub use self::session::{ClientSession, Lane, Outgoing};
pub use self::stream::{ResponseStream, StreamLimits, StreamStep};

//! The other side as what is tested: a client, and we are a server that is slow, late and hostile.
//!
//! A check is a row here too ([`CLIENT_CHECKS`]). One request of the client's is *held*: it is left unanswered, and
//! around it everything is done that a server may do, or does wrongly. Three runs without anything wrong
//! find out first which request that is, whether and when the client cancels it, and how it ends.

mod checks;
mod clauses;
pub(crate) mod facts;
mod find;
pub(crate) mod judge;
pub(crate) mod play;
pub(crate) mod reply;
pub(crate) mod serve;
mod start;
mod suite;

pub use checks::CLIENT_CHECKS;
pub use start::{ClientListener, ClientProgram, ConnectingClient};
pub use suite::run_client;

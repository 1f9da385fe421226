//! The other side as what is tested: a client, and we are a server that is slow, late and hostile.
//!
//! A check is a row here too ([`CLIENT_CHECKS`]). One request of the client's is *held*: it is left unanswered, and
//! around it everything is done that a server may do, or does wrongly. Three runs without anything wrong
//! find out first which request that is, whether and when the client cancels it, and how it ends.

mod check;
mod checks;
mod clauses;
mod facts;
mod judge;
mod play;
mod reply;
mod start;
mod suite;

pub use check::{ClientCheck, ClientItem, ClientNeed, ClientRule, ClientStep, Reply};
pub use checks::CLIENT_CHECKS;
pub use start::{ClientListener, ClientProgram, ConnectingClient, SERVER, bridge};
pub use suite::{ClientOptions, run_client};

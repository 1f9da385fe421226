//! Message orderings, searched and not sampled: for the handlers that serve requests, and for
//! [`protocol_core`] itself.
//!
//! The bugs of request cancellation are orderings of two or three events. This crate finds them:
//!
//! - [`simulate`] runs **your own async handlers** against a scripted peer, on a virtual clock and a simulated
//!   network. It runs them by seeds, by the bytes of a fuzzer, and in every order up to a bound. It draws the
//!   shortest schedule that goes wrong as a sequence chart, and one line replays it.
//! - [`explore`] visits every state that some order of events leads to: two real connections
//!   ([`explore::Orderings`]), and three peers with a relay ([`explore::Relayed`]).
//! - [`World`] does [`Operation`]s on two connections and on their reference models, and
//!   says which [`Guarantee`] does not hold. [`operations`] makes valid and hostile operations of any
//!   bytes, for fuzzers and property tests alike. [`judge_draining`] does them to two equal connections
//!   whose outputs are drained at different times.
//!
//! Nothing here reads a clock or draws randomness of its own: the same seed or line gives the same
//! run.
#![forbid(unsafe_code)]

mod draining;
pub mod explore;
mod generate;
mod guarantee;
mod host;
mod hostile;
mod label;
mod link;
mod model;
mod operation;
mod random;
pub mod simulate;
mod watch;
mod world;

pub use draining::judge_draining;
pub use generate::operations;
pub use guarantee::{Broken, Guarantee};
pub use hostile::{Hostile, framed, unframed};
pub use operation::{Answering, Asked, Method, Operation};
pub use protocol_record::Mark;
pub use random::Random;
pub use world::{World, both_roles, small, tight};

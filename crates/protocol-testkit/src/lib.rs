//! Message orderings, searched and not sampled: for the hosts that serve requests, and for
//! [`protocol_core`] itself.
//!
//! The bugs of request cancellation are orderings of two or three events. This crate finds them:
//!
//! - [`explore`] runs **your own handler** ([`explore::Handler`]) against every ordering of a small
//!   scenario, and draws the shortest history that goes wrong as a sequence chart. One line replays
//!   it ([`explore::replay`]). Two connections ([`explore::Orderings`]) and three peers with a relay
//!   ([`explore::Relayed`]) are searched in the same way.
//! - [`Pair`] is two connections on a simulated line ([`Weather`]: latency, reordering between
//!   independent streams, back-pressure, loss of the line) and a virtual clock, from a seed.
//! - [`World`] does [`Operation`]s on two connections and on their reference models ([`model`]), and
//!   says which [`Guarantee`] does not hold. [`operations`] makes valid and hostile operations of any
//!   bytes, for fuzzers and property tests alike. [`judge_draining`] does them to two equal connections
//!   whose outputs are drained at different times.
//!
//! Nothing here reads a clock or draws randomness of its own: the same seed or line gives the same
//! run.
//!
//! # A handler in every order
//!
//! This server answers a cancelled request at once, and forgets to stop its work:
//!
//! ```
//! use protocol_core::{Cause, Config, Dialect, Role};
//! use protocol_testkit::explore::{Handler, Handling, Scenario, search};
//! use protocol_testkit::{Answering, Asked, Guarantee, Operation};
//!
//! #[derive(Clone, Hash, Default)]
//! struct Server {
//!     is_working: bool,
//! }
//!
//! impl Handler for Server {
//!     fn receive(&mut self, message: &[u8], out: &mut Vec<Vec<u8>>) {
//!         if message.ends_with(br#""params":{"id":1}}"#) {
//!             let error = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"no"}}"#;
//!             if self.is_working {
//!                 out.push(error.to_vec());
//!             }
//!         } else {
//!             self.is_working = true;
//!         }
//!     }
//!
//!     fn work(&self) -> Vec<String> {
//!         if self.is_working { vec!["finishes".into()] } else { vec![] }
//!     }
//!
//!     fn go_on(&mut self, _: usize, out: &mut Vec<Vec<u8>>) {
//!         self.is_working = false;
//!         out.push(br#"{"jsonrpc":"2.0","id":1,"result":null}"#.to_vec());
//!     }
//! }
//!
//! const SCENARIO: Scenario = Scenario {
//!     name: "a call and its cancel",
//!     budget: &[
//!         (Operation::Call { at: Role::Client, asked: Asked::work(1) }, 1),
//!         (Operation::Cancel { at: Role::Client, call: 0, cause: Cause::Caller }, 1),
//!     ],
//!     answers: &[Answering::Result],
//!     timers: false,
//! };
//! let start = Handling::new(Config::client(Dialect::LSP_3_17), SCENARIO, Server::default());
//! let failure = search(&start, 10_000).failure.expect("it is wrong");
//!
//! assert_eq!(failure.broken.guarantee, Guarantee::G2);
//! assert!(failure.line().ends_with("handler read 0; handler finishes"));
//! println!("{failure}");
//! ```
#![forbid(unsafe_code)]

mod chart;
mod draining;
pub mod explore;
mod generate;
mod guarantee;
mod host;
mod hostile;
mod link;
pub mod model;
mod operation;
mod pair;
mod random;
pub mod simulate;
mod watch;
mod world;

pub use chart::{Mark, chart, label};
pub use draining::judge_draining;
pub use generate::operations;
pub use guarantee::{Broken, Guarantee};
pub use host::Host;
pub use hostile::{Hostile, framed};
pub use link::Link;
pub use operation::{Answering, Asked, Method, Operation, Patience};
pub use pair::{Pair, Weather};
pub use random::Random;
pub use watch::Watch;
pub use world::{World, both_roles, small, tight};

//! A test suite for cancellation over JSON-RPC.
//!
//! It drives a server or a relay that it does not know, and makes each check on a fresh one. It reports each
//! verdict, with the messages of both sides as evidence. `rescind conform` is the program. This library holds
//! its parts, so that the tests of an SDK can run them on a server in their own process:
//!
//! ```no_run
//! use std::net::TcpStream;
//!
//! use protocol_core::Dialect;
//! use rescind_conform::{InProcess, Options, Request, Whole, run};
//! # fn serve(stream: TcpStream) {}
//!
//! # fn main() -> Result<(), rescind_conform::Unreached> {
//! let mut options = Options::new(Dialect::ACP_V1);
//! options.slow = Some(Request::new("sleep", serde_json::json!({ "ms": "$MS" })));
//! let report = run(&InProcess(|stream: TcpStream| serve(stream)), &options, |_| {})?;
//! assert_eq!(report.whole(), Whole::Pass, "{}", report.summary());
//! # Ok(())
//! # }
//! ```
//!
//! - [`CHECKS`] is the table of checks: the messages of each, its rules, and the page that asks for it.
//! - [`run`] finds out the server's protocol and a request that takes it time, then plays every [`Check`].
//! - [`run_client`] plays each [`Check`] of [`CLIENT_CHECKS`] with a client, and is its server.
//! - [`run_relay`] plays each check of [`RELAY_CHECKS`] with a relay between the two sides of the test.
//! - [`Report`] is the outcome: for people, as JSON, as `JUnit` XML, as a table, as a badge.
//!
//! To support another protocol, add a [`Clause`] to the checks that hold there too, and rows for the new ones.
#![forbid(unsafe_code)]

mod bridge;
mod check;
mod checks;
mod client;
mod document;
mod facts;
mod family;
mod form;
mod heed;
mod judge;
mod known;
mod lateness;
mod malformed;
mod matrix;
mod once;
mod options;
mod page;
mod patience;
mod play;
mod process;
mod relay;
mod report;
mod seen;
mod server;
mod session;
mod stop;
mod suite;
mod target;
#[cfg(test)]
mod tests;
mod tools;
mod value;
mod wire;
mod worded;
mod words;
mod work_record;

pub use bridge::{SERVER, bridge};
pub use check::{Clause, Id, Level, Name, Need, Reply, Row, WorkEnd};
pub use checks::CHECKS;
pub use client::{CLIENT_CHECKS, ClientListener, ClientProgram, ConnectingClient, run_client};
pub use family::{Family, Opening, Request};
pub use known::{Expected, Known};
pub use matrix::{Column, column, matrix};
pub use options::{ClientOptions, Options, Suite};
pub use page::{client_page, page, relay_page};
pub use relay::{
    Ends, InProcessRelay, RELAY_CHECKS, Relay, RelayCheck, RelayOptions, RelayProgram, RelayRule,
    run_relay,
};
pub use report::{Line, Outcome, Report, Transcript, Verdict, Way, Whole};
pub use server::run;
pub use suite::Progress;
pub use target::{Child, InProcess, Link, Program, Target, Unreached};
pub use wire::LOSS;
pub use words::{Check, Item, Rule, Step};

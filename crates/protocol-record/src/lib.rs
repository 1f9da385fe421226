//! Records what passes over JSON-RPC connections, and what was decided about it, as JSON Lines.
//!
//! With the crate `rescind` this is `rescind::record`.
//!
//! - A [`Recording`] owns a file and a thread that writes it. Whoever is recorded only copies a message
//!   into a bounded buffer; what finds no room there is dropped, counted, and said in the file.
//! - A [`Recorder`] hooks itself into the [`Options`](protocol_async::Options) of a connection or of a
//!   [relay](protocol_async::relay::Options), whatever the runtime. A host that drives the core itself
//!   has a [`HopRecorder`].
//! - A [`Reader`] gives the lines back, one at a time.
//!
//! Params, results, errors and tokens of operations may hold secrets. They are left out unless
//! [`Settings::payloads`] asks for them; tokens are left out even then. The schema is in [`Line`].
//!
//! ```no_run
//! use protocol_core::{Config, Dialect};
//! use protocol_record::{Recording, Settings};
//!
//! # fn main() -> std::io::Result<()> {
//! let recording = Recording::start(Settings::new("session.jsonl"))?;
//! let options = protocol_async::Options::new(Config::client(Dialect::LSP_3_17));
//! let options = recording.recorder().connection("server", options);
//! // … connect with these options …
//! # drop(options);
//! let recorded = recording.finish();
//! println!("{} lines, {} dropped", recorded.lines, recorded.dropped);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod chart;
mod file;
pub mod line;
mod queue;
mod read;
mod recorder;
mod shape;
mod verdict;
mod writer;

pub use chart::{Mark, chart};
pub use file::part;
pub use line::Line;
pub use read::{Reader, Unread};
pub use recorder::{HopRecorder, Recorded, Recorder, Recording, Settings};
pub use shape::Shape;

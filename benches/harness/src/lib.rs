//! One harness for every library: the same work, each answer and each cancel checked, beside the
//! floor of the same process.
//!
//! A peer is a binary of its own: it implements [`Peer`] (two ends on a pipe, run by an executor)
//! or [`Subject`] (two ends in one thread, without either) and calls [`measure`] in its `main`. It
//! prints one JSON object per figure.

pub mod clock;
pub mod floor;
pub mod handmade;
pub mod heap;
mod linked;
mod measure;
mod payload;
pub mod report;
mod runtime;
mod subject;
pub mod wire;

pub use linked::{Client, Linked, Peer};
pub use measure::measure;
pub use payload::{Node, Payload, Size};
pub use runtime::{Runtime, Tokio, yield_now};
pub use subject::{Cancelling, Hanging, Held, Laps, Subject};
pub use wire::Pipe;

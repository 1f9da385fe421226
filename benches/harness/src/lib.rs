//! One harness for every library: the same work beside the floor of the same process. Each response
//! and each cancellation is checked.
//!
//! A peer is a binary of its own that calls [`measure`] in its `main`. It implements [`Peer`], with
//! two ends on a pipe that an executor runs. Or it implements [`Subject`], with two ends in one
//! thread and without either. It prints one JSON object per figure.

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

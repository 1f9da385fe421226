//! [`protocol_core`] on blocking threads, or on one synchronous thread.
//!
//! With the crate `rescind` this is `rescind::blocking`.
//!
//! - [`threaded`]: a reader thread keeps reading and marking cancels while handlers run on the
//!   caller's threads or a small pool. Calls block; any thread may cancel; dropping cancels.
//! - [`single`]: one thread and no other. Handlers call
//!   [`checkpoint`](Responder::checkpoint) between steps of their work, and learn there that their
//!   request was cancelled.
//!
//! Both run the same [`Handler`]s. [`block_on`] waits for any future of [`protocol_async`] on a
//! plain thread. This crate decides nothing: what a message means, and what
//! follows from it, is the core's business.
#![forbid(unsafe_code)]

mod answer;
mod clock;
mod handler;
mod park;
pub mod single;
pub mod threaded;
mod undo;

pub use handler::{
    Answer, BeforeStart, Cancelled, Failure, Handler, Internal, InvalidParams, Notification,
    Request, Responder,
};
pub use park::{block_on, block_on_for};
pub use protocol_async::{UndoEnd, UndoLimits, UndoRefused, Undone};
pub use undo::Undo;

//! The exchanges of one session.

mod exchange;
mod inputs;
mod state;

pub use self::state::{Action, Session, SessionOptions, StreamId};

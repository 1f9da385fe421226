//! The machine that decides: ids, phases, causes, timers, parents. It has no bytes, JSON or payloads.
//!
//! It keeps one row for each of our calls, with the host's `C` in it, and one for each of the peer's
//! requests, with the host's `R` in it. Every command and input takes the arm for its row's phase in
//! `table.rs`, carries the step out on the row, and queues the decision. Decisions that follow from it are
//! queued behind it. [`Machine::poll_action`] returns them.
//!
//! A command that may be refused returns a permit: it says what would happen, and nothing has changed
//! until [`commit`](NewCall::commit). [`Connection`](crate::Connection) writes the message in between.

mod action;
mod calls;
mod commands;
mod inputs;
mod permits;
mod recent;
mod requests;
mod state;
mod steps;
mod table;
#[cfg(test)]
mod tests;
mod tokens;
mod work_steps;
mod works;

pub(crate) use action::ResultEffect;
pub use action::{Action, CancelOutcome, Completion, ResponseKind};
pub use calls::TimerReason;
pub(crate) use calls::{Call, CallExtras};
pub use permits::{NewCall, NewOperation, Responding};
pub(crate) use requests::Request;
pub use requests::RequestExtras;
pub use state::Machine;
pub use table::{CallPhase, RequestPhase, RequestStep};
pub use works::WorkName;
pub(crate) use works::{Part, Work};

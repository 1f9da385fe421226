//! `--fault`: what is done on purpose to the messages that a relay writes, to try cancelling against it.
//!
//! [`Fault`] is a rule as it is written, `plan.rs` chooses what becomes of each message, and `pipe.rs`
//! does it, behind the relay's writers: the core knows nothing of it.

mod pipe;
mod plan;
mod rule;

use clap::Args;

pub(super) use self::plan::Plan;
pub(super) use self::rule::Fault;

/// The faults that are made on purpose.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Faults on purpose")]
pub(super) struct FaultArgs {
    /// Do this to what is passed on: `drop cancel`, `delay response 2s`, `duplicate response`, `cut after
    /// 1MiB`. Instead of a cancel or response it may be a request, a notification, or every message. Behind
    /// it may stand `method GLOB`, `10%` of them, and `to client` or `to server`. May be given again; the
    /// first that strikes counts
    #[arg(long, value_name = "FAULT", value_parser = rule::parse)]
    pub(super) fault: Vec<Fault>,

    /// Draw the same faults again as the run that said this number
    #[arg(long, value_name = "N", requires = "fault")]
    pub(super) fault_seed: Option<u64>,
}

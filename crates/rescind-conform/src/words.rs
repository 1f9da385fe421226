//! The words that tables of checks are written in.

pub(crate) use crate::check::Id::*;
pub(crate) use crate::check::{Id, Need, Reply, Source, WorkEnd};
pub(crate) use crate::family::Family::{self, *};
pub use crate::judge::rules::Rule;
pub(crate) use crate::judge::rules::Rule::*;
pub use crate::play::items::Item;
pub(crate) use crate::play::items::Item::*;
pub use crate::play::steps::Step;
pub(crate) use crate::play::steps::Step::*;

/// A check of servers or clients, whose steps and rules are data.
pub type Check = crate::check::Row<Need, Step, Rule>;

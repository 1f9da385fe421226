//! The parts that many checks share.

use super::clauses::ENDED;
use crate::check::{Check, Id, Item, Rule};

pub(super) const SLOW_A: Item = Item::Slow('a', Id::Fresh);
pub(super) const SLOW_B: Item = Item::Slow('b', Id::Fresh);
pub(super) const END_OF_A: &[Rule] = &[Rule::Ended('a'), Rule::NextAnswered];

/// A check without steps, which others complete.
pub(super) const BASE: Check = Check {
    id: "",
    title: "",
    clauses: ENDED,
    needs: &[],
    steps: &[],
    rules: &[],
    witness: "The next request, sent after the cancel, is answered; where silence is wanted, the same work has been done anew from its beginning to its end, twice.",
};

//! The table of checks, in the order in which they are made and reported.

mod cancel;
pub(crate) mod clauses;
mod connection;
mod work;

use crate::check::{Check, Id, Item, Rule};
use clauses::ENDED;

const SLOW_A: Item = Item::Slow('a', Id::Fresh);
const SLOW_B: Item = Item::Slow('b', Id::Fresh);
const END_OF_A: &[Rule] = &[Rule::Ended('a'), Rule::NextAnswered];

const BASE: Check = Check {
    id: "",
    title: "",
    clauses: ENDED,
    needs: &[],
    steps: &[],
    rules: &[],
    witness: "The next request, sent after the cancel, is answered; where silence is wanted, the same work has been done anew from its beginning to its end, twice.",
};

const PARTS: [&[Check]; 3] = [cancel::CANCEL, work::WORK, connection::CONNECTION];

/// The table of all checks of servers.
pub const CHECKS: &[Check] = &{
    let mut all = [BASE; PARTS[0].len() + PARTS[1].len() + PARTS[2].len()];
    let (mut part, mut from, mut to) = (0, 0, 0);
    while to < all.len() {
        if from == PARTS[part].len() {
            (part, from) = (part + 1, 0);
        }
        all[to] = PARTS[part][from];
        (from, to) = (from + 1, to + 1);
    }
    all
};

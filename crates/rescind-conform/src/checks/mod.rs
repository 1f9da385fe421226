//! The table of checks, in the order in which they are made and reported.

mod after;
mod base;
mod cancel;
pub(crate) mod clauses;
mod connection;
mod stop;
mod work;

use crate::check::Check;
use base::BASE;

const PARTS: [&[Check]; 5] =
    [cancel::CANCEL, work::WORK, stop::STOPS, after::AFTER, connection::CONNECTION];

const COUNT: usize = {
    let (mut count, mut part) = (0, 0);
    while part < PARTS.len() {
        (count, part) = (count + PARTS[part].len(), part + 1);
    }
    count
};

/// The table of all checks of servers.
pub const CHECKS: &[Check] = &{
    let mut all = [BASE; COUNT];
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

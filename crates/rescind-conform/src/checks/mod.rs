//! The table of checks, in the order in which they are made and reported.

mod after;
mod cancel;
pub(crate) mod clauses;
mod connection;
mod http;
mod stop;
mod work;

use std::sync::LazyLock;

use self::clauses::*;
use crate::check::words::*;

/// The table of all checks of servers.
pub static CHECKS: LazyLock<Vec<Check>> = LazyLock::new(|| {
    [cancel::CANCEL, work::WORK, stop::STOPS, after::AFTER, connection::CONNECTION, http::HTTP]
        .concat()
});

const SLOW_A: Item = Item::Slow('a', Id::Fresh);
const SLOW_B: Item = Item::Slow('b', Id::Fresh);
const RUNNING_A: Step = All(&[Send(&[SLOW_A]), Started('a')]);
/// The server has asked something of us for a request.
const ASKED_A: Step = All(&[HoldReverse, Send(&[Reverse('a')]), AskedFor('a')]);
/// Everything was read, and other work is done from its beginning to its end.
const WHOLE_T: Step = All(&[Next, Natural('t'), Next]);
const END_OF_A: &[Rule] = &[Rule::Ended('a'), Rule::NextAnswered];

/// A check without steps, which others complete.
const BASE: Check = Check::BASE.clauses(ENDED)
    .witness("The next request, sent after the cancel, is answered; where silence is wanted, the same work has been done anew from its beginning to its end, twice.");

/// A row of the table.
const fn check(id: &'static str, title: &'static str) -> Check {
    BASE.named(id, title)
}

/// A row about an id that has to come back as it was sent.
const fn same_id(id: &'static str, title: &'static str) -> Check {
    let check = check(id, title).clauses(SAME_ID).rules(&[Rule::AnsweredOnce('a')]);
    check.witness("The next request, sent after it, is answered.")
}

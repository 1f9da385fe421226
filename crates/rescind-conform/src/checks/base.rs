//! The parts that many checks share.

pub(super) use super::clauses::*;
pub(super) use crate::words::*;

pub(super) const SLOW_A: Item = Item::Slow('a', Id::Fresh);
pub(super) const SLOW_B: Item = Item::Slow('b', Id::Fresh);
/// The response to it shows that the cancel before it was read.
pub(super) const QUICK_Q: Item = Item::Quick('q', Id::Fresh);
pub(super) const RUNNING_A: Step = All(&[Send(&[SLOW_A]), Started('a')]);
/// The server has asked something of us for a request.
pub(super) const ASKED_A: Step = All(&[HoldReverse, Send(&[Reverse('a')]), AskedFor('a')]);
/// Everything was read, and other work is done from its beginning to its end.
pub(super) const WHOLE_T: Step = All(&[Next, Natural('t'), Next]);
pub(super) const END_OF_A: &[Rule] = &[Rule::Ended('a'), Rule::NextAnswered];

/// A check without steps, which others complete.
pub(super) const BASE: Check = Check::BASE.clauses(ENDED)
    .witness("The next request, sent after the cancel, is answered; where silence is wanted, the same work has been done anew from its beginning to its end, twice.");

/// A row of the table.
pub(super) const fn check(id: &'static str, title: &'static str) -> Check {
    BASE.named(id, title)
}

/// A row about an id that has to come back as it was sent.
pub(super) const fn same_id(id: &'static str, title: &'static str) -> Check {
    let check = check(id, title).clauses(SAME_ID).rules(&[Rule::AnsweredOnce('a')]);
    check.witness("The next request, sent after it, is answered.")
}

//! The rules that are for clients alone.

use std::ops::Range;

use super::play::other_type;
use crate::play::Play;
use crate::session::What;
use crate::stop::{Fault, broken, holds_if, none, unclear};
use crate::wire::{Asked, Heard};

fn held_id<'p>(play: &'p Play<'_>) -> &'p str {
    play.session.held().map_or("(none)", |held| held.asked.id.as_str())
}

pub(crate) fn still_in_flight(play: &Play<'_>) -> Result<(), Fault> {
    holds_if(play.session.is_cancelled(), || {
        let id = held_id(play);
        format!("request {id} is not cancelled, as it usually is: something was taken for its end")
    })
}

pub(crate) fn cancelled_once(play: &Play<'_>) -> Result<(), Fault> {
    let mut seen = std::collections::HashSet::new();
    let twice = play.session.cancels().find(|(_, id)| !seen.insert(*id));
    none(twice, |(_, id)| format!("request {id} is cancelled a second time"))
}

/// A cancel at this place names a request that stands before it, be it as another type.
pub(crate) fn names_request(play: &Play<'_>, at: usize, id: &str) -> Result<(), Fault> {
    let other = other_type(id);
    let is_named = |asked: &Asked| asked.id == id || Some(&asked.id) == other.as_ref();
    match play.session.all_asked().find(|(_, asked)| is_named(asked)) {
        Some((made, _)) if made < at => Ok(()),
        Some(_) => broken(format!("the cancel of request {id} comes before the request")),
        None if id.is_empty() => Err("a cancel names nothing".into()),
        None => broken(format!("a cancel names {id}, which was never the id of a request")),
    }
}

pub(crate) fn as_written(play: &Play<'_>, id: &str) -> Result<(), Fault> {
    let is_made = |id: &str| play.session.asked().iter().any(|(_, it)| it.id == id);
    let other = other_type(id).filter(|other| !is_made(id) && is_made(other));
    none(other, |other| format!("request {other} is cancelled as {id}"))
}

/// The held request was not cancelled once its answer had been read. The response to a later request shows that it was.
pub(crate) fn not_cancelled_after_answer(play: &Play<'_>) -> Result<(), Fault> {
    let answered_at = play.session.held().and_then(|held| held.answered_at).unwrap_or(0);
    let next = play.nexts.iter().find(|next| next.sent_at > answered_at);
    match next.and_then(|next| play.session.answered_at(&next.id)) {
        Some(read_at) => not_cancelled_from(play, read_at),
        None if not_cancelled_from(play, answered_at).is_ok() => Ok(()),
        None => unclear("the client may not have read the answer"),
    }
}

pub(crate) fn not_cancelled_from(play: &Play<'_>, from: usize) -> Result<(), Fault> {
    let held = held_id(play);
    let cancel = play.session.cancels().find(|(at, id)| *id == held && *at >= from);
    none(cancel, |_| format!("request {held} is cancelled"))
}

pub(crate) fn ids_unique(play: &Play<'_>) -> Result<(), Fault> {
    let mut last = std::collections::HashMap::new();
    for (at, asked) in play.session.all_asked() {
        let before = last.insert(&asked.id, at);
        let is_free =
            |before| !play.facts.family().is_mcp() && was_answered(play, &asked.id, before..at);
        if before.is_some_and(|before| !is_free(before)) {
            return broken(format!("two requests have the id {}", asked.id));
        }
    }
    Ok(())
}

/// Whether we have answered what had this id, in that part of the record.
fn was_answered(play: &Play<'_>, id: &str, within: Range<usize>) -> bool {
    let is_answer = |heard| matches!(heard, Heard::Answer { id: answered, .. } if answered == id);
    play.session.record[within].iter().any(|entry| match &entry.what {
        What::Sent(message) => is_answer(play.session.wire.read(message.as_bytes())),
        _ => false,
    })
}

#[cfg(test)]
mod tests;

//! Judges the record of a check of a client by its rules.

use super::check::ClientRule;
use super::play::{Play, other_type};
use crate::check::Name;
use crate::family::Family;
use crate::play::Made;
use crate::session::What;
use crate::wire::{Heard, Outcome};

/// Returns the first thing that is wrong.
pub(super) fn judge(play: &Play<'_>, rules: &[ClientRule]) -> Option<String> {
    rules.iter().find_map(|rule| breaks(play, *rule).err())
}

fn breaks(play: &Play<'_>, rule: ClientRule) -> Result<(), String> {
    match rule {
        ClientRule::CancelledOnce => cancelled_once(play),
        ClientRule::NamesRequest => {
            play.cancels().try_for_each(|(at, id)| names_request(play, at, id))
        }
        ClientRule::NamedAsWritten => play.cancels().try_for_each(|(_, id)| as_written(play, id)),
        ClientRule::NotCancelled => not_cancelled_from(play, 0),
        ClientRule::NotCancelledAfterAnswer => not_cancelled_from(play, answer_read_at(play)),
        ClientRule::StillInFlight => match play.is_cancelled() {
            true => Ok(()),
            false => Err(format!(
                "request {} is not cancelled any more, as it is when nothing is wrong",
                held_id(play)
            )),
        },
        ClientRule::IdsUnique => ids_unique(play),
        ClientRule::Ended(name) => ended(play, made(play, name)?),
        ClientRule::AnsweredOnce(name) => once(play, made(play, name)?),
        ClientRule::Undisturbed(name) => undisturbed(play, made(play, name)?),
        ClientRule::UnknownMethod(name) => unknown_method(play, made(play, name)?),
        ClientRule::AllEnded => all_ended(play),
        ClientRule::NextAnswered => next_answered(play),
        ClientRule::NothingUnder(id) => match answers(play, id)[..] {
            [] => Ok(()),
            [outcome, ..] => Err(format!("under id {id} there is an answer: {outcome}")),
        },
        ClientRule::MalformedUnanswered => stray(play, |at| play.silent.contains(&at)),
        ClientRule::Clean => clean(play).and_then(|()| stray(play, |_| true)),
        ClientRule::Exited => match play.ended {
            Some(_) => Ok(()),
            None => Err("the client has not ended".into()),
        },
        ClientRule::NoOrphan => match play.ended {
            Some(true) => Ok(()),
            Some(false) => {
                Err("something that the client had started was left, and had to be ended".into())
            }
            None => Err("the client has not ended".into()),
        },
    }
}

fn held_id<'p>(play: &'p Play<'_>) -> &'p str {
    play.held.as_ref().map_or("(none)", |held| held.asked.id.as_str())
}

fn cancelled_once(play: &Play<'_>) -> Result<(), String> {
    let mut seen = std::collections::HashSet::new();
    match play.cancels().find(|(_, id)| !seen.insert(*id)) {
        None => Ok(()),
        Some((_, id)) => Err(format!("request {id} is cancelled a second time")),
    }
}

/// A cancel at this place names a request that stands before it, be it as another type.
fn names_request(play: &Play<'_>, at: usize, id: &str) -> Result<(), String> {
    let other = other_type(id);
    let mut named =
        play.asked.iter().filter(|(_, it)| it.id == id || Some(&it.id) == other.as_ref());
    match named.next() {
        Some((made, _)) if *made < at => Ok(()),
        Some(_) => Err(format!("the cancel of request {id} comes before the request")),
        None if id.is_empty() => Err("a cancel names nothing".into()),
        None => Err(format!("a cancel names {id}, which was never the id of a request")),
    }
}

fn as_written(play: &Play<'_>, id: &str) -> Result<(), String> {
    let is_made = |id: &str| play.asked.iter().any(|(_, it)| it.id == id);
    match other_type(id) {
        Some(other) if !is_made(id) && is_made(&other) => {
            Err(format!("request {other} is cancelled as {id}"))
        }
        _ => Ok(()),
    }
}

/// Returns the place in the record at which the client had read the answer to the held request. It is the end
/// of the record if that was not seen.
fn answer_read_at(play: &Play<'_>) -> usize {
    let answered_at = play.held.as_ref().and_then(|held| held.answered_at).unwrap_or(0);
    let next = play.nexts.iter().find(|next| next.sent_at > answered_at);
    match next {
        Some(next) => {
            play.session.answers_to(&next.id).next().map_or(usize::MAX, |(read_at, _)| read_at)
        }
        None => usize::MAX,
    }
}

fn not_cancelled_from(play: &Play<'_>, from: usize) -> Result<(), String> {
    let held = held_id(play);
    match play.cancels().find(|(at, id)| *id == held && *at >= from) {
        None => Ok(()),
        Some(_) => Err(format!("request {held} is cancelled")),
    }
}

fn ids_unique(play: &Play<'_>) -> Result<(), String> {
    let is_forbidden = matches!(play.facts.family(), Family::McpUntil2025 | Family::Mcp2026);
    let twice = play.asked.iter().enumerate().find(|(number, (at, asked))| {
        play.asked[..*number].iter().any(|(_, before)| {
            before.id == asked.id && (is_forbidden || !was_answered(play, &before.id, *at))
        })
    });
    match twice {
        None => Ok(()),
        Some((_, (_, asked))) => Err(format!("two requests have the id {}", asked.id)),
    }
}

/// Whether we had answered what had this id before that place in the record.
fn was_answered(play: &Play<'_>, id: &str, before: usize) -> bool {
    play.session.record[..before].iter().any(|entry| match &entry.what {
        What::Sent(message) => matches!(
            play.session.wire.read(message.as_bytes()),
            Heard::Answer { id: answered, .. } if answered == id
        ),
        _ => false,
    })
}

fn made<'p>(play: &'p Play<'_>, name: Name) -> Result<&'p Made, String> {
    play.named.get(&name).ok_or_else(|| format!("request {name} was not made"))
}

fn answers<'p>(play: &'p Play<'_>, id: &'p str) -> Vec<&'p Outcome> {
    play.session.answers_to(id).map(|(_, outcome)| outcome).collect()
}

/// Answered once, whatever the answer.
fn once(play: &Play<'_>, made: &Made) -> Result<(), String> {
    match answers(play, &made.id)[..] {
        [_] => Ok(()),
        [] => Err(format!("our request {} is never answered", made.id)),
        [first, second, ..] => {
            Err(format!("our request {} is answered twice: {}, then {}", made.id, first, second))
        }
    }
}

fn undisturbed(play: &Play<'_>, made: &Made) -> Result<(), String> {
    once(play, made)?;
    match answers(play, &made.id)[..] {
        [outcome, ..] if outcome.is_cancelled() => {
            Err(format!("our request {} was not cancelled, and is answered as cancelled", made.id))
        }
        _ => Ok(()),
    }
}

/// A cancelled request has ended as the dialect wants.
fn ended(play: &Play<'_>, made: &Made) -> Result<(), String> {
    if play.wants_answers() {
        return once(play, made);
    }
    match answers(play, &made.id)[..] {
        [] => Ok(()),
        [outcome, ..] => {
            Err(format!("our request {} was cancelled, and is answered: {}", made.id, outcome))
        }
    }
}

fn unknown_method(play: &Play<'_>, made: &Made) -> Result<(), String> {
    once(play, made)?;
    match answers(play, &made.id)[..] {
        [Outcome::Error { code: -32601 }] | [] => Ok(()),
        [outcome, ..] => Err(format!("it is answered: {outcome}")),
    }
}

/// Of all that were made, cancelled or not: none twice, and those once that have to be.
fn all_ended(play: &Play<'_>) -> Result<(), String> {
    let mut counts = std::collections::HashMap::new();
    for (_, heard) in play.session.heard() {
        if let Heard::Answer { id, .. } = heard {
            *counts.entry(id.as_str()).or_insert(0_usize) += 1;
        }
    }
    play.crowd.iter().try_for_each(|made| {
        let is_owed = play.wants_answers() || made.cancelled_at.is_none();
        match counts.get(made.id.as_str()).copied().unwrap_or(0) {
            0 if is_owed => Err(format!("our request {} is never answered", made.id)),
            0 | 1 => Ok(()),
            count => Err(format!("our request {} is answered {count} times", made.id)),
        }
    })
}

fn next_answered(play: &Play<'_>) -> Result<(), String> {
    play.nexts.iter().try_for_each(|next| match play.session.answers_to(&next.id).count() {
        1 => Ok(()),
        0 => Err(format!("the next request, {}, is not answered", next.id)),
        count => Err(format!("the next request, {}, is answered {count} times", next.id)),
    })
}

/// In these places of the record no answer is to anything but a request of ours.
fn stray(play: &Play<'_>, is_place: impl Fn(usize) -> bool) -> Result<(), String> {
    let stray = play.session.heard().find_map(|(at, heard)| match heard {
        Heard::Answer { id, outcome } if is_place(at) && !play.ids.contains(id) => {
            Some((id, outcome))
        }
        _ => None,
    });
    match stray {
        None => Ok(()),
        Some((id, outcome)) => {
            Err(format!("under id {id}, of no request, there is an answer: {outcome}"))
        }
    }
}

fn clean(play: &Play<'_>) -> Result<(), String> {
    play.session.record.iter().try_for_each(|entry| match &entry.what {
        What::Broken { violation } => {
            Err(format!("what it wrote is no message that it may write: {violation}"))
        }
        _ => Ok(()),
    })
}

#[cfg(test)]
mod tests;

//! Judges the record of a check by its rules.

use protocol_core::{Envelope, code};
use serde_json::Value;

use crate::check::{Name, Rule};
use crate::family::Family;
use crate::play::{Made, Play, is_cancel_read};
use crate::session::What;
use crate::wire::{Heard, Outcome};

/// Cancelled requests free the server if it is not busy for longer than this part of the time.
pub(crate) const FREED: f64 = 0.5;

/// What is wrong first, if anything is.
pub(crate) fn judge(play: &Play<'_>, rules: &[Rule]) -> Option<String> {
    rules.iter().find_map(|rule| breaks(play, *rule).err())
}

fn breaks(play: &Play<'_>, rule: Rule) -> Result<(), String> {
    match rule {
        Rule::Ended(name) => ended(play, made(play, name)?),
        Rule::AnsweredAsCancelled(name) => as_cancelled(play, made(play, name)?),
        Rule::Undisturbed(name) => undisturbed(play, made(play, name)?),
        Rule::AnsweredOnce(name) => once(play, made(play, name)?),
        Rule::Honoured { cancelled, before } => honoured(play, cancelled, before),
        Rule::Whole { cancelled, like } => whole(play, made(play, cancelled)?, made(play, like)?),
        Rule::AllEnded => all_ended(play),
        Rule::OthersUndisturbed => (play.crowd.iter())
            .filter(|made| made.cancelled_at.is_none())
            .try_for_each(|made| undisturbed(play, made)),
        Rule::NextAnswered => next_answered(play),
        Rule::NothingUnder(id) => nothing_under(play, id),
        Rule::NothingUnderToken(token) => nothing_under(play, &play.token(token)),
        Rule::MalformedUnanswered => stray(play, |at| play.silent.contains(&at)),
        Rule::NoProgressAfter(name) => no_progress_after(play, made(play, name)?),
        Rule::Clean => clean(play).and_then(|()| stray(play, |_| true)),
        Rule::UnknownMethod(name) => unknown_method(play, made(play, name)?),
        Rule::CancelRead(name) => {
            let id = &made(play, name)?.id;
            match is_cancel_read(&play.session, id) {
                true => Ok(()),
                false => Err(format!("nothing says that the cancel of request {id} was read")),
            }
        }
        Rule::TheirsCancelled => theirs_cancelled(play),
        Rule::TheirsUndisturbed => match theirs_cancelled(play) {
            Err(_) => Ok(()),
            Ok(()) => Err("the server has taken it for a cancel of its own request".into()),
        },
        Rule::Exited => match play.ended {
            Some(_) => Ok(()),
            None => Err("the server has not ended".into()),
        },
        Rule::NoOrphan => match play.ended {
            Some(true) => Ok(()),
            Some(false) => {
                Err("something that the server had started was left, and had to be ended".into())
            }
            None => Err("the server has not ended".into()),
        },
        Rule::Acknowledged(name, cancelled) => acknowledged(play, made(play, name)?, cancelled),
        Rule::FreedSooner => match play.ratio {
            Some(ratio) if ratio <= FREED => Ok(()),
            Some(ratio) => {
                Err(format!("it is busy for {ratio:.2} of the time that it is without a cancel"))
            }
            None => Err("it was not timed".into()),
        },
    }
}

fn made<'p>(play: &'p Play<'_>, name: Name) -> Result<&'p Made, String> {
    play.named.get(&name).ok_or_else(|| format!("request {name} was not made"))
}

fn said(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Result(_) => "a result".into(),
        Outcome::Error { code } => format!("error {code}"),
        Outcome::Cancelled => "cancelled".into(),
    }
}

fn answers<'p>(play: &'p Play<'_>, made: &'p Made) -> Vec<&'p Outcome> {
    play.session.answers_to(&made.id).map(|(_, outcome)| outcome).collect()
}

/// Answered once, whatever the answer.
fn once(play: &Play<'_>, made: &Made) -> Result<(), String> {
    match answers(play, made)[..] {
        [_] => Ok(()),
        [] => Err(format!("request {} is never answered{}", made.id, under_another_id(play, made))),
        [first, second, ..] => Err(format!(
            "request {} is answered twice: {}, then {}",
            made.id,
            said(first),
            said(second)
        )),
    }
}

/// An answer that has lost its id, or the type of it.
fn under_another_id(play: &Play<'_>, made: &Made) -> String {
    let same = |id: &str| id.trim_matches('"') == made.id.trim_matches('"');
    let other = play.session.heard().find_map(|(_, heard)| match heard {
        Heard::Answer { id, .. } if *id != made.id && same(id) => Some(id.clone()),
        _ => None,
    });
    let other = other.or_else(|| {
        play.session.heard().find_map(|(_, heard)| match heard {
            Heard::Answer { id, .. } if !is_ours(play, id) => Some(id.clone()),
            _ => None,
        })
    });
    other.map_or_else(String::new, |id| format!("; there is an answer under id {id}"))
}

/// Whether a request had this id, as the token that was written.
fn is_ours(play: &Play<'_>, id: &str) -> bool {
    play.ids.contains(id) || play.session.named.contains(id)
}

fn nothing_under(play: &Play<'_>, id: &str) -> Result<(), String> {
    match play.session.answers_to(id).next() {
        None => Ok(()),
        Some((_, outcome)) => Err(format!("under id {id} there is an answer: {}", said(outcome))),
    }
}

/// In these places of the record no answer is to anything but a request.
fn stray(play: &Play<'_>, is_place: impl Fn(usize) -> bool) -> Result<(), String> {
    let stray = play.session.heard().find_map(|(at, heard)| match heard {
        Heard::Answer { id, outcome } if is_place(at) && !is_ours(play, id) => Some((id, outcome)),
        _ => None,
    });
    match stray {
        None => Ok(()),
        Some((id, outcome)) => {
            Err(format!("under id {id}, of no request, there is an answer: {}", said(outcome)))
        }
    }
}

fn undisturbed(play: &Play<'_>, made: &Made) -> Result<(), String> {
    once(play, made)?;
    match answers(play, made)[..] {
        [outcome, ..] if outcome.is_cancelled() => {
            Err(format!("request {} was not cancelled, and is answered as cancelled", made.id))
        }
        _ => Ok(()),
    }
}

/// A cancelled request has ended as the dialect wants.
fn ended(play: &Play<'_>, made: &Made) -> Result<(), String> {
    if play.wants_answers() {
        return once(play, made);
    }
    match answers(play, made)[..] {
        [] => Ok(()),
        [outcome, ..] => {
            Err(format!("request {} was cancelled, and is answered: {}", made.id, said(outcome)))
        }
    }
}

fn as_cancelled(play: &Play<'_>, made: &Made) -> Result<(), String> {
    once(play, made)?;
    match answers(play, made)[..] {
        [outcome, ..]
            if !says_it_ended(play, outcome) && !matches!(outcome, Outcome::Result(_)) =>
        {
            Err(format!("request {} was cancelled, and is answered: {}", made.id, said(outcome)))
        }
        _ => Ok(()),
    }
}

/// Whether an answer says that the work was given up: since it was cancelled, or since the document changed meanwhile,
/// which we do to it whenever we ask for work that is not done yet.
fn says_it_ended(play: &Play<'_>, outcome: &Outcome) -> bool {
    let is_modified = play.facts.family() == Family::Lsp
        && matches!(outcome, Outcome::Error { code: code::CONTENT_MODIFIED });
    outcome.is_cancelled() || is_modified
}

fn honoured(play: &Play<'_>, cancelled: Name, before: Name) -> Result<(), String> {
    let (cancelled, before) = (made(play, cancelled)?, made(play, before)?);
    let first = |made: &Made| {
        play.session.answers_to(&made.id).next().map(|(at, outcome)| (at, outcome.clone()))
    };
    match (first(cancelled), first(before)) {
        (Some((_, outcome)), _) if says_it_ended(play, &outcome) => Ok(()),
        (Some((_, outcome @ Outcome::Error { .. })), _) => Err(format!(
            "request {} is answered with {}, which does not say that it was cancelled: whether the work was stopped can't be told (no protocol makes that a MUST)",
            cancelled.id,
            said(&outcome)
        )),
        // Both take as long as the document does, and either may be first; a part is a part.
        (Some((_, Outcome::Result(part))), Some((_, Outcome::Result(all))))
            if play.facts.document.is_some() && is_part(&part, &all) =>
        {
            Ok(())
        }
        (Some((at, _)), Some((before, _))) if play.facts.document.is_none() && at < before => {
            Ok(())
        }
        (Some((_, outcome)), _) if play.facts.document.is_some() => Err(format!(
            "request {} is answered with {}, all of it, and so is each that was tried",
            cancelled.id,
            said(&outcome)
        )),
        (Some((_, outcome)), _) => Err(format!(
            "request {} is answered with {}, after request {} that was asked first",
            cancelled.id,
            said(&outcome),
            before.id
        )),
        (None, _) => Err(format!("request {} is never answered", cancelled.id)),
    }
}

/// A result is no part of what there is without a cancel.
fn whole(play: &Play<'_>, cancelled: &Made, like: &Made) -> Result<(), String> {
    match (&answers(play, cancelled)[..], &answers(play, like)[..]) {
        ([Outcome::Result(part), ..], [Outcome::Result(all), ..]) if is_part(part, all) => {
            Err(format!(
                "request {} is answered with a result of {} bytes; without a cancel there are {}",
                cancelled.id,
                part.to_string().len(),
                all.to_string().len()
            ))
        }
        _ => Ok(()),
    }
}

/// Whether a result is too short to be all of what another is.
fn is_part(result: &Value, all: &Value) -> bool {
    result.to_string().len() < all.to_string().len() / 2
}

/// Of all that were made, cancelled or not: none twice, and those once that have to be.
fn all_ended(play: &Play<'_>) -> Result<(), String> {
    let mut counts = std::collections::HashMap::new();
    for (_, heard) in play.session.heard() {
        if let Heard::Answer { id, .. } = heard {
            *counts.entry(id.as_str()).or_insert(0_usize) += 1;
        }
    }
    for made in play.crowd.iter().chain(play.named.values()) {
        let is_owed = play.wants_answers() || made.cancelled_at.is_none();
        match counts.get(made.id.as_str()).copied().unwrap_or(0) {
            0 if is_owed => {
                return Err(format!(
                    "request {} is never answered{}",
                    made.id,
                    under_another_id(play, made)
                ));
            }
            0 | 1 => {}
            count => return Err(format!("request {} is answered {count} times", made.id)),
        }
    }
    Ok(())
}

fn next_answered(play: &Play<'_>) -> Result<(), String> {
    for next in &play.nexts {
        match play.session.answers_to(&next.id).count() {
            1 => {}
            0 => return Err(format!("the next request, {}, is not answered", next.id)),
            count => {
                return Err(format!("the next request, {}, is answered {count} times", next.id));
            }
        }
    }
    Ok(())
}

fn no_progress_after(play: &Play<'_>, made: &Made) -> Result<(), String> {
    let cancelled_at = made.cancelled_at.unwrap_or(0);
    let read_at = (play.nexts.iter())
        .filter(|next| next.sent_at > cancelled_at)
        .find_map(|next| play.session.answers_to(&next.id).next())
        .map(|(at, _)| at)
        .ok_or("no request after the cancel was answered")?;
    match play.session.progress_of(&made.token).filter(|at| *at > read_at).count() {
        0 => Ok(()),
        count => Err(format!(
            "after the cancel of request {} was read there is progress of it, {count} times",
            made.id
        )),
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

fn unknown_method(play: &Play<'_>, made: &Made) -> Result<(), String> {
    once(play, made)?;
    match answers(play, made)[..] {
        [Outcome::Error { code: -32601 }] => Ok(()),
        [outcome, ..] => Err(format!("it is answered: {}", said(outcome))),
        [] => Ok(()),
    }
}

fn theirs_cancelled(play: &Play<'_>) -> Result<(), String> {
    let theirs = play.theirs.as_deref().ok_or("the server asked nothing of us")?;
    let cancelled = play
        .session
        .heard()
        .any(|(_, heard)| matches!(heard, Heard::Cancel { id } if id == theirs));
    let answered = play.named.values().any(|made| {
        made.cancelled_at.is_none()
            && answers(play, made).iter().any(|outcome| outcome.is_cancelled())
    });
    if cancelled || answered {
        Ok(())
    } else {
        Err(format!("the server does not cancel its own request {theirs}"))
    }
}

fn acknowledged(play: &Play<'_>, made: &Made, cancelled: bool) -> Result<(), String> {
    if play.session.wire.dialect.envelope == Envelope::Dap {
        // It does not say whether it has found something.
        let id = made.cancel_id.as_deref().ok_or("nothing was cancelled")?;
        return match play.session.answers_to(id).count() {
            1 => Ok(()),
            0 => Err(format!("the cancel of {} is not answered", made.id)),
            count => Err(format!("the cancel of {} is answered {count} times", made.id)),
        };
    }
    let all: Vec<bool> = (play.session.heard())
        .filter_map(|(_, heard)| match heard {
            Heard::Acknowledged { id, cancelled } if *id == made.id => Some(*cancelled),
            _ => None,
        })
        .collect();
    match all[..] {
        [said] if said == cancelled => Ok(()),
        [said] => Err(format!("the cancel of {} is acknowledged with cancelled: {said}", made.id)),
        [] => Err(format!("the cancel of {} is not acknowledged", made.id)),
        _ => Err(format!("the cancel of {} is acknowledged {} times", made.id, all.len())),
    }
}

#[cfg(test)]
mod tests;

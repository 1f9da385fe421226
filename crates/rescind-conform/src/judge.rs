//! Judges the record of a check by its rules.

use protocol_core::Envelope;
use serde_json::Value;

use self::response::{
    answers, counted_once, is_ours, is_part, made, once, says_it_ended, under_another_id,
    undisturbed,
};
use crate::check::{Name, WorkEnd};
use crate::client::judge as client;
use crate::play::{Made, Play};
use crate::session::What;
use crate::stop::{Fault, TOO_LATE, broken, holds_if, none, unclear};
use crate::wire::{Heard, Outcome};

mod progress;
mod response;
pub(crate) mod rules;
mod work;

pub(crate) use self::response::{in_time, is_early, may_come_too_late};

/// The work of a request ended so, as the witness tells. Its end shows nothing if what was to end it may have come later.
fn ended_as(made: &Made, told: Option<&(WorkEnd, bool)>, end: WorkEnd) -> Result<(), Fault> {
    match told {
        Some((WorkEnd::Finished, false)) => {
            unclear(format!("the work of {made} may have been over"))
        }
        Some((told, _)) => holds_if(*told == end, || format!("the work of {made} {told}")),
        None => unclear(format!("nobody knows how the work of {made} ended")),
    }
}

/// Returns whether the subject has left nothing, if it has ended.
fn has_ended(play: &Play<'_>) -> Result<bool, Fault> {
    play.ended.ok_or_else(|| format!("{} has not ended", play.subject()).into())
}

/// Holds if each of many cancelled requests ended as the others, and as the dialect wants.
fn each_as_others(play: &Play<'_>) -> Result<(), Fault> {
    let says_cancelled =
        |made: &Made| answers(play, made).iter().all(|outcome| says_it_ended(play, outcome));
    let cancelled = || play.crowd.iter().filter(|made| made.cancelled_at.is_some());
    let is_one = cancelled().any(says_cancelled);
    let each = cancelled().enumerate().map(|(number, made)| {
        if play.wants_answers() && is_early(play, made, 't') {
            return once(play, made);
        }
        ended(play, made)?;
        if is_one && !says_cancelled(made) {
            in_time(play, made)?;
            return broken(format!(
                "cancel {} of as many requests is not honoured, and another one was",
                number + 1
            ));
        }
        Ok(())
    });
    let faults: Vec<Fault> = each.filter_map(Result::err).collect();
    let broken = faults.iter().position(|fault| matches!(fault, Fault::Broken(_)));
    faults.into_iter().nth(broken.unwrap_or(0)).map_or(Ok(()), Err)
}

fn same_capacity(play: &Play<'_>) -> Result<(), Fault> {
    let Some((before, after)) = &play.capacity else { return unclear("it was not tried") };
    match (&before.refusal, &after.refusal) {
        (None, Some(refusal)) => broken(format!(
            "of {} slow requests one is answered with {refusal}, and before the cancels none was",
            after.count + 1
        )),
        _ if after.before_short > before.before_short && after.was_late => unclear(TOO_LATE),
        _ if after.before_short > before.before_short => broken(format!(
            "of {} slow requests at once {} are done before a short one, and before the cancels {}",
            after.count, after.before_short, before.before_short
        )),
        _ => Ok(()),
    }
}

/// A request was answered before another that was at work when a cancel was sent.
fn before(play: &Play<'_>, made: &Made, other: &Made) -> Result<(), Fault> {
    let at = |made: &Made| play.session.answered_at(&made.id);
    let cancelled_at = play.named.values().find_map(|made| made.cancelled_at).unwrap_or(0);
    match (at(made), at(other)) {
        (Some(at), Some(other)) if at < other => Ok(()),
        (_, Some(other_at)) if other_at < cancelled_at => {
            unclear(format!("{other} was done before the cancel was sent"))
        }
        (Some(at), Some(other)) if play.session.between(other, at) < play.lateness => {
            unclear(TOO_LATE)
        }
        _ => {
            broken(format!("{made} is answered after {other}, which was at work before the cancel"))
        }
    }
}

/// A request had no result yet when another was answered. Nothing is wrong if it had, but nothing was seen either.
fn at_work_until(play: &Play<'_>, made: &Made, other: &Made) -> Result<(), Fault> {
    let other_at = play.session.answered_at(&other.id).unwrap_or(usize::MAX);
    let mut results = play.session.answers_to(&made.id).filter(|(_, outcome)| outcome.is_result());
    match results.any(|(at, _)| at < other_at) {
        true => unclear(format!("{made} was done too soon")),
        false => Ok(()),
    }
}

/// A request that was made of us for this one was not cancelled, and neither was the request.
fn theirs_kept(play: &Play<'_>, name: Name) -> Result<(), Fault> {
    let made = made(play, name)?;
    let theirs = play.theirs_for.get(&name).ok_or("the server asked nothing of us")?;
    if play.session.cancels().any(|(_, id)| id == theirs) {
        return broken(format!(
            "the server cancels its request {theirs}, which is for {made}, and that was not cancelled"
        ));
    }
    if says_cancelled(play, made) { undisturbed(play, made) } else { Ok(()) }
}

/// Whether an answer to a request says that it was cancelled.
fn says_cancelled(play: &Play<'_>, made: &Made) -> bool {
    answers(play, made).iter().any(|outcome| outcome.is_cancelled())
}

fn nothing_under(play: &Play<'_>, id: &str) -> Result<(), Fault> {
    // Messages before that may be about the opening.
    let answer = play.session.answers_to(id).find(|(at, _)| *at >= play.sent_at);
    none(answer, |(_, outcome)| format!("under id {id} there is an answer: {outcome}"))
}

/// In these places of the record no answer is to anything but a request.
fn stray(play: &Play<'_>, is_place: impl Fn(usize) -> bool) -> Result<(), Fault> {
    let mut all = play.session.all_answers();
    let stray = all.find(|(at, id, _)| is_place(*at) && !is_ours(play, id));
    none(stray, |(_, id, outcome)| {
        format!("under id {id}, of no request, there is an answer: {outcome}")
    })
}

/// Holds if a cancelled request ended as the dialect wants, and not before its cancel was read.
fn ended(play: &Play<'_>, made: &Made) -> Result<(), Fault> {
    if play.wants_answers() {
        once(play, made)?;
        return in_time_if_it_reads_on(play, made);
    }
    match answers(play, made)[..] {
        [] => Ok(()),
        [outcome, ..] => {
            in_time(play, made)?;
            broken(format!("{made} was cancelled, and is answered: {outcome}"))
        }
    }
}

/// Holds as [`in_time`] does, or if the server does one thing after the other: then it is always done first.
fn in_time_if_it_reads_on(play: &Play<'_>, made: &Made) -> Result<(), Fault> {
    if play.may_read_on() { in_time(play, made) } else { Ok(()) }
}

fn as_cancelled(play: &Play<'_>, made: &Made) -> Result<(), Fault> {
    once(play, made)?;
    let is_other = |outcome: &&Outcome| !says_it_ended(play, outcome) && !outcome.is_result();
    let first = answers(play, made).into_iter().next();
    none(first.filter(is_other), |outcome| {
        format!("{made} was cancelled, and is answered: {outcome}")
    })
}

fn honoured(play: &Play<'_>, cancelled: Name, before: Name) -> Result<(), Fault> {
    let (cancelled, before) = (made(play, cancelled)?, made(play, before)?);
    let answer = play.session.answers_to(&cancelled.id).next();
    match (answer, play.session.answers_to(&before.id).next()) {
        (Some((at, outcome)), _) if says_it_ended(play, outcome) => {
            stopped_before_its_time(play, cancelled, at)
        }
        (Some((_, outcome @ Outcome::Error { .. })), _) => broken(format!(
            "{cancelled} is answered with {outcome}, which does not say that it was cancelled: whether the work was stopped can't be told (no protocol makes that a MUST)"
        )),
        // Both take as long as the document does, and either may be first; a part is a part.
        (Some((_, Outcome::Result(part))), Some((_, Outcome::Result(all))))
            if play.facts.document.is_some() && is_part(part, all) =>
        {
            Ok(())
        }
        (Some((at, outcome)), Some((before_at, _)))
            if play.facts.document.is_none() && at < before_at =>
        {
            // Without a cancel it would be the other way round, unless the machine was late.
            match outcome.is_result() {
                true if play.was_late() => unclear(TOO_LATE),
                true if !play.halves() && !play.was_cut_short(cancelled, at) => unclear(format!(
                    "{before}, which was asked first, may take as long as {cancelled}"
                )),
                _ => Ok(()),
            }
        }
        (Some(_), _) if in_time_if_it_reads_on(play, cancelled).is_err() => {
            in_time_if_it_reads_on(play, cancelled)
        }
        (Some((_, outcome)), _) if play.facts.document.is_some() => broken(format!(
            "{cancelled} is answered with {outcome}, all of it, and so is each that was tried"
        )),
        (Some((_, outcome)), _) => broken(format!(
            "{cancelled} is answered with {outcome}, after {before} that was asked first"
        )),
        (None, _) => broken(format!("{cancelled} is never answered")),
    }
}

/// A request was answered before half the time was over that a cancelled one takes.
fn soon(play: &Play<'_>, made: &Made, cancelled: &Made) -> Result<(), Fault> {
    let at = play.session.answered_at(&made.id).zip(cancelled.cancelled_at);
    let (Some((at, cancelled_at)), Ok(slow)) = (at, &play.facts.slow) else { return Ok(()) };
    let is_soon = play.session.between(cancelled_at, at) <= slow.lasts(play.slow_ms) / 2;
    play.holds_on_time(is_soon, || {
        format!("{made} is answered as late as if {cancelled} was not cancelled")
    })
}

/// A request that says that it was cancelled was not worked on all the time that it takes, if its cancel was read long before.
fn stopped_before_its_time(play: &Play<'_>, made: &Made, at: usize) -> Result<(), Fault> {
    let (Ok(slow), Some(from), Some(read_at)) =
        (&play.facts.slow, made.works_from, made.cancelled_at.and_then(|at| play.read_at(at)))
    else {
        return Ok(());
    };
    let (lasts, between) = (slow.lasts(made.asked_ms), |from| play.session.between(from, at));
    let has_run_on = play.is_adjustable()
        && read_at < at
        && between(read_at) > lasts / 2
        && between(from) >= lasts;
    play.holds_on_time(!has_run_on, || {
        format!("{made} is answered as cancelled only after the time that it takes")
    })
}

/// A result is no part of what there is without a cancel.
fn whole(play: &Play<'_>, cancelled: &Made, like: &Made) -> Result<(), Fault> {
    match (&answers(play, cancelled)[..], &answers(play, like)[..]) {
        ([Outcome::Result(part), ..], [Outcome::Result(all), ..]) if is_part(part, all) => {
            broken(format!(
                "{cancelled} is answered with a result of {} bytes; without a cancel there are {}",
                part.to_string().len(),
                all.to_string().len()
            ))
        }
        _ => in_time_if_it_reads_on(play, cancelled),
    }
}

/// Holds if no request was answered twice, and each once that has to be.
fn all_ended(play: &Play<'_>) -> Result<(), Fault> {
    let mut counts = std::collections::HashMap::new();
    for (_, id, _) in play.session.all_answers() {
        *counts.entry(id).or_insert(0_usize) += 1;
    }
    play.crowd.iter().chain(play.named.values()).try_for_each(|made| {
        let is_owed = play.wants_answers() || made.cancelled_at.is_none();
        match counts.get(made.id.as_str()).copied().unwrap_or(0) {
            0 if !is_owed => Ok(()),
            count => counted_once(count, made, || under_another_id(play, made)),
        }
    })
}

fn next_answered(play: &Play<'_>) -> Result<(), Fault> {
    play.nexts.iter().try_for_each(|next| {
        let what = format_args!("the next request, {},", next.id);
        counted_once(play.session.answers_to(&next.id).count(), what, String::new)
    })
}

fn clean(play: &Play<'_>) -> Result<(), Fault> {
    play.session.record.iter().try_for_each(|entry| match &entry.what {
        What::Broken(why) => {
            broken(format!("what it wrote is no message that it may write: {why}"))
        }
        What::Got { message, heard: Heard::Answer { id, .. } }
            if !play.session.wire.is_response(message) || !repeats_command(play, id, message) =>
        {
            let message = String::from_utf8_lossy(message);
            broken(format!("the answer to request {id} is no response: {message:.200}"))
        }
        _ => Ok(()),
    })
}

/// Whether a response repeats the command of its request, where the protocol has commands.
fn repeats_command(play: &Play<'_>, id: &str, response: &[u8]) -> bool {
    if play.session.wire.dialect.envelope != Envelope::Dap {
        return true;
    }
    let read = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap_or_default();
    let command = read(response)["command"].clone();
    let mut sent = play.session.record.iter().filter_map(|entry| match &entry.what {
        What::Sent(text) => Some(read(text.as_bytes())),
        _ => None,
    });
    sent.find(|it| it["seq"].as_u64() == id.parse().ok()).is_none_or(|it| it["command"] == command)
}

fn seq_counts(play: &Play<'_>) -> Result<(), Fault> {
    let numbers: Vec<i64> =
        play.session.messages(|_| true).map(|(_, it)| it["seq"].as_i64().unwrap_or(0)).collect();
    let jump = numbers.windows(2).find(|pair| pair[0].checked_add(1) != Some(pair[1]));
    none(jump, |pair| format!("after message {} comes {}", pair[0], pair[1]))
}

fn unknown_method(play: &Play<'_>, made: &Made) -> Result<(), Fault> {
    once(play, made)?;
    let is_other = |outcome: &&Outcome| !matches!(outcome, Outcome::Error { code: -32601 });
    let other = answers(play, made).into_iter().find(is_other);
    none(other, |outcome| format!("it is answered: {outcome}"))
}

fn theirs_cancelled(play: &Play<'_>) -> Result<(), Fault> {
    let theirs = play.theirs_for.values().next().ok_or("the server asked nothing of us")?;
    let cancelled = play.session.cancels().any(|(_, id)| id == theirs);
    let answered =
        play.named.values().any(|made| made.cancelled_at.is_none() && says_cancelled(play, made));
    let why = || format!("the server does not cancel its own request {theirs}");
    holds_if(cancelled || answered, why)
}

fn cancels_answered(play: &Play<'_>) -> Result<(), Fault> {
    play.cancels.iter().try_for_each(|at| match &play.session.record[*at].what {
        What::Sent(text) => {
            let cancel: Value = serde_json::from_str(text).unwrap_or_default();
            let id = cancel["seq"].to_string();
            let count = play.session.answers_to(&id).count();
            counted_once(count, format_args!("cancel {id}"), String::new)
        }
        _ => Ok(()),
    })
}

fn acknowledged(play: &Play<'_>, made: &Made, cancelled: bool) -> Result<(), Fault> {
    let what = format!("the cancel of {}", made.id);
    if play.session.wire.dialect.envelope == Envelope::Dap {
        // It does not say whether it has found something.
        let id = made.cancel_id.as_deref().ok_or("nothing was cancelled")?;
        return counted_once(play.session.answers_to(id).count(), what, String::new);
    }
    let all: Vec<bool> = (play.session.heard())
        .filter_map(|(_, heard)| match heard {
            Heard::Acknowledged { id, cancelled } if *id == made.id => Some(*cancelled),
            _ => None,
        })
        .collect();
    counted_once(all.len(), &what, String::new)?;
    if all[0] != cancelled && cancelled {
        in_time_if_it_reads_on(play, made)?;
    }
    let why = || format!("{what} is answered with cancelled: {}", all[0]);
    holds_if(all[0] == cancelled, why)
}

#[cfg(test)]
mod tests;

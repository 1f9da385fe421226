//! The responses to a request.

use std::fmt::Display;

use protocol_core::code;
use serde_json::Value;

use crate::check::Name;
use crate::family::Family;
use crate::form::form;
use crate::play::{Made, Play};
use crate::stop::{Fault, TOO_LATE, broken, holds_if, unclear};
use crate::wire::Outcome;

pub(super) fn made<'p>(play: &'p Play<'_>, name: Name) -> Result<&'p Made, Fault> {
    play.named.get(&name).ok_or_else(|| Fault::Unclear(format!("request {name} was not made")))
}

pub(super) fn answers<'p>(play: &'p Play<'_>, made: &'p Made) -> Vec<&'p Outcome> {
    play.session.answers_from(&made.id, made.works_from).map(|(_, outcome)| outcome).collect()
}

/// Answered once, whatever the answer.
pub(super) fn once(play: &Play<'_>, made: &Made) -> Result<(), Fault> {
    match answers(play, made)[..] {
        [outcome @ Outcome::Both] => broken(format!("{made} is answered with {outcome}")),
        [first, second, ..] => broken(format!("{made} is answered twice: {first}, then {second}")),
        ref all => counted_once(all.len(), made, || under_another_id(play, made)),
    }
}

/// There is one answer to something. If there is none, that is told with `more`.
pub(super) fn counted_once(
    count: usize,
    what: impl Display,
    more: impl FnOnce() -> String,
) -> Result<(), Fault> {
    match count {
        1 => Ok(()),
        0 => broken(format!("{what} is never answered{}", more())),
        count => broken(format!("{what} is answered {count} times")),
    }
}

/// An answer that has lost its id, or the type of it.
pub(super) fn under_another_id(play: &Play<'_>, made: &Made) -> String {
    let same = |id: &str| id.trim_matches('"') == made.id.trim_matches('"');
    let ids = || play.session.all_answers().map(|(_, id, _)| id);
    let other = ids().find(|id| *id != made.id && same(id));
    let other = other.or_else(|| ids().find(|id| !is_ours(play, id)));
    other.map_or_else(String::new, |id| format!("; there is an answer under id {id}"))
}

/// Whether a request had this id, as the token that was written.
pub(super) fn is_ours(play: &Play<'_>, id: &str) -> bool {
    play.ids.contains(id) || play.session.named.contains(id)
}

/// Returns whether an answer says that the work was given up. The reason may be a cancel. It may also be a
/// change of the document, since we change it each time we ask for unfinished work.
pub(super) fn says_it_ended(play: &Play<'_>, outcome: &Outcome) -> bool {
    match outcome {
        // Only a language server has these.
        Outcome::Error { code: code::CONTENT_MODIFIED | code::SERVER_CANCELLED } => {
            play.facts.family() == Family::Lsp
        }
        other => other.is_cancelled(),
    }
}

pub(super) fn undisturbed(play: &Play<'_>, made: &Made) -> Result<(), Fault> {
    once(play, made)?;
    let end = answers(play, made)[0];
    let why = || format!("{made} was not cancelled, and is answered as cancelled");
    holds_if(!end.is_cancelled(), why)?;
    if !end.is_failure() {
        return Ok(());
    }
    // Work may fail by itself. If it does so long before its time, and not without the cancels, they are the reason.
    let mut all = play.session.answers_from(&made.id, made.works_from);
    let at = all.next().map_or(0, |(at, _)| at);
    if play.ended_before_half(made, at) || is_refused_about_document(play, made, at, end) {
        return broken(format!("{made} was not cancelled, and fails with {end}"));
    }
    // If an early failure is read late, it looks like one of the work itself.
    let is_timed = play.is_adjustable() || play.facts.document.is_some();
    let may_be_early = is_timed && play.was_late() && !says_it_ended(play, end);
    let client = play.client.as_ref().map(|client| &client.facts);
    let is_unseen = client.is_some_and(|facts| facts.was_late && !facts.ask_takes_time);
    if may_be_early || is_unseen { unclear(TOO_LATE) } else { Ok(()) }
}

/// Whether an answer about a document is an early error that no change of the document and no cancel explains.
fn is_refused_about_document(play: &Play<'_>, made: &Made, at: usize, end: &Outcome) -> bool {
    let took = made.works_from.map(|from| play.session.between(from, at));
    let usual = play.facts.slow.as_ref().ok().map(|slow| slow.undelayed);
    let is_early = took.zip(usual).is_some_and(|(took, usual)| took < usual / 2);
    play.facts.document.is_some() && is_early && !says_it_ended(play, end)
}

/// Two requests that are alike have results of one form. If either failed, that is for other rules to say.
pub(super) fn same_result(play: &Play<'_>, made: &Made, like: &Made) -> Result<(), Fault> {
    match (play.success(made), play.success(like)) {
        (Some(result), Some(expected)) if form(result) != form(expected) => {
            let short = |result: &Value| format!("{:.80}", result.to_string());
            let (result, expected) = (short(result), short(expected));
            play.holds_on_time(false, || {
                format!(
                    "{made} and {like} ask for the same, and have the results {result} and {expected}"
                )
            })
        }
        _ => Ok(()),
    }
}

/// A request has the result of two that are like it, if these have equal ones.
pub(super) fn repeated(play: &Play<'_>, made: &Made, alike: [&Made; 2]) -> Result<(), Fault> {
    let [result, one, again] = [made, alike[0], alike[1]].map(|made| play.success(made));
    let differs = result.is_some() && one.is_some() && one == again && result != one;
    play.holds_on_time(!differs, || {
        format!("{made} has another result than {} and {}", alike[0], alike[1])
    })
}

/// A request has not the result of another, which asked for something else than this and two that are like it.
pub(super) fn own_result(
    play: &Play<'_>,
    made: &Made,
    alike: [&Made; 2],
    other: &Made,
) -> Result<(), Fault> {
    let [result, one, again, others] =
        [made, alike[0], alike[1], other].map(|made| play.success(made));
    let tells_apart = play.is_adjustable() && one.is_some() && one == again && one != others;
    holds_if(!tells_apart || result.is_none() || result != others, || {
        format!("{made} has the result of {other}, which asked for something else")
    })
}

/// Holds if a cancelled request was not answered before its cancel was read.
///
/// The witness of that is the response to the cancel, or to a request that was sent after it. The response to a request that
/// was cut short is a witness itself.
pub(crate) fn in_time(play: &Play<'_>, made: &Made) -> Result<(), Fault> {
    let (Some(cancelled_at), Some((at, outcome))) =
        (made.cancelled_at, play.session.answers_to(&made.id).next())
    else {
        return Ok(());
    };
    let is_nested = |id: &str| play.theirs_for.values().any(|theirs| theirs == id);
    let acknowledged_at = made.cancel_id.as_ref().and_then(|id| play.session.answered_at(id));
    match acknowledged_at.into_iter().chain(play.read_at(cancelled_at)).min() {
        _ if outcome.is_cancelled() => Ok(()),
        // It cancels a nested request because it has read the cancel.
        _ if play.session.cancels().any(|(_, id)| is_nested(id)) => Ok(()),
        _ if outcome.is_result() && play.was_cut_short(made, at) => Ok(()),
        Some(read_at) if read_at < at && !play.came_late(cancelled_at, at) => Ok(()),
        _ => unclear(format!("{made} was answered before its cancel was seen to be read")),
    }
}

/// Whether a result is too short to be all of what another is.
pub(super) fn is_part(result: &Value, all: &Value) -> bool {
    result.to_string().len() < all.to_string().len() / 2
}

/// Whether a result came in less than half of the time that another takes, or is a part of what that has for a result.
pub(crate) fn is_early(play: &Play<'_>, made: &Made, like: Name) -> bool {
    let Some((at, outcome)) = play.session.answers_to(&made.id).next() else { return false };
    let took = made.works_from.map(|from| play.session.between(from, at));
    let is_soon = took.zip(play.took(like)).is_some_and(|(took, whole)| took < whole / 2);
    let whole = play.named.get(&like).and_then(|whole| play.success(whole));
    let is_short = |all| matches!(outcome, Outcome::Result(part) if is_part(part, all));
    outcome.is_result()
        && (is_soon || play.ended_before_half(made, at) || whole.is_some_and(is_short))
}

/// Returns whether work may have been over before a cancel was read that was sent while it went on.
///
/// Nothing is seen then of what a cancel does. A server that does one thing after the other reads it when the work is over.
pub(crate) fn may_come_too_late(play: &Play<'_>) -> bool {
    let has_come_late = |made: &Made| {
        let (from, (at, outcome)) =
            made.works_from.zip(play.session.answers_to(&made.id).next())?;
        let mut meanwhile = play.cancels.iter().filter(|sent| (from..at).contains(sent));
        let is_late = |sent: &usize| play.came_late(*sent, at);
        Some(outcome.is_result() && meanwhile.any(is_late))
    };
    let all = || play.named.values().filter_map(has_come_late);
    play.may_read_on() && all().any(|late| late)
}

//! The rules about work that is stopped.

use std::time::Duration;

use protocol_core::code;

use super::response::{answers, in_time, made, once, undisturbed};
use crate::check::Name;
use crate::family::Family;
use crate::play::{Made, Play};
use crate::stop::{Fault, broken, holds_if, none, unclear};
use crate::wire::Outcome;
use crate::work_record::{Run, Stopping};

/// Work that ends so soon after its stop was read may have been about to end.
const ENDING: Duration = Duration::from_millis(250);

/// Other work with this many reports after the stop was read, its end included, was not about to end.
const ENOUGH: usize = 4;

/// The end of a task is known by the response to tasks/result, which may come so much later.
const POLLED: Duration = Duration::from_secs(2);

const REFUSED: Outcome = Outcome::Error { code: code::INVALID_PARAMS };

fn run<'p>(play: &'p Play<'_>, name: Name) -> Result<&'p Run, Fault> {
    play.runs.get(&name).ok_or_else(|| Fault::Unclear(format!("work {name} was not begun")))
}

pub(super) fn stop_answered(play: &Play<'_>, name: Name) -> Result<(), Fault> {
    let (made, run) = (made(play, name)?, run(play, name)?);
    let ends = run.ends(&play.session);
    if play.facts.family() == Family::Lsp {
        // The request may go on: it is not what was stopped.
        return match ends.len() {
            1 => Ok(()),
            0 => broken(format!("progress {} was stopped, and never ends", run.name)),
            count => broken(format!("progress {} was stopped, and ends {count} times", run.name)),
        };
    }
    once(play, made)?;
    if play.facts.has_tasks() {
        return stops_answered(play, run);
    }
    match answers(play, made)[..] {
        [outcome @ (Outcome::Error { .. } | Outcome::Cancelled), ..] => broken(format!(
            "turn {} was stopped, and is answered with {outcome} instead of a stop reason",
            made.id
        )),
        _ if ends.is_empty() => broken(format!("turn {} was stopped, and never ends", made.id)),
        _ if matches!(&ends[0].1, Outcome::Result(end) if end["stopReason"] == "error") => {
            broken(format!("turn {} was stopped, and ends with an error", made.id))
        }
        _ => Ok(()),
    }
}

/// Returns whether a response says that a task is cancelled.
fn is_done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Result(task) if task["status"] == "cancelled")
}

/// A task that is stopped is cancelled at once, and a stop of what is over, or of nothing, is refused.
fn stops_answered(play: &Play<'_>, run: &Run) -> Result<(), Fault> {
    let mut first = run.stops.iter().filter_map(|stop| play.session.answers_to(&stop.id).next());
    let done_at = first.find(|(_, outcome)| is_done(outcome)).map(|(at, _)| at);
    let ended_at = run.ended_at(&play.session);
    let over_at = done_at.into_iter().chain(ended_at).min().unwrap_or(usize::MAX);
    for stop in &run.stops {
        let Some((at, outcome)) = play.session.answers_to(&stop.id).next() else {
            return broken(format!("tasks/cancel {} is never answered", stop.id));
        };
        let was_over = !stop.is_named || over_at < stop.at;
        let holds = match was_over {
            true => *outcome == REFUSED,
            // Another stop, or the end, may have come first.
            false => {
                let soon = |end| play.session.between(at, end) < POLLED;
                let came_late = done_at.is_some() || ended_at.is_some_and(soon);
                is_done(outcome) || *outcome == REFUSED && came_late
            }
        };
        if !holds {
            let what = if was_over { "of what does not run" } else { "of a task that runs" };
            return broken(format!("tasks/cancel {} {what} is answered with {outcome}", stop.id));
        }
    }
    Ok(())
}

/// Holds if a stop cut its work short, or is seen to be read, while this work went on.
pub(super) fn stopped_while(play: &Play<'_>, name: Name, running: Name) -> Result<(), Fault> {
    let (stopped, work, running) = (made(play, name)?, run(play, name)?, run(play, running)?);
    // That it never ends is said by other rules.
    let Some(over_at) = running.ended_at(&play.session) else { return Ok(()) };
    let cut_at = work.ended_at(&play.session).filter(|_| was_cut(play, work));
    let sent_at = stopped.cancelled_at.unwrap_or(over_at);
    // A task says whether it was stopped.
    let read_at = if play.facts.has_tasks() { None } else { play.read_at(sent_at) };
    let Some(at) = cut_at.into_iter().chain(read_at).min().filter(|&at| at <= over_at) else {
        let id = &running.id;
        return unclear(format!("work {id} may have been over when the stop was read"));
    };
    // Nor does an end of progress say whether it was a stop.
    let tells_by_reports = work.id != running.id && !play.facts.family().marks_stops();
    let is_open = tells_by_reports || cut_at != Some(over_at) && play.came_late(sent_at, over_at);
    if is_open && reports_after(play, running, at) < ENOUGH {
        return unclear(format!("work {} was not seen to go on after the stop", running.id));
    }
    Ok(())
}

/// Returns the number of reports of work after this place of the record.
fn reports_after(play: &Play<'_>, run: &Run, place: usize) -> usize {
    run.reports(&play.session).iter().filter(|(at, _)| *at > place).count()
}

/// Something is reported of work that is named in its reports, or of a request if such requests are known to report progress.
pub(super) fn reported(play: &Play<'_>, name: Name) -> Result<(), Fault> {
    let made = made(play, name)?;
    let token = made.token.as_str().into();
    let reports = |run: &Run| !run.reports(&play.session).is_empty();
    let is_reported = match play.runs.get(&name) {
        Some(_) if play.facts.has_tasks() => true,
        // Some agents report nothing, and only ask.
        Some(run) => reports(run) || !play.runs.values().any(reports),
        None if !play.facts.slow.as_ref().is_ok_and(|slow| slow.has_progress) => true,
        None => play.session.reports_of(&token).next().is_some(),
    };
    holds_if(is_reported, || format!("nothing is reported of {made} while it runs"))
}

/// Returns whether the end of work says that it was stopped, or else comes after too few reports.
fn was_cut(play: &Play<'_>, run: &Run) -> bool {
    let is_stopped = |stop: &Stopping| {
        let mut answers = play.session.answers_to(&stop.id);
        answers.any(|(_, outcome)| is_done(outcome))
    };
    match play.facts.has_tasks() {
        true => run.stops.iter().any(is_stopped),
        false if play.facts.family().marks_stops() => {
            run.ends(&play.session).first().is_some_and(|(_, end)| end.is_cancelled())
        }
        false => reports_of_whole(play, run).is_some(),
    }
}

pub(super) fn stop_honoured(play: &Play<'_>, name: Name) -> Result<(), Fault> {
    let turn = made(play, name)?;
    let ends = run(play, name)?.ends(&play.session);
    let Some((at, outcome)) = ends.first() else {
        return broken(format!("turn {} was stopped, and never ends", turn.id));
    };
    if outcome.is_cancelled() {
        return Ok(());
    }
    let said = match outcome {
        Outcome::Result(result) => format!("stop reason {}", result["stopReason"]),
        other => other.to_string(),
    };
    let why = format!("turn {} was stopped, and ends with {said}", turn.id);
    let read_at = play.read_at(turn.cancelled_at.unwrap_or(0)).filter(|read_at| read_at < at);
    match read_at {
        Some(read_at) if read_at < play.held_until => Err(why.into()),
        Some(read_at) if play.session.between(read_at, *at) > ENDING.max(play.lateness) => {
            Err(why.into())
        }
        _ => unclear(format!("{why}, maybe before the stop was read")),
    }
}

pub(super) fn finished(play: &Play<'_>, name: Name) -> Result<(), Fault> {
    let (made, run) = (made(play, name)?, run(play, name)?);
    let ends = run.ends(&play.session);
    if play.facts.family() == Family::Lsp {
        return progressed(play, run);
    }
    undisturbed(play, made)?;
    if play.facts.has_tasks() {
        stops_answered(play, run)?;
    }
    let outcomes = answers(play, made).into_iter().chain(ends.iter().map(|(_, outcome)| outcome));
    match outcomes.into_iter().find(|it| it.is_cancelled() || !it.is_result()) {
        Some(outcome) => {
            broken(format!("work {} was not stopped, and ends with {outcome}", made.id))
        }
        None if ends.is_empty() => {
            broken(format!("work {} was not stopped, and never ends", made.id))
        }
        None => Ok(()),
    }
}

/// Returns the number of reports of the same work as a whole if this work has not half as many.
///
/// An end of progress does not say whether it was a stop.
fn reports_of_whole(play: &Play<'_>, run: &Run) -> Option<usize> {
    let count = |run: &Run| run.reports(&play.session).len();
    let whole = play.runs.get(&'t').filter(|run| !run.name.is_null()).map(count);
    whole.filter(|whole| count(run) * 2 < *whole)
}

fn progressed(play: &Play<'_>, run: &Run) -> Result<(), Fault> {
    match reports_of_whole(play, run) {
        _ if run.name.is_null() => unclear("no progress was begun for it"),
        _ if run.ends(&play.session).is_empty() => {
            broken(format!("progress {} was not stopped, and never ends", run.name))
        }
        Some(whole) => broken(format!(
            "progress {} was not stopped, and ends with {} reports of {whole}",
            run.name,
            run.reports(&play.session).len()
        )),
        _ => Ok(()),
    }
}

pub(super) fn stopped_before(play: &Play<'_>, name: Name, other: Name) -> Result<(), Fault> {
    let stopped_at = made(play, name)?.cancelled_at.unwrap_or(usize::MAX);
    let (other, stopped) = (run(play, other)?, run(play, name)?);
    let [reports, all_of_other] = [stopped, other].map(|run| run.reports(&play.session).len());
    // The reports of the other after the stop was read: it was not about to end.
    let meanwhile = reports_after(play, other, play.read_at(stopped_at).unwrap_or(usize::MAX));
    // Beside its beginning and its end.
    let is_whole = all_of_other > 2 && reports >= all_of_other;
    match (stopped.ended_at(&play.session), other.ended_at(&play.session)) {
        (_, Some(other)) if other < stopped_at => {
            unclear("the other work ended before the stop was sent")
        }
        (Some(at), Some(other)) if at < other && !is_whole => Ok(()),
        (Some(at), Some(other)) if at < other => {
            unclear("the stopped work reports as much as the other")
        }
        (_, None) => unclear("the other work never ends"),
        (_, Some(_)) if meanwhile < ENOUGH => unclear("the other work was about to end"),
        _ if reports < 3 => unclear("the stopped work was not seen at work"),
        _ => broken("the stopped work ends after work that was begun before it".into()),
    }
}

pub(super) fn quiet_after(play: &Play<'_>, name: Name) -> Result<(), Fault> {
    let (made, run) = (made(play, name)?, run(play, name)?);
    let Some(ended_at) = run.ended_at(&play.session) else {
        return unclear(format!("work {} never ends", made.id));
    };
    if play.facts.has_tasks() {
        // Without its stop a task completes, and that is no excuse.
        stopped_while(play, name, name)?;
    }
    for id in &run.asked {
        match play.session.answers_to(id).next() {
            None => {}
            // It may be forgotten.
            Some((_, outcome)) if is_done(outcome) || matches!(outcome, Outcome::Error { .. }) => {}
            Some((_, Outcome::Result(task))) => {
                return broken(format!(
                    "the stopped task {} has status {}",
                    run.name, task["status"]
                ));
            }
            Some((_, other)) => return broken(format!("tasks/get is answered with {other}")),
        }
    }
    // A session has updates beside those of a turn, and version 2 has background work.
    let turns: &[&str] = match play.facts.family() {
        Family::AcpV2 => &["agent_"],
        Family::Acp | Family::AcpDraft => &["agent_", "tool_call"],
        _ => &[""],
    };
    let is_said = |report: &serde_json::Value| {
        let kind = report["params"]["update"]["sessionUpdate"].as_str().unwrap_or_default();
        turns.iter().any(|turn| kind.starts_with(turn))
    };
    let reports = run.reports(&play.session).into_iter();
    match reports.filter(|(at, report)| *at > ended_at && is_said(report)).count() {
        0 => Ok(()),
        count => {
            broken(format!("after the end of work {} there are {count} reports of it", made.id))
        }
    }
}

/// A token of ours is valid until the response.
pub(super) fn quiet_after_response(play: &Play<'_>, name: Name) -> Result<(), Fault> {
    let (made, run) = (made(play, name)?, run(play, name)?);
    once(play, made)?;
    let answered_at = play.session.answered_at(&made.id).unwrap_or(usize::MAX);
    match reports_after(play, run, answered_at) {
        // It was cut short, so the cancel was read.
        0 if reports_of_whole(play, run).is_some() => Ok(()),
        0 => in_time(play, made),
        count => broken(format!("after the response to {made} there are {count} reports of it")),
    }
}

pub(super) fn accepted(play: &Play<'_>, prompt: &Made) -> Result<(), Fault> {
    once(play, prompt)?;
    let is_other = |outcome: &&Outcome| !outcome.is_result() && !outcome.is_cancelled();
    let other = answers(play, prompt).into_iter().find(is_other);
    none(other, |outcome| format!("prompt {} is answered with {outcome}", prompt.id))
}

#[cfg(test)]
mod tests;

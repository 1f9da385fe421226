//! The rules about turns of an agent.

use std::time::Duration;

use super::{answers, made, once, undisturbed};
use crate::check::Name;
use crate::play::{Made, Play};
use crate::stop::{Fault, broken};
use crate::wire::Outcome;

/// A turn that ends so soon after its stop was read may have been about to end.
const ENDING: Duration = Duration::from_millis(250);

pub(super) fn stop_answered(play: &Play<'_>, turn: &Made) -> Result<(), Fault> {
    once(play, turn)?;
    match answers(play, turn)[..] {
        [outcome @ (Outcome::Error { .. } | Outcome::Cancelled), ..] => broken(format!(
            "turn {} was stopped, and is answered with {outcome} instead of a stop reason",
            turn.id
        )),
        _ => Ok(()),
    }
}

pub(super) fn stop_honoured(play: &Play<'_>, turn: &Made) -> Result<(), Fault> {
    let Some((at, outcome)) = play.session.answers_to(&turn.id).next() else {
        return broken(format!("turn {} was stopped, and is never answered", turn.id));
    };
    if outcome.is_cancelled() {
        return Ok(());
    }
    let said = match outcome {
        Outcome::Result(result) => format!("stop reason {}", result["stopReason"]),
        other => other.to_string(),
    };
    let why = format!("turn {} was stopped, and is answered with {said}", turn.id);
    let read_at = play.read_at(turn.cancelled_at.unwrap_or(0)).filter(|read_at| *read_at < at);
    match read_at {
        Some(read_at) if read_at < play.held_until => Err(why.into()),
        Some(read_at) if play.session.between(read_at, at) > ENDING => Err(why.into()),
        _ => Err(Fault::Unclear(format!("{why}, maybe before the stop was read"))),
    }
}

pub(super) fn ended(play: &Play<'_>, turn: &Made) -> Result<(), Fault> {
    undisturbed(play, turn)?;
    match answers(play, turn)[..] {
        [Outcome::Result(_), ..] => Ok(()),
        [outcome, ..] => {
            broken(format!("turn {} was not stopped, and is answered with {outcome}", turn.id))
        }
        [] => Ok(()),
    }
}

pub(super) fn quiet_after(play: &Play<'_>, name: Name) -> Result<(), Fault> {
    let turn = made(play, name)?;
    let Some((ended_at, _)) = play.session.answers_to(&turn.id).next() else {
        return Err(Fault::Unclear(format!("turn {} is never answered", turn.id)));
    };
    let session = play.turns.get(&name).map(String::as_str).unwrap_or_default();
    match play.session.updates_of(session).filter(|at| *at > ended_at).count() {
        0 => Ok(()),
        count => broken(format!(
            "after the response to turn {} there are {count} updates in its session",
            turn.id
        )),
    }
}

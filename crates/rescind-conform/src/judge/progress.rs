//! The rules about progress.

use serde_json::Value;

use super::response::in_time;
use crate::family::Family;
use crate::play::{Made, Play};
use crate::stop::{Fault, broken, holds_if};
use crate::value::by_value;
use crate::wire::Heard;

/// Each report but those of one request is of a request at work, and tells of more than the last.
pub(super) fn of_others(play: &Play<'_>, but: &Made) -> Result<(), Fault> {
    let tokens: Vec<Value> = play.named.values().map(|made| Value::from(&*made.token)).collect();
    let unknown =
        |heard: &Heard| matches!(heard, Heard::Progress { token } if !tokens.contains(token));
    if let Some((_, report)) = play.session.messages(unknown).next() {
        return broken(format!("there is progress of no request: {report}"));
    }
    let mut others = play.named.values().filter(|made| made.id != but.id);
    others.try_for_each(|made| rises_until_the_end(play, made))
}

fn rises_until_the_end(play: &Play<'_>, made: &Made) -> Result<(), Fault> {
    let token = Value::from(&*made.token);
    let answered_at = play.session.answered_at(&made.id).unwrap_or(usize::MAX);
    let mut last = f64::NEG_INFINITY;
    for (at, report) in play.session.reports_of(&token) {
        holds_if(at < answered_at, || format!("{made} is answered, and there is progress of it"))?;
        let progress = report["params"]["progress"].as_f64().unwrap_or(last);
        holds_if(progress > last, || format!("the progress of {made} is {progress} after {last}"))?;
        last = progress;
    }
    Ok(())
}

/// There is progress of a request after the cancel of another.
pub(super) fn goes_on(play: &Play<'_>, made: &Made, other: &Made) -> Result<(), Fault> {
    let Some(cancelled_at) = other.cancelled_at else { return Ok(()) };
    let token = Value::from(&*made.token);
    // A report that comes before may have been sent before the cancel was read.
    let read_at = play.read_at(cancelled_at).unwrap_or(cancelled_at);
    let goes_on = play.session.reports_of(&token).any(|(at, _)| at > read_at);
    play.holds_on_time(goes_on, || {
        format!("after the cancel of {other} there is no progress of {made}")
    })
}

/// No progress of a request once the server had read its cancel.
pub(super) fn none_after(play: &Play<'_>, made: &Made) -> Result<(), Fault> {
    let cancelled_at = made.cancelled_at.unwrap_or(0);
    let read_at = play.read_at(cancelled_at).ok_or("no request after the cancel was answered")?;
    let token = Value::from(&*made.token);
    match play.session.reports_of(&token).filter(|(at, _)| *at > read_at).count() {
        0 => in_time(play, made),
        count => broken(format!(
            "after the cancel of {made} was read there is progress of it, {count} times"
        )),
    }
}

/// The end of each progress of a request was reported.
pub(super) fn ended(play: &Play<'_>, made: &Made) -> Result<(), Fault> {
    let reports = play.session.messages(|heard| matches!(heard, Heard::Progress { .. }));
    let reports: Vec<Value> = reports.map(|(_, report)| report).collect();
    let open = match play.facts.family() {
        Family::Lsp => open_in_lsp(&reports, made),
        _ => open_in_dap(&reports, made),
    };
    match open {
        None => in_time(play, made),
        Some(open) => {
            broken(format!("progress {open} of {made} has started, and its end is not reported"))
        }
    }
}

fn open_in_lsp(reports: &[Value], made: &Made) -> Option<Value> {
    let own = |report: &&Value| report["params"]["token"] == *made.token;
    let is = |kind: &'static str| move |report: &Value| report["params"]["value"]["kind"] == kind;
    let own: Vec<&Value> = reports.iter().filter(own).collect();
    let is_open = own.iter().any(|it| is("begin")(it)) && !own.iter().any(|it| is("end")(it));
    is_open.then(|| Value::from(&*made.token))
}

/// The Debug Adapter Protocol names the request where progress starts, and only the progress where it ends.
fn open_in_dap(reports: &[Value], made: &Made) -> Option<Value> {
    let names = |event: &'static str| {
        reports.iter().filter(move |report| report["event"] == event).map(|report| &report["body"])
    };
    let is_open = |started: &&Value| {
        by_value(&started["requestId"].to_string()) == made.id
            && !names("progressEnd").any(|ended| ended["progressId"] == started["progressId"])
    };
    names("progressStart").find(is_open).map(|started| started["progressId"].clone())
}

//! Values that tests build by hand: the record of a session, and a target that is never reached.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};

use crate::check::{Clause, Source, WorkEnd};
use crate::family::Family;
use crate::judge::rules::Rule;
use crate::judge::rules::judge;
use crate::play::{Made, Next, Play};
use crate::report::Verdict;
use crate::session::{Entry, Session, What};
use crate::stop::Fault;
use crate::target::{Link, Target};
use crate::work_record::{Run, Stopping};

pub(crate) fn push(session: &mut Session, what: What) {
    let at = session.record.last().map_or(Duration::ZERO, |entry| entry.at);
    session.record.push(Entry { at, what });
}

/// The other side says this.
pub(crate) fn hear(session: &mut Session, message: &str) {
    serde_json::from_str::<Value>(message).expect("an entry that is known, or JSON");
    let heard = session.wire.read(message.as_bytes());
    push(session, What::Got { message: message.into(), heard });
}

/// The other side answers with this member.
fn answer(play: &mut Play<'_>, id: &str, member: &str) {
    hear(&mut play.session, &format!(r#"{{"jsonrpc":"2.0","id":{id},{member}}}"#));
}

/// Returns what is said of a record in which one of these rules is broken, or not seen to hold.
pub(crate) fn broken(play: &Play<'_>, rules: &[Rule]) -> Option<String> {
    judge(play, rules).map(|(_, fault)| match fault {
        Fault::Broken(why) => why,
        Fault::Unclear(why) => format!("unclear: {why}"),
    })
}

/// Adds an entry of a record that is written in words.
pub(crate) fn add(play: &mut Play<'_>, entry: &str) {
    let at = play.session.record.len();
    let words: Vec<_> = entry.split(' ').collect();
    if let ["ask" | "slow", _, id] | ["crowd" | "next" | "stop", id] = words[..] {
        play.ids.insert(id.into());
    }
    match words[..] {
        [word @ ("ask" | "slow"), name, id] => {
            let name = name.chars().next().expect("it has a name");
            let works_from = (word == "slow").then_some(at);
            let made = Made { works_from, ..made(play, id) };
            play.named.insert(name, made);
        }
        ["crowd", id] => {
            let made = made(play, id);
            play.crowd.push(made);
        }
        ["next", id] => play.nexts.push(Next { id: id.into(), sent_at: at }),
        ["cancel", id] => {
            let mut all = play.named.values_mut().chain(&mut play.crowd);
            let made = all.find(|made| made.id == id).expect("it was made");
            made.cancelled_at = Some(at);
            play.cancels.push(at);
            made.cancel_id = Some("99".into());
        }
        ["result", id] => return answer(play, id, r#""result":{}"#),
        ["result", id, text] => return answer(play, id, &format!(r#""result":"{text}""#)),
        ["error", id, code] => {
            return answer(play, id, &format!(r#""error":{{"code":{code},"message":"no"}}"#));
        }
        ["progress", id] => {
            let token = format!("of-{id}");
            let params = json!({ "progressToken": token });
            let progress = json!({ "method": "notifications/progress", "params": params });
            return hear(&mut play.session, &progress.to_string());
        }
        ["broken"] => return push(&mut play.session, What::Broken("not JSON, at byte 0".into())),
        ["work", name, id, on_wire] => {
            let name = name.chars().next().expect("it has a name");
            let run = Run { name: json!(on_wire), id: id.into(), begun_at: at, ..Run::default() };
            play.runs.insert(name, run);
        }
        ["stop", id] => {
            let run = play.runs.get_mut(&'a').expect("it was begun");
            let is_named = run.name != "";
            run.stops.push(Stopping { id: id.into(), at, is_named });
        }
        ["status", id] => {
            play.runs.get_mut(&'a').expect("it was begun").asked.push(id.into());
        }
        ["theirs", id] => drop(play.theirs_for.insert('a', id.into())),
        ["ended", by_itself] => play.ended = Some(by_itself == "cleanly"),
        ["told", end] => drop(play.witnessed.insert('a', (end_of(end), true))),
        ["told", "at", "once", end] => drop(play.witnessed.insert('a', (end_of(end), false))),
        ["wait", ms] => {
            push(&mut play.session, What::Sent(entry.into()));
            let last = play.session.record.last_mut().expect("it was just added");
            last.at += Duration::from_millis(ms.parse().expect("a number"));
            return;
        }
        ["late"] => play.lateness = Duration::from_secs(1),
        ["sent"] => play.sent_at = at,
        // More than an idle machine, and less than matters by itself.
        ["barely", "late"] => play.lateness = Duration::from_micros(100),
        ["quiet"] => play.silent = at..usize::MAX,
        ["loud"] => play.silent.end = at,
        _ => return hear(&mut play.session, entry),
    }
    push(&mut play.session, What::Sent(entry.into()));
}

fn end_of(word: &str) -> WorkEnd {
    if word == "cancelled" { WorkEnd::Cancelled } else { WorkEnd::Finished }
}

fn made(play: &Play<'_>, id: &str) -> Made {
    let noun = if play.client.is_some() { "our request" } else { "request" };
    let token = format!("of-{id}");
    Made {
        id: id.into(),
        token,
        cancelled_at: None,
        cancel_id: None,
        noun,
        works_from: None,
        asked_ms: play.slow_ms,
    }
}

/// In none of these records is anything wrong.
#[track_caller]
pub(crate) fn holds(broken: impl Fn(&str) -> Option<String>, records: &[&str]) {
    for record in records {
        assert_eq!(broken(record), None, "{record:?}");
    }
}

/// In each of these records something is wrong, and that is said in these words.
#[track_caller]
pub(crate) fn breaks(broken: impl Fn(&str) -> Option<String>, records: &[(&str, &str)]) {
    for (record, why) in records {
        assert_eq!(broken(record).as_deref(), Some(*why), "{record:?}");
    }
}

/// A target that can't be started: whoever asks for it gets to play a check.
pub(crate) struct Absent;

const PLAYED: &str = "it would be played now";

impl Target for Absent {
    fn start(&self) -> io::Result<Link> {
        Err(io::Error::other(PLAYED))
    }
}

pub(crate) fn is_played(verdict: &Verdict) -> bool {
    verdict.why().is_some_and(|why| why.contains(PLAYED))
}

/// Asks for something in these two protocols, and in no other.
pub(crate) const IN_TWO_PROTOCOLS: &[Clause] =
    &[Source::new(&[Family::Acp, Family::Mcp2026], "").must("")];

//! Work: its names, its stops and its ends.

use std::time::Duration;

use serde_json::{Value, json};

use super::Play;
use super::items::Item;
use crate::check::{Id, Name};
use crate::document::Document;
use crate::facts::Facts;
use crate::family::{Family, Request, SESSION, put};
use crate::options::Options;
use crate::play::steps::Step;
use crate::session::{Session, Waited};
use crate::stop::{Stop, lacks, missed};
use crate::target::{Target, Unreached};
use crate::tools;
use crate::work_record::{Run, Stopping};

/// The time after which stopped work is compared with other work.
const STOPPED: Duration = Duration::from_secs(2);
/// The name of the other work.
const OTHER: Name = '~';

impl Play<'_> {
    /// Opens the sessions that these messages name, so that nothing is between these on the wire.
    pub(super) fn open_for_work(&mut self, items: &[Item]) -> Result<(), Stop> {
        let has_sessions = self.facts.work.as_ref().is_ok_and(Request::is_in_session);
        for item in items.iter().filter(|_| has_sessions) {
            let (Item::Work(name) | Item::WorkAfter(_, name) | Item::Stop(name)) = *item else {
                continue;
            };
            if !self.runs.contains_key(&name) {
                let session = self.session.open_session()?;
                if self.runs.values().any(|run| run.name == *session) {
                    return lacks("two sessions have one id");
                }
                self.runs.insert(name, Run { name: json!(session), ..Run::default() });
            }
        }
        Ok(())
    }

    /// Returns the messages that begin work, in the session of `before` where work is in one.
    pub(super) fn begin(&mut self, name: Name, before: Name, at: usize) -> Vec<String> {
        let facts = self.facts;
        let Ok(work) = &facts.work else { return vec![] };
        self.version += 1;
        let change = facts.change(&self.session, self.version);
        let made = self.name(name, Id::Fresh);
        let session = self.runs.get(&before).map(|run| run.name.clone());
        let run = self.runs.entry(name).or_default();
        if work.is_in_session() {
            run.name = session.unwrap_or_default();
        }
        (run.id, run.begun_at) = (made.id.clone(), at);
        let mut params = put(&work.lasting(self.slow_ms), &[(SESSION, run.name.clone())]);
        let has_token = !run.name.is_null() && facts.family() == Family::Lsp;
        if let (true, Some(members)) = (has_token, params.as_object_mut()) {
            members.insert("workDoneToken".into(), run.name.clone());
        }
        let message = self.session.wire.request(&made.id, &work.method, &params, "");
        change.into_iter().chain([message]).collect()
    }

    pub(super) fn stop(&mut self, name: Name, at: usize) -> String {
        let id = self.fresh();
        let run = self.runs.entry(name).or_default();
        let is_named = !run.name.is_null();
        let unknown = json!("conformance-unknown");
        let message = self.session.wire.stop(if is_named { &run.name } else { &unknown }, &id);
        if !self.is_control {
            let id = if self.facts.has_tasks() { id } else { String::new() };
            run.stops.push(Stopping { id, at, is_named });
        }
        self.unless_control(message, at)
    }

    pub(super) fn ask_status(&mut self, name: Name) -> String {
        let id = self.fresh();
        let Some(run) = self.runs.get_mut(&name).filter(|_| self.facts.has_tasks()) else {
            return String::new();
        };
        run.asked.push(id.clone());
        self.session.wire.request(&id, "tasks/get", &json!({ "taskId": run.name }), "")
    }

    fn run(&self, name: Name) -> Run {
        self.runs.get(&name).cloned().unwrap_or_default()
    }

    /// Waits until work is seen to run. A server that begins none has none to stop.
    ///
    /// If nothing is seen of it but a question, that is left open, so that the work goes on.
    pub(super) fn wait_until_work_started(&mut self, name: Name) -> Result<(), Stop> {
        let names = self.runs.values().map(|run| run.name.clone());
        self.session.left = names.filter(|name| !name.is_null()).collect();
        let begun = self.begun(name);
        self.session.left.clear();
        let is_begun = match begun {
            Err(Stop::Stuck(why)) => return lacks(why),
            begun => begun?,
        };
        match self.run(name).ends(&self.session).first() {
            Some((_, end)) => {
                missed(format!("the work was over, with {end}, before it could be stopped"))
            }
            None if is_begun => Ok(()),
            None => lacks("the request has begun no work"),
        }
    }

    /// Waits until work has begun, notes the name that the server gives it, and returns whether it has begun. The
    /// response to the request may say that there is none.
    fn begun(&mut self, name: Name) -> Result<bool, Stop> {
        let run = self.run(name);
        let what = format!("a sign of work {name}");
        if self.facts.has_tasks() {
            return if run.name.is_null() { self.begun_as_task(name, &run.id) } else { Ok(true) };
        }
        let known: Vec<Value> = self.runs.values().map(|run| run.name.clone()).collect();
        let is_new = |session: &Session, token: &Value| {
            let mut reports = session.reports_of(token);
            !known.contains(token)
                && reports.any(|(_, it)| it["params"]["value"]["cancellable"] == true)
        };
        let begun = |session: &Session| {
            let name = match run.name.is_null() {
                true => session.created().find(|token| is_new(session, token))?,
                false => run.name.clone(),
            };
            let run = Run { name, ..run.clone() };
            run.is_seen(session).then_some(run.name)
        };
        let goes_on = self.facts.family() == Family::AcpV2;
        let is_refused = |session: &Session| {
            let mut responses = session.answers_to(&run.id);
            responses.any(|(_, outcome)| !goes_on || !outcome.is_result())
        };
        let waited = self.session.wait(|it| begun(it).is_some() || is_refused(it));
        self.waited(waited, &what)?;
        let found = begun(&self.session);
        let is_begun = found.is_some();
        if let Some(run) = self.runs.get_mut(&name) {
            run.name = found.unwrap_or_else(|| run.name.clone());
        }
        Ok(is_begun)
    }

    /// Waits until a call has become a task, and asks for the result, whose response ends it.
    fn begun_as_task(&mut self, name: Name, call: &str) -> Result<bool, Stop> {
        self.wait_for_response(call, "a response that names the task")?;
        let Some(result) = self.session.result_of(call) else { return Ok(false) };
        let task = result["task"]["taskId"].clone();
        let made = self.name(name, Id::Fresh);
        let params = json!({ "taskId": task });
        let message = self.session.wire.request(&made.id, "tasks/result", &params, "");
        let run = self.runs.entry(name).or_default();
        (run.name, run.id) = (task, made.id);
        self.write(vec![message], false);
        Ok(!self.run(name).name.is_null())
    }

    pub(super) fn wait_until_work_over(&mut self, name: Name) -> Result<(), Stop> {
        if !self.begun(name)? {
            return Ok(());
        }
        let responses = self.responses_to(Some(name), false);
        self.write(responses, false);
        let run = self.run(name);
        self.wait(&format!("the end of work {name}"), |session| run.is_over(session))
    }

    /// Does the same work to its end where no end says whether it was a stop.
    pub(super) fn compare_work(&mut self, name: Name) -> Result<(), Stop> {
        if self.facts.family().marks_stops() {
            return Ok(());
        }
        self.send(&[Item::Work(name)], false)?;
        self.wait_until_work_over(name)
    }

    /// Waits for the end of stopped work, at most until other work that was begun later is over.
    pub(super) fn settle_work(&mut self, name: Name) -> Result<(), Stop> {
        let run = self.run(name);
        let waited = self.session.wait_for(STOPPED, &mut |session| run.is_over(session));
        if waited != Waited::TimedOut {
            return self.waited(waited, "the end of stopped work");
        }
        self.session.note("other work, which nobody stops");
        self.send(&[Item::Work(OTHER)], false)?;
        self.answering(|play| play.wait_until_work_over(OTHER))?;
        match self.run(OTHER).ends(&self.session).is_empty() {
            true => lacks("no other work was begun"),
            false => Ok(()),
        }
    }

    /// Answers what the agent asks, from now on and so far: a client that stops a turn says that it was cancelled.
    pub(super) fn answer_as_cancelled(&mut self) -> Result<(), Stop> {
        self.session.answers = true;
        self.held_until = self.session.record.len();
        let responses = self.responses_to(None, true);
        self.write(responses, false);
        Ok(())
    }

    /// Returns our responses to what was asked for this work, or at all, and is open, unless the check leaves it so.
    pub(super) fn responses_to(&mut self, name: Option<Name>, is_cancelled: bool) -> Vec<String> {
        let run = name.map(|name| self.run(name));
        let Session { wire, open, answers, .. } = &mut self.session;
        let cancelled = json!({ "result": { "outcome": { "outcome": "cancelled" } } });
        let mut responses = Vec::new();
        open.retain(|asked| {
            let is_due = *answers && run.as_ref().is_none_or(|run| run.is_asked_by(asked));
            responses.extend(is_due.then(|| match is_cancelled {
                true => wire.respond(&asked.token, "", &cancelled, ""),
                false => wire.answer(asked, ""),
            }));
            !is_due
        });
        responses
    }
}

/// Finds work that is seen to run before it ends, and stops it.
pub(crate) fn find_work(
    facts: &mut Facts,
    target: &dyn Target,
    options: &Options,
) -> Result<(), Unreached> {
    let works = candidates(facts, target, options)?;
    if works.is_empty() && facts.has_tasks() {
        facts.work = lacks("no tool has tasks that can be cancelled");
    }
    for work in works {
        let trial = Facts { work: Ok(work), ..facts.for_work() };
        let session = trial.open(target, options.suite.patience)?;
        let mut play = Play::new(session, &trial, options.suite.seed, options.slow_ms);
        let begins = play.perform(&[Step::Send(&[Item::Work('a')]), Step::WorkStarted('a')]);
        // It need not end what nobody waits for any more.
        let stopped = play.perform(&[Step::Send(&[Item::Stop('a')])]);
        trial.work.iter().for_each(|work| facts.learn_reverse(&play.session, work));
        match begins.and(stopped) {
            Ok(()) => {
                facts.work = trial.work;
                return Ok(());
            }
            Err(stop @ Stop::Missed(_)) => facts.work = Err(stop),
            Err(stop) => facts.work = lacks(stop.why()),
        }
    }
    Ok(())
}

/// Returns requests that may begin work.
fn candidates(
    facts: &Facts,
    target: &dyn Target,
    options: &Options,
) -> Result<Vec<Request>, Unreached> {
    let own = options.slow.clone().into_iter();
    if facts.family() == Family::Lsp {
        let document = facts.document.as_ref().map(Document::quick);
        // It is what `rescind serve` reports the progress of.
        let count = Request::new("count", json!({ "to": 10, "every_ms": "$TENTH_MS" }));
        return Ok(own.chain(document).chain([count]).collect());
    }
    if !facts.has_tasks() {
        let all = own.chain(facts.family().slow());
        return Ok(all.filter(Request::is_in_session).take(1).collect());
    }
    if !facts.stops_tasks {
        return Ok(vec![]);
    }
    let listed = tools::listed(&mut facts.open(target, options.suite.patience)?);
    let can_be = |tool: &&Value| {
        ["optional", "required"].iter().any(|it| tool["execution"]["taskSupport"] == *it)
    };
    let tools = listed["tools"].as_array().into_iter().flatten().filter(can_be);
    let tools: Vec<&Value> = tools.collect();
    let is_one = |request: &Request| tools.iter().any(|it| it["name"] == request.params["name"]);
    let slow = tools::slow_ones(&json!({ "tools": tools }), options.allow_tools);
    let all = own.filter(is_one).chain(slow).map(|mut request| {
        request.params["task"] = json!({});
        request
    });
    Ok(all.collect())
}

//! The demonstration methods as blocking handlers.

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use protocol_blocking::{
    Answer, BeforeStart, Handler, Internal, InvalidParams, Notification, Request, Responder,
};
use protocol_core::{CallOptions, Violation, WireId};
use serde_json::value::to_raw_value;

use super::methods::{self, Count, Methods, Sleep};
use super::outcomes::Outcomes;
use super::turn::{self, CHUNK_EVERY, CHUNKS, Session, Update};
use super::works::{CREATE_PROGRESS, LOOK, Progress, STOP_PROGRESS};
use crate::dialect::Spoken;

/// The handler behind `rescind serve --runtime blocking` and `single`.
#[derive(Debug)]
pub(super) struct Demo {
    pub(super) methods: Methods,
    /// Whether a thread can run a turn after its response.
    has_threads: bool,
}

impl Demo {
    /// Creates the handler. If it `has_threads`, the caller sets `methods.works.peer` before it serves.
    pub(super) fn new(spoken: Spoken, has_threads: bool) -> Self {
        Self { methods: Methods::new(spoken, Outcomes::default()), has_threads }
    }

    fn count(&self, work: &Request, request: &Request, responder: &mut dyn Responder) -> Answer {
        let count: Count = work.params()?;
        let progress = self.methods.progress_of(request).filter(|it| is_shown(it, responder));
        let mut counted = 0;
        while counted < count.to {
            while let Some(told) = responder.take_notification(STOP_PROGRESS) {
                self.methods.works.stop(&told);
            }
            let is_stopped = progress.as_ref().is_some_and(Progress::is_stopped);
            if is_stopped || responder.sleep(count.every()).is_err() {
                break;
            }
            counted += 1;
            let update = self.methods.progress(request, progress.as_ref(), counted, count.to);
            update.into_iter().for_each(|update| notify(responder, update));
        }
        if let Some(progress) = progress {
            notify(responder, progress.end());
        }
        self.methods.count_ended(&count, counted)
    }

    /// Begins a turn that goes on after its response, where a thread can run it.
    fn prompt(&self, request: &Request, responder: &mut dyn Responder) -> Answer {
        if !self.has_threads || !self.methods.begins_turn(request) {
            return prompt(request, responder);
        }
        // Requests are read as soon as there is a peer, so one may come before it is known.
        let peer = self.methods.works.peer.wait();
        Ok(to_raw_value(&self.methods.works.begin_turn(peer, request)?)?)
    }

    fn task_result(&self, request: &Request, responder: &mut dyn Responder) -> Answer {
        loop {
            if let Some(answer) = self.methods.task_result(request)? {
                return answer;
            }
            responder.sleep(LOOK)?;
        }
    }

    /// Does the work of a request, which is another if that calls a tool.
    fn perform(&self, work: &Request, request: &Request, responder: &mut dyn Responder) -> Answer {
        match work.method.as_str() {
            "sleep" => {
                let sleep: Sleep = work.params()?;
                responder.sleep(sleep.duration())?;
                sleep.slept()
            }
            "count" => self.count(work, request, responder),
            "stubborn" => stubborn(work, responder),
            "nested" => {
                let params = work.params.as_deref();
                Ok(responder.call_raw("sleep", params, CallOptions::default())?)
            }
            "tasks/result" => self.task_result(work, responder),
            _ if self.methods.is_prompt(work) => self.prompt(work, responder),
            _ => self.methods.answer_at_once(work),
        }
    }
}

/// Creates the progress if that is to be done, and begins it. Returns whether the client shows it.
fn is_shown(progress: &Progress, responder: &mut dyn Responder) -> bool {
    let created = to_raw_value(&progress.created()).ok();
    let create = CREATE_PROGRESS;
    let is_shown = !progress.is_created
        || responder.call_raw(create, created.as_deref(), CallOptions::default()).is_ok();
    if is_shown {
        notify(responder, progress.begin());
    }
    is_shown
}

/// Streams the response to a prompt. A stop of the turn cancels the request.
fn prompt(request: &Request, responder: &mut dyn Responder) -> Answer {
    let session: Session = request.params()?;
    for chunk in 1..=CHUNKS {
        notify(responder, turn::chunk(&session, chunk));
        responder.sleep(CHUNK_EVERY)?;
    }
    turn::end()
}

impl Handler for Demo {
    fn request(&self, request: &Request, responder: &mut dyn Responder) -> Answer {
        let work = self.methods.work(request)?;
        let answer = self.perform(&work, request, responder);
        self.methods.answer(request, answer)
    }

    fn notification(&self, notification: &Notification, _: &mut dyn Responder) -> ControlFlow<()> {
        if self.methods.is_exit(notification) {
            return ControlFlow::Break(());
        }
        self.methods.works.stop(notification);
        ControlFlow::Continue(())
    }

    fn violation(&self, violation: Violation, id: Option<&WireId>) {
        methods::report(violation, id);
    }

    // A client that is being tested sees its own mistakes in the responses, and nothing else is written.
    fn invalid_params(&self, _: &InvalidParams) {}

    fn failed(&self, _: &Request, _: &Internal) {}

    fn cancelled_before_start(&self, _: &Request) -> BeforeStart {
        // A method that takes time looks at its marker first.
        BeforeStart::Delivered
    }
}

/// Works on whatever it is told, but lets cancels in, so that they are seen to change nothing.
fn stubborn(request: &Request, responder: &mut dyn Responder) -> Answer {
    const STEP: Duration = Duration::from_millis(10);
    let sleep: Sleep = request.params()?;
    let end = Instant::now() + sleep.duration();
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return sleep.slept();
        }
        thread::sleep(left.min(STEP));
        let _ = responder.checkpoint();
    }
}

fn notify(responder: &mut dyn Responder, (method, params): Update) {
    // A caller that does not read its progress still gets its result.
    let _ = responder.notify(&method, params);
}

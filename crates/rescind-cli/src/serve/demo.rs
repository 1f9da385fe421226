//! The demonstration methods as blocking handlers.

use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use protocol_blocking::{
    Answer, BeforeStart, Handler, Internal, InvalidParams, Notification, Request, Responder,
};
use protocol_core::{CallOptions, Violation, WireId};

use super::methods::{self, CHUNK_EVERY, CHUNKS, Count, Methods, Session, Sleep, Update};
use super::outcomes::Outcomes;
use crate::dialect::Spoken;

/// The handler behind `rescind serve --runtime blocking` and `single`.
#[derive(Debug)]
pub(crate) struct Demo {
    methods: Methods,
}

impl Demo {
    pub(crate) fn new(spoken: Spoken) -> Self {
        Self { methods: Methods::new(spoken, Outcomes::default()) }
    }

    /// Whether LSP's `shutdown` has been asked for.
    pub(crate) fn was_shut_down(&self) -> bool {
        self.methods.was_shut_down()
    }

    fn count(&self, work: &Request, request: &Request, responder: &mut dyn Responder) -> Answer {
        let count: Count = work.params()?;
        for counted in 0..count.to {
            if responder.sleep(count.every()).is_err() {
                return self.methods.count_cancelled(&count, counted);
            }
            if let Some(update) = self.methods.progress(request, counted + 1, count.to) {
                notify(responder, update);
            }
        }
        count.counted(count.to)
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
            _ if self.methods.is_prompt(work) => prompt(work, responder),
            _ => self.methods.answer_at_once(work),
        }
    }
}

/// Streams the response to a prompt. A stop of the turn cancels the request.
fn prompt(request: &Request, responder: &mut dyn Responder) -> Answer {
    let session: Session = request.params()?;
    for chunk in 1..=CHUNKS {
        notify(responder, Methods::chunk(&session, chunk));
        responder.sleep(CHUNK_EVERY)?;
    }
    Methods::end_of_turn()
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
        ControlFlow::Continue(())
    }

    fn violation(&self, violation: Violation, id: Option<&WireId>) {
        methods::report(violation, id);
    }

    // A client that is being tested sees its own mistakes in the responses, and nothing else is written.
    fn invalid_params(&self, _: &InvalidParams) {}

    fn failed(&self, _: &Request, _: &Internal) {}

    fn cancelled_before_start(&self, _: &Request) -> BeforeStart {
        // What takes time looks at its marker first.
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

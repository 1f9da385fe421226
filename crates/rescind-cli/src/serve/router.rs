//! The demonstration methods as async handlers, for any runtime.

use std::sync::Arc;
use std::time::Duration;

use protocol_async::{Answer, Arrival, Cancelled, Incoming, Notification, Request, Timer};
use protocol_core::{CloseReason, Shutdown};
use protocol_router::{Context, Router};
use serde_json::value::{RawValue, to_raw_value};

use super::methods::{self, Count, Methods, Sleep};
use super::outcomes::Outcomes;
use super::turn::{self, CHUNK_EVERY, CHUNKS, Session, Update};
use super::works::{CREATE_PROGRESS, LOOK, Progress};
use crate::dialect::Spoken;

/// The handlers behind `rescind serve --runtime tokio` and `smol`.
#[derive(Clone)]
pub(super) struct AsyncDemo<T> {
    pub(super) methods: Arc<Methods>,
    timer: T,
}

impl<T: Timer<Sleep: Send>> AsyncDemo<T> {
    pub(super) fn new(spoken: Spoken, timer: T) -> Self {
        Self::with_outcomes(spoken, timer, Outcomes::default())
    }

    /// Creates one that keeps outcomes where others do.
    pub(super) fn with_outcomes(spoken: Spoken, timer: T, outcomes: Outcomes) -> Self {
        Self { methods: Arc::new(Methods::new(spoken, outcomes)), timer }
    }

    /// Serves until the connection is closed and what was answered is written.
    pub(super) async fn serve(&self, incoming: &Incoming) -> CloseReason {
        // Tools are called by the same names as methods, so that one match serves both.
        let demo = self.clone();
        let router = Router::new().fallback(async move |arrival, cx| {
            demo.arrival(arrival, cx).await;
            Ok(())
        });
        router.serve(incoming).await
    }

    async fn arrival(&self, arrival: Arrival, cx: Context) {
        match arrival {
            Arrival::Request(request, responder) => {
                responder.answer(self.request(&request, &cx).await);
            }
            Arrival::Notification(notification) => self.notification(&notification, &cx),
            Arrival::Violation { violation, id } => methods::report(violation, id.as_ref()),
            _ => {}
        }
    }

    async fn request(&self, request: &Request, cx: &Context) -> Answer {
        let work = self.methods.work(request)?;
        let answer = self.perform(&work, request, cx).await;
        self.methods.answer(request, answer)
    }

    /// Does the work of a request, which is another if that calls a tool.
    async fn perform(&self, work: &Request, request: &Request, cx: &Context) -> Answer {
        match work.method.as_str() {
            "sleep" => {
                let sleep: Sleep = work.params()?;
                self.sleep(sleep.duration(), cx).await?;
                sleep.slept()
            }
            "stubborn" => {
                let sleep: Sleep = work.params()?;
                self.timer.sleep_until(self.timer.now() + sleep.duration()).await;
                sleep.slept()
            }
            "nested" => Ok(cx.call::<Box<RawValue>>("sleep", work.params.clone()).await?),
            "count" => self.count(work, request, cx).await,
            "tasks/result" => self.task_result(work, cx).await,
            _ if self.methods.begins_turn(work) => {
                Ok(to_raw_value(&self.methods.works.begin_turn(cx.peer(), work)?)?)
            }
            _ if self.methods.is_prompt(work) => self.prompt(work, cx).await,
            _ => self.methods.answer_at_once(work),
        }
    }

    fn notification(&self, notification: &Notification, cx: &Context) {
        if self.methods.is_exit(notification) {
            cx.peer().shutdown(Shutdown::CancelAll);
        }
        self.methods.works.stop(notification);
    }

    async fn count(&self, work: &Request, request: &Request, cx: &Context) -> Answer {
        let count: Count = work.params()?;
        let mut progress = self.methods.progress_of(request);
        if let Some(created) = progress.as_ref().filter(|it| it.is_created) {
            let asked = cx.call::<serde_json::Value>(CREATE_PROGRESS, created.created()).await;
            progress = progress.filter(|_| asked.is_ok());
        }
        progress.iter().for_each(|progress| notify(cx, progress.begin()));
        let mut counted = 0;
        while counted < count.to && !progress.as_ref().is_some_and(Progress::is_stopped) {
            if self.sleep(count.every(), cx).await.is_err() {
                break;
            }
            counted += 1;
            let update = self.methods.progress(request, progress.as_ref(), counted, count.to);
            update.into_iter().for_each(|update| notify(cx, update));
        }
        progress.iter().for_each(|progress| notify(cx, progress.end()));
        self.methods.count_ended(&count, counted)
    }

    async fn task_result(&self, request: &Request, cx: &Context) -> Answer {
        loop {
            if let Some(answer) = self.methods.task_result(request)? {
                return answer;
            }
            self.sleep(LOOK, cx).await?;
        }
    }

    /// Streams the response to a prompt. A stop of the turn cancels the request.
    async fn prompt(&self, request: &Request, cx: &Context) -> Answer {
        let session: Session = request.params()?;
        for chunk in 1..=CHUNKS {
            notify(cx, turn::chunk(&session, chunk));
            self.sleep(CHUNK_EVERY, cx).await?;
        }
        turn::end()
    }

    async fn sleep(&self, duration: Duration, cx: &Context) -> Result<(), Cancelled> {
        let sleep = self.timer.sleep_until(self.timer.now() + duration);
        cx.cancellation().unless_cancelled(sleep).await
    }
}

fn notify(cx: &Context, (method, params): Update) {
    // A caller that does not read its progress still gets its result.
    let _ = cx.try_notify(&method, params);
}

//! The exchanges with a server, each in a task of its own.

use alloc::sync::Arc;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::sync::mpsc::{Receiver, channel};
use tokio::task::{AbortHandle, JoinSet};

use super::exchange::{Message, Report, Reports, Said, Wire};
use crate::client::{ClientSession, Outgoing, ResponseStream};
use crate::head::SCOPE;

/// Every exchange. They end with this.
pub(super) struct Tasks {
    pub(super) wire: Arc<Wire>,
    pub(super) running: JoinSet<()>,
    pub(super) reports: Reports,
}

/// The task of an exchange, which ends with this. A stream that is closed is the cancel in one revision.
pub(super) struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        let Self(task) = self;
        task.abort();
    }
}

impl Tasks {
    /// Returns the reports of messages, and those of heads. The latter wait for no room to read.
    pub(super) fn new(wire: Wire) -> (Self, Receiver<Report>, Receiver<Report>) {
        let ((messages, of_messages), (heads, of_heads)) = (channel(1), channel(1));
        let reports = Reports { number: 0, messages, heads };
        let tasks = Self { wire: Arc::new(wire), running: JoinSet::new(), reports };
        (tasks, of_messages, of_heads)
    }

    /// Posts a request, or asks for the stream of the session itself, or in ACP for that of one session.
    pub(super) fn exchange(
        &mut self,
        number: u64,
        session: &ClientSession,
        scope: Option<&str>,
        post: Option<(Outgoing, Message)>,
    ) -> Task {
        let mut headers = session.headers();
        headers.extend(scope.map(|scope| (SCOPE.into(), scope.into())));
        let post = post.map(|(out, message)| (out.request, (out.headers, message)));
        let (request, post) = post.unzip();
        let limits = self.wire.options.stream;
        let stream = ResponseStream::new(session.rules(), request.flatten(), limits);
        let reports = Reports { number, ..self.reports.clone() };
        self.spawn(number, self.wire.clone().exchange(stream, post, headers, reports))
    }

    /// Starts a task, and reports how it ended, even if it panicked.
    pub(super) fn spawn(
        &mut self,
        number: u64,
        task: impl Future<Output = Said> + Send + 'static,
    ) -> Task {
        let reports = Reports { number, ..self.reports.clone() };
        Task(self.running.spawn(async move {
            let mut task = pin!(task);
            let said = poll_fn(|cx| {
                let polled = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx)));
                polled.unwrap_or_else(|_| Poll::Ready(Said::Refused("its task panicked".into())))
            });
            reports.send(said.await).await;
        }))
    }
}

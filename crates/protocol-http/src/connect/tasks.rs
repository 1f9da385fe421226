//! The exchanges with a server, each in a task of its own.

use alloc::sync::Arc;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tokio::task::{AbortHandle, JoinSet};

use super::exchange::{Message, Name, Reports, Said, Wire};
use crate::client::{ClientSession, Outgoing, ResponseStream};
use crate::head::SCOPE;

/// Every exchange. They end with this.
pub(super) struct Tasks {
    wire: Arc<Wire>,
    pub(super) running: JoinSet<()>,
    reports: Reports,
}

impl Tasks {
    pub(super) fn new(wire: Arc<Wire>, reports: Reports) -> Self {
        Self { wire, running: JoinSet::new(), reports }
    }

    /// Posts a request, or asks for the stream of the session itself, or in ACP for that of one session.
    pub(super) fn exchange(
        &mut self,
        name: Name,
        session: &ClientSession,
        scope: Option<&str>,
        post: Option<(Outgoing, Message)>,
    ) -> AbortHandle {
        let mut headers = session.headers();
        headers.extend(scope.map(|scope| (SCOPE.into(), scope.into())));
        let post = post.map(|(out, message)| (out.request, (out.headers, message)));
        let (request, post) = post.unzip();
        let limits = self.wire.options.stream;
        let stream = ResponseStream::new(session.rules(), request.flatten(), limits);
        let reports = self.reports.clone();
        self.spawn(name, self.wire.clone().exchange(name, stream, post, headers, reports))
    }

    /// Starts a task, and reports how it ended, even if it panicked.
    pub(super) fn spawn(
        &mut self,
        name: Name,
        task: impl Future<Output = Said> + Send + 'static,
    ) -> AbortHandle {
        let reports = self.reports.clone();
        self.running.spawn(async move {
            let mut task = pin!(task);
            let said = poll_fn(|cx| {
                let polled = catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx)));
                polled.unwrap_or_else(|_| Poll::Ready(Said::Lost("its task panicked".into())))
            });
            reports.send(name, said.await).await;
        })
    }
}

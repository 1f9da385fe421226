//! One exchange with the server, in a task of its own.

use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Response};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use protocol_async::hub::Charge;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::wire::{Headers, Link, Said, Task, Wire, value};
use crate::client::{ClientSession, Outgoing, ResponseStream, StreamStep};
use crate::endpoint::Held;
use crate::gate::{LAST_EVENT_ID, SCOPE};
use crate::sse::TooLong;

/// The time that a server has to read a request, or for the head of its response, before a cancel or a notification follows.
/// Over another connection that could come first.
pub(super) const HEAD_TIME: Duration = Duration::from_millis(50);

/// A message of ours, charged until the server takes it.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) out: Outgoing,
    pub(super) bytes: Bytes,
    pub(super) _charge: Option<Charge>,
    /// Dropped once its bytes have left.
    pub(super) leaving: Option<oneshot::Sender<()>>,
    /// The time before which it may not leave.
    pub(super) after: Option<Instant>,
}

struct Exchange {
    number: u64,
    wire: Arc<Wire>,
    stream: ResponseStream,
    /// The message until the server has taken it. Without one, this asks for a stream.
    post: Option<Message>,
    /// The headers of a request for the stream.
    session: Headers,
    response: Option<(Response<Incoming>, Link)>,
    /// The time from which others have waited for it.
    awaited: Option<Instant>,
    tells_head: bool,
}

impl Wire {
    /// Posts a message, or asks for the stream of the session itself, or in ACP for that of one session. Reports how it
    /// ended, even if it panicked. Dropping the task closes the stream, which is the cancel in MCP 2026-07-28.
    pub(super) fn begin(
        self: &Arc<Self>,
        number: u64,
        session: &ClientSession,
        scope: Option<&str>,
        post: Option<Message>,
    ) -> Task {
        let out = post.as_ref().map(|it| &it.out);
        let stream = ResponseStream::new(session.rules(), out, self.options.stream);
        // Others wait for a message that has no response here, and for the head of a stream that is shared.
        let is_shared = out.is_none() && session.rules().shares_streams;
        let is_awaited = out.map_or(is_shared, |out| !out.has_response());
        let is_watched = post.as_ref().is_some_and(|it| it.leaving.is_some());
        let mut headers = session.headers();
        headers.extend(scope.map(|scope| (SCOPE.into(), scope.into())));
        let mut exchange = Exchange {
            number,
            wire: self.clone(),
            stream,
            post,
            session: headers,
            response: None,
            awaited: is_awaited.then(Instant::now),
            tells_head: is_shared || is_watched,
        };
        Task::new(self.running.spawn(async move {
            let said = AssertUnwindSafe(exchange.run()).catch_unwind().await;
            let panicked = |_| Said::Over(Some("its task panicked".into()));
            // Its charge would keep the owner from reading how it ended.
            exchange.post = None;
            exchange.report(said.unwrap_or_else(panicked)).await;
        }))
    }
}

impl Exchange {
    /// Goes on to the end, and returns how it came.
    async fn run(&mut self) -> Said {
        let mut is_again = false;
        loop {
            let post_time = self.wire.options.post_time;
            let left = |since: Instant| post_time.saturating_sub(since.elapsed());
            let time = self.awaited.map_or(Duration::MAX, left);
            let late = |_| Err("the server took too long (options.post_time)".into());
            let taken = timeout(time, self.go_on(is_again)).await.unwrap_or_else(late);
            let lost = taken.map_err(|why| (self.stream.end(false).1, format!(": {why}")));
            let (next, why) = lost.map_or_else(|lost| lost, |step| (step, String::new()));
            match next {
                StreamStep::Nothing => return Said::Over(None),
                StreamStep::Lose | StreamStep::LoseSession => {
                    let how = self.stream.loss() + &why;
                    // A call settles as lost instead.
                    if let Some(it) = self.post.as_ref().filter(|it| it.out.request.is_none()) {
                        self.wire.trouble(Some(&it.bytes), &how);
                    }
                    if next == StreamStep::Lose {
                        return Said::Over(Some(how));
                    }
                    self.report(Said::Parting).await;
                    return Said::SessionGone;
                }
                StreamStep::Read | StreamStep::Resume => is_again = true,
            }
        }
    }

    /// Reads the response that is there, or asks for one.
    async fn go_on(&mut self, is_again: bool) -> Result<StreamStep, String> {
        if let Some((response, _link)) = self.response.take() {
            return self.read(response).await;
        }
        if is_again {
            sleep(self.stream.retry()).await;
        }
        if let Some(after) = self.post.as_ref().and_then(|it| it.after) {
            sleep_until(after).await;
        }
        self.ask().await
    }

    /// Posts the message, or asks for the stream or what it goes on with.
    async fn ask(&mut self) -> Result<StreamStep, String> {
        let last = self.stream.last_event_id().map(|id| (LAST_EVENT_ID.into(), id.into()));
        let get = self.session.iter().cloned().chain(last).collect();
        let (method, headers, body) = match &mut self.post {
            Some(Message { out, bytes, leaving, .. }) => {
                let bytes = bytes.clone();
                let body = match leaving.take() {
                    Some(leaving) => Bytes::from_owner(Held(bytes, leaving)),
                    None => bytes,
                };
                (Method::POST, &out.headers, body)
            }
            None => (Method::GET, &get, Bytes::new()),
        };
        let sent = self.wire.send(&method, headers, body).await;
        let (response, link) = sent.map_err(|error| error.to_string())?;
        let names = |known: &str| headers.iter().any(|(name, _)| name == known);
        // A stream of ACP may lack its session, while the connection is there.
        let is_named = names(self.wire.options.rules.session_header);
        let has_session = is_named && (method == Method::POST || !names(SCOPE));
        // The cancel that makes room for a call may wait behind it.
        let is_call = self.post.as_ref().is_some_and(|it| it.out.request.is_some());
        let post_time = self.wire.options.post_time;
        let retry = value(&response, RETRY_AFTER.as_str()).and_then(|it| it.parse().ok());
        let retry = retry.map(Duration::from_secs).filter(|it| !is_call && *it < post_time);
        let (status, kind) = (response.status().as_u16(), value(&response, CONTENT_TYPE.as_str()));
        let step = self.stream.head(status, kind, has_session, retry);
        // Any other body is a refusal.
        if self.stream.has_events() && mem::take(&mut self.tells_head) {
            self.awaited = None;
            self.report(Said::Taken).await;
        }
        if step == StreamStep::Read {
            (self.post, self.response) = (None, Some((response, link)));
        }
        Ok(step)
    }

    /// Reads a body to its end.
    async fn read(&mut self, response: Response<Incoming>) -> Result<StreamStep, String> {
        let header = self.wire.options.rules.session_header;
        // The stream of `initialize` is resumed in the session that it opens.
        let opened = value(&response, header).filter(|_| self.session.is_empty());
        self.session.extend(opened.map(|id| (header.into(), id.into())));
        let session = self.session.iter().find(|(name, _)| name == header).map(|it| it.1.clone());
        let mut body = response.into_body();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame.map_err(|error| error.to_string())?.into_data() else { continue };
            let mut bytes = &*data;
            let too_long = |error: TooLong| error.to_string();
            while let Some(message) = self.stream.receive(&mut bytes).map_err(too_long)? {
                self.report(Said::Message(message, session.clone())).await;
            }
        }
        let (message, step) = self.stream.end(true);
        if let Some(message) = message {
            self.report(Said::Message(message, session)).await;
        }
        Ok(step)
    }

    async fn report(&self, said: Said) {
        // Room to read may come only from what waits for it.
        let reports = match &said {
            Said::Taken | Said::Parting => &self.wire.heads,
            Said::Over(_) if self.awaited.is_some() => &self.wire.heads,
            Said::Over(_) | Said::Message(..) | Said::SessionGone => &self.wire.messages,
        };
        // The owner may be gone.
        let _ = reports.send((self.number, said)).await;
    }
}

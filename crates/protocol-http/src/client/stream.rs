//! One response stream: the messages in it, and what becomes of its call.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use protocol_core::WireId;
use protocol_json::{path, text, value};

use super::session::Outgoing;
use crate::gate::{EVENTS, JSON, is_type};
use crate::post::call_of;
use crate::rules::Rules;
use crate::sse::{Decoder, SseEvent, TooLong};

/// The shortest time before an attempt, whatever the server names.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);
/// The shortest time before the session's stream is asked for again, if it ends without an event each time.
const QUIET_RETRY: Duration = Duration::from_secs(1);

/// A response to a POST or a GET of the client, as it is read.
///
/// Heads, bytes and ends go in. Messages and [`StreamStep`]s come out.
#[derive(Clone, Debug)]
pub struct ResponseStream {
    phase: Phase,
    /// Whether the response came, so that nothing can be lost any more.
    is_settled: bool,
    rules: &'static Rules,
    awaited: Awaited,
    limits: StreamLimits,
    decoder: Decoder,
    body: Vec<u8>,
    last_event_id: String,
    retry: Duration,
    /// The attempts to resume since the last event, or the last head of a stream of the session.
    attempts: u32,
    status: u16,
    /// `: ` and the server's reason for the status, or empty if it gave none.
    refusal: String,
}

/// The step that a head or an end asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamStep {
    /// Nothing is to be done, since the response or the message has come.
    Nothing,
    /// Reads the body.
    Read,
    /// Asks for the rest of the stream, after the time to retry. A message that was not taken is posted again.
    Resume,
    /// Settles the call as lost.
    Lose,
    /// Settles every call as lost, for the session is gone.
    LoseSession,
}

/// The content for which a response is read.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Awaited {
    /// It has nothing to read: the message has no response, or one on a stream that is shared.
    Nothing,
    /// It is that of a request, with this response in it.
    Response(WireId),
    /// It is the stream of the session itself.
    Messages,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The request is sent, and no head came.
    Sent,
    /// One JSON body comes.
    Body,
    /// Server-sent events come.
    Events,
    /// The stream broke off, and the client asks for the rest of it.
    Resuming,
}

/// The bounds of a [`ResponseStream`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// The bytes of a JSON body or of an event; 4 MiB. A line of an event may be 16 bytes longer.
    pub message_bytes: usize,
    /// The attempts to resume without an event between them; 5. For the
    /// session's own stream, a head with status 200 counts as an event.
    pub resumes: u32,
    /// The time before an attempt, unless the server names one; 1 s.
    pub retry: Duration,
    /// The longest such time that the server may name; 60 s. The shortest is 100 ms.
    pub longest_retry: Duration,
}

impl StreamLimits {
    /// The defaults, as each field documents them.
    pub const DEFAULT: Self = Self {
        message_bytes: 4 << 20,
        resumes: 5,
        retry: Duration::from_secs(1),
        longest_retry: Duration::from_secs(60),
    };
}

impl ResponseStream {
    /// Creates the response to a message that is posted, or without one the stream of the session itself.
    pub fn new(rules: &'static Rules, posted: Option<&Outgoing>, limits: StreamLimits) -> Self {
        let response = |out: &Outgoing| out.request.clone().filter(|_| out.has_response());
        let awaited = posted.map_or(Awaited::Messages, |out| {
            response(out).map_or(Awaited::Nothing, Awaited::Response)
        });
        Self {
            phase: Phase::Sent,
            is_settled: false,
            rules,
            awaited,
            limits,
            decoder: Decoder::new(limits.message_bytes),
            body: Vec::new(),
            last_event_id: String::new(),
            retry: limits.retry,
            attempts: 0,
            status: 0,
            refusal: String::new(),
        }
    }

    /// Returns whether the body is server-sent events. Any other body is read to its end first.
    pub fn has_events(&self) -> bool {
        self.phase == Phase::Events
    }

    /// Returns the id for the header `Last-Event-ID`, if an event had one.
    pub fn last_event_id(&self) -> Option<&str> {
        Some(&*self.last_event_id).filter(|id| !id.is_empty())
    }

    /// Returns the time to wait before the stream is resumed.
    pub const fn retry(&self) -> Duration {
        self.retry
    }

    /// Takes the status and the type of the body, and whether the request named a session.
    ///
    /// A message without a response here may be posted again. A server that is busy names the time to `retry`.
    pub fn head(
        &mut self,
        status: u16,
        kind: Option<&str>,
        has_session: bool,
        retry: Option<Duration>,
    ) -> StreamStep {
        self.status = status;
        self.decoder = Decoder::new(self.limits.message_bytes);
        let is_resumed = self.phase == Phase::Resuming;
        if self.rules.shares_streams && is_resumed {
            match status {
                // A server of ACP may be busy, or may not have noticed yet that the stream before was lost.
                409 | 503 => return self.resume(),
                // It has forgotten the event, and may have kept responses that were not sent.
                400 if !mem::take(&mut self.last_event_id).is_empty() => return self.resume(),
                _ => {}
            }
        }
        let (is_read, is_own) =
            (self.awaited != Awaited::Nothing, self.awaited == Awaited::Messages);
        // A balancer may close the session's stream after each silence. So its head counts as an event does.
        if is_own && status == 200 && mem::take(&mut self.attempts) > 0 {
            self.retry = self.retry.max(QUIET_RETRY);
        }
        // A server of MCP without that stream may have nothing at all for GET.
        let is_offered = !is_own || is_resumed || self.rules.shares_streams;
        // An error may have the response as its body, but not in place of the rest of a stream.
        self.phase = match (status, retry) {
            // "When a client receives HTTP 404 in response to a request containing an MCP-Session-Id …"
            (404, _) if has_session && is_offered => return StreamStep::LoseSession,
            (200..=299, _) if !is_read => return StreamStep::Nothing,
            (503, Some(retry)) if !is_read => {
                self.retry = retry.max(SHORTEST_RETRY);
                return StreamStep::Resume;
            }
            _ if is_read && is_type(kind, JSON) && !is_resumed => Phase::Body,
            (200, _) if is_read && is_type(kind, EVENTS) => Phase::Events,
            _ => return StreamStep::Lose,
        };
        StreamStep::Read
    }

    /// Asks for the rest of the stream, unless that was done too often.
    fn resume(&mut self) -> StreamStep {
        if self.attempts >= self.limits.resumes {
            return StreamStep::Lose;
        }
        self.attempts += 1;
        self.phase = Phase::Resuming;
        StreamStep::Resume
    }

    /// Takes bytes of the body, up to the end of a message if there is one, and returns that.
    ///
    /// # Errors
    ///
    /// Returns [`TooLong`] for a body or an event over its limit. The stream is to be closed then.
    pub fn receive(&mut self, bytes: &mut &[u8]) -> Result<Option<Vec<u8>>, TooLong> {
        if self.phase == Phase::Body {
            if self.body.len() + bytes.len() > self.limits.message_bytes {
                return Err(TooLong);
            }
            self.body.extend_from_slice(mem::take(bytes));
            return Ok(None);
        }
        loop {
            // An event that is too long would be as long if it came again.
            let event = self.decoder.receive(bytes).inspect_err(|_| self.attempts = u32::MAX)?;
            let id = self.decoder.last_event_id();
            // An id that no header can have names no event to come back to.
            let is_short = !id.is_empty() && id.len() <= 1_024;
            if is_short && id.bytes().all(|it| matches!(it, b' '..=b'~')) {
                id.clone_into(&mut self.last_event_id);
            }
            match event {
                None => return Ok(None),
                Some(SseEvent::Retry(time)) => {
                    self.retry = time.max(SHORTEST_RETRY).min(self.limits.longest_retry);
                }
                Some(SseEvent::Message(data)) => {
                    self.attempts = 0;
                    // An event without data only has an id.
                    if !data.is_empty() {
                        return Ok(Some(self.message(data.into_bytes())));
                    }
                }
            }
        }
    }

    /// Takes the end of the body, by whatever means, and returns the message that a JSON body is.
    ///
    /// A body that `is_whole` ended as its head said.
    pub fn end(&mut self, is_whole: bool) -> (Option<Vec<u8>>, StreamStep) {
        let body = mem::take(&mut self.body);
        let body = Some(body).filter(|body| is_whole && !body.is_empty());
        let mut message = body.map(|body| self.message(body));
        let is_refusal = self.status != 200 && self.phase == Phase::Body && !self.is_settled;
        // "The HTTP response body MAY comprise a JSON-RPC error response that has no id."
        let refusal = message.take_if(|_| is_refusal).and_then(|it| reason(&it));
        self.refusal = refusal.unwrap_or_default();
        let has_place = self.awaited == Awaited::Messages || !self.last_event_id.is_empty();
        // The end of a stream is its loss, unless the response came or the rest can still come.
        let step = match self.phase {
            _ if self.is_settled => StreamStep::Nothing,
            Phase::Events | Phase::Resuming if self.rules.has_sessions && has_place => {
                self.resume()
            }
            _ => StreamStep::Lose,
        };
        (message, step)
    }

    /// Returns in words how the stream was lost.
    pub fn loss(&self) -> String {
        match self.status {
            0 => "the server could not be asked".into(),
            200 if self.awaited == Awaited::Messages => {
                "the stream ended, and is asked for no more (stream.resumes)".into()
            }
            200 => "the response stream ended without the response".into(),
            status => format!("the server responded with status {status}{}", self.refusal),
        }
    }

    fn message(&mut self, message: Vec<u8>) -> Vec<u8> {
        let response = call_of(&message).filter(|(_, is_request)| !is_request);
        // The endpoint tells a second response from the first.
        self.is_settled |= response.is_some_and(|(id, _)| self.awaited == Awaited::Response(id));
        message
    }
}

/// Returns `: ` and the first 200 characters of the text of an error that names no request.
fn reason(message: &[u8]) -> Option<String> {
    let json = value(core::str::from_utf8(message).ok()?)?;
    let said = path(json, &["error", "message"]).and_then(text)?;
    Some(": ".chars().chain(said.chars().filter(|it| !it.is_control()).take(200)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ClientSession;

    const EVENTS: Option<&str> = Some("text/event-stream");
    const JSON: Option<&str> = Some("application/json");

    fn of_request(rules: &'static Rules, limits: StreamLimits) -> ResponseStream {
        let out = ClientSession::new(rules).post(br#"{"id":1,"method":"m"}"#).unwrap();
        ResponseStream::new(rules, Some(&out), limits)
    }

    fn stream(rules: &'static Rules) -> ResponseStream {
        of_request(rules, StreamLimits::DEFAULT)
    }

    fn read(stream: &mut ResponseStream, text: &str) -> Vec<String> {
        let (mut bytes, mut out) = (text.as_bytes(), Vec::new());
        while let Some(message) = stream.receive(&mut bytes).unwrap() {
            out.push(String::from_utf8(message).unwrap());
        }
        out
    }

    #[test]
    fn a_stream_that_ends_without_the_response_is_a_loss_and_with_an_id_is_resumed() {
        let mut lost = stream(&Rules::MCP_2025_11_25);
        assert_eq!(lost.head(200, EVENTS, true, None), StreamStep::Read);
        assert_eq!(read(&mut lost, "data: {\"method\":\"a\"}\n\n").len(), 1);
        assert_eq!(lost.end(true), (None, StreamStep::Lose));

        let mut resumed = stream(&Rules::MCP_2025_11_25);
        resumed.head(200, EVENTS, true, None);
        assert_eq!(read(&mut resumed, "id: 7\nretry: 20\ndata:\n\n"), [""; 0]);
        assert_eq!(resumed.end(false), (None, StreamStep::Resume));
        assert_eq!((resumed.last_event_id(), resumed.retry().as_millis()), (Some("7"), 100));
        for _ in 1..StreamLimits::DEFAULT.resumes {
            assert_eq!(resumed.end(false).1, StreamStep::Resume);
        }
        let mut given_up = resumed.clone();
        assert_eq!(given_up.end(false).1, StreamStep::Lose);
        resumed.head(200, EVENTS, true, None);
        assert_eq!(read(&mut resumed, "id: 8\ndata: {\"id\":1,\"result\":2}\n\n").len(), 1);
        assert_eq!(resumed.end(true), (None, StreamStep::Nothing));

        let mut modern = stream(&Rules::MCP_2026_07_28);
        modern.head(200, EVENTS, true, None);
        read(&mut modern, "id: 7\ndata:\n\n");
        assert_eq!(modern.end(false).1, StreamStep::Lose, "it has no resumption");
    }

    #[test]
    fn the_longest_retry_may_be_shorter_than_the_shortest() {
        let longest_retry = Duration::from_millis(50);
        let limits = StreamLimits { longest_retry, ..StreamLimits::DEFAULT };
        let mut one = ResponseStream::new(&Rules::MCP_2025_11_25, None, limits);
        one.head(200, EVENTS, true, None);
        assert_eq!(read(&mut one, "retry: 20\n\n"), [""; 0]);
        assert_eq!(one.retry(), longest_retry);
    }

    #[test]
    fn a_body_is_the_response_or_a_loss() {
        for (body, is_whole, step) in [
            (r#"{"id":1,"result":{}}"#, true, StreamStep::Nothing),
            (r#"{"id":1,"error":{}}"#, true, StreamStep::Nothing),
            (r#"{"id":1,"result":{}}"#, false, StreamStep::Lose),
            (r#"{"id":2,"result":{}}"#, true, StreamStep::Lose),
            (r#"{"error":{}}"#, true, StreamStep::Lose),
            ("", true, StreamStep::Lose),
        ] {
            let mut one = stream(&Rules::MCP_2026_07_28);
            one.head(200, JSON, true, None);
            assert_eq!(one.receive(&mut body.as_bytes()), Ok(None));
            assert_eq!(one.end(is_whole).1, step, "{body}");
        }
    }

    #[test]
    fn an_error_status_with_an_error_of_no_request_is_a_loss_and_no_message() {
        for (body, is_message, said) in [
            (r#"{"id":null,"error":{"message":"no\u0007pe"}}"#, false, "status 400: nope"),
            ("<html>", false, "status 400"),
            (r#"{"id":1,"error":{"message":"m"}}"#, true, "status 400"),
        ] {
            let mut one = stream(&Rules::MCP_2026_07_28);
            one.head(400, JSON, true, None);
            assert_eq!(one.receive(&mut body.as_bytes()), Ok(None));
            let (message, step) = one.end(true);
            assert_eq!((message.is_some(), step == StreamStep::Lose), (is_message, !is_message));
            assert!(one.loss().ends_with(said), "{}", one.loss());
        }
    }

    #[test]
    fn a_head_says_what_can_come() {
        let step = |status, content_type, has_session| {
            stream(&Rules::MCP_2025_11_25).head(status, content_type, has_session, None)
        };
        let json = Some("Application/JSON; charset=utf-8");
        assert_eq!(step(404, json, true), StreamStep::LoseSession);
        assert_eq!(step(404, json, false), StreamStep::Read);
        assert_eq!(step(500, Some("text/event-stream"), true), StreamStep::Lose);
        assert_eq!(step(202, None, true), StreamStep::Lose);
        let mut resumed = stream(&Rules::MCP_2025_11_25);
        resumed.head(200, EVENTS, true, None);
        assert_eq!(read(&mut resumed, "id: 7\ndata:\n\n"), [""; 0]);
        assert_eq!(resumed.end(false).1, StreamStep::Resume);
        assert_eq!(
            resumed.head(200, JSON, true, None),
            StreamStep::Lose,
            "the rest of a stream is no body"
        );
    }

    #[test]
    fn a_stream_of_the_session_that_is_not_found_may_not_be_offered_unless_it_was_there() {
        for (rules, is_offered) in [(&Rules::MCP_2025_11_25, false), (&Rules::ACP_V1, true)] {
            let mut one = ResponseStream::new(rules, None, StreamLimits::DEFAULT);
            let gone = one.clone().head(404, JSON, true, None);
            assert_eq!(gone == StreamStep::LoseSession, is_offered, "ACP always offers it");
            one.head(200, EVENTS, true, None);
            assert_eq!(one.end(true).1, StreamStep::Resume);
            assert_eq!(one.head(404, JSON, true, None), StreamStep::LoseSession);
        }
    }

    #[test]
    fn a_shared_stream_whose_place_the_server_has_forgotten_begins_anew() {
        let mut one = ResponseStream::new(&Rules::ACP_V1, None, StreamLimits::DEFAULT);
        one.head(200, EVENTS, true, None);
        read(&mut one, "id: 0-1\ndata: {}\n\n");
        assert_eq!(one.end(false).1, StreamStep::Resume);
        assert_eq!(one.last_event_id(), Some("0-1"));
        assert_eq!(one.head(400, JSON, true, None), StreamStep::Resume);
        assert_eq!(one.last_event_id(), None, "what was kept for it comes all the same");
        assert_eq!(one.head(400, JSON, true, None), StreamStep::Lose);
    }

    #[test]
    fn a_body_and_an_event_over_their_limit_are_refused() {
        let limits = StreamLimits { message_bytes: 8, ..StreamLimits::DEFAULT };
        for (head, at_most, over) in [
            (JSON, &b"12345678"[..], &b"9"[..]),
            (EVENTS, b"id: 1\ndata: 12345678\n\n", b"data: 123456789\n\n"),
        ] {
            let mut one = ResponseStream::new(&Rules::MCP_2025_11_25, None, limits);
            one.head(200, head, true, None);
            assert!(one.receive(&mut &*at_most).is_ok());
            assert_eq!(one.receive(&mut &*over), Err(TooLong));
            assert_eq!(one.end(false).1, StreamStep::Lose, "it is not asked for again");
        }
    }
}

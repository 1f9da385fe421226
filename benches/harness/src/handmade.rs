//! The least client and server that a pipe can have, written by hand for this one job. They have a
//! slab of wakers and one driver future. All messages of a batch leave in one write, and every
//! response is made in line. This is no product: it checks nothing, and knows no errors but the
//! one.

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::Write;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use slab::Slab;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

use crate::linked;
use crate::payload::Payload;
use crate::runtime::Runtime;
use crate::subject::Hanging;

/// The framing of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Each message is one line.
    Line,
    /// Each message has a `Content-Length` header.
    ContentLength,
}

const HEADER: &[u8] = b"Content-Length: 0000000\r\n\r\n";
const WRITES: &str = "messages can be written, into a Vec";
const READS: &str = "both ends are ours";

impl Framing {
    fn write(self, out: &mut Vec<u8>, message: &impl Serialize) {
        if self == Self::ContentLength {
            out.extend_from_slice(HEADER);
        }
        let start = out.len();
        serde_json::to_writer(&mut *out, message).expect(WRITES);
        match self {
            Self::Line => out.push(b'\n'),
            Self::ContentLength => {
                let len = out.len() - start;
                write!(&mut out[start - 11..start - 4], "{len:07}").expect(WRITES);
            }
        }
    }

    /// Finds the first whole message. Returns its start, its end, and the start of the next one.
    fn find(self, bytes: &[u8]) -> Option<(usize, usize, usize)> {
        match self {
            Self::Line => memchr::memchr(b'\n', bytes).map(|end| (0, end, end + 1)),
            Self::ContentLength => {
                let headers = memchr::memmem::find(bytes, b"\r\n\r\n")?;
                let start = headers + 4;
                let text = std::str::from_utf8(&bytes[..headers]).expect(READS);
                let mut lines = text.split("\r\n");
                let len = lines.find_map(|line| line.strip_prefix("Content-Length: "));
                let end = start + len.and_then(|len| len.parse::<usize>().ok()).expect(READS);
                (bytes.len() >= end).then_some((start, end, end))
            }
        }
    }
}

/// Bytes that were read and are not used yet.
#[derive(Default)]
struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    const ROOM: usize = 4 << 10;

    /// Reads once; 0 at the end.
    fn poll_fill(
        &mut self,
        pipe: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<usize> {
        if self.start == self.end || self.bytes.len() - self.end < Self::ROOM {
            self.bytes.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            if self.bytes.len() - self.end < Self::ROOM {
                self.bytes.resize((2 * self.bytes.len()).max(4 * Self::ROOM), 0);
            }
        }
        let mut room = ReadBuf::new(&mut self.bytes[self.end..]);
        Pin::new(pipe).poll_read(cx, &mut room).map(|read| {
            read.expect(READS);
            let read = room.filled().len();
            self.end += read;
            read
        })
    }

    fn next(&mut self, framing: Framing) -> Option<&[u8]> {
        let unread = &self.bytes[self.start..self.end];
        let (start, end, next) = framing.find(unread)?;
        self.start += next;
        Some(&unread[start..end])
    }
}

#[derive(Serialize)]
struct RequestOut<'a, T> {
    jsonrpc: &'static str,
    id: usize,
    method: &'a str,
    params: &'a T,
}

#[derive(Serialize)]
struct NotificationOut<'a, T> {
    jsonrpc: &'static str,
    method: &'a str,
    params: &'a T,
}

#[derive(Serialize)]
struct ResultOut<'a> {
    jsonrpc: &'static str,
    id: usize,
    result: &'a Payload,
}

#[derive(Serialize)]
struct ErrorOut {
    jsonrpc: &'static str,
    id: usize,
    error: ErrorMember<&'static str>,
}

#[derive(Deserialize, Serialize)]
struct ErrorMember<T> {
    code: i64,
    message: T,
}

#[derive(Deserialize)]
struct ResponseIn<'a> {
    id: Option<usize>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<ErrorMember<IgnoredAny>>,
}

#[derive(Deserialize)]
struct CallIn<'a> {
    id: Option<usize>,
    method: &'a str,
    #[serde(borrow)]
    params: &'a RawValue,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct AcpCancel {
    request_id: usize,
}

#[derive(Serialize)]
struct LspCancel {
    id: usize,
}

/// The result of a request, or the code of its error.
type Answer = Result<Box<RawValue>, i64>;

enum Slot {
    Waiting(Option<Waker>),
    Answered(Answer),
}

struct State {
    framing: Framing,
    output: Vec<u8>,
    slots: Slab<Slot>,
    driver: Option<Waker>,
}

/// The calling side.
#[derive(Clone)]
pub struct Client(Arc<Mutex<State>>);

impl Client {
    /// Spawns the driver.
    pub fn connect<R: Runtime>(
        mut pipe: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        framing: Framing,
    ) -> Self {
        let (output, slots) = (Vec::new(), Slab::new());
        let client = Self(Arc::new(Mutex::new(State { framing, output, slots, driver: None })));
        let driven = client.clone();
        let mut input = Input::default();
        let (mut output, mut written) = (Vec::new(), 0);
        let driver = poll_fn(move |cx| {
            loop {
                if written == output.len() {
                    output.clear();
                    written = 0;
                    let mut state = driven.lock();
                    mem::swap(&mut output, &mut state.output);
                    match &state.driver {
                        Some(waker) if waker.will_wake(cx.waker()) => {}
                        _ => state.driver = Some(cx.waker().clone()),
                    }
                }
                let mut is_idle = true;
                while written < output.len() {
                    let Poll::Ready(wrote) = Pin::new(&mut pipe).poll_write(cx, &output[written..])
                    else {
                        break;
                    };
                    written += wrote.expect(WRITES);
                    is_idle = false;
                }
                match input.poll_fill(&mut pipe, cx) {
                    Poll::Ready(0) => return Poll::Ready(()),
                    Poll::Ready(_) => {
                        driven.receive(&mut input);
                        is_idle = false;
                    }
                    Poll::Pending => {}
                }
                if is_idle {
                    return Poll::Pending;
                }
            }
        });
        mem::forget(R::spawn(driver));
        client
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(&self, input: &mut Input) {
        let mut state = self.lock();
        let framing = state.framing;
        while let Some(message) = input.next(framing) {
            let response: ResponseIn<'_> = serde_json::from_slice(message).expect(READS);
            let Some(id) = response.id else { continue };
            let answer = match (response.result, response.error) {
                (Some(result), _) => Ok(result.to_owned()),
                (None, Some(error)) => Err(error.code),
                (None, None) => Ok(RawValue::NULL.to_owned()),
            };
            let before = mem::replace(&mut state.slots[id], Slot::Answered(answer));
            if let Slot::Waiting(Some(waker)) = before {
                waker.wake();
            }
        }
    }

    /// Sends a request; returns its id.
    pub fn send(&self, method: &str, params: &impl Serialize) -> usize {
        let mut state = self.lock();
        let id = state.slots.insert(Slot::Waiting(None));
        state.write(&RequestOut { jsonrpc: "2.0", id, method, params });
        id
    }

    /// Sends a notification.
    pub fn notify(&self, method: &str, params: &impl Serialize) {
        self.lock().write(&NotificationOut { jsonrpc: "2.0", method, params });
    }

    /// Waits for an answer.
    pub async fn answer(&self, id: usize) -> Answer {
        poll_fn(|cx| {
            let mut state = self.lock();
            if let Slot::Waiting(waker) = &mut state.slots[id] {
                *waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            match state.slots.remove(id) {
                Slot::Answered(answer) => Poll::Ready(answer),
                Slot::Waiting(_) => unreachable!("just seen"),
            }
        })
        .await
    }
}

impl State {
    fn write(&mut self, message: &impl Serialize) {
        self.framing.write(&mut self.output, message);
        if let Some(driver) = self.driver.take() {
            driver.wake();
        }
    }
}

impl linked::Client for Client {
    type Sent = usize;

    async fn echo(&self, payload: Payload) -> Payload {
        let id = self.send("bench/echo", &payload);
        let result = self.answer(id).await.expect("an echo");
        serde_json::from_str(result.get()).expect(READS)
    }

    async fn hang(&self, payload: Payload) -> usize {
        self.send("bench/hang", &payload)
    }

    async fn cancel(&self, &mut id: &mut usize) {
        let framing = self.lock().framing;
        match framing {
            Framing::Line => self.notify("$/cancel_request", &AcpCancel { request_id: id }),
            Framing::ContentLength => self.notify("$/cancelRequest", &LspCancel { id }),
        }
    }

    async fn is_cancelled(&self, id: usize) -> bool {
        self.answer(id).await.is_err_and(|code| code == CANCELLED)
    }
}

const CANCELLED: i64 = -32800;

/// Serves lines until the pipe ends.
pub async fn serve(mut pipe: impl AsyncRead + AsyncWrite + Unpin) {
    let mut input = Input::default();
    let mut output = Vec::new();
    let mut hanging = HashMap::new();
    while poll_fn(|cx| input.poll_fill(&mut pipe, cx)).await > 0 {
        while let Some(message) = input.next(Framing::Line) {
            let call: CallIn<'_> = serde_json::from_slice(message).expect(READS);
            match (call.method, call.id) {
                ("bench/echo", Some(id)) => {
                    let params: Payload = serde_json::from_str(call.params.get()).expect(READS);
                    let response = ResultOut { jsonrpc: "2.0", id, result: &params };
                    Framing::Line.write(&mut output, &response);
                }
                ("bench/hang", Some(id)) => {
                    hanging.insert(id, Hanging::new());
                }
                _ => {
                    let cancel: AcpCancel = serde_json::from_str(call.params.get()).expect(READS);
                    let id = cancel.request_id;
                    if hanging.remove(&id).is_some() {
                        let error = ErrorMember { code: CANCELLED, message: "Request cancelled" };
                        Framing::Line.write(&mut output, &ErrorOut { jsonrpc: "2.0", id, error });
                    }
                }
            }
        }
        pipe.write_all(&output).await.expect(WRITES);
        output.clear();
    }
}

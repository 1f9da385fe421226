//! A hostile peer and a slow reader at the hub of an adapter, and a host that takes, answers and calls when
//! it likes.

use std::cell::{Cell, RefCell};
use std::future::{Future, Pending, pending};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::FutureExt;
use heap::{Heap, aside};
use protocol_async::{
    Arrival, Budget, Cork, Driver, Failure, Incoming, KeepAlive, Memory, Options, Peer, Request,
    Responder, SentRequest, Timer, connect,
};
use protocol_core::{CallOptions, Dialect, Envelope, Role, Shutdown, Timestamp};
use protocol_testkit::{Hostile, framed, small};
use serde_json::value::{RawValue, to_raw_value};

use crate::bytes::Bytes;

/// Whoever reads a finding has to follow it.
const MOST: usize = 300;
/// What the peer says at once, at most.
const SAID: usize = 64 << 10;
/// The host holds so much at the moment when it gives it: an answer, or params.
const IN_HAND: usize = 20 << 10;

/// The first bytes choose the dialect, the role and the limits; the rest is what the peer says and reads, and
/// what the host does. The heap must stay under the formula at every step (G8), every call must settle
/// (G1), and when all is gone nothing may be left.
pub fn hub(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let options = options(&mut bytes);
    let mut scene = Scene::new(options);
    for _ in 0..MOST {
        if bytes.is_empty() {
            break;
        }
        scene.step(&mut bytes);
        scene.judge();
    }
    scene.finish();
}

fn options(bytes: &mut Bytes<'_>) -> Options {
    let dialect = bytes.dialect();
    let mut config = small(dialect);
    config.role = bytes.pick(&[Role::Client, Role::Server]);
    config.limits.unsent_bytes = bytes.pick(&[720, 3_000, 20_000]);
    config.limits.message_bytes = bytes.pick(&[650, 8_000]);
    config.limits.id_bytes = 64;
    config.limits.header_bytes = 128;
    config.limits.requests = bytes.pick(&[2, 5, 100]);
    config.limits.batch_members = bytes.pick(&[3, 30]);
    let mut options = Options::new(config);
    options.inbox_bytes = bytes.pick(&[0, 500, 20_000]);
    options.work_requests = bytes.pick(&[1, 30]);
    options.work_bytes = bytes.pick(&[0, 500, 20_000]);
    options.answer_bytes = bytes.pick(&[0, 500, 20_000]);
    options.result_bytes = bytes.pick(&[0, 500, 20_000]);
    options.pipe_bytes = bytes.pick(&[1, 100, 2_000]);
    let budget = bytes.pick(&[Budget::Unlimited, Budget::Limited { per_second: 10, burst: 20 }]);
    options.budgets.cancelled_requests = budget;
    options.budgets.vain_cancels = budget;
    options.budgets.violations = budget;
    let every = std::time::Duration::from_millis(bytes.pick(&[0, 1, 50]));
    let keep_alive = [None, Some(KeepAlive::by("ping", every).patience(4 * every))];
    options.keep_alive = bytes.pick(&keep_alive);
    options
}

struct Scene {
    heap: Heap,
    memory: Memory,
    dialect: Dialect,
    host: Option<Host>,
    driver: Driver<Says, Reads, Clock>,
    says: Says,
    reads: Reads,
    clock: Clock,
    is_over: bool,
}

/// What the host holds.
struct Host {
    peer: Peer,
    incoming: Incoming,
    at_work: Vec<(Request, Responder)>,
    calls: Vec<SentRequest>,
    cork: Option<Cork>,
}

impl Scene {
    fn new(options: Options) -> Self {
        let (memory, dialect) = (options.memory(), options.config.dialect.clone());
        let says =
            Says(Rc::new(RefCell::new(Said { bytes: Vec::with_capacity(SAID), is_over: false })));
        let reads = Reads(Rc::new(Cell::new(usize::MAX)));
        let clock = Clock(Arc::new(AtomicU64::new(0)));
        let (at_work, calls) = (Vec::with_capacity(MOST), Vec::with_capacity(MOST));
        // All of that is the scene's own.
        let heap = Heap::of_thread();
        let (peer, incoming, driver) = connect(says.clone(), reads.clone(), clock.clone(), options);
        let host = Some(Host { peer, incoming, at_work, calls, cork: None });
        Self { heap, memory, dialect, host, driver, says, reads, clock, is_over: false }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let kind = bytes.byte();
        match kind % 24 {
            0..=4 => {
                let id = Hostile::id(bytes.byte());
                let hostile = bytes.pick(&Hostile::ALL);
                self.say(|dialect| framed(&hostile.message(id, dialect), dialect.framing));
            }
            5..=7 => {
                let (id, length) = (bytes.byte(), bytes.pick(&[0, 10, 200, 500, 7_500]));
                let (place, times) = (bytes.byte(), bytes.pick(&[1, 1, 4, 50]));
                for id in (0..times).map(|more| id.wrapping_add(more)) {
                    self.say(|dialect| {
                        framed(&request(id, place, length, dialect), dialect.framing)
                    });
                    self.run();
                }
            }
            8 => {
                let length = usize::from(bytes.byte());
                let raw = bytes.take(length);
                self.say(|_| raw.to_vec());
            }
            9 | 10 => {
                let (number, length) = (bytes.byte() % 32, bytes.pick(&[1, 400, 7_500]));
                self.say(|dialect| framed(&answer(number, length, dialect), dialect.framing));
            }
            11 => self.reads.0.set(bytes.pick(&[0, 0, 1, 100, 5_000, usize::MAX])),
            12 => {
                let millis = bytes.pick(&[1, 20, 1_000, 30_000]);
                self.clock.0.fetch_add(millis, Relaxed);
            }
            13 if kind > 200 => self.says.0.borrow_mut().is_over = true,
            _ => {
                if let Some(host) = &mut self.host {
                    host.step(kind, bytes);
                }
            }
        }
        self.run();
    }

    /// The peer says something, if it is not too much at once.
    fn say(&mut self, message: impl FnOnce(&Dialect) -> Vec<u8>) {
        let dialect = &self.dialect;
        let said = &mut *self.says.0.borrow_mut();
        aside(|| {
            let message = message(dialect);
            if said.bytes.len() + message.len() <= SAID {
                said.bytes.extend_from_slice(&message);
            }
        });
    }

    fn run(&mut self) {
        for _ in 0..4 {
            if !self.is_over {
                let cx = &mut Context::from_waker(Waker::noop());
                self.is_over = Pin::new(&mut self.driver).poll(cx).is_ready();
            }
        }
    }

    fn judge(&self) {
        let (peak, total) = (self.heap.peak(), self.memory.total());
        assert!(peak <= total + IN_HAND, "G8: {peak} bytes were held, of\n{}", self.memory);
    }

    /// Everybody goes: the host, then the peer.
    fn finish(mut self) {
        let mut host = self.host.take().expect("it goes here");
        let mut calls = std::mem::take(&mut host.calls);
        drop(host);
        self.says.0.borrow_mut().is_over = true;
        self.reads.0.set(usize::MAX);
        // It may read a byte at a time.
        for _ in 0..SAID {
            self.clock.0.fetch_add(1_000, Relaxed);
            self.run();
            if self.is_over {
                break;
            }
        }
        self.judge();
        assert!(self.is_over, "the driver never ends");
        for call in calls.drain(..) {
            assert!(call.now_or_never().is_some(), "G1: a call never settled");
        }
        let Self { heap, driver, says, reads, clock, .. } = self;
        drop(driver);
        assert_eq!(heap.held(), 0, "G8: something is left");
        drop((calls, says, reads, clock));
    }
}

impl Host {
    fn step(&mut self, kind: u8, bytes: &mut Bytes<'_>) {
        match kind % 24 {
            14 | 15 => self.take(bytes.byte() % 4),
            16 | 17 => self.answer(bytes),
            18 => {
                if self.calls.len() < MOST {
                    let method = text(bytes.pick(&[1, 20, 300]));
                    let options = CallOptions::default().grace(None);
                    self.calls.push(self.peer.call_raw(&method, None, options));
                }
            }
            19 => self.end_call(bytes),
            20 => {
                let params = text(bytes.pick(&[1, 100, 2_000]));
                let params = to_raw_value(&[&params]).expect("text is a value");
                let _ = self.peer.try_notify_raw("note", Some(&params));
            }
            21 => self.cork = if self.cork.is_none() { Some(self.peer.cork()) } else { None },
            22 if kind > 200 => {
                let how = [Shutdown::Drain, Shutdown::CancelAll, Shutdown::Abandon];
                self.peer.shutdown(bytes.pick(&how));
            }
            _ => drop(self.peer.in_flight(3)),
        }
    }

    fn take(&mut self, most: u8) {
        for _ in 0..most {
            let Some(Ok(arrival)) = self.incoming.receive().now_or_never() else { return };
            if let (Arrival::Request(request, responder), true) =
                (arrival, self.at_work.len() < MOST)
            {
                self.at_work.push((request, responder));
            }
        }
    }

    fn answer(&mut self, bytes: &mut Bytes<'_>) {
        let place = usize::from(bytes.byte());
        let Some(place) = place.checked_rem(self.at_work.len()) else { return };
        let (request, responder) = self.at_work.remove(place);
        match bytes.byte() % 5 {
            0 => drop(responder),
            1 => responder.respond_with_failure(Failure::Cancelled),
            2 => match request.params::<Vec<u64>>() {
                Ok(_) => drop(responder),
                // It quotes what the peer said.
                Err(invalid) => responder.respond_with_failure(invalid),
            },
            _ => responder.answer(Ok(result(bytes.pick(&[1, 300, 9_000])))),
        }
    }

    fn end_call(&mut self, bytes: &mut Bytes<'_>) {
        let place = usize::from(bytes.byte());
        let Some(place) = place.checked_rem(self.calls.len()) else { return };
        match bytes.byte() % 4 {
            0 => drop(self.calls.remove(place)),
            1 => self.calls.remove(place).detach(),
            2 => drop(self.calls[place].cancel()),
            _ => {
                let mut call = self.calls.remove(place);
                if (&mut call).now_or_never().is_none() {
                    self.calls.push(call);
                }
            }
        }
    }
}

fn text(length: usize) -> String {
    "x".repeat(length)
}

fn result(length: usize) -> Box<RawValue> {
    to_raw_value(&text(length)).expect("text is a value")
}

/// A request with something long in one of its places.
fn request(id: u8, place: u8, length: usize, dialect: &Dialect) -> Vec<u8> {
    let long = |here: u8| if place % 3 == here { text(length) } else { String::new() };
    let (method, param, rest) = (long(0), long(1), long(2));
    match dialect.envelope {
        Envelope::JsonRpc => {
            let params = format!(r#"["{param}"]"#);
            format!(
                r#"{{"jsonrpc":"2.0","id":"{id}{rest}","method":"m{method}","params":{params}}}"#
            )
        }
        Envelope::Abp => {
            format!(r#"{{"type":"m{method}","id":"{id}{rest}","payload":{{"a":"{param}"}}}}"#)
        }
        // Its numbers can't be long.
        Envelope::Dap => {
            let arguments = format!(r#"{{"a":"{param}{rest}"}}"#);
            let command = format!(r#""command":"m{method}","arguments":{arguments}"#);
            format!(r#"{{"seq":{id},"type":"request",{command}}}"#)
        }
    }
    .into_bytes()
}

/// An answer to a call of that number.
fn answer(number: u8, length: usize, dialect: &Dialect) -> Vec<u8> {
    let long = text(length);
    match dialect.envelope {
        Envelope::JsonRpc => format!(r#"{{"jsonrpc":"2.0","id":{number},"result":"{long}"}}"#),
        Envelope::Abp => format!(
            r#"{{"type":"m-result","id":"{number}","payload":{{"success":true,"data":"{long}"}}}}"#
        ),
        Envelope::Dap => {
            let outcome = format!(r#""success":true,"command":"m","body":"{long}""#);
            format!(r#"{{"seq":1,"type":"response","request_seq":{number},{outcome}}}"#)
        }
    }
    .into_bytes()
}

/// What the peer says.
#[derive(Clone)]
struct Says(Rc<RefCell<Said>>);

struct Said {
    bytes: Vec<u8>,
    is_over: bool,
}

impl AsyncRead for Says {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let said = &mut *self.0.borrow_mut();
        let read = said.bytes.len().min(room.len());
        if read == 0 && !said.is_over {
            return Poll::Pending;
        }
        room[..read].copy_from_slice(&said.bytes[..read]);
        said.bytes.drain(..read);
        Poll::Ready(Ok(read))
    }
}

/// How many bytes the peer still reads.
#[derive(Clone)]
struct Reads(Rc<Cell<usize>>);

impl AsyncWrite for Reads {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let read = bytes.len().min(self.0.get());
        if self.0.get() != usize::MAX {
            self.0.set(self.0.get() - read);
        }
        if read == 0 { Poll::Pending } else { Poll::Ready(Ok(read)) }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Milliseconds, moved by hand.
#[derive(Clone)]
struct Clock(Arc<AtomicU64>);

impl Timer for Clock {
    type Sleep = Pending<()>;

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Relaxed))
    }

    fn sleep_until(&self, _: Timestamp) -> Pending<()> {
        pending()
    }
}

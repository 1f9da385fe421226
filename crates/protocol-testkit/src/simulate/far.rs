//! The other end of a handler's connection: a scripted peer, on a connection of its own.

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};
use protocol_core::{
    CallId, CallOptions, CancelRule, Cause, Event, Framing, Outcome, Reply, RequestHandle,
    StreamConnection, Timestamp,
};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::network::{Reader, Writer};
use super::script::{PeerAnswer, Script};
use crate::hostile::{Hostile, framed};

/// One thing that a scripted peer can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Says what its script says next.
    Say,
    /// Answers, or leaves unanswered, one of the handler's calls.
    Answer(usize, Answering),
    /// Cancels one of its requests.
    Cancel(usize),
    Hostile(Hostile, u8),
    /// Goes away at once.
    HangUp,
    /// Says that nothing more comes.
    Finish,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answering {
    /// As the script says at this place.
    Scripted(usize),
    /// As the dialect answers what was cancelled.
    Cancelled,
}

/// Ids that hostile messages name: those of the first requests and calls, and what looks like them.
const HOSTILE_IDS: u8 = 5;

/// A request of the peer's.
struct Asked {
    call: CallId,
    method: String,
    params: Value,
    is_cancelled: bool,
    is_settled: bool,
}

/// A call of the handler's.
struct Called {
    request: RequestHandle,
    method: String,
    is_cancelled: bool,
    is_decided: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    /// Nothing more is said.
    Finished,
    Gone,
}

pub(super) struct Far {
    script: Script,
    stream: StreamConnection<usize>,
    unread: Vec<u8>,
    outgoing: Vec<u8>,
    /// The network's, once it waits.
    waker: Option<Waker>,
    said: usize,
    asked: Vec<Asked>,
    calls: Vec<Called>,
    cancels: usize,
    hostile: usize,
    life: Life,
    /// What the handler answered and should not have.
    wrong: Option<String>,
}

impl Far {
    /// A peer that frames its messages so.
    pub(super) fn new(script: Script, framing: Framing) -> Self {
        Self {
            stream: StreamConnection::new(script.far_config(framing)),
            unread: Vec::new(),
            outgoing: Vec::new(),
            waker: None,
            said: 0,
            asked: Vec::new(),
            calls: Vec::new(),
            cancels: script.cancels,
            hostile: script.hostile,
            life: Life::Open,
            wrong: None,
            script,
        }
    }

    /// Whether nothing more is said.
    pub(super) fn is_over(&self) -> bool {
        self.life != Life::Open
    }

    pub(super) fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }

    /// What it is going to do, in some order.
    pub(super) fn due(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        if self.life != Life::Open {
            return moves;
        }
        if self.said < self.script.says.len() && !self.is_opening() {
            moves.push(Move::Say);
        }
        for (number, call) in self.calls.iter().enumerate().filter(|(_, call)| !call.is_decided) {
            if call.is_cancelled {
                moves.push(Move::Answer(number, Answering::Cancelled));
            }
            let places = 0..self.script.answers_for(&call.method).len();
            moves.extend(places.map(|place| Move::Answer(number, Answering::Scripted(place))));
        }
        moves
    }

    /// What it may do, or leave.
    pub(super) fn possible(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        if self.life != Life::Open || self.said == 0 || self.is_opening() {
            return moves;
        }
        let dialect = &self.script.config.dialect;
        if self.cancels > 0 && dialect.cancel != CancelRule::Local {
            let open = |asked: &Asked| !asked.is_cancelled && !asked.is_settled;
            let asked = self.asked.iter().enumerate().skip(usize::from(self.script.is_opened));
            moves.extend(asked.filter(|(_, asked)| open(asked)).map(|(at, _)| Move::Cancel(at)));
        }
        if self.hostile > 0 {
            let ids = |message| (0..HOSTILE_IDS).map(move |id| Move::Hostile(message, id));
            moves.extend(Hostile::ALL.into_iter().flat_map(ids));
        }
        if self.script.hangs_up {
            moves.push(Move::HangUp);
        }
        moves
    }

    fn is_opening(&self) -> bool {
        self.script.is_opened && self.asked.first().is_some_and(|first| !first.is_settled)
    }

    /// Does it. What it says is on its way when the network goes on.
    pub(super) fn make(&mut self, what: Move, now: Timestamp) {
        let connection = self.stream.connection_mut();
        let mut twice = false;
        match what {
            Move::Say => {
                let said = &self.script.says[self.said];
                let params = raw(&said.params);
                let refused = |why: &dyn fmt::Debug| -> ! {
                    panic!("{} is refused, {why:?}: params are objects or lists", said.method)
                };
                if said.is_request {
                    let (number, options) = (self.asked.len(), CallOptions::default());
                    let call = connection.call(&said.method, Some(&params), number, options, now);
                    self.asked.push(Asked {
                        call: call.unwrap_or_else(|error| refused(&error.reason)),
                        method: said.method.clone(),
                        params: said.params.clone(),
                        is_cancelled: false,
                        is_settled: false,
                    });
                } else if let Err(reason) = connection.notify(&said.method, Some(&params)) {
                    refused(&reason);
                }
                self.said += 1;
            }
            Move::Cancel(number) => {
                let asked = &mut self.asked[number];
                asked.is_cancelled = true;
                self.cancels -= 1;
                // Whatever comes of it: some requests can't be cancelled.
                let _ = connection.cancel(asked.call, Cause::Caller, now);
            }
            Move::Answer(number, answering) => {
                let call = &mut self.calls[number];
                call.is_decided = true;
                let (request, error) =
                    (call.request, |code| Reply::Error { code, message: "no", data: None });
                // An answer that is withheld is none.
                let _ = match answering {
                    Answering::Cancelled => connection.respond(request, Reply::Cancelled),
                    Answering::Scripted(place) => {
                        match &self.script.answers_for(&call.method)[place] {
                            PeerAnswer::Result(result) => {
                                connection.respond(request, Reply::Result(&raw(result)))
                            }
                            PeerAnswer::Error(code) => connection.respond(request, error(*code)),
                            PeerAnswer::Twice(result) => {
                                twice = true;
                                connection.respond(request, Reply::Result(&raw(result)))
                            }
                            PeerAnswer::Never => return,
                        }
                    }
                };
            }
            Move::Hostile(message, id) => {
                self.hostile -= 1;
                let dialect = &connection.config().dialect;
                let message = message.message(Hostile::id(id), dialect);
                self.outgoing.extend(framed(&message, dialect.framing));
            }
            Move::HangUp => self.life = Life::Gone,
            Move::Finish => self.life = Life::Finished,
        }
        let before = self.outgoing.len();
        self.flush();
        if twice {
            self.outgoing.extend_from_within(before..);
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn flush(&mut self) {
        while self.stream.poll_transmit(&mut self.outgoing).is_some() {}
    }

    /// Reads what has arrived.
    fn receive(&mut self, bytes: &[u8], now: Timestamp) {
        self.unread.extend_from_slice(bytes);
        let mut unread = std::mem::take(&mut self.unread);
        let mut read = 0;
        loop {
            let taken = self.stream.receive(&unread[read..], now);
            let (used, event) = (taken.used, taken.event.map(Event::into_owned));
            let is_told = event.is_some();
            read += used;
            event.into_iter().for_each(|event| self.take(event));
            if used == 0 && !is_told {
                break;
            }
        }
        unread.drain(..read);
        self.unread = unread;
        self.flush();
    }

    fn take(&mut self, event: Event<'static, usize>) {
        match event {
            Event::Request { request, method, .. } => self.calls.push(Called {
                request,
                method: method.into_owned(),
                is_cancelled: false,
                is_decided: false,
            }),
            Event::Cancelled { request, .. } => {
                let mut calls = self.calls.iter_mut();
                if let Some(call) = calls.find(|call| call.request == request) {
                    call.is_cancelled = true;
                }
            }
            Event::Settled { data, outcome, .. } => self.settle(data, &outcome),
            _ => {}
        }
    }

    fn settle(&mut self, number: usize, outcome: &Outcome<'_>) {
        let asked = &mut self.asked[number];
        asked.is_settled = true;
        let Some(reference) = &self.script.reference else { return };
        let got = match outcome {
            Outcome::Result(result) => Ok(serde_json::from_str::<Value>(result.get())),
            Outcome::Error(error) => Err(error.code),
            Outcome::Cancelled { error: Some(error), .. } => Err(error.code),
            _ => return,
        };
        let Asked { method, params, .. } = &*asked;
        // A hostile message may have cancelled it, or answered a call that was made for it.
        let may_fail = asked.is_cancelled || self.script.hostile > 0;
        let is_right = match (reference(method, params), &got) {
            (Ok(expected), Ok(Ok(result))) => expected == *result,
            (Err(expected), Err(code)) => expected == *code || may_fail,
            (Ok(_), Err(_)) => may_fail,
            _ => false,
        };
        if !is_right {
            let (number, expected) = (number + 1, reference(method, params));
            let got = match got {
                Ok(result) => format!("{}", result.unwrap_or_default()),
                Err(code) => format!("error {code}"),
            };
            let expected = match expected {
                Ok(result) => format!("{result}"),
                Err(code) => format!("error {code}"),
            };
            self.wrong.get_or_insert(format!(
                "request {number} ({method}) is answered {got}; the reference says {expected}"
            ));
        }
    }

    /// A move in words.
    pub(super) fn words(&self, what: Move) -> impl fmt::Display + use<> {
        match what {
            Move::Say => {
                let said = &self.script.says[self.said];
                match said.is_request {
                    true => format!("peer sends request {} {}", self.asked.len() + 1, said.method),
                    false => format!("peer sends notification {}", said.method),
                }
            }
            Move::Cancel(number) => format!("peer cancels request {}", number + 1),
            Move::Answer(number, answering) => {
                let Called { method, .. } = &self.calls[number];
                let number = number + 1;
                match answering {
                    Answering::Cancelled => {
                        format!("peer answers call {number} {method} as cancelled")
                    }
                    Answering::Scripted(place) => match &self.script.answers_for(method)[place] {
                        PeerAnswer::Result(_) => format!("peer answers call {number} {method}"),
                        PeerAnswer::Error(code) => {
                            format!("peer answers call {number} {method} with error {code}")
                        }
                        PeerAnswer::Twice(_) => {
                            format!("peer answers call {number} {method} twice")
                        }
                        PeerAnswer::Never => format!("peer never answers call {number} {method}"),
                    },
                }
            }
            Move::Hostile(message, id) => {
                format!("peer sends {message:?} with id {}", Hostile::id(id))
            }
            Move::HangUp => "peer goes away".into(),
            Move::Finish => "peer hangs up".into(),
        }
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value is JSON")
}

/// Carries the peer's bytes both ways, until it is gone or everything is read.
pub(super) async fn carry(far: Rc<RefCell<Far>>, reader: Reader, writer: Writer) {
    let mut ends = (Some(reader), Some(writer));
    poll_fn(|cx| poll_carry(&mut far.borrow_mut(), &mut ends, cx)).await;
}

fn poll_carry(
    far: &mut Far,
    (reader, writer): &mut (Option<Reader>, Option<Writer>),
    cx: &mut Context<'_>,
) -> Poll<()> {
    if far.life == Life::Gone {
        (*reader, *writer) = (None, None);
        return Poll::Ready(());
    }
    let now = super::Simulation.now();
    far.waker = Some(cx.waker().clone());
    let mut room = [0; 4_096];
    while let Some(end) = reader {
        match Pin::new(end).poll_read(cx, &mut room) {
            Poll::Ready(Ok(read @ 1..)) => far.receive(&room[..read], now),
            Poll::Ready(_) => *reader = None,
            Poll::Pending => break,
        }
    }
    while !far.outgoing.is_empty() {
        let Some(end) = writer else { break };
        match Pin::new(end).poll_write(cx, &far.outgoing) {
            Poll::Ready(Ok(written)) => drop(far.outgoing.drain(..written)),
            Poll::Ready(Err(_)) => *writer = None,
            Poll::Pending => return Poll::Pending,
        }
    }
    if far.life == Life::Finished {
        *writer = None;
    }
    if reader.is_some() {
        return Poll::Pending;
    }
    // The handler's side has ended, and nobody reads what is said.
    far.life = Life::Gone;
    Poll::Ready(())
}

//! The other end of a handler's connection: a scripted peer, on a connection of its own.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};
use protocol_async::Timer;
use protocol_core::{
    CallId, CallOptions, CancelRule, Cause, Event, Framing, Outcome, Refusal, RequestHandle,
    Response, ResponseRule, StreamConnection, Timestamp, code,
};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::script::{PeerAnswer, Said, Script};
use crate::hostile::Hostile;

/// One thing that a scripted peer can do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Move {
    /// Says what its script says next.
    Say,
    /// Answers, or leaves unanswered, one of the handler's calls: as the script says at this place, or as the dialect
    /// answers what was cancelled.
    Answer(usize, Option<usize>),
    /// Cancels one of its requests.
    Cancel(usize),
    /// Stops the work that one of its requests began.
    Stop(usize),
    Hostile(Hostile, u8),
    /// Goes away at once.
    HangUp,
    /// Answers the calls that it left unanswered.
    AnswerLate,
    /// Says that nothing more comes.
    Finish,
    /// Lets the messages arrive that crossed some of the handler's.
    Arrive,
}

/// Ids that hostile messages name: those of the first requests and calls, and what looks like them.
const HOSTILE_IDS: u8 = 5;

/// A request of the peer's.
struct Asked {
    call: CallId,
    /// Its place in the script.
    place: usize,
    is_cancelled: bool,
    is_stopped: bool,
    is_settled: bool,
}

/// A call of the handler's.
struct Called {
    request: RequestHandle,
    method: String,
    is_cancelled: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Life {
    Open,
    /// Nothing more is said.
    Finished,
    Gone,
}

/// Chooses a number below another.
pub(super) type Choose = fn(u64) -> u64;

pub(super) struct Far {
    script: Script,
    stream: StreamConnection<usize>,
    unread: Vec<u8>,
    outgoing: Vec<u8>,
    /// The moves whose messages crossed some of the handler's. Nothing of the peer's arrives before
    /// [`Move::Arrive`].
    crossed: Vec<Move>,
    /// The network's, once it waits.
    waker: Option<Waker>,
    said: usize,
    asked: Vec<Asked>,
    calls: Vec<Called>,
    /// The places of those calls that it has neither answered nor decided to leave so.
    undecided: BTreeSet<usize>,
    /// The hostile messages that it may still send.
    hostile: usize,
    life: Life,
    /// An answer of the handler's that it should not have given.
    wrong: Option<String>,
    /// The methods of its requests that got a response lately, and whether each was taken, not refused.
    responded: Vec<(String, bool)>,
    /// Chooses what crosses, in a search.
    choose: Option<Choose>,
}

impl Far {
    /// Returns a peer that frames its messages so.
    pub(super) fn new(script: Script, framing: Framing, choose: Option<Choose>) -> Self {
        Self {
            stream: StreamConnection::new(script.far_config(framing)),
            unread: Vec::new(),
            outgoing: Vec::new(),
            crossed: Vec::new(),
            waker: None,
            said: 0,
            asked: Vec::new(),
            calls: Vec::new(),
            undecided: BTreeSet::new(),
            hostile: script.hostile,
            life: Life::Open,
            wrong: None,
            responded: Vec::new(),
            choose,
            script,
        }
    }

    /// Returns whether nothing more is said.
    pub(super) fn is_over(&self) -> bool {
        self.life != Life::Open
    }

    pub(super) fn take_wrong(&mut self) -> Option<String> {
        self.wrong.take()
    }

    pub(super) fn take_responded(&mut self) -> Vec<(String, bool)> {
        std::mem::take(&mut self.responded)
    }

    /// Returns the moves that it makes for certain, in some order.
    pub(super) fn due(&self) -> Vec<Move> {
        let mut moves = Vec::new();
        if self.life != Life::Open {
            return moves;
        }
        if !self.crossed.is_empty() {
            return vec![Move::Arrive];
        }
        if self.said < self.script.says.len() && !self.is_opening() {
            moves.push(Move::Say);
        }
        for &number in &self.undecided {
            if self.calls[number].is_cancelled {
                moves.push(Move::Answer(number, None));
            }
            moves.extend(self.scripted_responses(number));
        }
        moves
    }

    /// Returns the moves that it may make or leave.
    pub(super) fn possible(&self) -> Vec<Move> {
        if self.life != Life::Open
            || self.said == 0
            || self.is_opening()
            || !self.crossed.is_empty()
        {
            return Vec::new();
        }
        let mut moves = self.cancels_and_stops(&self.stream);
        if self.hostile > 0 {
            let ids = |message| (0..HOSTILE_IDS).map(move |id| Move::Hostile(message, id));
            moves.extend(Hostile::ALL.into_iter().flat_map(ids));
        }
        if self.script.hangs_up {
            moves.push(Move::HangUp);
        }
        moves
    }

    /// Returns the cancels and stops that can be made while the peer's connection is this one.
    fn cancels_and_stops(&self, stream: &StreamConnection<usize>) -> Vec<Move> {
        let machine = stream.connection().machine();
        let rule = &machine.config().dialect.cancel;
        let has_message = !matches!(rule, CancelRule::Local | CancelRule::ClosedStream);
        let cancels = self.script.cancels > 0 && has_message;
        let can_cancel = |asked: &Asked| {
            let is_open = !asked.is_cancelled && machine.call_phase(asked.call).is_some();
            cancels && is_open && machine.call_refusal(asked.call).is_none()
        };
        let can_stop = |asked: &Asked| {
            let work = machine.work_of_call(asked.call).filter(|_| !asked.is_cancelled);
            self.script.stops > 0 && work.is_some_and(|work| !machine.is_stopping(work))
        };
        let asked = self.asked.iter().enumerate();
        let cancels =
            asked.clone().filter(|(_, asked)| can_cancel(asked)).map(|(at, _)| Move::Cancel(at));
        cancels
            .chain(asked.filter(|(_, asked)| can_stop(asked)).map(|(at, _)| Move::Stop(at)))
            .collect()
    }

    /// Returns the responses that can be given while the peer's connection is this one, and not once a cancel of their
    /// call is read.
    fn responses(&self, stream: &StreamConnection<usize>) -> Vec<Move> {
        let machine = stream.connection().machine();
        let dialect = &machine.config().dialect;
        if dialect.response == ResponseRule::Required && dialect.partial_results {
            return Vec::new();
        }
        let is_wanted =
            |number: &usize| machine.request_cause(self.calls[*number].request).is_none();
        let wanted = self.undecided.iter().copied().filter(is_wanted);
        let given = |it: &Move| match *it {
            Move::Answer(number, Some(place)) => {
                let answers = self.script.answers_for(&self.calls[number].method);
                !matches!(answers[place], PeerAnswer::Never)
            }
            _ => true,
        };
        wanted.flat_map(|number| self.scripted_responses(number)).filter(given).collect()
    }

    fn scripted_responses(&self, number: usize) -> impl Iterator<Item = Move> + use<> {
        let places = 0..self.script.answers_for(&self.calls[number].method).len();
        places.map(move |place| Move::Answer(number, Some(place)))
    }

    fn is_opening(&self) -> bool {
        self.script.is_opened && self.asked.first().is_some_and(|first| !first.is_settled)
    }

    /// Does it. What it says is on its way when the network goes on.
    pub(super) fn make(&mut self, what: Move, now: Timestamp) {
        let before = self.outgoing.len();
        match what {
            Move::Say => self.say(now),
            Move::Answer(number, place) => self.answer(number, place),
            Move::Cancel(number) => {
                let asked = &mut self.asked[number];
                asked.is_cancelled = true;
                self.script.cancels -= 1;
                self.stream.connection_mut().cancel(asked.call, Cause::Caller, now);
            }
            Move::Stop(number) => {
                let asked = &mut self.asked[number];
                asked.is_stopped = true;
                self.script.stops -= 1;
                self.stream.connection_mut().stop_call(asked.call, Cause::Caller, None, now);
            }
            Move::Hostile(message, id) => {
                self.hostile -= 1;
                let dialect = &self.stream.connection().config().dialect;
                self.outgoing.extend(message.framed(id, dialect));
            }
            Move::AnswerLate => self.answer_late(),
            Move::HangUp => self.life = Life::Gone,
            Move::Finish => self.life = Life::Finished,
            Move::Arrive => self.crossed.clear(),
        }
        self.flush();
        if let Move::Answer(number, place) = what {
            if let Some(PeerAnswer::Twice(_)) = self.scripted(number, place) {
                self.outgoing.extend_from_within(before..);
            }
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn say(&mut self, now: Timestamp) {
        let Said { method, params, is_request } = &self.script.says[self.said];
        let (connection, raw) = (self.stream.connection_mut(), raw(params));
        let refused = |why: Refusal| -> ! { panic!("the script's {method} can't be sent: {why}") };
        if *is_request {
            let (number, options) = (self.asked.len(), CallOptions::default());
            let call = connection.call(method, Some(&raw), number, options, now);
            self.asked.push(Asked {
                call: call.unwrap_or_else(|error| refused(error.reason)),
                place: self.said,
                is_cancelled: false,
                is_stopped: false,
                is_settled: false,
            });
        } else if let Err(reason) = connection.notify(method, Some(&raw)) {
            refused(reason);
        }
        self.said += 1;
    }

    fn answer(&mut self, number: usize, place: Option<usize>) {
        self.undecided.remove(&number);
        let (answer, request) = (self.scripted(number, place).cloned(), self.calls[number].request);
        let connection = self.stream.connection_mut();
        // An answer that is withheld is none.
        let _ = match answer {
            None => connection.respond(request, Response::Cancelled),
            Some(PeerAnswer::Result(result) | PeerAnswer::Twice(result)) => {
                connection.respond(request, Response::Result(&raw(&result)))
            }
            Some(PeerAnswer::Error(code)) => {
                connection.respond(request, Response::Error { code, message: "no", data: None })
            }
            Some(PeerAnswer::Never) => return,
        };
    }

    /// Answers every call with an error, as if the peer went away. Its caller would see another error then.
    fn answer_late(&mut self) {
        // It knows nothing of an error that the script does not have.
        self.script.reference = None;
        for call in &self.calls {
            let late = Response::Error { code: code::INTERNAL_ERROR, message: "late", data: None };
            // Those that are answered refuse it.
            let _ = self.stream.connection_mut().respond(call.request, late);
        }
    }

    /// Returns the script's answer to a call; `None` if it is answered as cancelled.
    fn scripted(&self, number: usize, place: Option<usize>) -> Option<&PeerAnswer> {
        Some(&self.script.answers_for(&self.calls[number].method)[place?])
    }

    fn flush(&mut self) {
        while self.stream.poll_transmit(&mut self.outgoing).is_some() {}
    }

    /// Reads what has arrived. In a search the peer may do something just before, whose messages cross these.
    fn receive(&mut self, bytes: &[u8], now: Timestamp) {
        self.unread.extend_from_slice(bytes);
        while let Some(next) = self.cross(now) {
            self.make(next, now);
            self.crossed.push(next);
        }
        let (read, events) = read(&mut self.stream, &self.unread, now);
        self.unread.drain(..read);
        events.into_iter().for_each(|event| self.take(event));
        self.flush();
    }

    /// Chooses among the moves that are possible now, and not once the peer has read what is there.
    fn cross(&self, now: Timestamp) -> Option<Move> {
        let choose = self.choose.filter(|_| self.life == Life::Open && !self.is_opening())?;
        let moves = |stream| [self.cancels_and_stops(stream), self.responses(stream)].concat();
        let mut crossing = moves(&self.stream);
        if crossing.is_empty() {
            return None;
        }
        let mut stream = self.stream.clone();
        let _ = read(&mut stream, &self.unread, now);
        let after = moves(&stream);
        crossing.retain(|next| !after.contains(next));
        let chosen = choose(crossing.len() as u64 + 1).checked_sub(1)?;
        crossing.get(usize::try_from(chosen).ok()?).copied()
    }

    fn take(&mut self, event: Event<'static, usize>) {
        match event {
            Event::Request { request, method, .. } => {
                self.undecided.insert(self.calls.len());
                let method = method.into_owned();
                self.calls.push(Called { request, method, is_cancelled: false });
            }
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

    /// One of its requests is answered, or never will be; compares that with the reference.
    fn settle(&mut self, number: usize, outcome: &Outcome<'_>) {
        let asked = &mut self.asked[number];
        asked.is_settled = true;
        let got = match outcome {
            Outcome::Result(result) => Ok(serde_json::from_str(result.get()).unwrap_or_default()),
            Outcome::Error(error) => Err(error.code),
            Outcome::Cancelled { error: Some(error), .. } => Err(error.code),
            _ => return,
        };
        let Asked { place, is_cancelled, is_stopped, .. } = *asked;
        let Said { method, params, .. } = &self.script.says[place];
        let expected = self.script.reference.as_ref().map(|reference| reference(method, params));
        let is_refused = matches!(got, Err(code::METHOD_NOT_FOUND | code::SERVER_NOT_INITIALIZED));
        self.responded.push((method.clone(), !is_refused || expected.as_ref() == Some(&got)));
        let Some(expected) = expected else { return };
        if is_stopped {
            // The result of a turn says that it was stopped, in the words of its protocol.
            return;
        }
        // A hostile message may have cancelled it, or answered a call that was made for it.
        let may_fail = is_cancelled || self.script.hostile > 0;
        if got != expected && !(may_fail && got.is_err()) {
            let words = |answer: Result<Value, i64>| match answer {
                Ok(result) => result.to_string(),
                Err(code) => format!("error {code}"),
            };
            let (number, got, expected) = (number + 1, words(got), words(expected));
            self.wrong.get_or_insert(format!(
                "request {number} ({method}) is answered {got}; the reference says {expected}"
            ));
        }
    }

    /// Puts a move in words.
    pub(super) fn words(&self, what: Move) -> String {
        match what {
            Move::Say => {
                let said = &self.script.says[self.said];
                match said.is_request {
                    true => format!("peer sends request {} {}", self.asked.len() + 1, said.method),
                    false => format!("peer sends notification {}", said.method),
                }
            }
            Move::Cancel(number) => format!("peer cancels request {}", number + 1),
            Move::Stop(number) => format!("peer stops request {}", number + 1),
            Move::Answer(number, place) => {
                let call = format!("call {} {}", number + 1, self.calls[number].method);
                match self.scripted(number, place) {
                    None => format!("peer answers {call} as cancelled"),
                    Some(PeerAnswer::Result(_)) => format!("peer answers {call}"),
                    Some(PeerAnswer::Error(code)) => {
                        format!("peer answers {call} with error {code}")
                    }
                    Some(PeerAnswer::Twice(_)) => format!("peer answers {call} twice"),
                    Some(PeerAnswer::Never) => format!("peer never answers {call}"),
                }
            }
            Move::Hostile(message, id) => {
                format!("peer sends {message:?} with id {}", Hostile::id(id))
            }
            Move::AnswerLate => "peer answers with errors what it left unanswered".into(),
            Move::HangUp => "peer goes away".into(),
            Move::Finish => "peer hangs up".into(),
            Move::Arrive => {
                let moves: Vec<_> = self.crossed.iter().map(|&next| self.words(next)).collect();
                format!("{}, before it reads the last messages", moves.join(" and "))
            }
        }
    }
}

/// Reads messages, and returns the number of their bytes and what they mean.
fn read(
    stream: &mut StreamConnection<usize>,
    bytes: &[u8],
    now: Timestamp,
) -> (usize, Vec<Event<'static, usize>>) {
    let (mut read, mut events) = (0, Vec::new());
    loop {
        let received = stream.receive(&bytes[read..], now);
        let (consumed, event) = (received.consumed, received.event.map(Event::into_owned));
        if consumed == 0 && event.is_none() {
            return (read, events);
        }
        read += consumed;
        events.extend(event);
    }
}

fn raw(value: &Value) -> Box<RawValue> {
    to_raw_value(value).expect("a value is JSON")
}

/// Carries the peer's bytes both ways, until it is gone or everything is read.
pub(super) async fn carry(
    far: Rc<RefCell<Far>>,
    reader: impl AsyncRead + Unpin,
    writer: impl AsyncWrite + Unpin,
    timer: impl Timer,
) {
    let mut ends = (Some(reader), Some(writer));
    poll_fn(|cx| poll_carry(&mut far.borrow_mut(), &mut ends, timer.now(), cx)).await;
}

fn poll_carry(
    far: &mut Far,
    (reader, writer): &mut (Option<impl AsyncRead + Unpin>, Option<impl AsyncWrite + Unpin>),
    now: Timestamp,
    cx: &mut Context<'_>,
) -> Poll<()> {
    if far.life == Life::Gone {
        (*reader, *writer) = (None, None);
        return Poll::Ready(());
    }
    far.waker = Some(cx.waker().clone());
    let mut room = [0; 4_096];
    while let Some(end) = reader {
        match Pin::new(end).poll_read(cx, &mut room) {
            Poll::Ready(Ok(read @ 1..)) => far.receive(&room[..read], now),
            Poll::Ready(_) => *reader = None,
            Poll::Pending => break,
        }
    }
    while !far.outgoing.is_empty() && far.crossed.is_empty() {
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

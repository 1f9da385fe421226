//! A host with its connection, judged by the reference model.

mod commands;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol_core::{
    CallId, Config, Event, Outcome, Received, Refusal, RequestHandle, StreamConnection,
    TimerReason, Timestamp, Transmit, TransmitKind, WireId,
};
use serde_json::{Value, from_str};

use crate::guarantee::{Broken, Guarantee};
use crate::hostile::unframed;
use crate::model::{Model, Sent, Told, token_member};
use crate::operation::Answering;

/// A host with its end of the line. Whatever it does is done by the reference model too, and what
/// they make of it is compared.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    stream: StreamConnection<u32>,
    model: Model,
    /// In the order they were made, settled ones included.
    calls: Vec<CallId>,
    /// In the order they came, answered ones included.
    requests: Vec<RequestHandle>,
    /// By the place of the call, the tokens that answered some.
    tokens: BTreeMap<u32, WireId>,
    /// The beginning of a message.
    unread: Vec<u8>,
    /// Whether a send was refused and a `Ready` promised.
    awaits_room: bool,
    /// The time at which due timers fired last.
    waited_until: Timestamp,
    /// A bug that breaks this guarantee, for tests of the oracle itself.
    planted: Option<Guarantee>,
    /// The events so far, if they are recorded.
    pub(crate) heard: Option<Vec<Event<'static, u32>>>,
}

/// No message of a host's is longer: long notifications have 600 bytes and their envelope.
const LONGEST: usize = 700;

type Judged = Result<(), Broken>;

impl Host {
    /// Creates a host with nothing in flight.
    pub(crate) fn new(config: Config) -> Self {
        Self {
            stream: StreamConnection::new(config.clone()),
            model: Model::new(config),
            calls: Vec::new(),
            requests: Vec::new(),
            tokens: BTreeMap::new(),
            unread: Vec::new(),
            awaits_room: false,
            waited_until: Timestamp::ZERO,
            planted: None,
            heard: None,
        }
    }

    /// Breaks its connection from now on, in the way of one guarantee. Answers (G2), cancels (G4) and the beginnings of
    /// messages (G11) are lost, and refused commands change something (G10). The events of all others are lost, but
    /// those of G12 come twice.
    pub(crate) const fn plant(&mut self, breaks: Guarantee) {
        self.planted = Some(breaks);
    }

    /// Returns the configuration of the connection that this host drives, in the dialect that is spoken now.
    pub(crate) fn config(&self) -> &Config {
        self.stream.connection().config()
    }

    /// Returns whether something waits to leave.
    pub(crate) fn has_transmit(&self) -> bool {
        // Responses that are kept back leave if room is wanted that only they take up.
        self.model.waiting() > 0 || self.awaits_room && self.model.keeps_answers_back()
    }

    /// Returns those of these answers to the `request`-th request that differ: what is withheld is all the
    /// same, and a revision is named only where that settles it.
    pub(crate) fn answers<'a>(
        &self,
        request: usize,
        answers: &'a [Answering],
    ) -> impl Iterator<Item = Answering> + use<'a> {
        let number = self.requests.get(request).map(|request| request.number());
        let settles_revision = number.is_some_and(|number| self.model.settles_revision(number));
        let most = if self.withholds(request) { 1 } else { answers.len() };
        let is_of_use =
            move |answer: &Answering| settles_revision || !matches!(answer, Answering::Revision(_));
        answers.iter().copied().filter(is_of_use).take(most)
    }

    /// Returns the reference model of its connection.
    pub(crate) const fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) const fn model_mut(&mut self) -> &mut Model {
        &mut self.model
    }

    /// Returns the calls that it ever made.
    pub(crate) fn calls(&self) -> &[CallId] {
        &self.calls
    }

    /// Returns the requests that wait for its answer, by their place among all that came.
    pub(crate) fn unanswered(&self) -> Vec<usize> {
        let requests = self.requests.iter().enumerate();
        let unanswered =
            requests.filter(|(_, request)| self.model.awaits_response(request.number()));
        unanswered.map(|(place, _)| place).collect()
    }

    /// Returns whether what it answers to the `request`-th request is not sent.
    pub(crate) fn withholds(&self, request: usize) -> bool {
        let request = self.requests.get(request);
        request.is_some_and(|request| self.model.withholds(request.number()))
    }

    /// From now on calls and requests are counted anew. All that there were must be over.
    pub(crate) fn forget_past(&mut self) {
        self.calls.clear();
        self.requests.clear();
    }

    /// Returns whether it has nothing left to do: it closes its writing end.
    pub(crate) fn is_over(&self) -> bool {
        let model = &self.model;
        model.is_closed() && model.unanswered() == 0 && !self.has_transmit()
    }

    // Inputs

    /// Framed bytes arrive, in pieces of this size; 0 means whole.
    pub(crate) fn receive(&mut self, framed: &[u8], piece: u8, now: Timestamp) -> Judged {
        let framing = self.config().dialect.framing;
        let is_unframed = framing == protocol_core::Framing::Whole;
        let piece = if is_unframed || piece == 0 { framed.len().max(1) } else { piece.into() };
        let whole = unframed(framed, framing);
        if piece < framed.len() {
            self.judge_pieces(framed, piece, now)?;
        }
        let mut is_to_be_skipped = !is_unframed && whole.len() > self.longest();
        for piece in framed.chunks(piece) {
            self.unread.extend_from_slice(piece);
            let unread = std::mem::take(&mut self.unread);
            let mut used = 0;
            loop {
                let cramped = self.is_cramped();
                let received = self.stream.receive(&unread[used..], now);
                let Received { consumed: more, message, event: mut next, .. } = received;
                used += more;
                let batch = message.and_then(|message| self.model.receive(message, now));
                while let Some(event) = next {
                    if self.model.next_told().is_none() && std::mem::take(&mut is_to_be_skipped) {
                        self.model.receive(whole, now);
                    }
                    self.hear(&event, cramped, batch)?;
                    next = self.stream.connection_mut().poll_event();
                }
                self.judge()?;
                if more == 0 || used == unread.len() {
                    break;
                }
            }
            self.unread = unread[used..].to_vec();
        }
        let is_told = !is_to_be_skipped || self.model.is_closed();
        Broken::unless(is_told, Guarantee::G8, || "a message was skipped in silence".into())
    }

    /// Checks that bytes which are read in pieces have the effect of the whole message (G11).
    fn judge_pieces(&self, framed: &[u8], piece: usize, now: Timestamp) -> Judged {
        let read = |pieces: &mut dyn Iterator<Item = &[u8]>, forgets: bool| {
            let (mut stream, mut unread) = (self.stream.clone(), self.unread.clone());
            let mut told = Vec::new();
            for piece in pieces {
                unread.extend_from_slice(piece);
                loop {
                    let received = stream.receive(&unread, now);
                    let consumed = received.consumed;
                    told.extend(received.event.as_ref().map(Told::of));
                    unread.drain(..consumed);
                    while let Some(event) = stream.connection_mut().poll_event() {
                        told.push(Told::of(&event));
                    }
                    if consumed == 0 || unread.is_empty() {
                        break;
                    }
                }
                if forgets {
                    unread.clear();
                }
            }
            (told, fingerprint(&stream))
        };
        let forgets = self.planted == Some(Guarantee::G11);
        let in_pieces = read(&mut framed.chunks(piece), forgets);
        Broken::unless(
            in_pieces == read(&mut std::iter::once(framed), false),
            Guarantee::G11,
            || format!("a message does something else in pieces of {piece} bytes"),
        )
    }

    fn longest(&self) -> usize {
        self.config().limits.message_bytes
    }

    pub(crate) fn wait(&mut self, now: Timestamp) -> Judged {
        self.stream.connection_mut().handle_timeout(now);
        self.model.wait(now);
        self.waited_until = now;
        self.judge()
    }

    pub(crate) fn finish(&mut self, now: Timestamp) -> Judged {
        let unread = std::mem::take(&mut self.unread);
        if let Some(message) = self.stream.handle_eof(&unread, now) {
            self.model.receive(message, now);
        }
        self.model.finish(now);
        self.judge()
    }

    // Outputs

    /// Takes the next message out, framed, with its kind.
    pub(crate) fn transmit(&mut self) -> Result<Option<(Vec<u8>, Sent)>, Broken> {
        let mut framed = Vec::new();
        let lost = match self.planted {
            Some(Guarantee::G2) => Some(TransmitKind::Response),
            Some(Guarantee::G4) => Some(TransmitKind::Cancel),
            _ => None,
        };
        let sent = self.stream.poll_transmit(&mut framed);
        let sent = sent.filter(|transmit| Some(transmit.kind) != lost);
        let sent = self.judge_transmit(sent, &framed)?;
        self.judge()?;
        Ok(sent.map(|sent| (framed, sent)))
    }

    /// Checks that the message that left is the one that had to leave next.
    fn judge_transmit(
        &mut self,
        transmit: Option<Transmit>,
        framed: &[u8],
    ) -> Result<Option<Sent>, Broken> {
        let dialect = &self.config().dialect;
        let message = transmit.map(|transmit| transmit.message(framed));
        let sent = transmit.zip(message).map(|(it, message)| Sent::of(it.kind, message, dialect));
        if let Some(Some(Sent::Answers(answers))) = &sent {
            // The model does not know the room that responses take.
            let is_early = self.model.next_to_leave() != sent.as_ref().and_then(Option::as_ref);
            if is_early && self.is_tight() && self.model.has_left_early(answers) {
                return Ok(sent.flatten());
            }
        }
        if self.model.waiting() == 0 && self.awaits_room {
            self.model.leave_early();
        }
        let must = self.model.transmit();
        if sent == must.clone().map(Some) {
            return Ok(must);
        }
        let guarantee = match (transmit.map(|transmit| transmit.kind), &must) {
            (Some(TransmitKind::Response | TransmitKind::Acknowledgement), _) => Guarantee::G2,
            (None, Some(must)) if must.is_answer() => Guarantee::G2,
            _ => Guarantee::G4,
        };
        let message = message.map(String::from_utf8_lossy);
        Err(Broken::new(guarantee, format!("{message:?} left, it must be {must:?}")))
    }

    // Judging

    /// Returns whether a message might not fit, after another that is always taken: a cancel of an operation is
    /// told of before it is acknowledged.
    fn is_cramped(&self) -> bool {
        let connection = self.stream.connection();
        let limits = &connection.config().limits;
        connection.unsent_bytes() + LONGEST > limits.unsent_bytes
            || self.model.waiting() + 1 >= limits.unsent_messages
    }

    /// Returns whether there is so little room that answers may be kept back in half of it.
    fn is_tight(&self) -> bool {
        self.config().limits.unsent_bytes < 2 * LONGEST
    }

    fn judge_refusal(
        &mut self,
        command: &str,
        refusal: Option<Refusal>,
        refusals: &[Refusal],
        cramped: bool,
    ) -> Judged {
        let limits = self.config().limits;
        let is_for_room = matches!(refusal, Some(Refusal::OutboxFull | Refusal::TooLarge));
        self.awaits_room |= refusal == Some(Refusal::OutboxFull);
        let is_due = match refusal {
            None => refusals.is_empty(),
            // Only what can never fit (F4).
            Some(Refusal::TooLarge) => limits.unsent_bytes < LONGEST,
            Some(Refusal::OutboxFull) => cramped,
            Some(reason) => refusals.contains(&reason),
        };
        let guarantee = if is_for_room || refusals.contains(&Refusal::TooManyCalls) {
            Guarantee::G8
        } else if refusals.contains(&Refusal::AlreadyResponded) {
            Guarantee::G2
        } else {
            Guarantee::G10
        };
        Broken::unless(is_due, guarantee, || {
            format!("{command} was refused: {refusal:?}, it must be one of {refusals:?}")
        })
    }

    /// The host is told something, perhaps by this batch.
    fn hear(&mut self, event: &Event<'_, u32>, cramped: bool, batch: Option<u64>) -> Judged {
        if let Some(heard) = &mut self.heard {
            heard.push(event.clone().into_owned());
        }
        let told = Told::of(event);
        if self.planted == Some(broken_by(&told)) {
            if self.planted != Some(Guarantee::G12) {
                return Ok(());
            }
            self.judge_told(&told)?;
        }
        match (&told, event) {
            (_, Event::Request { request, .. }) => self.requests.push(*request),
            (_, Event::Settled { call, outcome, data }) => {
                let is_its_own = self.calls.get(*data as usize).is_none_or(|other| other == call);
                Broken::unless(is_its_own, Guarantee::G1, || {
                    format!("call {} gave the data of another back", call.number())
                })?;
                if let Some(token) = self.token_in(outcome) {
                    self.tokens.insert(*data, token);
                }
            }
            (Told::Ready, _) => {
                let was_promised = std::mem::take(&mut self.awaits_room);
                return Broken::unless(was_promised, Guarantee::G8, || "Ready, unasked".into());
            }
            (Told::Violation { rule: "response_dropped", id }, _) if cramped => {
                self.model.drop_answer(id.as_ref(), batch);
                return Ok(());
            }
            (Told::Work, _) if self.config().show_work => return Ok(()),
            _ => {}
        }
        self.judge_told(&told)
    }

    /// Compares an event with the one that must come next.
    fn judge_told(&mut self, told: &Told) -> Judged {
        let must = self.model.take_told();
        Broken::unless(
            Some(told) == must.as_ref(),
            broken_by(must.as_ref().unwrap_or(told)),
            || format!("the host was told {told:?}, it must be {must:?}"),
        )
    }

    /// Returns the token of an operation that answered a call.
    fn token_in(&self, outcome: &Outcome<'_>) -> Option<WireId> {
        let member = token_member(&self.config().dialect)?;
        let Outcome::Result(result) = outcome else { return None };
        WireId::from_json(&value(result.get()).get(member)?.to_string())
    }

    /// Compares everything that can be seen.
    fn judge(&mut self) -> Judged {
        let cramped = self.is_cramped();
        while let Some(event) = self.stream.connection_mut().poll_event() {
            self.hear(&event, cramped, None)?;
        }
        if let Some(must) = self.model.next_told() {
            return Err(Broken::new(broken_by(must), format!("the host was not told {must:?}")));
        }
        self.judge_phases()?;
        let connection = self.stream.connection();
        let waits = connection.next_transmit_len().is_some();
        Broken::unless(waits == self.has_transmit() || self.is_tight(), Guarantee::G4, || {
            format!("that something waits to leave is {waits}, it must be {}", !waits)
        })?;
        // A promised wake-up always comes (F3).
        Broken::unless(waits || !self.awaits_room, Guarantee::G8, || {
            "the host was not told that there is room".into()
        })?;
        let (timer, next) = (connection.poll_timeout(), self.model.next_timer());
        Broken::unless(is_timer(timer, next, self.waited_until), Guarantee::G5, || {
            format!("the next timer is {timer:?}, it must be {next:?}")
        })?;
        let is_closed = connection.machine().is_closed();
        Broken::unless(is_closed == self.model.is_closed(), Guarantee::G7, || {
            format!("closed is {is_closed}, it must be {}", !is_closed)
        })?;
        let limits = connection.config().limits;
        // Cancels, and what tells of cancelled operations.
        let bound = limits.unsent_bytes
            + 128 * (limits.calls + limits.abandoned_ids)
            + 192 * limits.requests;
        Broken::unless(connection.unsent_bytes() <= bound, Guarantee::G8, || {
            format!("{} bytes are unsent", connection.unsent_bytes())
        })
    }

    /// Compares what is in flight, and how far it is.
    fn judge_phases(&self) -> Judged {
        let machine = self.stream.connection().machine();
        let mut in_flight = 0;
        for (number, must) in self.model.calls() {
            in_flight += 1;
            let call = self.calls.iter().find(|call| call.number() == number);
            let phase = call.and_then(|call| machine.call_phase(*call));
            Broken::unless(phase == Some(must), Guarantee::G5, || {
                format!("call {number} is {phase:?}, it must be {must:?}")
            })?;
        }
        Broken::unless(in_flight == machine.calls_in_flight(), Guarantee::G1, || {
            format!("{} calls are in flight, {in_flight} must be", machine.calls_in_flight())
        })?;
        for (number, must) in self.model.requests() {
            let request = self.requests.iter().find(|request| request.number() == number);
            let phase = request.and_then(|request| machine.request_phase(*request));
            Broken::unless(phase == Some(must), Guarantee::G3, || {
                format!("request {number} is {phase:?}, it must be {must:?}")
            })?;
        }
        let unanswered = self.model.unanswered();
        Broken::unless(unanswered == machine.requests_in_flight(), Guarantee::G2, || {
            format!(
                "{} requests are unanswered, {unanswered} must be",
                machine.requests_in_flight()
            )
        })
    }

    /// Checks that nothing is left when everything is over.
    pub(crate) fn judge_end(&self) -> Judged {
        let connection = self.stream.connection();
        let machine = connection.machine();
        let (calls, requests) = (machine.calls_in_flight(), machine.requests_in_flight());
        Broken::unless(calls == 0, Guarantee::G1, || format!("{calls} calls never settled"))?;
        Broken::unless(requests == 0, Guarantee::G2, || format!("{requests} requests unanswered"))?;
        Broken::unless(machine.is_closed(), Guarantee::G7, || "the end did not close".into())?;
        Broken::unless(connection.unsent_bytes() == 0, Guarantee::G8, || {
            format!("{} bytes are left", connection.unsent_bytes())
        })
    }
}

/// Returns the guarantee that a wrong or missing event breaks.
fn broken_by(told: &Told) -> Guarantee {
    match told {
        Told::Cancelled { .. } => Guarantee::G3,
        Told::Settled { cause: Some(_), .. } => Guarantee::G5,
        Told::Settled { .. } => Guarantee::G1,
        Told::TreeSettled { .. } => Guarantee::G6,
        Told::Closed { .. } => Guarantee::G7,
        Told::Ready => Guarantee::G8,
        Told::Violation { rule, .. } => match *rule {
            "late_response" | "duplicate_response" | "unknown_response" => Guarantee::G12,
            "duplicate_id" => Guarantee::G2,
            "too_many_requests" | "response_dropped" => Guarantee::G8,
            _ => Guarantee::G9,
        },
        Told::Request { .. } | Told::Notification { .. } | Told::Work | Told::Unknown => {
            Guarantee::G9
        }
    }
}

/// Returns whether this timer is the one that is due next.
///
/// An idle timer learns of progress when it is looked at, so it may be too early. It was looked at when the host waited.
fn is_timer(
    timer: Option<(Timestamp, TimerReason)>,
    next: Option<Timestamp>,
    waited_until: Timestamp,
) -> bool {
    match (timer, next) {
        (Some((due, TimerReason::IdleTimeout)), Some(next)) => waited_until < due && due <= next,
        _ => timer.map(|(due, _)| due) == next,
    }
}

/// Returns a hash of the connection's state, and the number of bytes that it has to send.
fn fingerprint(stream: &StreamConnection<u32>) -> (u64, usize) {
    let connection = stream.connection();
    let mut state = DefaultHasher::new();
    connection.machine().hash(&mut state);
    (state.finish(), connection.unsent_bytes())
}

/// Two hosts are in the same state if their connections decide alike, have the same to send, and must do the
/// same. Finished requests leave no trace but their number.
impl Hash for Host {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let connection = self.stream.connection();
        connection.machine().hash(state);
        connection.unsent_bytes().hash(state);
        if connection.next_transmit_len().is_some() {
            let (mut stream, mut unsent) = (self.stream.clone(), Vec::new());
            while stream.poll_transmit(&mut unsent).is_some() {}
            unsent.hash(state);
        }
        self.model.hash(state);
        self.tokens.hash(state);
        self.unread.hash(state);
        self.awaits_room.hash(state);
    }
}

fn value(json: &str) -> Value {
    from_str(json).expect("it is written as JSON")
}

#[cfg(test)]
mod tests {
    use protocol_core::{CallOptions, Connection, Dialect};

    use super::*;
    use crate::operation::raw;

    #[test]
    fn g05_only_an_idle_timer_may_be_early_and_only_until_it_was_looked_at() {
        let at = Timestamp::from_millis;
        let is = |reason, due, waited| is_timer(Some((at(due), reason)), Some(at(9)), at(waited));
        assert!(is(TimerReason::Deadline, 9, 3));
        assert!(is(TimerReason::IdleTimeout, 4, 3));
        assert!(!is(TimerReason::IdleTimeout, 3, 3), "it was looked at");
        assert!(!is(TimerReason::IdleTimeout, 10, 3), "it is too late");
        for (reason, due) in [(TimerReason::Deadline, 8), (TimerReason::Grace, 10)] {
            assert!(!is(reason, due, 3), "{reason:?} at {due}");
        }
        assert!(!is_timer(None, Some(at(9)), at(3)));
    }

    #[test]
    fn g09_only_a_host_that_asked_for_events_of_work_is_told_of_it() {
        let mut config = Config::client(Dialect::ACP_V1);
        config.show_work = true;
        let mut client: Connection<u32> = Connection::new(config.clone());
        let params = Some(raw(r#"{"sessionId":"s"}"#));
        let call =
            client.call("session/prompt", params, 0, CallOptions::default(), Timestamp::ZERO);
        call.expect("there is room");
        let began = client.poll_event().expect("the turn began");
        let mut hear = |show_work| {
            config.show_work = show_work;
            Host::new(config.clone()).hear(&began, false, None).map_err(|broken| broken.guarantee)
        };
        assert_eq!(hear(true), Ok(()));
        assert_eq!(hear(false), Err(Guarantee::G9));
    }
}

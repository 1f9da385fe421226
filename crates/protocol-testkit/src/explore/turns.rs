//! Two real connections that begin, stop and end turns of an agent, in every order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol_core::{
    CallId, CallOptions, Cause, Config, Connection, Dialect, Event, RequestHandle, Response,
    Timestamp, WorkId, WorkOutcome,
};
use protocol_record::Mark;

use super::system::System;
use crate::guarantee::{Broken, Guarantee};
use crate::operation::raw;

const NOW: Timestamp = Timestamp::ZERO;

/// The sessions of the turns. Two turns share a session.
const SESSIONS: [&str; 3] =
    [r#"{"sessionId":"s"}"#, r#"{"sessionId":"s"}"#, r#"{"sessionId":"t"}"#];
/// The session in which the agent asks for a permission.
const ASKS_IN: &str = SESSIONS[0];

/// Every ordering of three turns in two sessions between a client and an agent of ACP, version 1.
///
/// A turn can be stopped by its session, cancelled by its id, and ended with a result or as cancelled. The agent asks for
/// one permission within a session, and the line can be cut. A model that knows only the messages says which turns are
/// stopped and how each of them ends (G5, G6). Each ends once (G1).
#[derive(Clone, Debug)]
pub struct Turns {
    client: Connection<Call>,
    agent: Connection<Call>,
    up: VecDeque<Vec<u8>>,
    down: VecDeque<Vec<u8>>,
    of_client: Side,
    of_agent: Side,
    done: BTreeSet<TurnChoice>,
    is_cut: bool,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Call {
    Turn(u8),
    Permission,
}

/// The knowledge of one side, by the messages that it has sent and read.
#[derive(Clone, Debug, Default, Hash)]
struct Side {
    turns: BTreeMap<u8, Turn>,
    /// The work of each turn, and its request on the agent's side.
    works: BTreeMap<WorkId, u8>,
    calls: BTreeMap<u8, CallId>,
    requests: BTreeMap<u8, RequestHandle>,
    /// On the client's side: the permission that it owes, and whether that was cancelled.
    permission: Option<(RequestHandle, bool)>,
}

/// A turn that has not ended.
#[derive(Clone, Copy, Debug, Default, Hash)]
struct Turn {
    is_stopped: bool,
    is_cancelled: bool,
}

/// Something that may happen next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TurnChoice {
    /// The client begins a turn.
    Prompt(u8),
    /// The client stops the work that a turn is.
    Stop(u8),
    /// The client cancels the request of a turn.
    Cancel(u8),
    /// The agent asks for a permission.
    Ask,
    /// The client answers that.
    Permit,
    /// The agent ends a turn: with a result, or as cancelled if it was.
    End(u8),
    /// The agent ends a turn with a result that does not say that it was stopped, although it was.
    EndAnyway(u8),
    /// The agent ends a turn with an error.
    Fail(u8),
    /// The oldest message to the agent arrives.
    ToAgent,
    /// The oldest message to the client arrives.
    ToClient,
    /// The line is cut.
    Cut,
}

impl fmt::Display for TurnChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// An event of work, or of a request that work cancels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    Began(u8),
    Stopped(u8, Cause),
    Cancelled(Call, Cause),
    Ended(u8, WorkOutcome),
}

impl Turns {
    /// Creates a client and an agent between which nothing has been said.
    #[must_use]
    pub fn new(dialect: &Dialect) -> Self {
        let connection = |mut config: Config, number| {
            (config.show_work, config.connection) = (true, number);
            Connection::new(config)
        };
        Self {
            client: connection(Config::client(dialect.clone()), 0),
            agent: connection(Config::server(dialect.clone()), 1),
            up: VecDeque::new(),
            down: VecDeque::new(),
            of_client: Side::default(),
            of_agent: Side::default(),
            done: BTreeSet::new(),
            is_cut: false,
        }
    }

    fn prompt(&mut self, turn: u8) -> Vec<Seen> {
        let params = raw(SESSIONS[usize::from(turn)]);
        let options = CallOptions::default();
        let called =
            self.client.call("session/prompt", Some(params), Call::Turn(turn), options, NOW);
        self.of_client.calls.insert(turn, called.expect("there is room"));
        self.of_client.turns.insert(turn, Turn::default());
        vec![Seen::Began(turn)]
    }

    /// The runs of one session are stopped together, and a permission that is owed within is cancelled.
    fn stop(&mut self, turn: u8) -> Vec<Seen> {
        let call = self.of_client.calls[&turn];
        self.client.stop_call(call, Cause::Caller, None, NOW);
        let mut expected = self.of_client.stop(turn, Cause::Caller);
        if let (true, Some((_, is_cancelled @ false))) =
            (!expected.is_empty() && is_asked_in(turn), &mut self.of_client.permission)
        {
            *is_cancelled = true;
            expected.push(Seen::Cancelled(Call::Permission, Cause::Stopped));
        }
        expected
    }

    fn cancel(&mut self, turn: u8) -> Vec<Seen> {
        self.client.cancel(self.of_client.calls[&turn], Cause::Caller, NOW);
        if let Some(turn) = self.of_client.turns.get_mut(&turn) {
            turn.is_cancelled = true;
        }
        vec![]
    }

    fn ask(&mut self) -> Vec<Seen> {
        let (params, options) = (raw(ASKS_IN), CallOptions::default());
        let method = "session/request_permission";
        let called = self.agent.call(method, Some(params), Call::Permission, options, NOW);
        called.expect("there is room");
        vec![]
    }

    fn permit(&mut self) -> Vec<Seen> {
        if let Some((request, is_cancelled)) = self.of_client.permission.take() {
            let result = raw("{}");
            let response =
                if is_cancelled { Response::Cancelled } else { Response::Result(result) };
            self.client.respond(request, response).expect("it is owed");
        }
        vec![]
    }

    fn end(&mut self, turn: u8, says_so: bool) -> Vec<Seen> {
        let request = self.of_agent.requests.remove(&turn).expect("it is at work");
        let state = self.of_agent.turns.remove(&turn).expect("it has not ended");
        let result = raw(r#"{"stopReason":"end_turn"}"#);
        let is_cancelled = says_so && (state.is_stopped || state.is_cancelled);
        let response = if is_cancelled { Response::Cancelled } else { Response::Result(result) };
        self.agent.respond(request, response).expect("it is owed");
        let outcome = match is_cancelled {
            true if state.is_stopped => WorkOutcome::Stopped,
            true => WorkOutcome::Failed,
            false => WorkOutcome::Finished,
        };
        vec![Seen::Ended(turn, outcome)]
    }

    fn fail(&mut self, turn: u8) -> Vec<Seen> {
        let request = self.of_agent.requests.remove(&turn).expect("it is at work");
        self.of_agent.turns.remove(&turn).expect("it has not ended");
        let error = Response::Error { code: -32603, message: "no", data: None };
        self.agent.respond(request, error).expect("it is owed");
        vec![Seen::Ended(turn, WorkOutcome::Failed)]
    }

    /// The agent reads a message. What that has to lead to is told by the text alone.
    fn agent_reads(&mut self, message: &[u8]) -> Vec<Seen> {
        let text = String::from_utf8_lossy(message);
        let session = |number: u8| text.contains(SESSIONS[usize::from(number)]);
        if text.contains("session/cancel") {
            let turn = if session(0) { 0 } else { 2 };
            return self.of_agent.stop(turn, Cause::Peer);
        }
        if text.contains("$/cancel_request") {
            let turn = self.of_client.calls.iter().find_map(|(turn, call)| {
                text.contains(&format!(":{}}}", self.number_of(*call))).then_some(*turn)
            });
            return self.of_agent.cancel(turn.expect("it names a turn"));
        }
        if text.contains("session/prompt") {
            let turn = self.newest_turn(&text);
            self.of_agent.turns.insert(turn, Turn::default());
            return vec![Seen::Began(turn)];
        }
        vec![]
    }

    /// Returns the id of a call on the wire: the client counts from one.
    fn number_of(&self, call: CallId) -> usize {
        1 + self.of_client.calls.values().filter(|other| **other < call).count()
    }

    /// Returns the turn that a prompt begins, by its id.
    fn newest_turn(&self, text: &str) -> u8 {
        let named = self
            .of_client
            .calls
            .iter()
            .find(|(_, call)| text.contains(&format!(r#""id":{},"#, self.number_of(**call))));
        *named.expect("it has an id of the client").0
    }

    fn client_reads(&mut self, message: &[u8]) -> Vec<Seen> {
        let text = String::from_utf8_lossy(message);
        if text.contains("session/request_permission") {
            let is_late = self.of_client.is_stopping(0);
            return if is_late {
                vec![Seen::Cancelled(Call::Permission, Cause::Stopped)]
            } else {
                vec![]
            };
        }
        let turn = self.newest_turn(&text);
        self.of_client.turns.remove(&turn);
        let outcome = match () {
            () if text.contains("-32603") => WorkOutcome::Failed,
            () if text.contains("error") || text.contains(r#""cancelled""#) => WorkOutcome::Stopped,
            () => WorkOutcome::Finished,
        };
        vec![Seen::Ended(turn, outcome)]
    }

    /// Both sides see the end of the line: all work is lost, and what is owed is cancelled.
    fn cut(&mut self) -> (Vec<Seen>, Vec<Seen>) {
        self.is_cut = true;
        self.up.clear();
        self.down.clear();
        self.client.handle_eof(NOW);
        self.agent.handle_eof(NOW);
        let lost = |side: &mut Side| -> Vec<Seen> {
            let turns = std::mem::take(&mut side.turns);
            turns.into_keys().map(|turn| Seen::Ended(turn, WorkOutcome::Lost)).collect()
        };
        let (mut of_client, mut of_agent) = (lost(&mut self.of_client), vec![]);
        if let Some((_, false)) = self.of_client.permission.take() {
            of_client.push(Seen::Cancelled(Call::Permission, Cause::PeerGone));
        }
        for (turn, state) in &self.of_agent.turns {
            if !state.is_stopped && !state.is_cancelled {
                of_agent.push(Seen::Cancelled(Call::Turn(*turn), Cause::PeerGone));
            }
        }
        of_agent.extend(lost(&mut self.of_agent));
        (of_client, of_agent)
    }

    /// Moves what a connection has to send into the line.
    fn send(&mut self) {
        let mut out = Vec::new();
        for (from, line) in [(&mut self.client, &mut self.up), (&mut self.agent, &mut self.down)] {
            while let Some(transmit) = from.poll_transmit(&mut out) {
                if !self.is_cut {
                    line.push_back(transmit.message(&out).to_vec());
                }
                out.clear();
            }
        }
    }
}

impl Side {
    /// Stops every run of the session of a turn.
    fn stop(&mut self, turn: u8, cause: Cause) -> Vec<Seen> {
        let mut seen = Vec::new();
        let session = SESSIONS[usize::from(turn)];
        for (turn, state) in &mut self.turns {
            if SESSIONS[usize::from(*turn)] != session || state.is_stopped {
                continue;
            }
            state.is_stopped = true;
            seen.push(Seen::Stopped(*turn, cause));
            if cause == Cause::Peer && !state.is_cancelled {
                seen.push(Seen::Cancelled(Call::Turn(*turn), Cause::Stopped));
            }
        }
        seen
    }

    fn cancel(&mut self, turn: u8) -> Vec<Seen> {
        let state = self.turns.get_mut(&turn).filter(|it| !it.is_stopped && !it.is_cancelled);
        let Some(state) = state else { return vec![] };
        state.is_cancelled = true;
        vec![Seen::Cancelled(Call::Turn(turn), Cause::Peer)]
    }

    /// Returns whether turns of the session were stopped, and none has begun since.
    fn is_stopping(&self, turn: u8) -> bool {
        let session = SESSIONS[usize::from(turn)];
        let mut of_session =
            self.turns.iter().filter(|(turn, _)| SESSIONS[usize::from(**turn)] == session);
        let all: Vec<bool> = of_session.by_ref().map(|(_, state)| state.is_stopped).collect();
        !all.is_empty() && all.iter().all(|is_stopped| *is_stopped)
    }

    /// Takes the events of a connection, and returns those that are judged.
    fn take<'e>(&mut self, events: impl Iterator<Item = Event<'e, Call>>, turn: u8) -> Vec<Seen> {
        let mut seen = Vec::new();
        for event in events {
            match event {
                Event::WorkBegan { work, .. } => {
                    self.works.insert(work, turn);
                    seen.push(Seen::Began(turn));
                }
                Event::WorkStopped { work, cause } => {
                    seen.push(Seen::Stopped(self.works[&work], cause));
                }
                Event::WorkEnded { work, outcome, .. } => {
                    let turn = self.works.remove(&work).expect("work ends once");
                    seen.push(Seen::Ended(turn, outcome));
                }
                Event::Request { request, method, .. } if &*method == "session/prompt" => {
                    self.requests.insert(turn, request);
                }
                Event::Request { request, .. } => self.permission = Some((request, false)),
                Event::Cancelled { request, cause, .. } => {
                    let turn = self.requests.iter().find(|(_, known)| **known == request);
                    let call = turn.map_or(Call::Permission, |(turn, _)| Call::Turn(*turn));
                    if let (Call::Permission, Some((_, is_cancelled))) =
                        (call, &mut self.permission)
                    {
                        *is_cancelled = true;
                    }
                    seen.push(Seen::Cancelled(call, cause));
                }
                _ => {}
            }
        }
        seen
    }
}

impl System for Turns {
    type Choice = TurnChoice;

    const LANES: &'static [&'static str] = &["client", "agent"];

    fn choices(&self) -> Vec<TurnChoice> {
        let mut choices = Vec::new();
        if self.is_cut {
            return choices;
        }
        let mut once = |choice| {
            if !self.done.contains(&choice) {
                choices.push(choice);
            }
        };
        for turn in 0..3 {
            once(TurnChoice::Prompt(turn));
        }
        for (turn, state) in &self.of_client.turns {
            if *turn != 1 {
                once(TurnChoice::Stop(*turn));
            }
            if *turn == 0 && !state.is_stopped {
                once(TurnChoice::Cancel(*turn));
            }
        }
        once(TurnChoice::Ask);
        once(TurnChoice::Cut);
        if self.of_client.permission.is_some() {
            choices.push(TurnChoice::Permit);
        }
        for (turn, state) in &self.of_agent.turns {
            choices.push(TurnChoice::End(*turn));
            if *turn == 0 {
                choices.push(TurnChoice::Fail(*turn));
            }
            if state.is_stopped {
                choices.push(TurnChoice::EndAnyway(*turn));
            }
        }
        if !self.up.is_empty() {
            choices.push(TurnChoice::ToAgent);
        }
        if !self.down.is_empty() {
            choices.push(TurnChoice::ToClient);
        }
        choices
    }

    fn is_fair(&self, choice: &TurnChoice) -> bool {
        use TurnChoice::{End, EndAnyway, Fail, Permit, ToAgent, ToClient};
        matches!(choice, ToAgent | ToClient | End(_) | EndAnyway(_) | Fail(_) | Permit)
    }

    fn take(&mut self, choice: &TurnChoice) -> Result<(), Broken> {
        self.done.insert(*choice);
        let mut turn = 0;
        let (mut of_client, mut of_agent) = (vec![], vec![]);
        match *choice {
            TurnChoice::Prompt(number) => {
                turn = number;
                of_client = self.prompt(number);
            }
            TurnChoice::Stop(turn) => of_client = self.stop(turn),
            TurnChoice::Cancel(turn) => of_client = self.cancel(turn),
            TurnChoice::Ask => of_agent = self.ask(),
            TurnChoice::Permit => of_client = self.permit(),
            TurnChoice::End(turn) => of_agent = self.end(turn, true),
            TurnChoice::EndAnyway(turn) => of_agent = self.end(turn, false),
            TurnChoice::Fail(turn) => of_agent = self.fail(turn),
            TurnChoice::ToAgent => {
                let message = self.up.pop_front().expect("it waits");
                of_agent = self.agent_reads(&message);
                if let [Seen::Began(number), ..] = of_agent[..] {
                    turn = number;
                }
                let first = self.agent.receive(&message, NOW).map(Event::into_owned);
                let events: Vec<_> = first.into_iter().chain(self.agent.drain_events()).collect();
                let seen = self.of_agent.take(events.into_iter(), turn);
                judge(seen, &of_agent)?;
                of_agent = vec![];
            }
            TurnChoice::ToClient => {
                let message = self.down.pop_front().expect("it waits");
                of_client = self.client_reads(&message);
                let first = self.client.receive(&message, NOW).map(Event::into_owned);
                let events: Vec<_> = first.into_iter().chain(self.client.drain_events()).collect();
                let seen = self.of_client.take(events.into_iter(), turn);
                judge(seen, &of_client)?;
                of_client = vec![];
            }
            TurnChoice::Cut => (of_client, of_agent) = self.cut(),
        }
        let events: Vec<_> = self.client.drain_events().collect();
        judge(self.of_client.take(events.into_iter(), turn), &of_client)?;
        let events: Vec<_> = self.agent.drain_events().collect();
        judge(self.of_agent.take(events.into_iter(), turn), &of_agent)?;
        self.send();
        Ok(())
    }

    /// Every turn ends: the agent answers each, and each answer arrives.
    fn unsettled(&self) -> Option<Broken> {
        let turn = self.of_client.turns.keys().next()?;
        Some(Broken::new(Guarantee::G1, format!("turn {turn} never ends at the client")))
    }

    fn fingerprint(&self) -> u64 {
        let mut state = DefaultHasher::new();
        (self.client.machine(), self.agent.machine()).hash(&mut state);
        (&self.up, &self.down, &self.of_client, &self.of_agent).hash(&mut state);
        (&self.done, self.is_cut).hash(&mut state);
        state.finish()
    }

    /// The choices of a history say all that happened.
    fn record(&mut self) {}

    fn take_marks(&mut self) -> Vec<Mark> {
        Vec::new()
    }
}

/// Returns whether the permission is asked for in the session of a turn.
fn is_asked_in(turn: u8) -> bool {
    SESSIONS[usize::from(turn)] == ASKS_IN
}

/// Compares what was seen with what the model says. The order within one step is not judged.
fn judge(mut seen: Vec<Seen>, expected: &[Seen]) -> Result<(), Broken> {
    let mut expected = expected.to_vec();
    seen.sort_unstable();
    expected.sort_unstable();
    Broken::unless(seen == expected, Guarantee::G6, || {
        format!("seen was {seen:?}, and expected {expected:?}")
    })
}

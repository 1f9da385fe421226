//! Two real connections that begin, stop and end turns of an agent, in every order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use protocol_core::{
    CallId, CallOptions, Cause, Config, Connection, Dialect, Event, RequestHandle, Response,
    Timestamp, WorkId, WorkOutcome,
};

use protocol_testkit::explore::System;
use protocol_testkit::{Broken, Guarantee};
use serde_json::value::RawValue;

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
pub(crate) struct Turns {
    client: Side,
    agent: Side,
    done: BTreeSet<TurnChoice>,
    is_cut: bool,
}

/// The purpose of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Call {
    Turn(u8),
    Permission,
}

/// One side: its connection, the messages on their way to it, and what it has learnt from messages.
#[derive(Clone, Debug)]
struct Side {
    connection: Connection<Call>,
    arriving: VecDeque<Vec<u8>>,
    known: Known,
}

#[derive(Clone, Debug, Default, Hash)]
struct Known {
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
pub(crate) enum TurnChoice {
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
    pub(crate) fn new(dialect: &Dialect) -> Self {
        let side = |mut config: Config, number| {
            (config.show_work, config.connection) = (true, number);
            let connection = Connection::new(config);
            Side { connection, arriving: VecDeque::new(), known: Known::default() }
        };
        Self {
            client: side(Config::client(dialect.clone()), 0),
            agent: side(Config::server(dialect.clone()), 1),
            done: BTreeSet::new(),
            is_cut: false,
        }
    }

    fn prompt(&mut self, turn: u8) -> Vec<Seen> {
        let call = self.client.call("session/prompt", session(turn), Call::Turn(turn));
        self.client.known.calls.insert(turn, call);
        self.client.known.turns.insert(turn, Turn::default());
        vec![Seen::Began(turn)]
    }

    /// The runs of one session are stopped together, and a permission that is owed within is cancelled.
    fn stop(&mut self, turn: u8) -> Vec<Seen> {
        let Side { connection, known, .. } = &mut self.client;
        connection.stop_call(known.calls[&turn], Cause::Caller, None, NOW);
        let mut expected = known.stop(turn, Cause::Caller);
        if let (true, Some((_, is_cancelled @ false))) =
            (!expected.is_empty() && session(turn) == ASKS_IN, &mut known.permission)
        {
            *is_cancelled = true;
            expected.push(Seen::Cancelled(Call::Permission, Cause::Stopped));
        }
        expected
    }

    fn cancel(&mut self, turn: u8) {
        let Side { connection, known, .. } = &mut self.client;
        connection.cancel(known.calls[&turn], Cause::Caller, NOW);
        if let Some(turn) = known.turns.get_mut(&turn) {
            turn.is_cancelled = true;
        }
    }

    fn permit(&mut self) {
        if let Some((request, is_cancelled)) = self.client.known.permission.take() {
            let result = Response::Result(raw("{}"));
            self.client.respond(request, if is_cancelled { Response::Cancelled } else { result });
        }
    }

    /// The agent ends a turn.
    fn end(&mut self, turn: u8, how: &TurnChoice) -> Vec<Seen> {
        let request = self.agent.known.requests.remove(&turn).expect("it is at work");
        let state = self.agent.known.turns.remove(&turn).expect("it has not ended");
        let (response, outcome) = match how {
            TurnChoice::Fail(_) => {
                let error = Response::Error { code: -32603, message: "no", data: None };
                (error, WorkOutcome::Failed)
            }
            TurnChoice::End(_) if state.is_stopped => (Response::Cancelled, WorkOutcome::Stopped),
            TurnChoice::End(_) if state.is_cancelled => (Response::Cancelled, WorkOutcome::Failed),
            _ => (Response::Result(raw(r#"{"stopReason":"end_turn"}"#)), WorkOutcome::Finished),
        };
        self.agent.respond(request, response);
        vec![Seen::Ended(turn, outcome)]
    }

    /// The agent reads a message. What that has to lead to is told by the text alone.
    fn agent_reads(&mut self, message: &[u8]) -> Vec<Seen> {
        let text = String::from_utf8_lossy(message);
        let known = &mut self.agent.known;
        if text.contains("session/cancel") {
            let turn = if text.contains(session(0)) { 0 } else { 2 };
            return known.stop(turn, Cause::Peer);
        }
        let calls = &self.client.known;
        if text.contains("$/cancel_request") {
            return known.cancel(calls.turn_named(&text, |number| format!(":{number}}}")));
        }
        if text.contains("session/prompt") {
            let turn = calls.turn_of(&text);
            known.turns.insert(turn, Turn::default());
            return vec![Seen::Began(turn)];
        }
        vec![]
    }

    fn client_reads(&mut self, message: &[u8]) -> Vec<Seen> {
        let (text, known) = (String::from_utf8_lossy(message), &mut self.client.known);
        if text.contains("session/request_permission") {
            let is_late = known.is_stopping(0);
            let late = is_late.then_some(Seen::Cancelled(Call::Permission, Cause::Stopped));
            return late.into_iter().collect();
        }
        let turn = known.turn_of(&text);
        known.turns.remove(&turn);
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
        for side in [&mut self.client, &mut self.agent] {
            side.arriving.clear();
            side.connection.handle_eof(NOW);
        }
        let (client, agent) = (&mut self.client.known, &mut self.agent.known);
        let (mut of_client, mut of_agent) = (client.lose(), vec![]);
        if let Some((_, false)) = client.permission.take() {
            of_client.push(Seen::Cancelled(Call::Permission, Cause::PeerGone));
        }
        for (turn, state) in &agent.turns {
            if !state.is_stopped && !state.is_cancelled {
                of_agent.push(Seen::Cancelled(Call::Turn(*turn), Cause::PeerGone));
            }
        }
        of_agent.extend(agent.lose());
        (of_client, of_agent)
    }
}

impl Side {
    fn call(&mut self, method: &str, params: &str, call: Call) -> CallId {
        let (params, options) = (Some(raw(params)), CallOptions::default());
        self.connection.call(method, params, call, options, NOW).expect("there is room")
    }

    fn respond(&mut self, request: RequestHandle, response: Response<'_>) {
        self.connection.respond(request, response).expect("it is owed");
    }

    /// Reads a message, and returns what its first event shows.
    fn read(&mut self, message: &[u8], turn: u8) -> Vec<Seen> {
        let event = self.connection.receive(message, NOW);
        self.known.take(event, turn)
    }

    /// Moves what its connection has to send into the line. Returns what is left of its events.
    fn go_on(&mut self, peer: &mut Self, is_cut: bool, turn: u8) -> Vec<Seen> {
        let seen = self.known.take(self.connection.drain_events(), turn);
        let mut out = Vec::new();
        while let Some(transmit) = self.connection.poll_transmit(&mut out) {
            if !is_cut {
                peer.arriving.push_back(transmit.message(&out).to_vec());
            }
            out.clear();
        }
        seen
    }
}

impl Known {
    /// Stops every run of the session of a turn.
    fn stop(&mut self, turn: u8, cause: Cause) -> Vec<Seen> {
        let mut seen = Vec::new();
        for (other, state) in &mut self.turns {
            if session(*other) != session(turn) || state.is_stopped {
                continue;
            }
            state.is_stopped = true;
            seen.push(Seen::Stopped(*other, cause));
            if cause == Cause::Peer && !state.is_cancelled {
                seen.push(Seen::Cancelled(Call::Turn(*other), Cause::Stopped));
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
        let of_session = self.turns.iter().filter(|(other, _)| session(**other) == session(turn));
        let mut of_session = of_session.map(|(_, state)| state.is_stopped).peekable();
        of_session.peek().is_some() && of_session.all(|is_stopped| is_stopped)
    }

    /// Loses all turns.
    fn lose(&mut self) -> Vec<Seen> {
        let turns = std::mem::take(&mut self.turns).into_keys();
        turns.map(|turn| Seen::Ended(turn, WorkOutcome::Lost)).collect()
    }

    /// Returns the turn whose id, in this form, stands in a message. The client counts from one.
    fn turn_named(&self, text: &str, written: impl Fn(usize) -> String) -> u8 {
        let number = |call| 1 + self.calls.values().filter(|other| **other < call).count();
        let named = self.calls.iter().find(|(_, call)| text.contains(&written(number(**call))));
        *named.expect("it has an id of the client").0
    }

    /// Returns the turn that a request begins, or a response ends, by its id.
    fn turn_of(&self, text: &str) -> u8 {
        self.turn_named(text, |number| format!(r#""id":{number},"#))
    }

    /// Takes the events of a connection, and returns those that are judged.
    fn take<'e>(
        &mut self,
        events: impl IntoIterator<Item = Event<'e, Call>>,
        turn: u8,
    ) -> Vec<Seen> {
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
        for (turn, state) in &self.client.known.turns {
            if *turn != 1 {
                once(TurnChoice::Stop(*turn));
            }
            if *turn == 0 && !state.is_stopped {
                once(TurnChoice::Cancel(*turn));
            }
        }
        once(TurnChoice::Ask);
        once(TurnChoice::Cut);
        if self.client.known.permission.is_some() {
            choices.push(TurnChoice::Permit);
        }
        for (turn, state) in &self.agent.known.turns {
            choices.push(TurnChoice::End(*turn));
            if *turn == 0 {
                choices.push(TurnChoice::Fail(*turn));
            }
            if state.is_stopped {
                choices.push(TurnChoice::EndAnyway(*turn));
            }
        }
        if !self.agent.arriving.is_empty() {
            choices.push(TurnChoice::ToAgent);
        }
        if !self.client.arriving.is_empty() {
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
        let (mut turn, mut of_client, mut of_agent) = (0, vec![], vec![]);
        let (mut client_saw, mut agent_saw) = (vec![], vec![]);
        match *choice {
            TurnChoice::Prompt(number) => {
                turn = number;
                of_client = self.prompt(number);
            }
            TurnChoice::Stop(turn) => of_client = self.stop(turn),
            TurnChoice::Cancel(turn) => self.cancel(turn),
            TurnChoice::Ask => {
                self.agent.call("session/request_permission", ASKS_IN, Call::Permission);
            }
            TurnChoice::Permit => self.permit(),
            TurnChoice::End(turn) | TurnChoice::EndAnyway(turn) | TurnChoice::Fail(turn) => {
                of_agent = self.end(turn, choice);
            }
            TurnChoice::ToAgent => {
                let message = self.agent.arriving.pop_front().expect("it waits");
                of_agent = self.agent_reads(&message);
                if let [Seen::Began(number), ..] = of_agent[..] {
                    turn = number;
                }
                agent_saw = self.agent.read(&message, turn);
            }
            TurnChoice::ToClient => {
                let message = self.client.arriving.pop_front().expect("it waits");
                of_client = self.client_reads(&message);
                client_saw = self.client.read(&message, turn);
            }
            TurnChoice::Cut => (of_client, of_agent) = self.cut(),
        }
        client_saw.extend(self.client.go_on(&mut self.agent, self.is_cut, turn));
        agent_saw.extend(self.agent.go_on(&mut self.client, self.is_cut, turn));
        judge(client_saw, of_client)?;
        judge(agent_saw, of_agent)
    }

    /// Every turn ends: the agent answers each, and each answer arrives.
    fn unsettled(&self) -> Option<Broken> {
        let turn = self.client.known.turns.keys().next()?;
        Some(Broken::new(Guarantee::G1, format!("turn {turn} never ends at the client")))
    }

    fn fingerprint(&self) -> u64 {
        let mut state = DefaultHasher::new();
        for side in [&self.client, &self.agent] {
            (side.connection.machine(), &side.arriving, &side.known).hash(&mut state);
        }
        (&self.done, self.is_cut).hash(&mut state);
        state.finish()
    }
}

fn raw(json: &str) -> &RawValue {
    serde_json::from_str(json).expect("it is written as JSON")
}

/// Returns the session of a turn, as the params of its messages say it.
fn session(turn: u8) -> &'static str {
    SESSIONS[usize::from(turn)]
}

/// Compares what was seen with what the model says. The order within one step is not judged.
fn judge(mut seen: Vec<Seen>, mut expected: Vec<Seen>) -> Result<(), Broken> {
    seen.sort_unstable();
    expected.sort_unstable();
    Broken::unless(seen == expected, Guarantee::G6, || {
        format!("seen was {seen:?}, and expected {expected:?}")
    })
}

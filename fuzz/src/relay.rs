//! Two relays in a row between two hostile peers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use protocol_core::{
    CancelRule, Dialect, Envelope, Received, ResponseRule, Shutdown, Timestamp, Transmit,
    TransmitKind, Violation,
};
use protocol_relay::{Relay, RelayEvent, Side};
use protocol_testkit::{Hostile, both_roles, framed, small};

use crate::bytes::Bytes;
use crate::json::{Members, asked_id, each_message, responded_id, string};

/// The most steps of one input: a reader has to follow a finding.
const MOST: usize = 200;

/// The first bytes choose the dialects of the three hops. The rest is the output of the two peers,
/// and the times at which the relays read and write. Each request gets one response at most, under
/// its own id (G2). It gets one if no hop wants silence, nobody shuts down and nothing is dropped, once the peers
/// have responded to all that they read. No cancel goes through as it is (B25). When both peers are gone, nothing
/// is left (G1).
pub fn relay(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let hops = [0; 3].map(|_| bytes.dialect());
    let mut chain = Chain::new(hops);
    for _ in 0..MOST {
        if bytes.is_empty() {
            break;
        }
        chain.step(&mut bytes);
    }
    chain.finish();
}

/// `peers[0] - relays[0] - relays[1] - peers[1]`.
struct Chain {
    relays: [Relay; 2],
    peers: [Peer; 2],
    /// The bytes on their way between the relays: towards the second, and towards the first.
    between: [Vec<u8>; 2],
    now: Timestamp,
    /// Whether a request may get no response.
    may_be_silent: bool,
}

/// One peer, and the messages that it wrote and read.
struct Peer {
    dialect: Dialect,
    /// The side of its relay that it is on.
    side: Side,
    /// The dialect between the relays.
    hop: Dialect,
    /// By id token, how many answers its requests may still get.
    owed: BTreeMap<String, usize>,
    /// The id tokens of its requests that have had no response yet.
    waiting: BTreeSet<String>,
    /// The id tokens and the methods of the requests it read, in their order.
    asked: Vec<(String, String)>,
    /// Those of them that were cancelled.
    cancelled: BTreeSet<String>,
    is_gone: bool,
}

impl Chain {
    fn new([up, middle, down]: [Dialect; 3]) -> Self {
        let may_be_silent =
            [&up, &middle, &down].iter().any(|hop| hop.response != ResponseRule::Required);
        let [_, up_end] = both_roles(small(up.clone()));
        let [middle_begin, middle_end] = both_roles(small(middle.clone()));
        let [down_begin, _] = both_roles(small(down.clone()));
        Self {
            relays: [Relay::new(up_end, middle_begin), Relay::new(middle_end, down_begin)],
            peers: [Peer::new(up, Side::Up, middle.clone()), Peer::new(down, Side::Down, middle)],
            between: [Vec::new(), Vec::new()],
            now: Timestamp::ZERO,
            may_be_silent,
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let first = bytes.byte();
        let at = usize::from(first & 1);
        match (first >> 1) % 32 {
            0..=13 => {
                let message = self.peers[at].message(bytes);
                self.write(at, &message);
            }
            14 | 15 => {
                let len = bytes.byte().into();
                let message = bytes.take(len).to_vec();
                self.write(at, &message);
            }
            16..=21 => drop(self.carry(at)),
            22..=28 => drop(self.leave(at)),
            29 => {
                self.now = self.now + Duration::from_millis(bytes.pick(&[1, 10, 50]));
                self.wait();
            }
            30 => {
                let how = [Shutdown::Drain, Shutdown::CancelAll, Shutdown::Abandon];
                match bytes.byte() % 8 {
                    0 => self.hang_up(at),
                    1 => {
                        self.may_be_silent = true;
                        self.relays[at].shutdown(bytes.pick(&how), self.now);
                    }
                    _ => drop(self.leave(at)),
                }
            }
            _ => self.move_all(),
        }
        self.poll();
    }

    fn poll(&mut self) {
        for at in 0..2 {
            while let Some(event) = self.relays[at].poll_event() {
                self.note(Some(event));
            }
        }
    }

    /// A request whose response is dropped for want of room gets none.
    fn note(&mut self, event: Option<(Side, RelayEvent)>) {
        if let Some((_, RelayEvent::Violation { violation, .. })) = event {
            self.may_be_silent |= violation == Violation::ResponseDropped;
        }
    }

    /// A peer writes a message.
    fn write(&mut self, at: usize, message: &[u8]) {
        let peer = &self.peers[at];
        if peer.is_gone {
            return;
        }
        let stream = framed(message, peer.dialect.framing);
        let mut unread = &stream[..];
        loop {
            let peer = &mut self.peers[at];
            let received = self.relays[at].receive(peer.side, unread, self.now);
            let outline = self.relays[at].take_outline(peer.side);
            peer.wrote(received.message.or(outline.as_deref()).unwrap_or_default());
            let consumed = received.consumed;
            self.note(received.event);
            if consumed == 0 {
                break;
            }
            unread = &unread[consumed..];
        }
        // The rest of a broken frame is of no use to anyone.
    }

    /// One message of the relay at a peer leaves for the other relay, and is read.
    fn carry(&mut self, from: usize) -> bool {
        let side = [Side::Down, Side::Up];
        if self.relays[from].poll_transmit(side[from], &mut self.between[from]).is_none() {
            return false;
        }
        loop {
            let (relay, stream) = (&mut self.relays[1 - from], &mut self.between[from]);
            let Received { consumed, event, .. } = relay.receive(side[1 - from], stream, self.now);
            stream.drain(..consumed);
            self.note(event);
            if consumed == 0 {
                return true;
            }
        }
    }

    /// One message of a relay leaves for its peer.
    fn leave(&mut self, at: usize) -> bool {
        let mut out = Vec::new();
        let transmit = self.relays[at].poll_transmit(self.peers[at].side, &mut out);
        if let Some(transmit) = transmit {
            self.peers[at].read(transmit, transmit.message(&out));
        }
        transmit.is_some()
    }

    fn move_all(&mut self) {
        while (0..2).any(|at| self.carry(at) || self.leave(at)) {}
    }

    fn wait(&mut self) {
        for relay in &mut self.relays {
            relay.handle_timeout(self.now);
        }
    }

    fn hang_up(&mut self, at: usize) {
        if !std::mem::replace(&mut self.peers[at].is_gone, true) {
            self.relays[at].handle_eof(self.peers[at].side, &[], self.now);
        }
    }

    /// A relay that has nothing left to do hangs up on the other.
    fn pass_ends(&mut self) {
        for (at, side) in [(0, Side::Down), (1, Side::Up)] {
            if self.relays[at].is_over(side) {
                self.relays[1 - at].handle_eof(side.other(), &[], self.now);
            }
        }
    }

    /// Each peer responds to all that it reads. Then both hang up, and every grace passes.
    fn finish(mut self) {
        for _ in 0..4 {
            self.move_all();
            for at in 0..2 {
                for place in 0..self.peers[at].asked.len() {
                    let response = self.peers[at].answer(place, 0);
                    self.write(at, &response);
                }
            }
            self.poll();
            self.pass_ends();
        }
        self.move_all();
        self.poll();
        let is_owed = |peer: &&Peer| !peer.is_gone && !self.may_be_silent;
        let mut silent = self.peers.iter().filter(is_owed).filter_map(|peer| peer.waiting.first());
        assert_eq!(silent.next(), None, "G2: no response came");
        (0..2).for_each(|at| self.hang_up(at));
        for _ in 0..4 {
            self.move_all();
            self.now = self.now + Duration::from_secs(60);
            self.wait();
            self.pass_ends();
        }
        for relay in &self.relays {
            for side in Side::BOTH {
                let connection = relay.connection(side);
                let machine = connection.machine();
                assert_eq!(machine.calls_in_flight(), 0, "G1: a call never settled, {side}");
                assert_eq!(machine.requests_in_flight(), 0, "G2: a request waits, {side}");
                assert_eq!(connection.unsent_bytes(), 0, "G8: something is left, {side}");
            }
        }
    }
}

impl Peer {
    fn new(dialect: Dialect, side: Side, hop: Dialect) -> Self {
        let (owed, waiting, asked, cancelled) = Default::default();
        Self { dialect, side, hop, owed, waiting, asked, cancelled, is_gone: false }
    }

    /// Something that this peer says next.
    fn message(&self, bytes: &mut Bytes<'_>) -> Vec<u8> {
        let kind = bytes.byte();
        let id = Hostile::id(bytes.byte());
        match kind % 8 {
            0 | 1 => self.request(id),
            2 | 3 => self.answer(bytes.byte().into(), kind >> 3),
            // The cancel of any dialect, as what a confused client or an attacker writes.
            4 => Hostile::Cancel.message(id, &bytes.dialect()),
            5 => self.cancel_request(id, &bytes.dialect()),
            _ => bytes.pick(&Hostile::ALL).message(id, &self.dialect),
        }
    }

    fn request(&self, id: &str) -> Vec<u8> {
        match self.dialect.envelope {
            Envelope::JsonRpc => Hostile::Request.message(id, &self.dialect),
            Envelope::Abp => {
                let method = if self.asked.is_empty() { "initialize" } else { "capabilities/call" };
                let payload = r#"{"capability":"work"}"#;
                format!(r#"{{"type":"{method}","id":{id},"payload":{payload}}}"#).into_bytes()
            }
            Envelope::Dap => {
                let command = if self.asked.is_empty() { "initialize" } else { "work" };
                format!(r#"{{"seq":{id},"type":"request","command":"{command}"}}"#).into_bytes()
            }
        }
    }

    /// The cancel of any dialect, but as a request.
    fn cancel_request(&self, id: &str, dialect: &Dialect) -> Vec<u8> {
        let (method, member) = match &dialect.cancel {
            CancelRule::Notification { method, id, .. } => (&**method, &**id),
            CancelRule::Request { method, .. } | CancelRule::Operation { method, .. } => {
                (&**method, "callId")
            }
            _ => ("$/cancelRequest", "id"),
        };
        match self.dialect.envelope {
            Envelope::JsonRpc => {
                let params = format!(r#"{{"{member}":{id}}}"#);
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
            }
            Envelope::Abp => {
                format!(r#"{{"type":"{method}","id":{id},"payload":{{"{member}":{id}}}}}"#)
            }
            Envelope::Dap => {
                let request = format!(r#"{{"seq":{id},"type":"request","command":"{method}","#);
                format!(r#"{request}"arguments":{{"{member}":{id}}}}}"#)
            }
        }
        .into_bytes()
    }

    /// An answer to a request that this peer read, perhaps the second.
    fn answer(&self, place: usize, kind: u8) -> Vec<u8> {
        let place = place.checked_rem(self.asked.len());
        let (id, method) = place.map_or(("1", "capabilities/call"), |place| {
            let (id, method) = &self.asked[place];
            (id, method)
        });
        match self.dialect.envelope {
            Envelope::JsonRpc => {
                let answers = [Hostile::Result, Hostile::Error, Hostile::CancelError];
                answers[usize::from(kind) % 3].message(id, &self.dialect)
            }
            Envelope::Abp => {
                let outcome = [
                    r#""success":true,"data":1"#,
                    r#""success":false,"error":{"code":"X","message":"no"}"#,
                    r#""success":false,"cancelled":true"#,
                ][usize::from(kind) % 3];
                let payload = format!(r#"{{"callId":{id},{outcome}}}"#);
                format!(r#"{{"type":"{method}-result","id":{id},"payload":{payload}}}"#)
                    .into_bytes()
            }
            Envelope::Dap => {
                let outcome = [
                    r#""success":true,"body":{"supportsCancelRequest":true}"#,
                    r#""success":false,"message":"no""#,
                    r#""success":false,"message":"cancelled""#,
                ][usize::from(kind) % 3];
                format!(r#"{{"type":"response","request_seq":{id},"command":"work",{outcome}}}"#)
                    .into_bytes()
            }
        }
    }

    /// The relay took a message of this peer.
    fn wrote(&mut self, message: &[u8]) {
        // One that is refused gets one response for all.
        let is_batch = message.trim_ascii_start().starts_with(b"[");
        for message in each_message(message) {
            let Some(members) = Members::of(message) else { continue };
            if let Some(id) = asked_id(&members, self.dialect.envelope) {
                *self.owed.entry(id.into()).or_default() += 1;
                if !is_batch && self.is_request(&members, id) {
                    self.waiting.insert(id.into());
                }
            }
        }
    }

    /// Returns whether a message is a request with an id that every response to it repeats.
    fn is_request(&self, message: &Members<'_>, id: &str) -> bool {
        let is_text = |name| message.get(name).and_then(string).is_some();
        match self.dialect.envelope {
            Envelope::JsonRpc => {
                is_text("method") && (id.parse::<i32>().is_ok() || string(id).is_some())
            }
            Envelope::Abp => {
                message.get("type") == Some("\"capabilities/call\"") && string(id).is_some()
            }
            // A response repeats the command.
            Envelope::Dap => {
                let is_request = message.get("type") == Some("\"request\"");
                is_request && is_text("command") && id.parse::<i32>().is_ok()
            }
        }
    }

    /// This peer reads what its relay wrote.
    fn read(&mut self, transmit: Transmit, message: &[u8]) {
        for message in each_message(message) {
            let members = Members::of(message).expect("G9: a relay writes objects");
            let envelope = self.dialect.envelope;
            if let Some(id) = responded_id(&members, envelope) {
                self.read_answer(id);
                continue;
            }
            if transmit.kind == TransmitKind::Cancel {
                self.read_cancel(&members);
                continue;
            }
            let names = ["method", "type"];
            let names = if envelope == Envelope::Dap { ["command", "event"] } else { names };
            let method = names.iter().find_map(|name| members.get(name)).and_then(string);
            let method = method.expect("it is no response");
            let is_cancel = self.looks_like_cancel(transmit.kind, &method);
            assert!(!is_cancel, "B25: a cancel went through as it is: {method}");
            if transmit.kind == TransmitKind::Request {
                self.asked.extend(asked_id(&members, envelope).map(|id| (id.to_owned(), method)));
            }
        }
    }

    /// But a client may be told of a cancelled operation.
    fn looks_like_cancel(&self, kind: TransmitKind, method: &str) -> bool {
        let is_told = self.side == Side::Up
            && kind == TransmitKind::Notification
            && self.hop.tells_of_cancels(method)
            && !self.dialect.cancel.has_method(method);
        !is_told && (self.dialect.is_cancel(method) || self.dialect.tells_of_cancels(method))
    }

    fn read_answer(&mut self, id: &str) {
        // That of a message whose id can't be read.
        if id == "null" {
            return;
        }
        self.waiting.remove(id);
        let left = self.owed.get_mut(id).filter(|left| **left > 0);
        *left.unwrap_or_else(|| panic!("G2: {id} is answered again, or never asked")) -= 1;
    }

    fn read_cancel(&mut self, members: &Members<'_>) {
        let member = match &self.dialect.cancel {
            CancelRule::Notification { id, .. } => id,
            CancelRule::Request { id: member, .. } => member,
            // It names what the peer itself answered.
            _ => return,
        };
        let names = ["params", "payload", "arguments"];
        let params = names.iter().find_map(|name| members.get(name)).expect("a cancel has params");
        let named = Members::of(params.as_bytes()).and_then(|params| params.get(member));
        let named = named.expect("a cancel names something").to_owned();
        assert!(
            self.asked.iter().any(|(id, _)| *id == named),
            "B25: the cancel of {named}, which was never asked"
        );
        assert!(self.cancelled.insert(named.clone()), "G4: {named} is cancelled twice");
    }
}

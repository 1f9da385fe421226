//! Messages of any bytes, to a connection in any state with small limits, whose heap is counted.

use heap::{Heap, aside};
use protocol_core::{
    CallId, CallOptions, Cause, Config, Connection, Dialect, Envelope, Event, Grace, Refusal,
    RequestHandle, RequestPhase, Response, Role, Shutdown, Timestamp, TransmitKind, WireId,
};
use protocol_testkit::{Hostile, small};
use serde_json::value::{RawValue, to_raw_value};

use crate::answers::{Said, judge};
use crate::bytes::Bytes;
use crate::peer;

/// The most steps of one run, so that a reader can follow a finding.
const MOST: usize = 300;
/// The most bytes of all that the peer says: each response is looked for in them.
const SAID: usize = 96 << 10;
/// The longest message, a little over the longest that the limits allow.
const LONGEST: usize = 9 << 10;

/// The first bytes choose the dialect, the history and the limits. The rest is a conversation: messages of any bytes,
/// and the host's actions. The host polls all events after each step, and messages when it likes.
///
/// Nothing panics. The responses of the connection itself have the form of the envelope and echo nothing but
/// the id (G9). The connection lives. At the end each call has settled once (G1) and each request was responded to
/// once (G2). The heap is never over `Connection::memory` (G8).
pub fn messages(data: &[u8]) {
    held(data);
}

/// Does what [`messages`] does. Returns the most bytes that the connection held, and the formula's.
pub fn held(data: &[u8]) -> (usize, usize) {
    let mut bytes = Bytes::new(data);
    let (config, before) = config(&mut bytes);
    let mut scene = Scene::new(config, before);
    for _ in 0..MOST {
        if bytes.is_empty() {
            break;
        }
        scene.step(&mut bytes);
        scene.judge();
    }
    scene.conclude()
}

fn config(bytes: &mut Bytes<'_>) -> (Config, u8) {
    let mut config = small(bytes.dialect());
    let before = bytes.byte();
    if before & 1 != 0 {
        config.role = Role::Server;
    }
    if before & 2 != 0 {
        config.show_raw_cancels = true;
    }
    let limits = &mut config.limits;
    limits.message_bytes = bytes.pick(&[650, 64, 200, 1_000, 4_000, 8 << 10]);
    limits.id_bytes = bytes.pick(&[1_024, 1, 8, 64, 500]);
    limits.calls = bytes.pick(&[6, 0, 1, 17, 60]);
    limits.requests = bytes.pick(&[5, 0, 1, 17, 60]);
    limits.abandoned_ids = bytes.pick(&[3, 0, 1, 40]);
    limits.early_cancels = bytes.pick(&[2, 0, 1, 40]);
    limits.batch_members = bytes.pick(&[3, 0, 1, 100]);
    limits.unsent_bytes = bytes.pick(&[3_000, 64, 300, 720, 8 << 10, 40_000]);
    limits.unsent_messages = bytes.pick(&[12, 1, 4, 70, 400]);
    limits.depth = bytes.pick(&[128, 1, 2, 4_000]);
    (config, before >> 2)
}

struct Scene {
    heap: Heap,
    formula: usize,
    conn: Connection<u32>,
    now: Timestamp,
    host: Host,
}

/// The host's state. Its memory does not count as the connection's.
struct Host {
    owed: Owed,
    values: Vec<Box<RawValue>>,
    message: Vec<u8>,
    out: Vec<u8>,
    said: Said,
    /// Whether what waited to leave was given up.
    is_abandoned: bool,
    /// The number of operations so far, which makes each token a new one.
    count: u8,
}

/// The events and responses that are still to come.
struct Owed {
    /// Our calls by the data that came with them, and whether each has settled.
    calls: Vec<(CallId, bool)>,
    /// The peer's requests, but for some that were responded to or ended.
    requests: Vec<RequestHandle>,
}

impl Scene {
    fn new(config: Config, before: u8) -> Self {
        let text = |len| to_raw_value(&[format!("host{}", "x".repeat(len))]).expect("it is JSON");
        let with = |token: &str| {
            let params = format!(
                r#"{{"_meta":{{"progressToken":{token}}},"sessionId":{token},"workDoneToken":{token},"token":{token}}}"#
            );
            serde_json::from_str(&params).expect("it is JSON")
        };
        let longest = config.limits.message_bytes - 20;
        let mut values: Vec<_> = [0, 300, 2_000].map(|len| text(longest.min(len))).into();
        values.extend(["1", "\"s\"", "\"t\""].map(with));
        let host = Host {
            owed: Owed {
                calls: Vec::with_capacity((MOST + 1) * 20),
                requests: Vec::with_capacity(4 << 10),
            },
            is_abandoned: false,
            values,
            message: Vec::with_capacity(LONGEST + 1),
            out: Vec::with_capacity(64 << 10),
            said: Said::default(),
            count: 0,
        };
        let formula = Connection::<u32>::memory(&config.limits);
        let heap = Heap::of_thread();
        let conn = Connection::new(config);
        let mut scene = Self { heap, formula, conn, now: Timestamp::ZERO, host };
        scene.prepare(before);
        scene
    }

    /// Brings the connection into one of 64 states.
    fn prepare(&mut self, before: u8) {
        let dialect = self.conn.config().dialect.clone();
        if before & 1 == 0 {
            self.open(&dialect);
        }
        let first = self.call("tool/call", CallOptions::default(), None);
        self.call("subscriptions/listen", CallOptions::default(), None);
        self.send_all();
        if before & 2 != 0 {
            for id in ["7", "\"a\""] {
                self.say(|_| request(id, dialect.envelope).into_bytes());
            }
            self.say(|_| Hostile::Batch.message("8", &dialect));
            // Erlmcp: the first one goes on as an operation.
            if before & 4 != 0 {
                self.begin_operation(0);
            }
        }
        if let Some(first) = first.filter(|_| before & 8 != 0) {
            self.conn.cancel(first, Cause::Caller, self.now);
        }
        self.send_all();
        if before & 16 != 0 {
            self.conn.shutdown(Shutdown::Drain, self.now);
        } else if before & 32 != 0 {
            self.call("work", CallOptions::default(), None);
        }
        self.poll();
    }

    /// Opens the session, where there is one, by a request of the peer's.
    fn open(&mut self, dialect: &Dialect) {
        let Some(by) = &dialect.session else { return };
        self.say(|_| {
            match dialect.envelope {
                Envelope::Dap => format!(r#"{{"seq":1,"type":"request","command":"{by}"}}"#),
                Envelope::JsonRpc | Envelope::Abp => {
                    format!(r#"{{"type":"{by}","id":"0","payload":{{}}}}"#)
                }
            }
            .into_bytes()
        });
        // There are no calls yet.
        self.respond_to_all();
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let kind = bytes.byte() % 32;
        match kind {
            0..=2 => {
                let len = usize::from(bytes.byte()) | usize::from(bytes.byte()) << 8;
                let raw = bytes.take(len.min(LONGEST));
                self.say(|_| raw.to_vec());
            }
            3..=12 => {
                let times = bytes.pick(&[1, 1, 5, 60]);
                let said = *bytes;
                for nth in 0..times {
                    *bytes = said;
                    self.say(|config| {
                        let most = config.limits.message_bytes + 3;
                        peer::message(bytes, &config.dialect, most, nth)
                    });
                }
            }
            13..=15 => self.make_calls(bytes),
            16 | 17 => {
                let at = usize::from(bytes.byte());
                let calls = &self.host.owed.calls;
                if let Some(&(call, _)) = calls.get(at % calls.len().max(1)) {
                    self.change_call(call, bytes);
                }
            }
            18..=20 => self.respond(bytes),
            21 => self.change_request(bytes),
            22 | 23 => self.notify(bytes),
            24 => {
                self.now =
                    self.now + std::time::Duration::from_millis(bytes.pick(&[1, 30, 90_000]));
                self.conn.handle_timeout(self.now);
            }
            25 => self.send_cancel(),
            26 if bytes.byte() > 200 => {
                let how = [Shutdown::Drain, Shutdown::CancelAll, Shutdown::Abandon];
                let how = bytes.pick(&how);
                self.host.is_abandoned |= how == Shutdown::Abandon;
                self.conn.shutdown(how, self.now);
            }
            27 if bytes.byte() > 220 => self.conn.handle_eof(self.now),
            28..=30 => {
                for _ in 0..bytes.byte() % 8 {
                    self.send();
                }
            }
            _ => self.send_all(),
        }
        self.poll();
    }

    // The peer

    fn say(&mut self, message: impl FnOnce(&Config) -> Vec<u8>) {
        let (host, config) = (&mut self.host, self.conn.config());
        aside(|| {
            let message = message(config);
            host.message.clear();
            host.message.extend_from_slice(&message[..message.len().min(LONGEST)]);
        });
        if host.said.len() + host.message.len() > SAID {
            return;
        }
        aside(|| host.said.push(&host.message, config));
        let Host { message, owed, .. } = &mut self.host;
        if let Some(event) = self.conn.receive(message, self.now) {
            owed.take(&event);
        }
        self.poll();
    }

    // The host

    fn poll(&mut self) {
        while let Some(event) = self.conn.poll_event() {
            self.host.owed.take(&event);
        }
    }

    fn call(
        &mut self,
        method: &str,
        options: CallOptions,
        params: Option<usize>,
    ) -> Option<CallId> {
        let params = params.map(|at| &*self.host.values[at]);
        let calls = &mut self.host.owed.calls;
        assert!(calls.len() < calls.capacity());
        let data = u32::try_from(calls.len()).expect("there are few");
        let call = self.conn.call(method, params, data, options, self.now).ok()?;
        calls.push((call, false));
        // On behalf of a request that was cancelled, it has settled.
        self.poll();
        Some(call)
    }

    fn make_calls(&mut self, bytes: &mut Bytes<'_>) {
        let how = bytes.byte();
        let time =
            |bit: u8, millis| (how & bit != 0).then(|| std::time::Duration::from_millis(millis));
        let mut options = CallOptions::default()
            .timeout(time(1, 60_000))
            .idle_timeout(time(2, 50_000))
            .hard_cap(time(4, 70_000));
        if how & 8 != 0 {
            options = options.grace(Grace::Settle(std::time::Duration::ZERO));
        }
        if how & 16 != 0 {
            let at = usize::from(bytes.byte());
            let parent = self.host.owed.requests.get(at % self.host.owed.requests.len().max(1));
            options = options.parent(parent.copied());
        }
        let params = match bytes.byte() % 8 {
            0..=5 => Some(usize::from(how >> 5) % self.host.values.len()),
            _ => None,
        };
        let method = bytes.pick(&["work", "tool/call", "m\n"]);
        for _ in 0..bytes.pick(&[1, 2, 20]) {
            self.call(method, options, params);
        }
    }

    fn change_call(&mut self, call: CallId, bytes: &mut Bytes<'_>) {
        match bytes.byte() % 6 {
            0 => self.conn.detach(call, self.now),
            1 => drop(self.conn.cancel(call, Cause::Dropped, self.now)),
            2 => {
                self.conn.cancel_because(call, Cause::Caller, Some("a reason\n"), self.now);
            }
            3 => self.conn.progress(call, self.now),
            _ => {
                for at in 0..self.host.owed.calls.len() {
                    self.conn.cancel(self.host.owed.calls[at].0, Cause::Caller, self.now);
                    self.poll();
                }
            }
        }
    }

    fn change_request(&mut self, bytes: &mut Bytes<'_>) {
        let at = usize::from(bytes.byte());
        let Some(&request) = self.host.owed.requests.get(at) else { return };
        match bytes.byte() % 3 {
            0 => self.conn.cancel_request(request, Cause::Internal, self.now),
            1 => drop(self.conn.end_request(request, None)),
            _ => self.begin_operation(at),
        }
    }

    fn send_cancel(&mut self) {
        let id = WireId::from_json("7").expect("it is a number");
        let _ = self.conn.send_cancel_request(&id);
    }

    fn notify(&mut self, bytes: &mut Bytes<'_>) {
        let progress = self.conn.config().dialect.progress.first();
        let is_progress = bytes.pick(&[true, false, false]);
        let method = progress.filter(|_| is_progress).map_or("note", |rule| &*rule.method);
        // Borrowed from the configuration, which the connection keeps.
        let method = match method {
            "$/progress" => "$/progress",
            "notifications/progress" => "notifications/progress",
            _ => "note\n\"\\",
        };
        let params = usize::from(bytes.byte()) % self.host.values.len();
        for _ in 0..bytes.pick(&[1, 1, 3, 100]) {
            let _ = self.conn.notify(method, Some(&self.host.values[params]));
        }
    }

    fn respond(&mut self, bytes: &mut Bytes<'_>) {
        let (at, how) = (usize::from(bytes.byte()), bytes.byte());
        let many = bytes.pick(&[1, 1, 10, 100]);
        for _ in 0..many {
            let requests = &mut self.host.owed.requests;
            let Some(at) = at.checked_rem(requests.len()) else { return };
            let (request, value) = (requests[at], usize::from(how >> 2) % 3);
            let value = &*self.host.values[value];
            let response = match how % 4 {
                0 => Response::Cancelled,
                1 => Response::Error { code: -1, message: "host\n", data: Some(value) },
                _ => Response::Result(value),
            };
            let is_owed = self.conn.request_data_mut(request).is_some();
            let responded = respond(&mut self.conn, &mut self.host.said, request, response).is_ok();
            if is_owed && !responded {
                return;
            }
            assert_eq!(is_owed, responded, "G2: it was responded to before");
            self.host.owed.requests.swap_remove(at);
        }
    }

    fn begin_operation(&mut self, at: usize) {
        if let Some(&request) = self.host.owed.requests.get(at) {
            self.host.count = self.host.count.wrapping_add(1);
            let _ = self.conn.begin_operation(request, [self.host.count; 16]);
        }
    }

    // Outputs

    /// Takes the next message.
    fn send(&mut self) -> bool {
        // A long message goes into an empty buffer with its own.
        self.host.out.clear();
        self.host.out.push(b'\n');
        let Some(transmit) = self.conn.poll_transmit(&mut self.host.out) else { return false };
        assert!(self.host.out.capacity() >= 64 << 10, "it is the host's");
        let written = transmit.message(&self.host.out);
        aside(|| {
            let json: Result<&RawValue, _> = serde_json::from_slice(written);
            json.unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(written)));
            if matches!(transmit.kind, TransmitKind::Response | TransmitKind::Acknowledgement) {
                let dialect = &self.conn.config().dialect;
                judge(written, &mut self.host.said, dialect);
            }
        });
        true
    }

    fn send_all(&mut self) {
        while self.send() {
            self.poll();
        }
    }

    // The end

    /// Responds to every request, and takes what leaves. Returns whether there was room for all.
    fn respond_to_all(&mut self) -> bool {
        let limits = self.conn.config().limits;
        // The envelopes repeat an id three times, and escape a method.
        let has_room = limits.unsent_bytes > 9 * limits.id_bytes + 300;
        while let Some(request) = self.host.owed.requests.pop() {
            if self.conn.request_data_mut(request).is_none() {
                continue;
            }
            let response = Response::Result(RawValue::NULL);
            let mut responded = respond(&mut self.conn, &mut self.host.said, request, response);
            if responded.is_err() {
                self.send_all();
                responded = respond(&mut self.conn, &mut self.host.said, request, response);
            }
            assert!(responded.is_ok() || !has_room, "G2: it is unanswered: {responded:?}");
            self.poll();
        }
        self.send_all();
        has_room
    }

    fn judge(&self) {
        let (peak, formula) = (self.heap.peak(), self.formula);
        let limits = &self.conn.config().limits;
        assert!(
            peak <= formula,
            "G8: {peak} bytes were held, and the formula says {formula}: {limits:?}"
        );
    }

    fn conclude(mut self) -> (usize, usize) {
        self.poll();
        if !self.conn.machine().is_closed() {
            let alive: &[u8] = match self.conn.config().dialect.envelope {
                Envelope::JsonRpc => br#"{"jsonrpc":"2.0","method":"a"}"#,
                Envelope::Abp => br#"{"type":"a"}"#,
                Envelope::Dap => br#"{"seq":1,"type":"event","event":"a"}"#,
            };
            let event = self.conn.receive(alive, self.now);
            assert!(matches!(event, Some(Event::Notification { .. })), "G9: it lives: {event:?}");
        }
        self.conn.handle_eof(self.now);
        self.poll();
        let unsettled = self.host.owed.calls.iter().position(|(_, is_settled)| !is_settled);
        assert_eq!(unsettled, None, "G1: this call never settled");
        if self.respond_to_all() {
            assert_eq!(self.conn.unsent_bytes(), 0);
            let unheard = self.host.said.unheard();
            assert!(self.host.is_abandoned || unheard.is_none(), "G2: {unheard:?} got no response");
        }
        self.judge();
        let peak = self.heap.peak();
        let said = std::mem::take(&mut self.host.said);
        aside(|| drop(said));
        (peak, self.formula)
    }
}

impl Owed {
    fn take(&mut self, event: &Event<'_, u32>) {
        match *event {
            Event::Settled { call, data, .. } => {
                let (of_data, is_settled) = &mut self.calls[data as usize];
                assert_eq!(*of_data, call, "G1: it gave the data of another call back");
                assert!(!std::mem::replace(is_settled, true), "G1: call {data} settled twice");
            }
            Event::Request { request, .. } => {
                assert!(self.requests.len() < self.requests.capacity());
                self.requests.push(request);
            }
            _ => {}
        }
    }
}

/// Responds to a request, which is possible once. Notes whether a response has to leave.
fn respond(
    conn: &mut Connection<u32>,
    said: &mut Said,
    request: RequestHandle,
    response: Response<'_>,
) -> Result<(), Refusal> {
    let is_sent = matches!(
        conn.machine().request_phase(request),
        Some(RequestPhase::Running | RequestPhase::Cancelled)
    );
    let id = conn.machine().request_id(request).filter(|_| is_sent);
    let id = aside(|| id.map(|id| id.as_json().to_owned()));
    let responded = conn.respond(request, response);
    aside(|| id.filter(|_| responded.is_ok()).into_iter().for_each(|id| said.expect(id)));
    responded?;
    assert!(conn.respond(request, response).is_err(), "G2: it is responded to");
    Ok(())
}

fn request(id: &str, envelope: Envelope) -> String {
    match envelope {
        Envelope::JsonRpc => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tool/call"}}"#),
        Envelope::Abp => {
            format!(r#"{{"type":"capabilities/call","id":{id},"payload":{{"capability":"work"}}}}"#)
        }
        Envelope::Dap => format!(r#"{{"seq":{id},"type":"request","command":"tool/call"}}"#),
    }
}

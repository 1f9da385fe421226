//! A hostile peer and a hostile host at one endpoint, without a lock or a runtime.

mod account;
mod calm;
mod host;
mod steps;
mod values;
mod waits;
mod words;

use std::mem;
use std::time::Duration;

use heap::{Heap, aside};
use protocol_core::{Dialect, Envelope, Framing, ResponseRule, Role, Timestamp};
use protocol_endpoint::{Budget, KeepAlive, Memory, Messages, Options, Output, Shown};
use protocol_testkit::{Hostile, framed, small};

use crate::bytes::Bytes;

use account::Account;
use host::Host;
use values::{Mark, Waiter, alive, inside};

type Endpoint = protocol_endpoint::Endpoint<Waiter, Mark>;
type Effects = protocol_endpoint::Effects<Waiter, Mark>;

/// The most steps of one run, so that a reader can follow a finding.
const MOST: usize = 300;
/// The most bytes that the peer says in one run.
const SAID: usize = 256 << 10;
/// The bytes that the host holds beside the endpoint: a response or params, and the events that it got.
const IN_HAND: usize = 40 << 10;

/// The first bytes choose the dialect, the role and the limits. The rest is the peer's input and reads, and the host's
/// actions.
///
/// The heap is under the formula at every step (G8). Each request that the peer asks under an id of its own
/// gets one response, or is rightly silent (F122). Each call settles once (G1). No value of the host's is
/// dropped inside (F85), and each comes back. Nobody sleeps who waits for something that is there.
pub fn endpoint(data: &[u8]) {
    endpoint_is_calm(data);
}

/// Does what [`endpoint`] does. Returns the number of requests that got their response, and of probes that the
/// endpoint stood once all was calm.
pub fn endpoint_is_calm(data: &[u8]) -> [usize; 2] {
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
    scene.finish()
}

fn options(bytes: &mut Bytes<'_>) -> Options {
    // Its operations take more steps than anything else.
    let operations = bytes.pick(&[None, None, None, Some(Dialect::ERLMCP)]);
    let mut config = small(operations.unwrap_or_else(|| bytes.dialect()));
    config.role = bytes.pick(&[Role::Client, Role::Server]);
    config.limits.unsent_bytes = bytes.pick(&[720, 3_000, 20_000]);
    config.limits.unsent_messages = bytes.pick(&[12, 1, 3]);
    config.limits.message_bytes = bytes.pick(&[650, 8_000]);
    config.limits.id_bytes = 64;
    config.limits.header_bytes = 128;
    config.limits.requests = bytes.pick(&[5, 2, 100]);
    config.limits.batch_members = bytes.pick(&[3, 30]);
    let mut options = Options::new(config);
    options.inbox_bytes = bytes.pick(&[500, 0, 20_000]);
    options.work_requests = bytes.pick(&[1, 3, 30]);
    options.work_bytes = bytes.pick(&[0, 500, 20_000]);
    options.response_bytes = bytes.pick(&[0, 500, 20_000]);
    options.result_bytes = bytes.pick(&[0, 500, 20_000]);
    options.pipe_bytes = bytes.pick(&[1, 100, 2_000]);
    let limited = Budget::Limited { per_second: 10, burst: 20 };
    let budget = bytes.pick(&[Budget::Unlimited, Budget::Unlimited, Budget::Unlimited, limited]);
    options.budgets.cancelled_requests = budget;
    options.budgets.vain_cancels = budget;
    options.budgets.violations = budget;
    let every = Duration::from_millis(bytes.pick(&[1, 50]));
    let keep_alive = KeepAlive::by("ping", every).patience(4 * every);
    options.keep_alive = bytes.pick(&[None, None, None, Some(keep_alive)]);
    // A refusal that finds no room is reported, and nothing else tells of it.
    options.shows.verdicts = true;
    options
}

struct Scene {
    heap: Heap,
    memory: Memory,
    options: Options,
    endpoint: Endpoint,
    effects: Effects,
    out: Messages,
    input: Vec<u8>,
    now: Timestamp,
    account: Account,
    host: Host,
    /// The bytes that the peer said so far.
    said: usize,
    /// Whether the peer broke the framing, so that nobody knows what it asked.
    is_wild: bool,
    /// Whether nothing is written any more.
    is_gone: bool,
    is_over: bool,
}

impl Scene {
    fn new(options: Options) -> Self {
        values::begin();
        let memory = Endpoint::memory(&options);
        let (input, host) = (Vec::with_capacity(SAID), Host::new());
        let of_endpoint = options.clone();
        // All of that is the scene's own.
        let heap = Heap::of_thread();
        Self {
            heap,
            memory,
            options,
            endpoint: Endpoint::new(of_endpoint),
            effects: Effects::new(),
            out: Messages::default(),
            input,
            now: Timestamp::ZERO,
            account: Account::default(),
            host,
            said: 0,
            is_wild: false,
            is_gone: false,
            is_over: false,
        }
    }

    fn step(&mut self, bytes: &mut Bytes<'_>) {
        let kind = bytes.byte();
        match kind % 32 {
            0..=2 => {
                let id = Hostile::id(bytes.byte());
                let hostile = bytes.pick(&Hostile::ALL);
                self.say_other(|dialect| hostile.message(id, dialect));
            }
            3..=6 => {
                let (method, length) = (bytes.byte(), bytes.pick(&[0, 10, 200, 500, 7_500]));
                for _ in 0..bytes.pick(&[1, 1, 4, 50]) {
                    self.ask(method, length);
                }
            }
            7 => self.ask_batch(1 + usize::from(bytes.byte() % 4)),
            8 | 9 => {
                let back = usize::from(bytes.byte() % 16);
                for back in back..back + bytes.pick(&[1, 1, 5]) {
                    self.cancel(back);
                }
            }
            10 => {
                let (length, breaks) = (usize::from(bytes.byte()), bytes.byte() > 230);
                let raw = bytes.take(length);
                self.say_raw(raw, breaks);
            }
            11 => {
                let (number, length) = (u32::from(bytes.byte() % 32), bytes.byte());
                let length = [1, 400, 7_500][usize::from(length % 3)];
                self.say_other(|dialect| words::response(number, length, dialect).into_bytes());
            }
            12 => {
                let length = bytes.pick(&[1, 100, 400]);
                for _ in 0..bytes.pick(&[1, 5, 40]) {
                    self.notify(length);
                }
            }
            13 => {
                self.now = self.now + Duration::from_millis(bytes.pick(&[1, 20, 1_000, 30_000]));
                self.time();
            }
            14 if kind > 200 => self.end_input(),
            14..=17 => {
                for _ in 0..bytes.pick(&[1, 3, 10]) {
                    self.read();
                }
            }
            _ => self.act(kind, bytes),
        }
        self.settle();
    }

    // The peer

    fn say_other(&mut self, message: impl FnOnce(&Dialect) -> Vec<u8>) {
        let dialect = &self.endpoint.core().config().dialect;
        let account = &mut self.account;
        let message = aside(|| {
            let message = message(dialect);
            account.say(&message);
            framed(&message, dialect.framing)
        });
        self.say(&message);
        aside(|| drop(message));
    }

    /// Asks a request under an id of its own.
    fn ask(&mut self, method: u8, length: usize) {
        let dialect = &self.endpoint.core().config().dialect;
        let account = &mut self.account;
        let (message, most) = aside(|| {
            let long = words::text(length);
            let session = dialect.session.as_deref().unwrap_or("initialize");
            let (method, param) = match method % 8 {
                0 => (&*long, ""),
                1 | 2 => ("tool/call", &*long),
                3 => (session, ""),
                4 => ("subscriptions/listen", ""),
                _ => ("m", &*long),
            };
            let method = if method.is_empty() { "m" } else { method };
            let message = words::request(&account.next_id(dialect), method, param, dialect);
            (message.into_bytes(), method.len())
        });
        // Some envelopes repeat the method, and bound its length.
        let may_be_silent = dialect.envelope != Envelope::JsonRpc && most > 64;
        if !self.is_heard(message.len()) {
            return aside(|| drop(message));
        }
        let may_be_silent = may_be_silent || self.is_wild || self.is_gone;
        aside(|| self.account.ask(dialect, may_be_silent));
        let framing = self.endpoint.dialect().framing;
        let message = aside(move || framed(&message, framing));
        self.say(&message);
        aside(|| drop(message));
    }

    /// Asks several requests in one batch.
    fn ask_batch(&mut self, members: usize) {
        let dialect = &self.endpoint.core().config().dialect;
        if dialect.envelope != Envelope::JsonRpc {
            return;
        }
        let members = members.min(3);
        let (has_batches, framing) = (dialect.batches.is_some(), dialect.framing);
        if !self.is_heard(1_000) {
            return;
        }
        let may_be_silent = !has_batches || self.is_wild || self.is_gone;
        let account = &mut self.account;
        let message = aside(|| {
            let mut messages = Vec::new();
            for _ in 0..members {
                let id = account.next_id(dialect);
                messages.push(words::request(&id, "m", "", dialect));
                account.ask(dialect, may_be_silent);
            }
            framed(format!("[{}]", messages.join(",")).as_bytes(), framing)
        });
        self.say(&message);
        aside(|| drop(message));
    }

    /// Returns whether a message of this length is heard.
    fn is_heard(&self, length: usize) -> bool {
        self.endpoint.closed().is_none() && self.said + length + 64 <= SAID
    }

    /// Cancels one of its latest requests.
    fn cancel(&mut self, back: usize) {
        let dialect = &self.endpoint.core().config().dialect;
        let account = &mut self.account;
        let message = aside(|| {
            let id = account.recent_id(back)?;
            let message = words::cancel(&id, dialect)?;
            if dialect.response != ResponseRule::Required {
                account.allow_silence(&id);
            }
            account.say(b"\"c\" 77");
            Some(framed(message.as_bytes(), dialect.framing))
        });
        if let Some(message) = message {
            self.say(&message);
            aside(|| drop(message));
        }
    }

    fn notify(&mut self, length: usize) {
        let dialect = &self.endpoint.core().config().dialect;
        let message = aside(|| {
            let message = words::note(&words::text(length), dialect);
            framed(message.as_bytes(), dialect.framing)
        });
        if self.is_heard(message.len()) && !self.is_wild {
            self.account.notes += 1;
        }
        self.say(&message);
        aside(|| drop(message));
    }

    /// Says any bytes. None of them is a digit of an id of the peer's own.
    fn say_raw(&mut self, raw: &[u8], breaks: bool) {
        let raw = aside(|| {
            let raw: Vec<u8> =
                raw.iter().map(|&byte| if byte == b'1' { b'2' } else { byte }).collect();
            self.account.say(&raw);
            let framing = self.endpoint.dialect().framing;
            if breaks { raw } else { framed(&raw, framing) }
        });
        self.is_wild |= breaks;
        self.say(&raw);
        aside(|| drop(raw));
    }

    /// The endpoint receives what the peer says, unless that is too much.
    fn say(&mut self, message: &[u8]) {
        if self.said + message.len() > SAID {
            return;
        }
        self.said += message.len();
        let Self { endpoint, effects, input, now, .. } = self;
        if endpoint.dialect().framing == Framing::Whole {
            inside(|| endpoint.receive_message(message, *now, effects));
        } else {
            input.extend_from_slice(message);
            let used = inside(|| endpoint.receive(input, *now, effects));
            input.drain(..used);
        }
        self.settle();
    }

    fn end_input(&mut self) {
        let Self { endpoint, effects, input, now, .. } = self;
        inside(|| endpoint.handle_eof(input, None, *now, effects));
        input.clear();
        self.settle();
    }

    /// The peer reads what may be written now. Returns whether there may be more.
    fn read(&mut self) -> bool {
        let Self { endpoint, effects, out, .. } = self;
        out.clear();
        let output = inside(|| endpoint.poll_output(out, effects));
        let is_asleep = self.host.output.is_some();
        self.settle();
        assert!(!is_asleep || output == Output::Idle, "whoever writes slept, and had {output:?}");
        assert!(!self.is_over || output == Output::Over, "it was over");
        self.is_over = output == Output::Over;
        let (account, out) = (&mut self.account, &mut self.out);
        let dialect = &self.endpoint.core().config().dialect;
        while let Some(message) = out.take_next() {
            aside(|| account.hear(message, dialect));
        }
        output == Output::Write
    }

    fn time(&mut self) {
        let Self { endpoint, effects, host, now, .. } = self;
        let was_over = endpoint.is_over();
        inside(|| endpoint.handle_timeout(*now, effects));
        if endpoint.is_over() && !was_over {
            // The patience with a peer that does not read has ended.
            self.account.allow_all_silence();
            self.is_gone = true;
        }
        // The caller of `handle_timeout` keeps the time, and asks for the next one now.
        host.armed = endpoint.wait_for_timer(&mut None);
        self.settle();
    }

    // The account

    /// Notes what was shown, and carries out the effects.
    fn settle(&mut self) {
        loop {
            for shown in self.effects.take_shown() {
                if let Shown::Verdict(verdict, _) = &shown {
                    let dialect = &self.endpoint.core().config().dialect;
                    aside(|| self.account.note(verdict, dialect));
                }
            }
            let Some(effect) = self.effects.pop() else { return };
            self.carry_out(effect);
        }
    }

    fn judge(&self) {
        let (peak, total) = (self.heap.peak(), self.memory.total());
        assert!(peak <= total + IN_HAND, "G8: {peak} bytes were held, of\n{}", self.memory);
        self.host.judge(&self.endpoint, &self.options);
    }

    // The end

    /// Everything becomes calm, and ends.
    fn finish(mut self) -> [usize; 2] {
        let probes = self.calm();
        self.judge();
        self.end();
        self.judge();
        let Self { heap, endpoint, effects, out, mut account, host, input, .. } = self;
        drop((endpoint, effects, out));
        assert_eq!(alive(), 0, "F85: a value of the host's is lost");
        let responded = account.responded;
        aside(|| drop(mem::take(&mut account)));
        assert_eq!(heap.held(), 0, "G8: something is left");
        drop((host, input));
        [responded, probes]
    }
}

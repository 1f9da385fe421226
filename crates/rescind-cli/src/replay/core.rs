//! A recording's relay, set up again and given what the recorded one was given.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use protocol_async::relay::{Options, is_noise};
use protocol_core::{Config, Framing, Timestamp};
use protocol_record::Line;
use protocol_record::line::{Direction, Input, InputKind, Message, Verdict};
use protocol_relay::{Relay, RelayEvent, Side};

/// The relay, and what it has decided that the recording has not told yet.
pub(super) struct Replay {
    relay: Relay,
    told: VecDeque<Verdict<'static>>,
    pub(super) counts: Counts,
}

/// Counts of everything that was the same so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Messages and other inputs that the core was given.
    pub(super) inputs: u64,
    /// Messages that it sent.
    pub(super) sent: u64,
    pub(super) verdicts: u64,
}

/// The reason that a line is not replayed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The core decides otherwise.
    Differs { recorded: Option<String>, decided: Option<String> },
    /// The recording does not say what the core was given here.
    Lacks(&'static str),
}

impl Replay {
    pub(super) fn new(options: Options) -> Self {
        let mut relay = Relay::new(options.up, options.down);
        relay.guard(Side::Up, options.guard);
        Self { relay, told: VecDeque::new(), counts: Counts::default() }
    }

    /// Does what a line tells of, and compares what comes of it.
    pub(super) fn take(&mut self, line: &Line<'_>) -> Result<(), Stop> {
        match line {
            Line::Message(message) => self.message(message),
            Line::Input(input) => self.input(input),
            Line::Verdict(verdict) => self.verdict(verdict),
            Line::Dropped(_) => Err(GAP),
            Line::End(_) => self.nothing_is_untold(),
            _ => Ok(()),
        }
    }

    fn message(&mut self, message: &Message<'_>) -> Result<(), Stop> {
        let side = side(&message.hop)?;
        let bytes = whole(message)?;
        match (message.dir, message.at) {
            (Direction::Received, Some(at)) => {
                self.nothing_is_untold()?;
                self.counts.inputs += 1;
                self.receive(side, &bytes, moment(at));
                Ok(())
            }
            // The end that stands before it had it.
            (Direction::Received, None) => Ok(()),
            (Direction::Sent, _) => self.sent(side, &bytes),
        }
    }

    /// Gives the core one message, framed.
    fn receive(&mut self, side: Side, message: &[u8], now: Timestamp) {
        let framed = framed(self.config(side).dialect.framing, message);
        let mut rest = &*framed;
        while !rest.is_empty() {
            let consumed = self.receive_bytes(side, rest, now);
            if consumed == 0 {
                break;
            }
            rest = &rest[consumed..];
        }
    }

    /// Gives the core bytes, and returns how many it consumed.
    fn receive_bytes(&mut self, side: Side, bytes: &[u8], now: Timestamp) -> usize {
        let received = self.relay.receive(side, bytes, now);
        let consumed = received.consumed;
        let mut next = received.event;
        while let Some((side, event)) = next {
            self.note(side, &event);
            next = self.relay.poll_event();
        }
        consumed
    }

    fn input(&mut self, input: &Input<'_>) -> Result<(), Stop> {
        // A line over the limit may have ended with the input. Then its verdicts follow that.
        if input.input != InputKind::End {
            self.nothing_is_untold()?;
        }
        self.counts.inputs += 1;
        let now = moment(input.at);
        if input.input == InputKind::Time {
            self.relay.handle_timeout(now);
            self.listen();
            return Ok(());
        }
        let side = side(input.hop.as_deref().unwrap_or_default())?;
        let bytes = match &input.base64 {
            Some(text) => BASE64_STANDARD.decode(&**text).map_err(|_| NO_BASE64)?,
            None if input.bytes > 0 => return Err(WITHHELD),
            None => Vec::new(),
        };
        match input.input {
            InputKind::End => {
                self.relay.handle_eof(side, &bytes, now);
            }
            InputKind::Broken => {
                self.receive_bytes(side, &bytes, now);
            }
            InputKind::TooLarge => {
                // The same message, but for what its outline lacks.
                let mut message = bytes;
                message.resize(self.config(side).limits.message_bytes.max(message.len()) + 1, b' ');
                self.receive(side, &message, now);
            }
            _ => return Err(Stop::Lacks("an input of a kind that is not known here")),
        }
        self.listen();
        Ok(())
    }

    fn sent(&mut self, side: Side, recorded: &[u8]) -> Result<(), Stop> {
        let mut out = Vec::new();
        let transmit = self.relay.poll_transmit(side, &mut out);
        self.listen();
        let decided = transmit.map(|transmit| transmit.message(&out));
        if decided == Some(recorded) {
            self.counts.sent += 1;
            return Ok(());
        }
        let text = |bytes| format!("{side} --> {}", String::from_utf8_lossy(bytes));
        Err(Stop::Differs { recorded: Some(text(recorded)), decided: decided.map(text) })
    }

    fn verdict(&mut self, recorded: &Verdict<'_>) -> Result<(), Stop> {
        if recorded.verdict == "fault" {
            // Done to a message after the core had let it go.
            return Ok(());
        }
        let decided = self.told.pop_front().map(|verdict| described(&verdict));
        let recorded = described(recorded);
        if decided.as_ref() == Some(&recorded) {
            self.counts.verdicts += 1;
            return Ok(());
        }
        Err(Stop::Differs { recorded: Some(recorded), decided })
    }

    /// Keeps what the core tells, but for what a recorder is not told either.
    fn listen(&mut self) {
        while let Some((side, event)) = self.relay.poll_event() {
            self.note(side, &event);
        }
    }

    fn note(&mut self, side: Side, event: &RelayEvent) {
        if let RelayEvent::Violation { violation, id } = event
            && is_noise(self.config(side), *violation, id.as_ref())
        {
            return;
        }
        let hop = Cow::Borrowed(side.as_str());
        self.told.push_back(Verdict { hop, ..Verdict::of_relay(event) });
    }

    /// Checks that all effects of an input were recorded before the next input came.
    fn nothing_is_untold(&mut self) -> Result<(), Stop> {
        match self.told.pop_front() {
            None => Ok(()),
            Some(verdict) => {
                Err(Stop::Differs { recorded: None, decided: Some(described(&verdict)) })
            }
        }
    }

    fn config(&self, side: Side) -> &Config {
        self.relay.connection(side).config()
    }
}

pub(super) const GAP: Stop = Stop::Lacks("a gap: what came here was not recorded");
const WITHHELD: Stop =
    Stop::Lacks("what came here was withheld, since it may hold the token of an operation");
const NO_BASE64: Stop = Stop::Lacks("what should be base64 is none");

fn side(hop: &str) -> Result<Side, Stop> {
    let side = Side::BOTH.into_iter().find(|side| side.as_str() == hop);
    side.ok_or(Stop::Lacks("a connection that is none of a relay's"))
}

/// A message as it passed.
pub(super) fn whole<'m>(message: &'m Message<'_>) -> Result<Cow<'m, [u8]>, Stop> {
    let bytes = match (&message.text, &message.base64) {
        (Some(text), _) => Cow::Borrowed(text.as_bytes()),
        (None, Some(text)) => Cow::Owned(BASE64_STANDARD.decode(&**text).map_err(|_| NO_BASE64)?),
        (None, None) => return Err(WITHHELD),
    };
    if bytes.len() as u64 == message.bytes {
        Ok(bytes)
    } else {
        Err(Stop::Lacks("a message that is not as long as its line says"))
    }
}

fn moment(at: u64) -> Timestamp {
    Timestamp::ZERO + Duration::from_nanos(at)
}

/// A message as a stream carries it.
pub(crate) fn framed(framing: Framing, message: &[u8]) -> Vec<u8> {
    match framing {
        Framing::ContentLength => {
            let head = format!("Content-Length: {}\r\n\r\n", message.len());
            [head.as_bytes(), message].concat()
        }
        _ => [message, b"\n"].concat(),
    }
}

/// A verdict without its time.
fn described(verdict: &Verdict<'_>) -> String {
    let id = verdict.id.as_ref().map(|id| format!("id {}", id.as_json()));
    let words = [
        Some(format!("{} {}", verdict.hop, verdict.verdict)),
        id,
        verdict.outcome.as_deref().map(Into::into),
        verdict.cause.as_deref().map(Into::into),
        verdict.why.as_deref().map(Into::into),
    ];
    words.into_iter().flatten().collect::<Vec<String>>().join(", ")
}

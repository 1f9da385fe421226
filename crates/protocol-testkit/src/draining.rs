//! One host, twice: its outputs are drained at different times (G11).

use std::collections::BTreeSet;
use std::time::Duration;

use protocol_core::{Cancellers, Config, Event, Role, Timestamp};

use crate::guarantee::{Broken, Guarantee};
use crate::host::Host;
use crate::hostile::{Hostile, unframed};
use crate::model::{Sent, Told};
use crate::operation::Operation;

/// Does the same operations to two equal connections, up to a shutdown, and drains them at different times. The
/// reference model judges each connection. A bit of each number says whether its connection is drained behind the operation
/// at that place, modulo 32.
///
/// The two may differ only by calls that one of them could still withdraw, and by the places of cancels, which
/// overtake waiting messages. A cancel may also be missing if the answer to its call came before the cancel had
/// left.
///
/// ```
/// use protocol_core::{Config, Dialect};
/// use protocol_testkit::{judge_draining, operations};
///
/// let config = Config::client(Dialect::ACP_V1);
/// let operations = operations(b"any bytes at all make some operations");
/// judge_draining(&config, [0, u32::MAX], &operations)?;
/// # Ok::<(), protocol_testkit::Broken>(())
/// ```
///
/// # Errors
///
/// Returns the guarantee that does not hold: G11, or one that a single connection breaks.
pub fn judge_draining(
    config: &Config,
    drains: [u32; 2],
    operations: &[Operation],
) -> Result<(), Broken> {
    let mut hosts = [0, 1].map(|_| Drained::new(config.clone()));
    let mut now = Timestamp::ZERO;
    for (place, operation) in (0_u32..).zip(operations) {
        if let Operation::Wait { millis } = *operation {
            now = now + Duration::from_millis(millis.into());
        }
        let is_shutdown = matches!(operation, Operation::Shutdown { .. });
        if is_shutdown {
            // Messages that are abandoned unsent are lost, with or without a withdrawal.
            hosts.iter_mut().try_for_each(Drained::drain)?;
        }
        if is_legal(&hosts, operation) {
            hosts.iter_mut().try_for_each(|host| host.act(operation, now))?;
        }
        if is_shutdown {
            // A withdrawn call lets it end earlier, and after its end nothing is read.
            break;
        }
        for (host, drains) in hosts.iter_mut().zip(drains) {
            if drains >> (place % 32) & 1 == 1 {
                host.drain()?;
            }
        }
    }
    hosts.iter_mut().try_for_each(|host| host.finish(now))?;
    compare(&hosts)
}

/// A call by its place among all that were made, on both hosts.
type Tag = u32;

/// Returns whether the peers of both hosts could do it: none answers or names a call that has not left.
fn is_legal([one, other]: &[Drained; 2], operation: &Operation) -> bool {
    let Operation::Hostile { id, .. } = operation else { return true };
    let id = Hostile::id(*id).trim_matches('"').replace("\\u003", "");
    let Ok(number) = id.parse::<u32>() else { return true };
    let is_unused = number > one.highest() && number > other.highest();
    is_unused
        || one.tag(number).is_some_and(|tag| {
            other.tag(number) == Some(tag) && one.left.contains(&tag) && other.left.contains(&tag)
        })
}

fn compare([one, other]: &[Drained; 2]) -> Result<(), Broken> {
    // A call that left only one of them was withdrawn from the other.
    let withdrawn: BTreeSet<Tag> = one.left.symmetric_difference(&other.left).copied().collect();
    let same = |what: &str, [one, other]: [&[Line]; 2]| {
        let (one, other) = (rest_of(one, &withdrawn), rest_of(other, &withdrawn));
        Broken::unless(one == other, Guarantee::G11, || {
            format!("{what}, drained at other times: {one:?} and {other:?}")
        })
    };
    same("what left", [&one.wire, &other.wire])?;
    same("what happened", [&one.seen, &other.seen])?;
    [(one, other), (other, one)].into_iter().try_for_each(|(a, b)| {
        let stray = a.cancels.iter().find(|tag| {
            !b.cancels.contains(tag) && !withdrawn.contains(tag) && !b.answered.contains(tag)
        });
        Broken::unless(stray.is_none(), Guarantee::G11, || {
            format!("call {stray:?} is cancelled only where outputs were drained at one time")
        })
    })
}

/// Returns the lines that are not about a withdrawn call. If a call was withdrawn, those about settled trees go
/// too: the call may be part of one.
fn rest_of<'a>(lines: &'a [Line], withdrawn: &BTreeSet<Tag>) -> Vec<&'a str> {
    let is_other = |line: &&Line| match line.about {
        About::Call(tag) => !withdrawn.contains(&tag),
        About::Tree => withdrawn.is_empty(),
        About::Else => true,
    };
    lines.iter().filter(is_other).map(|line| &*line.text).collect()
}

struct Line {
    about: About,
    text: String,
}

#[derive(Clone, Copy)]
enum About {
    Call(Tag),
    Tree,
    Else,
}

struct Drained {
    host: Host,
    /// The highest number of a cancel that has left.
    highest: u32,
    /// The calls that have left.
    left: BTreeSet<Tag>,
    /// The calls whose cancel has left.
    cancels: BTreeSet<Tag>,
    /// The calls that were answered.
    answered: BTreeSet<Tag>,
    /// The messages that left, without the cancels of calls.
    wire: Vec<Line>,
    /// Everything that the host saw happen, in order.
    seen: Vec<Line>,
}

impl Drained {
    fn new(config: Config) -> Self {
        let mut host = Host::new(config);
        host.heard = Some(Vec::new());
        Self {
            host,
            highest: 0,
            left: BTreeSet::new(),
            cancels: BTreeSet::new(),
            answered: BTreeSet::new(),
            wire: Vec::new(),
            seen: Vec::new(),
        }
    }

    fn tag(&self, number: u32) -> Option<Tag> {
        (0..).zip(self.host.calls()).find(|(_, call)| call.number() == number).map(|(tag, _)| tag)
    }

    /// Returns the highest number of its own on the wire.
    fn highest(&self) -> u32 {
        self.host.calls().last().map_or(0, |call| call.number()).max(self.highest)
    }

    /// Does what a host does or its peer writes. The line itself is not simulated.
    fn act(&mut self, operation: &Operation, now: Timestamp) -> Result<(), Broken> {
        match *operation {
            Operation::Hostile { message, id, .. } => {
                let message = message.framed(id, &self.host.config().dialect);
                self.host.receive(&message, 0, now)
            }
            Operation::Wait { .. } => self.host.wait(now),
            // Routed by the host: it is about no call of this connection.
            Operation::SendCancel { .. } => Ok(()),
            _ => self.host.act(operation, now),
        }
    }

    fn note(&mut self, event: &Event<'_, Tag>) {
        let (about, text) = match event {
            // When it is over depends on what is in flight.
            Event::Closed { .. } => return,
            // Cancels that are requests take numbers, so calls may have different ones.
            Event::Settled { data: tag, outcome, .. } => {
                if outcome.cause().is_none() || outcome.value().is_some() {
                    self.answered.insert(*tag);
                }
                (About::Call(*tag), format!("{outcome:?}"))
            }
            Event::TreeSettled { .. } => (About::Tree, format!("{:?}", Told::of(event))),
            _ => (About::Else, format!("{:?}", Told::of(event))),
        };
        self.seen.push(Line { about, text });
    }

    fn drain(&mut self) -> Result<(), Broken> {
        while let Some((framed, sent)) = self.host.transmit()? {
            match sent {
                Sent::Request(number) => {
                    let tag = self.tag(number).expect("only calls are requests");
                    self.left.insert(tag);
                    self.wire.push(Line { about: About::Call(tag), text: format!("call {tag}") });
                }
                Sent::Cancel(names) if !self.ends_requests() => self.has_cancelled(&names)?,
                Sent::CancelRequest { number, names } => {
                    self.highest = self.highest.max(number);
                    self.has_cancelled(&names)?;
                }
                _ => {
                    let message = unframed(&framed, self.host.config().dialect.framing);
                    let text = without_number(String::from_utf8_lossy(message).into_owned());
                    self.wire.push(Line { about: About::Else, text });
                }
            }
        }
        Ok(())
    }

    /// Returns whether its cancels name requests of the peer's, which it ends.
    fn ends_requests(&self) -> bool {
        let config = self.host.config();
        config.role == Role::Server
            && matches!(config.dialect.cancellers, Cancellers::Client { .. })
    }

    /// A cancel of ours has left.
    fn has_cancelled(&mut self, names: &str) -> Result<(), Broken> {
        let tag = names.trim_matches('"').parse().ok().and_then(|number| self.tag(number));
        let tag = tag.unwrap_or_else(|| panic!("a cancel names no call: {names}"));
        let is_behind = self.left.contains(&tag);
        Broken::unless(is_behind && self.cancels.insert(tag), Guarantee::G4, || {
            format!("the cancel of call {tag} overtook it, or is the second")
        })
    }

    /// Everything leaves, the peer hangs up, and what that makes leaves too.
    fn finish(&mut self, now: Timestamp) -> Result<(), Broken> {
        self.drain()?;
        self.host.finish(now)?;
        self.host.heard.take().iter().flatten().for_each(|event| self.note(event));
        self.drain()
    }
}

/// Without the number that every message has in DAP: it counts the cancels that went before.
fn without_number(text: String) -> String {
    let behind = text.strip_prefix(r#"{"seq":"#).and_then(|text| text.split_once(','));
    behind.map_or(text.clone(), |(_, text)| format!("{{{text}"))
}

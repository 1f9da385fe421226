//! The fate of each message that a relay writes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fastrand::Rng;
use protocol_async::Way;
use protocol_async::relay::Options;
use protocol_core::{Dialect, Envelope};
use protocol_json::Members;
use protocol_relay::Side;

use super::rule::{Deed, Fault, Kind};
use crate::lock::lock;
use crate::replay::framed;

/// Is told of each fault that strikes: towards whom, the id of the message, and the fault.
pub(in crate::relay) type Tell = Box<dyn Fn(Side, Option<String>, &str) + Send>;

/// Chooses what becomes of messages. The relay's trace tells it of them, and its pipes ask it.
#[derive(Clone)]
pub(in crate::relay) struct Plan(Arc<Mutex<State>>);

struct State {
    /// Each with what it is drawn from, so that one does not change what another draws.
    faults: Vec<(Fault, Rng)>,
    tell: Tell,
    /// By side: what the relay writes there.
    lanes: [Lane; 2],
}

struct Lane {
    dialect: Dialect,
    asked: Asked,
    /// The messages inside the pipe, the oldest first: the framed length of each, and its deed.
    written: VecDeque<(usize, Option<Deed>)>,
}

/// The requests that came from a side and are not answered, by the tokens of their ids: which faults are for their
/// method.
struct Asked {
    /// The longest id that the core takes.
    id_bytes: usize,
    /// Each with its number in `by_age`.
    by_id: HashMap<Arc<str>, (u64, u64)>,
    by_age: BTreeMap<u64, Arc<str>>,
    next: u64,
}

/// So many requests are remembered for their methods: as many as a connection takes. The oldest are forgotten first,
/// for a dialect may answer a cancelled one by silence.
const ASKED: usize = 65_536;
/// So many faults are told apart.
pub(super) const FAULTS: usize = 64;

impl Plan {
    /// A plan for a relay with these options, which tells it of its messages from now on.
    ///
    /// # Errors
    ///
    /// If there can't be one.
    pub(in crate::relay) fn new(
        faults: Vec<Fault>,
        seed: u64,
        options: &mut Options,
        tell: Tell,
    ) -> Result<Self, &'static str> {
        if faults.len() > FAULTS {
            return Err("more than 64 faults");
        }
        let configs = [&options.up, &options.down];
        if configs.iter().any(|config| config.dialect.envelope != Envelope::JsonRpc) {
            return Err("the messages of abp and dap are not told apart by --fault");
        }
        let lanes = configs.map(|config| Lane {
            dialect: config.dialect.clone(),
            asked: Asked::new(config.limits.id_bytes),
            written: VecDeque::new(),
        });
        let seeds = (0..).map(|number| Rng::with_seed(seed.wrapping_add(number)));
        let faults = faults.into_iter().zip(seeds).collect();
        let plan = Self(Arc::new(Mutex::new(State { faults, tell, lanes })));
        let (traced, mut trace) = (plan.clone(), options.trace.take());
        options.trace = Some(Box::new(move |side, way, message| {
            trace.iter_mut().for_each(|trace| trace(side, way, message));
            match way {
                Way::Received => lock(&traced.0).received(side, message),
                Way::Sent => lock(&traced.0).sent(side, message),
            }
        }));
        Ok(plan)
    }

    /// Returns the framed length of the next message out of a pipe, and its deed.
    pub(super) fn next(&self, side: Side) -> Option<(usize, Option<Deed>)> {
        lock(&self.0).lanes[side as usize].written.pop_front()
    }

    /// After how many bytes this side is cut, and the fault that says so.
    pub(super) fn cut(&self, side: Side) -> Option<(u64, String)> {
        lock(&self.0).faults.iter().find_map(|(fault, _)| match fault.deed {
            Deed::Cut(bytes) if fault.is_for(side) => Some((bytes, fault.text.clone())),
            _ => None,
        })
    }

    pub(super) fn tell(&self, side: Side, what: &str) {
        (lock(&self.0).tell)(side, None, what);
    }

    /// The longest that a message may be held.
    pub(in crate::relay) fn longest(&self) -> Duration {
        let state = lock(&self.0);
        let delays = state.faults.iter().map(|(fault, _)| match fault.deed {
            Deed::Delay(time) => time,
            _ => Duration::ZERO,
        });
        delays.max().unwrap_or_default()
    }
}

impl Fault {
    fn is_for(&self, side: Side) -> bool {
        self.side.is_none_or(|only| only == side)
    }
}

impl Asked {
    fn new(id_bytes: usize) -> Self {
        Self { id_bytes, by_id: HashMap::new(), by_age: BTreeMap::new(), next: 0 }
    }

    /// The core refuses a longer id.
    fn insert(&mut self, id: &str, faults: u64) {
        if id.len() > self.id_bytes {
            return;
        }
        self.remove(id);
        if self.by_id.len() >= ASKED {
            let oldest = self.by_age.pop_first().map(|(_, id)| id);
            if let Some(oldest) = oldest {
                self.by_id.remove(&oldest);
            }
        }
        let id: Arc<str> = id.into();
        self.by_age.insert(self.next, id.clone());
        self.by_id.insert(id, (self.next, faults));
        self.next += 1;
    }

    /// Removes a request, and returns the faults for its method; none, if it is not known.
    fn remove(&mut self, id: &str) -> u64 {
        let Some((age, faults)) = self.by_id.remove(id) else { return 0 };
        self.by_age.remove(&age);
        faults
    }
}

/// Returns the id of a message, as its sender wrote it, and its method.
fn said(message: &[u8]) -> (Option<&str>, Option<Cow<'_, str>>) {
    let text = str::from_utf8(message).ok();
    let members = text.and_then(|text| Members::of(text, &["id", "method"]));
    members.map_or((None, None), |members| (members.once(0), members.string(1)))
}

impl State {
    /// Remembers which faults are for the method of a request, for when its answer is written.
    fn received(&mut self, side: Side, message: &[u8]) {
        let (Some(id), Some(method)) = said(message) else { return };
        let faults = for_method(&self.faults, &method);
        self.lanes[side as usize].asked.insert(id, faults);
    }

    /// Chooses what becomes of a message.
    fn sent(&mut self, side: Side, message: &[u8]) {
        let lane = &mut self.lanes[side as usize];
        let (id, method) = said(message);
        let kind = match &method {
            Some(method) if lane.dialect.is_cancel(method) => Kind::Cancel,
            Some(_) if id.is_some() => Kind::Request,
            Some(_) => Kind::Notification,
            None => Kind::Response,
        };
        let named = match (&method, id) {
            (Some(method), _) => for_method(&self.faults, method),
            (None, Some(id)) => lane.asked.remove(id),
            (None, None) => 0,
        };
        let mut struck = None;
        for (number, (fault, rng)) in self.faults.iter_mut().enumerate() {
            let fits = fault.is_for(side)
                && fault.kind.is_none_or(|only| only == kind)
                && (fault.method.is_none() || named & (1 << number) != 0)
                && !matches!(fault.deed, Deed::Cut(_));
            // Drawn even if another has struck: what one strikes changes nothing for the next.
            if fits && rng.f64() * 100.0 < fault.percent {
                struck = struck.or(Some(&*fault));
            }
        }
        let len = framed(lane.dialect.framing, message).len();
        lane.written.push_back((len, struck.map(|fault| fault.deed)));
        if let Some(fault) = struck {
            (self.tell)(side, id.map(Into::into), &fault.text);
        }
    }
}

/// Returns the faults for a method, one bit for each.
fn for_method(faults: &[(Fault, Rng)], method: &str) -> u64 {
    let fits = |fault: &Fault| fault.method.as_ref().is_some_and(|glob| glob.matches(method));
    let bits = faults.iter().enumerate().map(|(at, (fault, _))| u64::from(fits(fault)) << at);
    bits.fold(0, |all, bit| all | bit)
}

#[cfg(test)]
mod tests {
    use protocol_core::Config;

    use super::*;

    #[test]
    fn what_is_asked_is_bounded_and_the_oldest_is_forgotten_first() {
        let mut asked = Asked::new(8);
        asked.insert(r#""too long""#, 1);
        assert_eq!(asked.by_id.len(), 0);
        for id in 0..=ASKED {
            asked.insert(&id.to_string(), 1);
        }
        assert_eq!((asked.by_id.len(), asked.by_age.len()), (ASKED, ASKED));
        assert_eq!(asked.remove("0"), 0);
        // Asked again under the same id: it is a young one.
        asked.insert("1", 2);
        asked.insert("new", 1);
        assert_eq!((asked.remove("1"), asked.remove("2"), asked.remove("new")), (2, 0, 1));
        assert_eq!(asked.by_id.len(), asked.by_age.len());
    }

    #[test]
    fn what_is_held_longest_is_waited_for_at_the_end() {
        let longest = |texts: &[&str]| {
            let faults = texts.iter().map(|text| super::super::rule::parse(text).unwrap());
            let mut options =
                Options::new(Config::server(Dialect::ACP_V1), Config::client(Dialect::ACP_V1));
            Plan::new(faults.collect(), 7, &mut options, Box::new(|_, _, _| {})).unwrap().longest()
        };
        assert_eq!(longest(&["drop cancel"]), Duration::ZERO);
        let delays = ["delay response 2s", "drop cancel", "delay message 7s", "delay request 1s"];
        assert_eq!(longest(&delays), Duration::from_secs(7));
    }
}

//! Two connections on a simulated line and a virtual clock.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use protocol_core::{Config, Connection, Event, Role, StreamConnection, Timestamp};

use crate::link::Link;
use crate::operation::{ENDS, across};
use crate::random::Random;

/// The properties of a simulated line, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weather {
    /// The shortest time that a message is on its way.
    pub least_latency: Duration,
    /// The longest. Where the dialect's transport can reorder, each message takes its own time and
    /// overtakes others; elsewhere none arrives before the one ahead of it.
    pub most_latency: Duration,
    /// Nothing leaves while so many bytes are on their way: back-pressure.
    pub capacity: usize,
    /// When the line is cut, if it is: what is on its way then is lost, and both ends read the end.
    pub cut_at: Option<Timestamp>,
}

impl Default for Weather {
    /// 1 to 20 ms, 64 KiB, never cut.
    fn default() -> Self {
        Self {
            least_latency: Duration::from_millis(1),
            most_latency: Duration::from_millis(20),
            capacity: 64 << 10,
            cut_at: None,
        }
    }
}

/// Two connections, a line between them, and a clock that jumps to whatever is next. The same seed
/// gives the same run, byte for byte: compare [`trace_hash`](Self::trace_hash).
///
/// ```
/// use protocol_core::{Config, Dialect, Event, Response, Role};
/// use protocol_testkit::{Pair, Weather, both_roles};
///
/// let configs = both_roles(Config::client(Dialect::LSP_3_17));
/// let mut pair: Pair<&str> = Pair::new(configs, Weather::default(), 7);
/// let now = pair.now();
/// pair.connection_mut(Role::Client).call("hover", None, "mine", Default::default(), now)?;
///
/// let mut outcome = None;
/// pair.run(|_, event, connection| match event {
///     Event::Request { request, .. } => {
///         connection.respond(request, Response::Cancelled).expect("it is unanswered");
///     }
///     Event::Settled { outcome: how, data, .. } => {
///         outcome = Some((how.settlement().as_str(), data));
///     }
///     _ => {}
/// });
/// assert_eq!(outcome, Some(("error", "mine")));
/// assert!(pair.now().as_millis() >= 2);
/// # Ok::<(), protocol_core::SendError<&str>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Pair<O, I = ()> {
    /// The client and the server.
    ends: [StreamConnection<O, I>; 2],
    /// To the client, and to the server.
    links: [Link; 2],
    /// When the latest message to each end is due: none may arrive before it, where order is kept.
    latest: [Timestamp; 2],
    weather: Weather,
    random: Random,
    now: Timestamp,
    trace: u64,
}

/// The next thing that happens.
enum Next {
    Message(Role, usize),
    End(Role),
    Timer,
    Cut,
}

impl<O, I: Default> Pair<O, I> {
    /// A client and a server with nothing in flight.
    #[must_use]
    pub fn new(configs: [Config; 2], weather: Weather, seed: u64) -> Self {
        Self {
            ends: configs.clone().map(StreamConnection::new),
            links: configs.map(|config| Link::new(config.dialect.order, weather.capacity)),
            latest: [Timestamp::ZERO; 2],
            weather,
            random: Random::new(seed),
            now: Timestamp::ZERO,
            trace: 0,
        }
    }

    /// The time there.
    #[must_use]
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// One of the connections.
    #[must_use]
    pub const fn connection(&self, at: Role) -> &Connection<O, I> {
        self.ends[at as usize].connection()
    }

    /// One of the connections, to command it.
    pub const fn connection_mut(&mut self, at: Role) -> &mut Connection<O, I> {
        self.ends[at as usize].connection_mut()
    }

    /// One end closes its writing side; the other reads that after what is on its way.
    pub fn hang_up(&mut self, at: Role) {
        self.links[across(at) as usize].end();
    }

    /// Cuts the line: what is on its way is lost, and both ends read the end.
    pub fn cut(&mut self) {
        self.weather.cut_at = None;
        self.links.iter_mut().for_each(Link::cut);
    }

    /// Tells runs apart: everything that arrived, where and when.
    #[must_use]
    pub const fn trace_hash(&self) -> u64 {
        self.trace
    }

    /// Lets the next thing happen, and hands the host every event of it. Says whether there was one.
    pub fn step(
        &mut self,
        mut host: impl FnMut(Role, Event<'_, O>, &mut Connection<O, I>),
    ) -> bool {
        self.poll_events(&mut host);
        self.send();
        let Some((due, next)) = self.next() else { return false };
        self.now = self.now.max(due);
        let now = self.now;
        match next {
            Next::Message(at, place) => {
                let link = &mut self.links[at as usize];
                let message = link.arrive(place).expect("it is next");
                self.note(at, &message);
                let end = &mut self.ends[at as usize];
                let mut used = 0;
                while used < message.len() {
                    let received = end.receive(&message[used..], now);
                    used += received.consumed;
                    let is_partial = received.consumed == 0;
                    if let Some(event) = received.event {
                        host(at, event, end.connection_mut());
                    }
                    poll_events(at, end, &mut host);
                    if is_partial {
                        break;
                    }
                }
            }
            Next::End(at) => {
                self.links[at as usize].arrive_end();
                self.note(at, b"end");
                let end = &mut self.ends[at as usize];
                end.handle_eof(&[], now);
            }
            Next::Timer => {
                for end in &mut self.ends {
                    end.connection_mut().handle_timeout(now);
                }
            }
            Next::Cut => self.cut(),
        }
        self.poll_events(&mut host);
        true
    }

    /// Goes on until nothing is left to happen.
    pub fn run(&mut self, mut host: impl FnMut(Role, Event<'_, O>, &mut Connection<O, I>)) {
        while self.step(&mut host) {}
    }

    fn poll_events(&mut self, host: &mut impl FnMut(Role, Event<'_, O>, &mut Connection<O, I>)) {
        for at in ENDS {
            poll_events(at, &mut self.ends[at as usize], host);
        }
    }

    /// Sends all messages for which a line has room.
    fn send(&mut self) {
        let span = self.weather.most_latency.saturating_sub(self.weather.least_latency);
        for at in ENDS {
            let to = across(at) as usize;
            while self.links[to].has_room() {
                let mut message = Vec::new();
                if self.ends[at as usize].poll_transmit(&mut message).is_none() {
                    break;
                }
                let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
                let extra = Duration::from_nanos(self.random.below(nanos.saturating_add(1)));
                let due = self.now + self.weather.least_latency + extra;
                let order = self.ends[at as usize].connection().config().dialect.order;
                let due = match order {
                    protocol_core::MessageOrder::MayChange => due,
                    _ => due.max(self.latest[to]),
                };
                self.latest[to] = due;
                self.links[to].send(message, due);
            }
        }
    }

    fn next(&self) -> Option<(Timestamp, Next)> {
        let messages = ENDS.into_iter().flat_map(|at| {
            let link = &self.links[at as usize];
            let due = move |place| Some((link.due(place)?, Next::Message(at, place)));
            (0..link.choices()).filter_map(due)
        });
        let ends = ENDS.into_iter().filter(|&at| self.links[at as usize].is_at_end());
        let ends = ends.map(|at| (self.now, Next::End(at)));
        let timers = self.ends.iter().filter_map(|end| end.connection().poll_timeout());
        let timers = timers.map(|(due, _)| (due, Next::Timer));
        let cut = self.weather.cut_at.map(|due| (due, Next::Cut));
        messages.chain(ends).chain(timers).chain(cut).min_by_key(|&(due, _)| due)
    }

    fn note(&mut self, at: Role, message: &[u8]) {
        let mut trace = DefaultHasher::new();
        (self.trace, self.now, at, message).hash(&mut trace);
        self.trace = trace.finish();
    }
}

fn poll_events<O, I: Default>(
    at: Role,
    end: &mut StreamConnection<O, I>,
    host: &mut impl FnMut(Role, Event<'_, O>, &mut Connection<O, I>),
) {
    let connection = end.connection_mut();
    while let Some(event) = connection.poll_event() {
        host(at, event, connection);
    }
}

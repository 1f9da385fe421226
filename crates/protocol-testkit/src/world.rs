//! Two hosts, a line between them, and whatever happens to them.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use protocol_core::{Config, Dialect, Envelope, Role, Timestamp};

use protocol_record::Mark;

use crate::guarantee::{Broken, Guarantee};
use crate::host::Host;
use crate::label::label;
use crate::link::{Arrival, Link};
use crate::operation::{Answering, Asked, ENDS, Method, Operation};

/// Two hosts on one line. Each [`Operation`] is done on both the real connections and their
/// reference models; what they make of it must be the same.
///
/// ```
/// use protocol_core::Dialect;
/// use protocol_testkit::{World, both_roles, operations, small};
///
/// let mut world = World::new(both_roles(small(Dialect::ACP_V1)));
/// for operation in operations(b"any bytes at all make some operations") {
///     world.apply(&operation)?;
/// }
/// world.finish()?;
/// # Ok::<(), protocol_testkit::Broken>(())
/// ```
#[derive(Clone, Debug)]
pub struct World {
    /// The client and the server.
    hosts: [Host; 2],
    /// To the client, and to the server. If a relay stands between them, also from the client, and from the server.
    links: Vec<Link>,
    now: Timestamp,
    /// The events so far, if they are recorded.
    marks: Option<Vec<Mark>>,
}

/// The first message of a client, in dialects with sessions.
pub(crate) const OPEN_SESSION: Operation = Operation::Call {
    at: Role::Client,
    asked: Asked { method: Method::Initialize, ..Asked::work(1) },
};

/// Returns both ends of a line: the client, and the server.
#[must_use]
pub fn both_roles(config: Config) -> [Config; 2] {
    let (mut client, mut server) = (config.clone(), config);
    client.role = Role::Client;
    server.role = Role::Server;
    [client, server]
}

/// Returns a configuration with limits so small that all of them are met.
#[must_use]
pub fn small(dialect: Dialect) -> Config {
    let mut config = Config::client(dialect);
    config.abandoned_grace = Duration::from_millis(40);
    config.limits.message_bytes = 650;
    config.limits.calls = 6;
    config.limits.requests = 5;
    config.limits.unsent_bytes = 3_000;
    config.limits.unsent_messages = 12;
    config.limits.abandoned_ids = 3;
    config.limits.batch_members = 3;
    config.limits.early_cancels = 2;
    config
}

/// Returns [`small`] with little room for messages that wait to leave. The room is refused again and again, and
/// batches can't keep all of their answers back.
#[must_use]
pub fn tight(dialect: Dialect) -> Config {
    let mut config = small(dialect);
    // Room for one long notification, unless an answer is kept back.
    config.limits.unsent_bytes = 720;
    config.limits.unsent_messages = 4;
    config
}

impl World {
    /// Creates a client and a server with nothing in flight. The line takes whatever is sent.
    #[must_use]
    pub fn new(configs: [Config; 2]) -> Self {
        Self::on_a_line_of(configs, usize::MAX)
    }

    /// Creates the same, where each direction of the line takes messages while there are fewer than
    /// `capacity` bytes on it.
    #[must_use]
    pub fn on_a_line_of(configs: [Config; 2], capacity: usize) -> Self {
        let links = configs.iter().map(|config| Link::new(config.dialect.order, capacity));
        let (links, hosts) = (links.collect(), configs.map(Host::new));
        Self { hosts, links, now: Timestamp::ZERO, marks: None }
    }

    /// Returns a client and a server that a relay connects. It reads what they write, and writes what they read.
    pub(crate) fn around_a_relay(configs: [Config; 2]) -> Self {
        let mut world = Self::new(configs);
        world.links.extend_from_within(..);
        world
    }

    /// Opens a session, if the dialect has sessions. The client asks for it and is answered. Calls and requests
    /// are counted from then on.
    ///
    /// # Errors
    ///
    /// The guarantee that does not hold.
    pub fn in_session(mut self) -> Result<Self, Broken> {
        if self.host(Role::Client).config().dialect.session.is_some() {
            self.apply(&OPEN_SESSION)?;
            self.deliver_all()?;
            self.forget_past();
        }
        Ok(self)
    }

    /// Counts calls and requests anew. All that there were must be over.
    pub(crate) fn forget_past(&mut self) {
        self.hosts.iter_mut().for_each(Host::forget_past);
    }

    /// Plants a bug in both connections: from now on they break this guarantee.
    pub(crate) fn plant(&mut self, breaks: Guarantee) {
        self.hosts.iter_mut().for_each(|host| host.plant(breaks));
    }

    /// Returns a host as it is now.
    pub(crate) const fn host(&self, at: Role) -> &Host {
        &self.hosts[at as usize]
    }

    /// Returns whether a relay stands between the hosts.
    pub(crate) fn has_relay(&self) -> bool {
        self.links.len() > 2
    }

    /// Returns the links, each in one direction.
    pub(crate) fn links(&self) -> &[Link] {
        &self.links
    }

    /// Returns the line towards a host.
    pub(crate) fn link_to(&self, at: Role) -> &Link {
        &self.links[at as usize]
    }

    pub(crate) fn link_to_mut(&mut self, at: Role) -> &mut Link {
        &mut self.links[at as usize]
    }

    /// Returns the line that a host writes to.
    pub(crate) fn link_from(&self, at: Role) -> &Link {
        &self.links[self.place_of_link_from(at)]
    }

    pub(crate) fn link_from_mut(&mut self, at: Role) -> &mut Link {
        let place = self.place_of_link_from(at);
        &mut self.links[place]
    }

    fn place_of_link_from(&self, at: Role) -> usize {
        if self.has_relay() { 2 + at as usize } else { at.other() as usize }
    }

    /// Returns the envelope of the messages on a host's line.
    pub(crate) fn envelope(&self, at: Role) -> Envelope {
        self.host(at).config().dialect.envelope
    }

    /// Returns the lanes of a host, and of what it is connected to, in a chart.
    pub(crate) fn lanes(&self, at: Role) -> [usize; 2] {
        if self.has_relay() { [2 * at as usize, 1] } else { [at as usize, at.other() as usize] }
    }

    /// Returns the time there.
    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    /// Keeps from now on what happens, for a chart.
    pub(crate) fn record(&mut self) {
        self.marks = Some(Vec::new());
    }

    /// Takes the marks of everything that happened since the last time, if they are recorded.
    pub(crate) fn take_marks(&mut self) -> Vec<Mark> {
        self.marks.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Does one operation.
    ///
    /// # Errors
    ///
    /// The guarantee that does not hold.
    pub fn apply(&mut self, operation: &Operation) -> Result<(), Broken> {
        self.mark_operation(operation);
        let applied = self.apply_unmarked(operation);
        for at in ENDS {
            let calls: Vec<_> =
                self.host(at.other()).model().calls().map(|(call, _)| call).collect();
            // Behind a relay, other calls have these numbers.
            let is_alone = !self.has_relay();
            self.host_mut(at).model_mut().forget_silence(|call| is_alone && calls.contains(&call));
        }
        applied
    }

    fn apply_unmarked(&mut self, operation: &Operation) -> Result<(), Broken> {
        let now = self.now;
        match *operation {
            Operation::Drain { at, messages } => self.drain(at, messages),
            Operation::Arrive { at, place, piece } => self.arrive(at, place, piece),
            Operation::Hostile { to, message, id } => {
                let message = message.framed(id, &self.host(to).config().dialect);
                // A relay guards the hosts from such messages: it reads them itself.
                let link =
                    if self.has_relay() { self.link_from_mut(to) } else { self.link_to_mut(to) };
                link.send(message);
                Ok(())
            }
            Operation::Wait { millis } => {
                self.now = now + Duration::from_millis(millis.into());
                let now = self.now;
                self.hosts.iter_mut().try_for_each(|host| host.wait(now))
            }
            Operation::HangUp { at } => {
                self.link_from_mut(at).end();
                Ok(())
            }
            Operation::Cut => {
                self.links.iter_mut().for_each(Link::cut);
                Ok(())
            }
            _ => self.hosts.iter_mut().zip(ENDS).try_for_each(|(host, at)| {
                if operation.at() == Some(at) { host.act(operation, now) } else { Ok(()) }
            }),
        }
    }

    const fn host_mut(&mut self, at: Role) -> &mut Host {
        &mut self.hosts[at as usize]
    }

    fn drain(&mut self, at: Role, messages: u8) -> Result<(), Broken> {
        let ([lane, _], envelope) = (self.lanes(at), self.envelope(at));
        for _ in 0..messages {
            let link = self.link_from(at);
            if !link.has_room() && !link.is_ended() {
                break;
            }
            let Some((framed, _)) = self.host_mut(at).transmit()? else { break };
            self.mark(|| Mark::at(lane, format!("{} leaves", label(&framed, envelope))));
            self.link_from_mut(at).send(framed);
        }
        Ok(())
    }

    fn arrive(&mut self, at: Role, place: u8, piece: u8) -> Result<(), Broken> {
        let ([lane, from], now) = (self.lanes(at), self.now);
        match self.link_to_mut(at).arrive(place) {
            Some(Arrival::Message(message)) => {
                let envelope = self.envelope(at);
                self.mark(|| Mark::arrow(from, lane, label(&message, envelope)));
                self.host_mut(at).receive(&message, piece, now)
            }
            Some(Arrival::End) => {
                self.mark(|| Mark::arrow(from, lane, "end".into()));
                self.host_mut(at).finish(now)
            }
            None => Ok(()),
        }
    }

    /// Keeps a mark, if they are recorded.
    pub(crate) fn mark(&mut self, mark: impl FnOnce() -> Mark) {
        if let Some(marks) = &mut self.marks {
            marks.push(mark());
        }
    }

    fn mark_operation(&mut self, operation: &Operation) {
        let lanes = ENDS.map(|at| self.lanes(at)[0]);
        if let Some(marks) = &mut self.marks {
            match operation.at() {
                Some(at) => marks.extend(operation.mark(lanes[at as usize])),
                None => marks.extend(lanes.map(|lane| Mark::at(lane, operation.to_string()))),
            }
        }
    }

    /// Lets everything on its way arrive, answers every request and hangs up. Then all calls must have settled, and
    /// nothing may be left.
    ///
    /// # Errors
    ///
    /// The guarantee that does not hold.
    pub fn finish(mut self) -> Result<(), Broken> {
        self.deliver_all()?;
        for at in ENDS {
            self.apply(&Operation::HangUp { at })?;
        }
        self.deliver_all()?;
        self.hosts.iter().try_for_each(Host::judge_end)
    }

    /// Delivers everything until nothing moves.
    fn deliver_all(&mut self) -> Result<(), Broken> {
        for _ in 0..10_000 {
            let mut moved = false;
            for at in ENDS {
                while self.link_to(at).choices() > 0 || self.link_to(at).is_at_end() {
                    moved = true;
                    self.apply(&Operation::Arrive { at, place: 0, piece: 0 })?;
                }
                moved |= self.host(at).has_transmit();
                self.apply(&Operation::Drain { at, messages: u8::MAX })?;
                if let Some(&request) = self.host(at).unanswered().first() {
                    moved = true;
                    let request = u8::try_from(request % 256).expect("it is below 256");
                    let answer = Answering::Result;
                    self.apply(&Operation::Respond { at, request, answer })?;
                }
            }
            if !moved {
                return Ok(());
            }
        }
        Err(Broken::new(Guarantee::G1, "it never comes to rest"))
    }
}

/// Without what is recorded.
impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hosts.hash(state);
        self.links.hash(state);
        self.now.hash(state);
    }
}

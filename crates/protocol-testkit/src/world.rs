//! Two hosts, a line between them, and whatever happens to them.

use std::hash::{Hash, Hasher};
use std::time::Duration;

use protocol_core::{Config, Dialect, Role, Timestamp};

use protocol_record::Mark;

use crate::guarantee::{Broken, Guarantee};
use crate::host::Host;
use crate::hostile::{Hostile, framed};
use crate::label::label;
use crate::link::Link;
use crate::operation::{Answering, Asked, ENDS, Method, Operation, across};

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
    /// To the client, and to the server.
    links: [Link; 2],
    now: Timestamp,
    /// The events so far, if they are recorded.
    marks: Option<Vec<Mark>>,
}

/// The first message of a client, in dialects with sessions.
pub(crate) const OPEN_SESSION: Operation = Operation::Call {
    at: Role::Client,
    asked: Asked { method: Method::Initialize, ..Asked::work(1) },
};

/// Both ends of a line: the client, and the server.
#[must_use]
pub fn both_roles(config: Config) -> [Config; 2] {
    let (mut client, mut server) = (config.clone(), config);
    client.role = Role::Client;
    server.role = Role::Server;
    [client, server]
}

/// A configuration with limits so small that all of them are met.
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
    /// A client and a server with nothing in flight. The line takes whatever is sent.
    #[must_use]
    pub fn new(configs: [Config; 2]) -> Self {
        Self::on_a_line_of(configs, usize::MAX)
    }

    /// The same, where each direction of the line takes messages while there are fewer than
    /// `capacity` bytes on it.
    #[must_use]
    pub fn on_a_line_of(configs: [Config; 2], capacity: usize) -> Self {
        let links = configs.clone().map(|config| Link::new(config.dialect.order, capacity));
        Self { hosts: configs.map(Host::new), links, now: Timestamp::ZERO, marks: None }
    }

    /// Opens a session, if the dialect has sessions. The client asks for it and is answered. Calls and requests
    /// are counted from then on.
    ///
    /// # Errors
    ///
    /// The guarantee that does not hold.
    pub fn in_session(mut self) -> Result<Self, Broken> {
        let dialect = &self.host(Role::Client).stream().connection().config().dialect;
        if dialect.session.is_some() {
            self.apply(&OPEN_SESSION)?;
            self.deliver_all()?;
            self.hosts.iter_mut().for_each(Host::forget_past);
        }
        Ok(self)
    }

    /// Plants a bug in both connections: from now on they break this guarantee.
    pub(crate) fn plant(&mut self, breaks: Guarantee) {
        self.hosts.iter_mut().for_each(|host| host.plant(breaks));
    }

    /// Returns a host as it is now.
    pub(crate) const fn host(&self, at: Role) -> &Host {
        &self.hosts[at as usize]
    }

    /// The line towards a host.
    pub(crate) const fn link_to(&self, at: Role) -> &Link {
        &self.links[at as usize]
    }

    /// The line that a host writes to.
    pub(crate) const fn link_from(&self, at: Role) -> &Link {
        self.link_to(across(at))
    }

    /// The time there.
    pub(crate) const fn now(&self) -> Timestamp {
        self.now
    }

    /// From now on keeps what happens, for a chart.
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
        self.mark(operation);
        let now = self.now;
        match *operation {
            Operation::Drain { at, messages } => self.drain(at, messages),
            Operation::Arrive { at, place, piece } => self.arrive(at, place, piece),
            Operation::Hostile { to, message, id } => {
                let dialect = &self.host(to).stream().connection().config().dialect;
                let message = message.message(Hostile::id(id), dialect);
                self.links[to as usize].send(framed(&message, dialect.framing));
                Ok(())
            }
            Operation::Wait { millis } => {
                self.now = now + Duration::from_millis(millis.into());
                let now = self.now;
                self.hosts.iter_mut().try_for_each(|host| host.wait(now))
            }
            Operation::HangUp { at } => {
                self.links[across(at) as usize].end();
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
        for _ in 0..messages {
            let to = across(at);
            if !self.link_to(to).has_room() && !self.link_to(to).is_ended() {
                break;
            }
            let Some(framed) = self.host_mut(at).transmit()? else { break };
            if let Some(marks) = &mut self.marks {
                marks.push(Mark::at(at as usize, format!("{} leaves", label(&framed))));
            }
            self.links[to as usize].send(framed);
        }
        Ok(())
    }

    fn arrive(&mut self, at: Role, place: u8, piece: u8) -> Result<(), Broken> {
        let (link, now) = (&mut self.links[at as usize], self.now);
        let place = usize::from(place).checked_rem(link.choices());
        if let Some(message) = place.and_then(|place| link.arrive(place)) {
            if let Some(marks) = &mut self.marks {
                marks.push(Mark::arrow(across(at) as usize, at as usize, label(&message)));
            }
            self.host_mut(at).receive(&message, piece, now)
        } else if link.arrive_end() {
            if let Some(marks) = &mut self.marks {
                marks.push(Mark::arrow(across(at) as usize, at as usize, "end".into()));
            }
            self.host_mut(at).finish(now)
        } else {
            Ok(())
        }
    }

    fn mark(&mut self, operation: &Operation) {
        if let Some(marks) = &mut self.marks {
            match operation.at() {
                Some(at) => marks.extend(operation.mark(at as usize)),
                None => marks.extend([0, 1].map(|lane| Mark::at(lane, operation.to_string()))),
            }
        }
    }

    /// Everything on its way arrives, every request is answered, both hosts hang up; then all calls
    /// must have settled, and nothing may be left.
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

    /// Fair delivery until nothing moves.
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

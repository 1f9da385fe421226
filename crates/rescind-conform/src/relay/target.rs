//! The relay under test: a program that starts our far end as its server, or a relay in this process.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use crate::bridge::{Doorway, connection, names_server, with_server};
use crate::target::{Link, Program, Target};

/// The time that a relay has to start its server, at least.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts the relay that is tested, once for every case.
pub trait Relay: Sync {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// It can't be started.
    fn start(&self) -> io::Result<Ends>;
}

/// The client's side of the relay, or the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// We are the client.
    Near,
    /// We are the server.
    Far,
}

impl Side {
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }

    /// Returns our role on that side.
    pub(super) const fn role(self) -> &'static str {
        match self {
            Self::Near => "client",
            Self::Far => "server",
        }
    }
}

/// Both sides of a relay that was started.
pub struct Ends {
    pub(super) near: Link,
    pub(super) far: Box<dyn FnOnce(Duration) -> io::Result<Link> + Send>,
}

impl Ends {
    /// Joins the side where it expects its client, and what waits, so long at most, until it has started its server.
    pub fn new(
        near: Link,
        far: impl FnOnce(Duration) -> io::Result<Link> + Send + 'static,
    ) -> Self {
        Self { near, far: Box::new(far) }
    }
}

impl fmt::Debug for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ends").field("near", &self.near).finish_non_exhaustive()
    }
}

/// The program of a relay, which starts its server by a command.
#[derive(Clone, Debug)]
pub struct RelayProgram {
    relay: Program,
    bridge: Vec<OsString>,
}

impl RelayProgram {
    /// Takes a relay's command, and the command of its server, which is to call [`bridge`](crate::bridge()) with its
    /// last argument.
    ///
    /// The server's command takes the place of the argument `{server}`, and comes at the end if there is none.
    /// Within an argument `{server}` becomes that command in one piece, as a shell reads it.
    #[must_use]
    pub fn new(relay: Program, bridge: Vec<OsString>) -> Self {
        Self { relay, bridge }
    }

    fn command(&self, server: &[OsString]) -> Vec<OsString> {
        let relay = &self.relay.command;
        match names_server(relay) {
            true => with_server(relay, server, quoted),
            false => [relay, server].concat(),
        }
    }
}

/// Returns a word as a shell reads it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Relay for RelayProgram {
    fn start(&self) -> io::Result<Ends> {
        let mut doorway = Doorway::open()?;
        let near = self.relay.with(self.command(&doorway.bridge(&self.bridge)?)).start()?;
        let process = near.child.as_ref().map(|child| child.process().clone());
        let process = process.ok_or_else(|| io::Error::other("the relay is no process"))?;
        Ok(Ends::new(near, move |patience| {
            let patience = patience.max(PATIENCE);
            connection(("relay", &process), "started its server", patience, || doorway.take())
        }))
    }
}

/// A relay in this process: a function that relays between its client's connection and its server's.
#[derive(Debug)]
pub struct InProcessRelay<F>(pub F);

impl<F> Relay for InProcessRelay<F>
where
    F: Fn(TcpStream, TcpStream) + Clone + Send + Sync + 'static,
{
    fn start(&self) -> io::Result<Ends> {
        let (its_near, near) = Link::pair()?;
        let (its_far, far) = Link::pair()?;
        let relay = self.0.clone();
        thread::Builder::new().name("relay".into()).spawn(move || relay(its_near, its_far))?;
        Ok(Ends::new(near, move |_| Ok(far)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Program, RelayProgram};

    fn command(relay: &[&str]) -> Vec<String> {
        let relay = Program::new(relay.iter().map(Into::into).collect());
        let server = ["far", "it's", "1/a"].map(Into::into);
        let words = RelayProgram::new(relay, vec![]).command(&server);
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_servers_command_goes_where_the_relay_wants_it() {
        assert_eq!(command(&["relay", "--"]), ["relay", "--", "far", "it's", "1/a"]);
        assert_eq!(command(&["relay", "{server}", "-v"]), ["relay", "far", "it's", "1/a", "-v"]);
        assert_eq!(command(&["relay", "-c={server}"]), ["relay", r"-c='far' 'it'\''s' '1/a'"]);
    }
}

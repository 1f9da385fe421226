//! The relay under test: a program that starts our far end as its server, or a relay in this process.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use protocol_child::Process;

use crate::target::{Link, Program, Target, in_brackets, join, names_server, with_server};

/// The time that the far end has to introduce itself.
const HELLO: Duration = Duration::from_secs(10);

/// Starts the relay that is tested, once for every case.
pub trait Relay: Sync {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// It can't be started.
    fn start(&self) -> io::Result<Ends>;
}

/// Both sides of a relay that was started.
pub struct Ends {
    pub(super) near: Link,
    pub(super) far: Box<dyn FnOnce(Duration) -> io::Result<Link> + Send>,
}

impl Ends {
    /// The side where it expects its client, and what waits, so long at most, until it has started its server.
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
    far: Vec<OsString>,
}

impl RelayProgram {
    /// A relay's command, and the command of its server, which is to do [`far`] with its last argument.
    ///
    /// The server's command takes the place of the argument `{server}`, and comes at the end if there is none.
    /// Within an argument `{server}` becomes that command in one piece, as a shell reads it.
    #[must_use]
    pub fn new(relay: Program, far: Vec<OsString>) -> Self {
        Self { relay, far }
    }

    fn command(&self, address: &str) -> Vec<OsString> {
        let mut far = self.far.clone();
        far.push(address.into());
        let relay = &self.relay.command;
        match names_server(relay) {
            true => with_server(relay, &far, quoted),
            false => [&relay[..], &far].concat(),
        }
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

impl Relay for RelayProgram {
    fn start(&self) -> io::Result<Ends> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let token = format!("{:016x}", fastrand::u64(..));
        let near = self.relay.with(self.command(&format!("{port}/{token}"))).start()?;
        let relay = near.child.as_ref().map(|child| child.process().clone());
        Ok(Ends::new(near, move |patience| accept(listener, token, relay, patience.max(HELLO))))
    }
}

/// Takes the connection that knows the token, unless the relay ends first. The listener's thread ends with this
/// process if there is none.
fn accept(
    listener: TcpListener,
    token: String,
    relay: Option<Process>,
    patience: Duration,
) -> io::Result<Link> {
    let (connected, connection) = channel();
    if let Some(relay) = relay {
        let ended = connected.clone();
        thread::spawn(move || {
            let status = relay.wait().map_or_else(|_| String::new(), in_brackets);
            let why = format!("the relay ended before it started its server{status}");
            // Nobody waits any more once it has started one.
            let _ = ended.send(Err(io::Error::other(why)));
        });
    }
    thread::spawn(move || {
        for stream in listener.incoming() {
            let known = stream.and_then(|mut stream| knows(&mut stream, &token).map(|()| stream));
            // Whoever else connects is let go.
            if let Ok(stream) = known {
                return connected.send(Ok(stream)).unwrap_or_default();
            }
        }
    });
    let stream = connection.recv_timeout(patience).map_err(|_| {
        io::Error::new(io::ErrorKind::TimedOut, "the relay does not start its server")
    })??;
    Link::over(stream)
}

fn knows(stream: &mut TcpStream, token: &str) -> io::Result<()> {
    let mut said = vec![0; token.len()];
    stream.set_read_timeout(Some(HELLO))?;
    stream.read_exact(&mut said)?;
    stream.set_read_timeout(None)?;
    match said == token.as_bytes() {
        true => Ok(()),
        false => Err(io::ErrorKind::PermissionDenied.into()),
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

/// The far end of a relay program: joins standard input and output to the test that `address` names.
///
/// # Errors
///
/// There is no such test.
pub fn far(address: &str) -> io::Result<()> {
    let named = address.split_once('/').and_then(|(port, token)| Some((port.parse().ok()?, token)));
    let (port, token): (u16, &str) =
        named.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no address of a test"))?;
    let mut test = TcpStream::connect(("127.0.0.1", port))?;
    test.write_all(token.as_bytes())?;
    join(test)
}

#[cfg(test)]
mod tests {
    use super::{Program, RelayProgram};

    fn command(relay: &[&str]) -> Vec<String> {
        let relay = Program::new(relay.iter().map(Into::into).collect());
        let words = RelayProgram::new(relay, vec!["far".into(), "it's".into()]).command("1/a");
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_servers_command_goes_where_the_relay_wants_it() {
        assert_eq!(command(&["relay", "--"]), ["relay", "--", "far", "it's", "1/a"]);
        assert_eq!(command(&["relay", "{server}", "-v"]), ["relay", "far", "it's", "1/a", "-v"]);
        assert_eq!(command(&["relay", "-c={server}"]), ["relay", r"-c='far' 'it'\''s' '1/a'"]);
    }
}

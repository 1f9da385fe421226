//! A program that is tested may start its own server. That server is a bridge to this process, where we are the server.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use std::thread;
use std::time::{Duration, Instant};

use protocol_child::Process;

use crate::target::{Link, each_read, end_of, in_brackets};

/// This word in a command stands for the command of the server that it is to start.
pub const SERVER: &str = "{server}";

/// The most that may have connected and not said the token; then the oldest is let go.
const VISITORS: usize = 16;
/// The time between two looks for a connection.
pub(crate) const TICK: Duration = Duration::from_millis(2);

/// Returns a command with that of its server in it. Within a word, that is in one piece, each word of it in `quotes`.
pub(crate) fn with_server(
    command: &[OsString],
    server: &[OsString],
    quotes: fn(&str) -> String,
) -> Vec<OsString> {
    let words: Vec<_> = server.iter().map(|word| quotes(&word.to_string_lossy())).collect();
    let in_one_piece = words.join(" ");
    let words = command.iter().flat_map(|word| match word.to_str() {
        Some(SERVER) => server.to_vec(),
        Some(text) => vec![text.replace(SERVER, &in_one_piece).into()],
        None => vec![word.clone()],
    });
    words.collect()
}

/// Returns whether a command names the server that it is to start.
pub(crate) fn names_server(command: &[OsString]) -> bool {
    command.iter().any(|word| word.to_str().is_some_and(|word| word.contains(SERVER)))
}

/// Waits for the bridge that knows its token.
pub(crate) struct Doorway {
    listener: TcpListener,
    token: String,
    /// Those that have connected, and have not said the token yet.
    visitors: Vec<TcpStream>,
}

impl Doorway {
    pub(crate) fn open() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener, token: format!("{:016x}", fastrand::u64(..)), visitors: vec![] })
    }

    /// Returns the command of the bridge, which is this one with an address.
    pub(crate) fn bridge(&self, command: &[OsString]) -> io::Result<Vec<OsString>> {
        let port = self.listener.local_addr()?.port();
        Ok([command, &[format!("{port}/{}", self.token).into()]].concat())
    }

    /// Takes the connection of the bridge, if it is there. Anybody else who connects is let go in the end.
    pub(crate) fn take(&mut self) -> io::Result<Option<Link>> {
        match self.listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(true)?;
                self.visitors.push(stream);
                self.visitors.drain(..self.visitors.len().saturating_sub(VISITORS));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(TICK),
            Err(error) => return Err(error),
        }
        // Nobody is waited for, so the end of the program is seen whoever else connects.
        let mut said = vec![0; self.token.len()];
        let knows = |it: &TcpStream| {
            it.peek(&mut said).is_ok_and(|len| said[..len] == *self.token.as_bytes())
        };
        let Some(at) = self.visitors.iter().position(knows) else { return Ok(None) };
        let mut bridge = self.visitors.remove(at);
        bridge.set_nonblocking(false)?;
        bridge.read_exact(&mut said)?;
        Link::over(bridge).map(Some)
    }
}

/// Waits until a program has `done` what makes a connection, unless it ends first. `subject` is its name in errors.
pub(crate) fn connection(
    (subject, program): (&str, &Process),
    done: &str,
    patience: Duration,
    mut take: impl FnMut() -> io::Result<Option<Link>>,
) -> io::Result<Link> {
    let begun = Instant::now();
    let ended = end_of(program);
    loop {
        if let Some(link) = take()? {
            return Ok(link);
        }
        if begun.elapsed() > patience {
            return Err(io::Error::other(format!("the {subject} has not {done}")));
        }
        if let Ok(status) = ended.try_recv() {
            let status = status.map_or_else(|_| String::new(), in_brackets);
            let why = format!("the {subject} ended before it {done}{status}");
            return Err(io::Error::other(why));
        }
    }
}

/// Joins standard input and output with the test that `address` names, until either is gone. This is all that the program
/// does which a tested client or relay starts as its server.
///
/// # Errors
///
/// There is no such test.
pub fn bridge(address: &str) -> io::Result<()> {
    let named = address.split_once('/').and_then(|(port, token)| Some((port.parse().ok()?, token)));
    let (port, token): (u16, &str) =
        named.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no address of a test"))?;
    let mut test = TcpStream::connect(("127.0.0.1", port))?;
    test.write_all(token.as_bytes())?;
    test.set_nodelay(true)?;
    let told = test.try_clone()?;
    thread::spawn(move || {
        // Either side may go at any time, which ends the session.
        let _ = copy(io::stdin().lock(), &told);
        let _ = told.shutdown(Shutdown::Write);
    });
    // A peer that reads no more is one that is gone.
    let _ = copy(test, io::stdout().lock());
    Ok(())
}

/// Copies as `io::copy` does, and passes each read on at once.
fn copy(from: impl Read, mut to: impl Write) -> io::Result<()> {
    each_read(from, |bytes| to.write_all(bytes).and_then(|()| to.flush()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bridge_is_let_in_however_many_others_connect_and_are_silent_or_slow() {
        let until = Instant::now() + Duration::from_secs(10);
        let mut doorway = Doorway::open().unwrap();
        let address = doorway.listener.local_addr().unwrap();
        let connect = |words: &[u8]| {
            let mut visitor = TcpStream::connect(address).unwrap();
            visitor.write_all(words).unwrap();
            visitor
        };
        let token = doorway.token.clone().into_bytes();
        let mut wrong = connect(b"another's token!");
        let silent: Vec<_> = (0..2 * VISITORS).map(|_| connect(b"")).collect();
        let mut slow = connect(&token[..1]);
        let is_last = |it: &TcpStream| it.peer_addr().unwrap() == slow.local_addr().unwrap();
        while !doorway.visitors.last().is_some_and(is_last) {
            assert!(doorway.take().unwrap().is_none(), "nobody has said the token");
            assert!(Instant::now() < until, "each of them is waited for");
        }
        assert_eq!(doorway.visitors.len(), VISITORS);
        assert!(!matches!(wrong.read(&mut [0]), Ok(1)), "the oldest is let go");
        slow.write_all(&token[1..]).unwrap();
        while doorway.take().unwrap().is_none() {
            assert!(Instant::now() < until, "the rest of the token is not read");
        }
        drop(silent);
    }
}

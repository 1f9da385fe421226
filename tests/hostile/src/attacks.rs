//! The attacks. Each says what it sent, and keeps its sockets open for as long as that is kept.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::iter::repeat_n;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::MIB;
use crate::stream::Stream;
use crate::wire::{Client, Target, Wire, header};

/// The time after which a server that takes no bytes counts as one that reads no more.
const STALLED: Duration = Duration::from_secs(2);

/// An attack that was sent. Its sockets are open until it is dropped.
#[derive(Debug)]
pub struct Held {
    /// The number of messages, connections or MiB that the server has taken, as the attack counts.
    pub taken: usize,
    /// The reason that it took no more.
    pub end: End,
    /// They are there to be dropped.
    sockets: Sockets,
}

#[derive(Debug)]
enum Sockets {
    Clients(Vec<Client>),
    Streams(Vec<Stream>),
}

/// The reason that an attack ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server took all.
    TookAll,
    /// It reads no more.
    Stalled,
    /// It hung up, or let nobody else in.
    SentAway,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TookAll => "took all",
            Self::Stalled => "reads no more",
            Self::SentAway => "sends away",
        })
    }
}

/// One of the attacks, at its full size.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// The name in the results.
    pub name: &'static str,
    /// Runs the attack on a server.
    pub run: fn(&Target) -> io::Result<Held>,
    /// Whether only a `ws://` server can be attacked so.
    pub is_of_websockets: bool,
}

/// All of them.
pub const ALL: [Attack; 8] = {
    const fn attack(name: &'static str, run: fn(&Target) -> io::Result<Held>) -> Attack {
        Attack { name, run, is_of_websockets: false }
    }
    [
        attack("1,500 unread echoes of 1 MiB", |target| unread_echoes(target, 1_500)),
        attack("1,000 sleeps with 1 MiB", |target| large_sleeps(target, 1_000)),
        attack("16,384 sleeps with ids of 256 bytes", |target| long_ids(target, 16_384)),
        attack("100,000 notifications behind 200 unread echoes", |target| {
            notifications_behind_echoes(target, 200, 1_000)
        }),
        Attack { is_of_websockets: true, ..attack("100,000 pings", |target| pings(target, 1_000)) },
        attack("10,000 half-open sockets", |target| half_open(target, 10_000)),
        attack("1,000 unfinished messages", |target| unfinished(target, 1_000)),
        attack("a message of 600 MiB", |target| endless(target, 600)),
    ]
};

/// Echoes of 1 MiB each, whose answers nobody reads.
///
/// # Errors
///
/// There is no server.
pub fn unread_echoes(target: &Target, many: usize) -> io::Result<Held> {
    flood(target.open()?, echoes(target.wire, many))
}

/// Requests that stay at work, with 1 MiB of params each.
///
/// # Errors
///
/// There is no server.
pub fn large_sleeps(target: &Target, many: usize) -> io::Result<Held> {
    let params = large();
    let sleeps = (1..=many).map(|id| target.wire.call(&json!(id), "sleep", &params));
    flood(target.open()?, sleeps)
}

/// Requests that stay at work, with an id of 256 bytes each, which is the longest that is taken.
///
/// # Errors
///
/// There is no server.
pub fn long_ids(target: &Target, many: usize) -> io::Result<Held> {
    let params = json!({ "ms": 3_600_000 });
    let sleeps = (0..many).map(|number| {
        let id = json!(format!("{number:0254}"));
        target.wire.call(&id, "sleep", &params)
    });
    flood(target.open()?, sleeps)
}

/// So many hundred notifications behind echoes of 1 MiB, whose answers nobody reads.
///
/// # Errors
///
/// There is no server.
pub fn notifications_behind_echoes(
    target: &Target,
    echoes: usize,
    hundreds: usize,
) -> io::Result<Held> {
    let notifications = repeat_n(target.wire.notification().repeat(100), hundreds);
    flood(target.open()?, self::echoes(target.wire, echoes).chain(notifications))
}

/// So many hundred pings of a WebSocket, whose pongs nobody reads.
///
/// # Errors
///
/// There is no server.
pub fn pings(target: &Target, hundreds: usize) -> io::Result<Held> {
    let ping = [&header(0x89, 125)[..], &[b'x'; 125]].concat().repeat(100);
    flood(target.open()?, repeat_n(&ping, hundreds))
}

/// Sockets on which nothing is asked for to its end.
///
/// # Errors
///
/// There is no server.
pub fn half_open(target: &Target, many: usize) -> io::Result<Held> {
    let begun: &[u8] = match target.wire {
        Wire::WebSocket => b"GET / HTTP/1.1\r\nHost: localhost\r\n",
        Wire::Lsp => b"Content-Length: 12\r\n",
        Wire::Mcp | Wire::Lines => b"{",
    };
    let mut streams = Vec::new();
    for _ in 0..many.min(descriptors()) {
        let mut stream = target.stream()?;
        stream.write_all(begun)?;
        streams.push(stream);
    }
    Ok(Held { taken: streams.len(), end: End::TookAll, sockets: Sockets::Streams(streams) })
}

/// Handshakes of TLS whose first message is announced with 64 KiB and has all but its last bytes.
///
/// # Errors
///
/// There is no server.
pub fn unfinished_handshakes(target: &Target, many: usize) -> io::Result<Held> {
    const RECORD: usize = 16 << 10;
    // A ClientHello, of 0xFFFF bytes.
    let hello = [&[1, 0, 0xFF, 0xFF][..], &[0; 0xFFFF - 64]].concat();
    let mut begun = Vec::new();
    for piece in hello.chunks(RECORD) {
        begun.extend([&[22, 3, 1][..], &(piece.len() as u16).to_be_bytes(), piece].concat());
    }
    let mut streams = Vec::new();
    for _ in 0..many.min(descriptors()) {
        let mut socket = target.socket()?;
        socket.write_all(&begun)?;
        streams.push(Stream::Tcp(socket));
    }
    Ok(Held { taken: streams.len(), end: End::TookAll, sockets: Sockets::Streams(streams) })
}

/// Echoes of 1 MiB in records of TLS of a few bytes each, whose answers nobody reads.
///
/// # Errors
///
/// There is no server.
pub fn tiny_records(target: &Target, many: usize) -> io::Result<Held> {
    unread_echoes(&target.in_tiny_records(), many)
}

/// Handshakes of a WebSocket that a page of another site asks for: each is refused, and stays.
///
/// # Errors
///
/// There is no server.
pub fn foreign_pages(target: &Target, many: usize) -> io::Result<Held> {
    let asked =
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
        Origin: http://evil.example/.localhost\r\n\r\n";
    let (mut streams, mut status) = (Vec::new(), [0; 12]);
    for _ in 0..many.min(descriptors()) {
        let mut stream = target.stream()?;
        stream.write_all(asked)?;
        stream.read_exact(&mut status)?;
        if !status.ends_with(b"403") {
            return Err(io::Error::other(String::from_utf8_lossy(&status)));
        }
        streams.push(stream);
    }
    Ok(Held { taken: streams.len(), end: End::TookAll, sockets: Sockets::Streams(streams) })
}

/// So many broken requests, with an id of 1 KiB each.
///
/// # Errors
///
/// There is no server.
pub fn broken_requests(target: &Target, many: usize) -> io::Result<Held> {
    let broken = (0..many).map(|number| {
        let id = format!("{number:01020}");
        target.wire.framed(&json!({ "jsonrpc": "2.0", "id": id, "method": 1 }).to_string())
    });
    flood(target.open()?, broken)
}

/// Messages of 4 MiB, 1 MiB of each there, each on a connection of its own.
///
/// # Errors
///
/// There is no server.
pub fn unfinished(target: &Target, many: usize) -> io::Result<Held> {
    let message = [target.wire.announced(4 * MIB), vec![b' '; MIB]].concat();
    let (mut clients, mut taken) = (Vec::new(), 0);
    for _ in 0..many.min(descriptors()) {
        let Ok(mut client) = target.open() else { continue };
        client.stream().set_write_timeout(STALLED)?;
        taken += usize::from(client.send(&message).is_ok());
        clients.push(client);
    }
    let end = if taken == many { End::TookAll } else { End::SentAway };
    Ok(Held { taken, end, sockets: Sockets::Clients(clients) })
}

/// One message of so many MiB.
///
/// # Errors
///
/// There is no server.
pub fn endless(target: &Target, mibs: usize) -> io::Result<Held> {
    let announced = target.wire.announced(mibs * MIB);
    let piece = vec![b' '; MIB];
    flood(target.open()?, [&announced].into_iter().chain(repeat_n(&piece, mibs)))
}

/// Requests for echoes of 1 MiB, each with an id of its own. They are made by changing that, which is as fast as a server
/// can read them.
fn echoes(wire: Wire, many: usize) -> impl Iterator<Item = Vec<u8>> {
    const FIRST: usize = 1_000_000;
    let first = FIRST.to_string().into_bytes();
    let echo = wire.call(&json!(FIRST), "echo", &large());
    let at = echo.windows(first.len()).position(|bytes| bytes == first).unwrap_or_default();
    (FIRST..FIRST + many).map(move |id| {
        let mut echo = echo.clone();
        echo[at..at + first.len()].copy_from_slice(id.to_string().as_bytes());
        echo
    })
}

fn large() -> serde_json::Value {
    json!({ "ms": 3_600_000, "text": "x".repeat(MIB) })
}

/// Writes all, if the server still takes it: it may have sent this client away, or read no more.
///
/// One that was not taken whole is the last: nothing else may be said on that socket then.
///
/// # Errors
///
/// It is no socket.
pub fn flood(
    mut client: Client,
    frames: impl IntoIterator<Item = impl AsRef<[u8]>>,
) -> io::Result<Held> {
    client.stream().set_write_timeout(STALLED)?;
    let (mut taken, mut end) = (0, End::TookAll);
    for frame in frames {
        match client.send(frame.as_ref()) {
            Ok(()) => taken += 1,
            Err(error) => {
                let is_stalled =
                    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                end = if is_stalled { End::Stalled } else { End::SentAway };
                break;
            }
        }
    }
    Ok(Held { taken, end, sockets: Sockets::Clients(vec![client]) })
}

impl Held {
    /// Returns the number of open sockets.
    #[must_use]
    pub fn sockets(&self) -> usize {
        match &self.sockets {
            Sockets::Clients(clients) => clients.len(),
            Sockets::Streams(streams) => streams.len(),
        }
    }
}

/// As many sockets as this process may have, which those it starts may have too.
#[must_use]
pub fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // One that may not have more has what it has.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    usize::try_from(limit.maximum.unwrap_or(1 << 20)).unwrap_or(usize::MAX) - 200
}

//! One address opens many connections, each of which pins all the memory that it can. The process holds no more than
//! its pool, and another client beside it gets responses all the time (F99).

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use protocol_async::AccountLimits;
use rescind_hostile_suite::wire::{header, request};
use rescind_hostile_suite::{MIB, PATIENCE, mib};
use serde_json::json;
use tokio_rustls::rustls::{ClientConnection, StreamOwned};
use tungstenite::{Message, WebSocket};

use crate::alone;
use crate::program::Program;
use crate::tls::{Identity, identity};

const ATTACKERS: usize = 64;
const ECHOES: usize = 160;
/// A server that takes nothing for so long reads no more.
const STALLED: Duration = Duration::from_secs(2);
/// The longest that a bystander waits for 99 of 100 answers.
const WAIT: Duration = Duration::from_millis(50);
/// The most that a server keeps of an attack, and when.
const KEPT: usize = 16 * MIB;
const LATER: Duration = Duration::from_secs(10);
/// Responses to a bystander once all attackers hold all that they can, and as many once they are gone.
const AFTER: usize = 20;

trait Stream: Read + Write + Send + Sync {}
impl<T: Read + Write + Send + Sync> Stream for T {}

/// Speaks TLS, with trust in our certificate alone.
fn secure(stream: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
    let name = "localhost".try_into().unwrap();
    StreamOwned::new(ClientConnection::new(identity().trust.clone(), name).unwrap(), stream)
}

/// A client that is connected.
enum Client {
    WebSocket(Box<WebSocket<Box<dyn Stream>>>),
    Lines(BufReader<Box<dyn Stream>>),
}

impl Client {
    /// Of an address such as `ws://127.0.0.1:8080` or `unix:FILE`, which is a WebSocket too where `is_websocket`.
    fn open(address: &str, is_websocket: bool, patience: Duration) -> io::Result<Self> {
        let stream: Box<dyn Stream> = if let Some(path) = address.strip_prefix("unix:") {
            let stream = UnixStream::connect(path)?;
            stream.set_write_timeout(Some(patience))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Box::new(stream)
        } else {
            let (scheme, authority) = address.split_once("://").unwrap();
            let stream = TcpStream::connect(authority.trim_end_matches('/'))?;
            // Otherwise each message waits 40 ms for the acknowledgement of its header.
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(patience))?;
            stream.set_read_timeout(Some(PATIENCE))?;
            if scheme == "wss" { Box::new(secure(stream)) } else { Box::new(stream) }
        };
        Ok(if is_websocket {
            let (socket, _) =
                tungstenite::client("ws://localhost/", stream).map_err(io::Error::other)?;
            Self::WebSocket(Box::new(socket))
        } else {
            Self::Lines(BufReader::new(stream))
        })
    }

    fn send(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::WebSocket(socket) => {
                socket.get_mut().write_all(&header(0x81, text.len()))?;
                socket.get_mut().write_all(text.as_bytes())
            }
            Self::Lines(reader) => {
                reader.get_mut().write_all(text.as_bytes())?;
                reader.get_mut().write_all(b"\n")
            }
        }
    }

    fn take(&mut self) -> io::Result<String> {
        match self {
            Self::WebSocket(socket) => loop {
                match socket.read().map_err(io::Error::other)? {
                    Message::Text(text) => return Ok(text.to_string()),
                    Message::Close(_) => return Err(io::ErrorKind::ConnectionReset.into()),
                    _ => {}
                }
            },
            Self::Lines(reader) => {
                let mut line = String::new();
                reader.read_line(&mut line).map(|_| line)
            }
        }
    }

    /// Asks for an echo, which has to be answered with a result.
    fn ask(&mut self, id: usize) {
        self.send(&request(&json!(id), "echo", &json!({ "id": id }))).unwrap();
        let answer = self.take().unwrap();
        assert!(answer.contains("result"), "{answer}");
    }

    /// Fills every limit until nothing more is taken.
    fn attack(&mut self, number: usize) -> io::Result<()> {
        let text = "x".repeat(MIB);
        let long_id = |id: usize| json!(format!("{id:0254}"));
        let small =
            || (0..2_000).map(|id| request(&long_id(id), "sleep", &json!({ "ms": 3_600_000 })));
        // They are written by hand, since a server reads faster than a debug build makes JSON.
        let call = |id: usize, method: &str| {
            let params = format!(r#"{{"ms":3600000,"text":"{text}"}}"#);
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
        };
        let large = || (0..16).map(|id| call(id, "sleep"));
        let echoes = || (1_000..1_000 + ECHOES).map(|id| call(id, "echo"));
        match number % 3 {
            0 => echoes().chain(large()).chain(small()).try_for_each(|text| self.send(&text)),
            1 => large().chain(echoes()).chain(small()).try_for_each(|text| self.send(&text)),
            _ => small().chain(large()).chain(echoes()).try_for_each(|text| self.send(&text)),
        }
    }
}

/// Attacks a server that says on its standard error where it listens.
fn withstood(name: &str, mut program: Program, is_websocket: bool) {
    let pool = AccountLimits::DEFAULT.pool_bytes;
    let line = program.first_line();
    let address = line.split_whitespace().next_back().unwrap().to_owned();
    let open = |patience| Client::open(&address, is_websocket, patience);
    let process = program.process();
    process.rest();
    process.forget_peak();
    let idle = process.resident().unwrap();

    let mut bystander = open(PATIENCE).unwrap();
    let (is_over, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (bystander, times, ended) = thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let (mut times, mut id) = (Vec::new(), 0);
            while !is_over.load(Relaxed) {
                let begun = Instant::now();
                bystander.ask(id);
                times.push(begun.elapsed());
                answers.fetch_add(1, Relaxed);
                id += 1;
            }
            (bystander, times)
        });
        let attacks: Vec<_> = (0..ATTACKERS)
            .map(|number| {
                let open = &open;
                scope.spawn(move || {
                    let mut client = open(STALLED)?;
                    let ended = client.attack(number);
                    Ok::<_, io::Error>((client, ended))
                })
            })
            .collect();
        let attacks: Vec<_> =
            attacks.into_iter().filter_map(|attack| attack.join().unwrap().ok()).collect();
        let is_reset = |ended: &&(Client, io::Result<()>)| {
            use io::ErrorKind::{BrokenPipe, ConnectionReset};
            ended
                .1
                .as_ref()
                .is_err_and(|error| matches!(error.kind(), BrokenPipe | ConnectionReset))
        };
        let ended = attacks.iter().filter(is_reset).count();
        let answered = answers.load(Relaxed);
        while answers.load(Relaxed) < answered + AFTER && !asking.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        drop(attacks);
        is_over.store(true, Relaxed);
        let (bystander, times) = asking.join().unwrap();
        (bystander, times, ended)
    });
    let (peak, mut bystander, mut times) = (process.peak().unwrap(), bystander, times);
    times.sort();
    let p99 = times[times.len() * 99 / 100];
    // Memory goes back while somebody is connected who is quiet.
    let (over, kept) = (Instant::now(), KEPT.max(idle / 10));
    let resident = || process.resident().unwrap();
    while resident() > idle + kept && over.elapsed() < LATER {
        thread::sleep(Duration::from_millis(100));
    }
    let (after, took) = (resident(), over.elapsed());
    (0..AFTER).for_each(|id| bystander.ask(id));
    println!(
        "F99 {name}: {} idle, {} at most, {} after {took:.1?}; {ended} of {ATTACKERS} ended; {} answers beside it, p99 {p99:?}",
        mib(idle),
        mib(peak),
        mib(after),
        times.len(),
    );
    assert!(peak <= pool + pool / 10, "{name}: {} of {}", mib(peak), mib(pool));
    assert!(times.len() > AFTER, "{name}: somebody beside it is answered");
    assert!(p99 <= WAIT, "{name}: {p99:?}");
    assert!(after <= idle + kept, "{name}: {} of {}", mib(after), mib(idle + kept));
}

/// Attacks a server of the libraries, which returns what was freed as docs/memory.md says.
fn host_withstood(runtime: &str, is_websocket: bool) {
    withstood(runtime, Program::hosted(&[runtime, "default"]), is_websocket);
}

#[test]
fn f99_sixty_four_connections_hold_no_more_than_the_pool_of_serve() {
    let _alone = alone();
    let path = std::env::temp_dir().join(format!("account-{}.sock", std::process::id()));
    let local = format!("unix:{}", path.display());
    let Identity { certificate, key, .. } = identity();
    let secure = ["--certificate", certificate, "--key", key];
    for (address, more) in
        [("ws://127.0.0.1:0", &[][..]), (&local, &[]), ("wss://127.0.0.1:0", &secure)]
    {
        let arguments = [&["serve", "--listen", address], more].concat();
        withstood(address, Program::start(&arguments), true);
    }
}

#[test]
fn f99_sixty_four_connections_hold_no_more_than_the_pool_of_a_listener() {
    let _alone = alone();
    for runtime in ["tokio", "smol"] {
        host_withstood(runtime, true);
    }
}

#[test]
fn f99_sixty_four_connections_hold_no_more_than_the_pool_of_threads() {
    let _alone = alone();
    host_withstood("threads", false);
}

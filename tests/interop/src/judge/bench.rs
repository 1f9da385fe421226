//! A relay under test, with the judge on both sides.

use std::io::{self, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;
use std::{env, fs, process};

use super::message::{Message, Protocol};

/// The client side of the relay, or the server side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The judge is the client.
    Near,
    /// The judge is the server.
    Far,
}

impl Side {
    /// The other one.
    #[must_use]
    pub(super) const fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }
}

/// Something that the judge saw or did, in order.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where.
    pub(super) side: Side,
    /// What.
    pub(super) what: What,
}

/// See [`Entry`].
#[derive(Clone, Debug)]
pub(super) enum What {
    /// The judge sent it to the relay.
    Sent(Message),
    /// The relay sent it to the judge: the message, and its text.
    Arrived(Message, String),
    /// The judge closed its output.
    Closed,
    /// The relay closed its own, or broke the framing.
    Ended(Option<String>),
}

/// A running relay. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Bench {
    relay: Child,
    near: End,
    far: End,
    patience: Duration,
    /// Of the near side, and of the far one.
    protocols: [Protocol; 2],
    /// Everything so far.
    pub(super) log: Vec<Entry>,
}

#[derive(Debug)]
struct End {
    /// `None` once it is closed.
    output: Option<Sender<Vec<u8>>>,
    input: Receiver<io::Result<Vec<u8>>>,
    ended: bool,
}

impl Bench {
    /// Starts a relay command, to which the far end's own command is appended: `judge tunnel PATH`.
    ///
    /// # Errors
    ///
    /// If it does not start, or does not start the far end in time.
    pub(super) fn start(
        protocols: [Protocol; 2],
        relay: &[String],
        judge: &str,
        patience: Duration,
    ) -> io::Result<Self> {
        let path = socket_path();
        let listener = UnixListener::bind(&path)?;
        let mut relay = Command::new(&relay[0])
            .args(&relay[1..])
            .args([judge, "tunnel"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let far = accept(listener, patience);
        fs::remove_file(&path)?;
        let far = far.inspect_err(|_| drop(relay.kill().and_then(|()| relay.wait())))?;
        let (stdin, stdout) = relay.stdin.take().zip(relay.stdout.take()).expect("both are piped");
        let close = {
            let far = far.try_clone()?;
            move || far.shutdown(Shutdown::Write)
        };
        Ok(Self {
            relay,
            near: End::new(protocols[0], stdout, stdin, || Ok(())),
            far: End::new(protocols[1], far.try_clone()?, far, close),
            patience,
            protocols,
            log: Vec::new(),
        })
    }

    /// Writes messages to the relay, all at once, and never waits for it to read them.
    pub(super) fn send(&mut self, side: Side, messages: &[String]) {
        let protocol = self.protocol(side);
        let bytes = messages.iter().flat_map(|message| protocol.framing.frame(message)).collect();
        self.send_bytes(side, messages, bytes);
    }

    /// As [`send`](Self::send), with a framing of its own.
    pub(super) fn send_bytes(&mut self, side: Side, messages: &[String], bytes: Vec<u8>) {
        for message in messages {
            let message = Message::read(self.protocol(side), message.as_bytes());
            self.log.push(Entry { side, what: What::Sent(message) });
        }
        if let Some(output) = &self.end(side).output {
            // A relay that reads no more shows in what does not arrive.
            let _ = output.send(bytes);
        }
    }

    /// Closes the judge's output on one side.
    pub(super) fn close(&mut self, side: Side) {
        if self.end(side).output.take().is_some() {
            self.log.push(Entry { side, what: What::Closed });
        }
    }

    /// Waits for the next message on one side, and logs it; `None` at the end, or when patience
    /// ends.
    pub(super) fn next(&mut self, side: Side) -> Option<Message> {
        let patience = self.patience;
        let (protocol, end) = (self.protocol(side), self.end(side));
        if end.ended {
            return None;
        }
        let (what, message) = match end.input.recv_timeout(patience) {
            Ok(Ok(bytes)) => {
                let message = Message::read(protocol, &bytes);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                (What::Arrived(message.clone(), text), Some(message))
            }
            Ok(Err(error)) => (What::Ended(Some(error.to_string())), None),
            Err(RecvTimeoutError::Disconnected) => (What::Ended(None), None),
            Err(RecvTimeoutError::Timeout) => return None,
        };
        end.ended |= message.is_none();
        self.log.push(Entry { side, what });
        message
    }

    /// Whether the relay has closed that side.
    #[must_use]
    pub(super) fn ended(&self, side: Side) -> bool {
        self.log.iter().any(|entry| entry.side == side && matches!(entry.what, What::Ended(_)))
    }

    /// What is spoken on that side.
    pub(super) fn protocol(&self, side: Side) -> Protocol {
        match side {
            Side::Near => self.protocols[0],
            Side::Far => self.protocols[1],
        }
    }

    fn end(&mut self, side: Side) -> &mut End {
        match side {
            Side::Near => &mut self.near,
            Side::Far => &mut self.far,
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.relay.kill();
        let _ = self.relay.wait();
    }
}

impl End {
    fn new(
        protocol: Protocol,
        input: impl Read + Send + 'static,
        mut output: impl Write + Send + 'static,
        close: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> Self {
        let (arrive, arrived) = channel();
        thread::spawn(move || {
            let mut input = BufReader::new(input);
            while let Some(message) = protocol.framing.read(&mut input).transpose() {
                let broken = message.is_err();
                if arrive.send(message).is_err() || broken {
                    break;
                }
            }
        });
        let (sender, to_send) = channel::<Vec<u8>>();
        thread::spawn(move || {
            for bytes in to_send {
                if output.write_all(&bytes).and_then(|()| output.flush()).is_err() {
                    break;
                }
            }
            drop(output);
            let _ = close();
        });
        Self { output: Some(sender), input: arrived, ended: false }
    }
}

fn socket_path() -> PathBuf {
    static STARTED: AtomicU32 = AtomicU32::new(0);
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    env::temp_dir().join(format!("judge-{}-{number}.sock", process::id()))
}

/// Accepts one connection. The listener's thread ends with the process if nobody connects.
fn accept(listener: UnixListener, patience: Duration) -> io::Result<UnixStream> {
    let (connected, connection) = channel();
    thread::spawn(move || connected.send(listener.accept()));
    let accepted = connection.recv_timeout(patience.max(Duration::from_secs(10)));
    let (stream, _) = accepted.map_err(|_| {
        io::Error::new(io::ErrorKind::TimedOut, "the relay does not start its command")
    })??;
    Ok(stream)
}

/// The far end of a relay: standard input and output joined to the judge's socket.
///
/// # Errors
///
/// If there is no such socket.
pub fn tunnel(path: &str) -> io::Result<()> {
    let mut socket = UnixStream::connect(path)?;
    let mut input = socket.try_clone()?;
    thread::spawn(move || {
        let copied = io::copy(&mut io::stdin().lock(), &mut input);
        input.shutdown(Shutdown::Write).and(copied)
    });
    let copied = copy_out(&mut socket);
    // Nobody reads our output any more, or the judge is done: either way this end is over.
    drop(copied);
    Ok(())
}

fn copy_out(socket: &mut UnixStream) -> io::Result<()> {
    let mut output = io::stdout().lock();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = socket.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        output.write_all(&buffer[..read])?;
        output.flush()?;
    }
}

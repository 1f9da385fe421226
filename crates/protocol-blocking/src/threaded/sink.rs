//! The stream that the output of a connection goes to.

use std::io::{self, ErrorKind, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::sync::Arc;

use protocol_async::hub::{Hub, Messages, Output};

#[cfg(unix)]
use super::direct::Direct;
#[cfg(unix)]
use super::pen;
use super::reading::{Pause, is_transient, unless_it_panics};
use crate::park::Parker;

/// A stream that output is written to.
pub(super) enum Sink {
    /// A stream whose writes may block: one thread does all of them.
    Blocks(Box<dyn Write + Send>),
    /// A pipe or a socket: whoever has output writes it.
    #[cfg(unix)]
    Direct(Direct),
}

impl Sink {
    /// A stream of this process, which may be a pipe or a socket.
    #[cfg(unix)]
    pub(super) fn of(stream: impl Write + AsFd + Send + 'static) -> Self {
        match Direct::new(stream.as_fd()) {
            Some(kind) => Self::Direct(kind.keeping(stream)),
            None => Self::Blocks(Box::new(stream)),
        }
    }

    #[cfg(not(unix))]
    pub(super) fn of(stream: impl Write + Send + 'static) -> Self {
        Self::Blocks(Box::new(stream))
    }

    /// Standard output, behind all that was printed.
    pub(super) fn stdout() -> Self {
        let mut stdout = io::stdout();
        // An error shows again when it is written to.
        let _ = stdout.flush();
        Self::of(stdout)
    }

    /// Writes what there is to write, until nothing can come any more: the life of a thread.
    pub(super) fn write(self, hub: Arc<Hub>) {
        match self {
            Self::Blocks(writer) => write(&hub, writer),
            #[cfg(unix)]
            Self::Direct(direct) => pen::write(hub, direct),
        }
    }
}

fn write(hub: &Hub, writer: impl Write) {
    let parker = Parker::new();
    let mut writer = Some(writer);
    let mut output = Messages::default();
    loop {
        match hub.poll_output(parker.waker(), &mut output) {
            Output::Write => {
                if let Some(open) = &mut writer {
                    let written = unless_it_panics(|| write_all(hub, open, output.bytes()));
                    if let Err(error) = written {
                        hub.fail(&error);
                        writer = None;
                    }
                }
                output.clear();
            }
            Output::Idle => parker.park(None),
            Output::Over => return,
        }
    }
}

/// Writes all of it, unless it is given up meanwhile.
fn write_all(hub: &Hub, writer: &mut impl Write, mut rest: &[u8]) -> io::Result<()> {
    let mut pause = Pause::default();
    loop {
        let written = if rest.is_empty() { writer.flush().map(|()| 0) } else { writer.write(rest) };
        match written {
            Ok(_) if rest.is_empty() => return Ok(()),
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => {
                rest = &rest[written..];
                pause = Pause::default();
            }
            Err(error) if is_transient(&error) && !hub.is_over() => pause.take(),
            Err(error) => return Err(error),
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::fs::File;
    use std::io::{BufRead, BufReader};
    use std::thread::{self, JoinHandle};
    use std::time::{Duration, Instant};

    use protocol_async::{Options, Peer};
    use protocol_core::{Config, Dialect, Refusal, Timestamp};
    use serde_json::value::to_raw_value;

    use super::*;

    /// A connection that only writes, to a pipe that only the test reads.
    fn writing(patience: Duration) -> (BufReader<File>, Peer, JoinHandle<()>, Arc<Hub>) {
        let (read, write) = rustix::pipe::pipe().unwrap();
        let sink = Sink::of(File::from(write));
        assert!(matches!(sink, Sink::Direct(_)));
        let mut options = Options::new(Config::client(Dialect::JSON_RPC));
        options.config.limits.unsent_bytes = 1 << 20;
        options.patience = patience;
        let begun = Instant::now();
        let (hub, peer, incoming) = Hub::new(options, move || Timestamp::ZERO + begun.elapsed());
        drop(incoming);
        let hub = Arc::new(hub);
        let written = hub.clone();
        let writer = thread::spawn(move || sink.write(written));
        (BufReader::new(File::from(read)), peer, writer, hub)
    }

    /// Says as much as there is room for, and counts it.
    fn fill(peer: &Peer) -> usize {
        let text = to_raw_value(&["x".repeat(5_000)]).unwrap();
        let mut sent = 0;
        while peer.try_notify_raw("n", Some(&text)).is_ok() {
            sent += 1;
        }
        let refused = peer.try_notify_raw("n", Some(&text));
        assert!(matches!(refused, Err(Refusal::OutboxFull)), "{refused:?}");
        sent
    }

    #[test]
    fn f96_a_full_pipe_is_left_to_the_writer_which_goes_on() {
        let (reader, peer, writer, _hub) = writing(Duration::from_secs(20));
        let mut sent = fill(&peer);
        assert!(sent > 200, "a pipe and the outbox hold them");
        let lines = thread::spawn(move || reader.lines().map(Result::unwrap).collect::<Vec<_>>());
        while sent < 2_000 {
            let text = to_raw_value(&["y".repeat(5_000)]).unwrap();
            match peer.try_notify_raw("n", Some(&text)) {
                Ok(()) => sent += 1,
                Err(_) => thread::yield_now(),
            }
        }
        // With the last handle the pipe is closed, and the reader sees its end.
        drop(peer);
        let lines = lines.join().unwrap();
        assert_eq!(lines.len(), sent);
        assert!(lines.iter().all(|line| line.len() > 5_000 && line.ends_with("]}")));
        writer.join().unwrap();
    }

    #[test]
    fn g08_a_pipe_that_nobody_reads_is_given_up() {
        let (_reader, peer, writer, hub) = writing(Duration::from_millis(20));
        fill(&peer);
        drop(peer);
        // What keeps the timers does this.
        while !hub.is_over() {
            hub.poll_timers(std::task::Waker::noop());
            thread::sleep(Duration::from_millis(1));
        }
        writer.join().unwrap();
    }
}

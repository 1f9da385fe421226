//! Writing by the thread that has something to write.
//!
//! The hub wakes a [`Pen`] when there is output. The thread that does so is the one that responded, and
//! it writes at once if nobody else does. A thread of its own goes on where a write would block, so that
//! a peer that does not read holds up no handler and no reading of cancels (G3).

use std::io::{self, ErrorKind, Write};
#[cfg(unix)]
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Wake, Waker};

use parking::{Parker, Unparker};
use protocol_async::hub::{Hub, Messages, Output};
#[cfg(unix)]
use protocol_stdio::NonBlocking;

use super::reading::{Pause, is_transient, unless_it_panics};

/// The most often that one turn takes output and writes it.
const TAKES: usize = 4;

/// A stream that output is written to.
pub(super) enum Sink {
    /// A stream whose writes may block: the writer's thread does all of them.
    Blocks(Box<dyn Write + Send>, Pause),
    /// A pipe or a socket: the thread that has output writes it.
    #[cfg(unix)]
    Direct(NonBlocking),
}

impl Sink {
    pub(super) fn blocks(stream: impl Write + Send + 'static) -> Self {
        Self::Blocks(Box::new(stream), Pause::default())
    }

    /// A stream of this process, which may be a pipe or a socket.
    #[cfg(unix)]
    pub(super) fn of(stream: impl Write + AsFd + Send + 'static) -> Self {
        NonBlocking::writer(&stream).map_or_else(|| Self::blocks(stream), Self::Direct)
    }

    #[cfg(not(unix))]
    pub(super) fn of(stream: impl Write + Send + 'static) -> Self {
        Self::blocks(stream)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Blocks(stream, pause) => {
                let written = unless_it_panics(|| match bytes {
                    [] => stream.flush().map(|()| 0),
                    bytes => stream.write(bytes),
                })?;
                *pause = Pause::default();
                Ok(written)
            }
            // Nothing is held back, so there is nothing to flush. The kernel takes a write of no bytes for an
            // error if the peer has read the last response and is gone.
            #[cfg(unix)]
            Self::Direct(_) if bytes.is_empty() => Ok(0),
            #[cfg(unix)]
            Self::Direct(direct) => (&*direct).write(bytes),
        }
    }

    /// Waits until there may be room, but only so long that an end is noticed.
    fn wait(&mut self) {
        match self {
            Self::Blocks(_, pause) => pause.take(),
            #[cfg(unix)]
            Self::Direct(direct) => {
                use rustix::event::{PollFd, PollFlags, Timespec, poll};

                // An error shows when it is written to.
                let timeout = Timespec::try_from(Pause::LONGEST).ok();
                let _ = poll(&mut [PollFd::new(direct, PollFlags::OUT)], timeout.as_ref());
            }
        }
    }
}

/// Writes what other threads could not, until nothing can come any more: the life of a thread.
///
/// It does all of the writing where there are callbacks, which writing waits for: one of them may be what
/// wakes the [`Pen`].
pub(super) fn write(hub: Arc<Hub>, sink: Sink, has_callbacks: bool) {
    let parker = Parker::new();
    let blocks = has_callbacks || matches!(sink, Sink::Blocks(..));
    let ink = Mutex::new(Ink { sink: Some(sink), output: Messages::default(), written: 0 });
    // This thread has the first turn.
    let wakes = AtomicUsize::new(1);
    let pen = Arc::new(Pen { hub, blocks, wakes, writer: parker.unparker(), ink });
    let waker = Waker::from(pen.clone());
    loop {
        match pen.write(&waker) {
            Left::Nothing => parker.park(),
            Left::More => {}
            Left::Unwritten => pen.wait(),
            Left::Over => return,
        }
    }
}

/// The writing of one hub's output, which one thread does at a time.
struct Pen {
    hub: Arc<Hub>,
    /// Whether only the writer's thread may write.
    blocks: bool,
    /// The wakes that no turn has seen to its end. The thread that makes it 1 has the turn.
    wakes: AtomicUsize,
    /// The thread that a turn is left to.
    writer: Unparker,
    /// Nobody locks it but the thread that has the turn.
    ink: Mutex<Ink>,
}

struct Ink {
    /// `None` once nothing can be written any more.
    sink: Option<Sink>,
    output: Messages,
    /// The bytes of `output` that are written.
    written: usize,
}

/// The rest after a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    /// More than one turn should write.
    More,
    /// Bytes that the stream has no room for.
    Unwritten,
    /// Nothing, and nothing will come.
    Over,
}

impl Wake for Pen {
    fn wake(self: Arc<Self>) {
        if self.wakes.fetch_add(1, Ordering::AcqRel) > 0 {
            return;
        }
        if self.blocks || self.write(&Waker::from(self.clone())) != Left::Nothing {
            self.writer.unpark();
        }
    }
}

impl Pen {
    /// Writes for one turn, and ends the turn if nothing is left.
    fn write(&self, waker: &Waker) -> Left {
        let mut ink = self.ink.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let seen = self.wakes.load(Ordering::Acquire);
            let left = ink.write(&self.hub, waker);
            if left != Left::Nothing {
                return left;
            }
            // A wake that came meanwhile has found the turn taken, so its output is written here.
            let ended = self.wakes.compare_exchange(seen, 0, Ordering::AcqRel, Ordering::Relaxed);
            if ended.is_ok() {
                return left;
            }
        }
    }

    /// Waits for room. A connection that is given up meanwhile loses its stream.
    fn wait(&self) {
        let mut ink = self.ink.lock().unwrap_or_else(PoisonError::into_inner);
        ink.sink.iter_mut().for_each(Sink::wait);
        if self.hub.is_over() {
            ink.sink = None;
        }
    }
}

impl Ink {
    fn write(&mut self, hub: &Hub, waker: &Waker) -> Left {
        for _ in 0..TAKES {
            match self.write_taken(hub) {
                Ok(()) => {}
                Err(error) if is_transient(&error) => return Left::Unwritten,
                Err(error) => {
                    hub.fail(&error);
                    self.sink = None;
                }
            }
            self.output.clear();
            self.written = 0;
            match hub.poll_output(waker, &mut self.output) {
                Output::Write => {}
                Output::Idle => return Left::Nothing,
                Output::Over => {
                    self.sink = None;
                    return Left::Over;
                }
            }
        }
        Left::More
    }

    /// Writes the output that was taken. Once nothing can be written any more, it is dropped.
    fn write_taken(&mut self, hub: &Hub) -> io::Result<()> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        if self.output.bytes().is_empty() {
            return Ok(());
        }
        while let Some(rest @ [_, ..]) = self.output.bytes().get(self.written..) {
            match sink.write(rest)? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => {
                    self.written += written;
                    if written < rest.len() {
                        hub.note_progress();
                    }
                }
            }
        }
        sink.write(&[]).map(drop)
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
        let writer = thread::spawn(move || super::write(written, sink, false));
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
        // The thread that keeps the timers does this.
        while !hub.is_over() {
            hub.poll_timers(std::task::Waker::noop());
            thread::sleep(Duration::from_millis(1));
        }
        writer.join().unwrap();
    }
}

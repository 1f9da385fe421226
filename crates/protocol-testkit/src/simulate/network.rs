//! A line of two byte pipes: late, narrow, in pieces, and cut at any byte. In a search it is calm.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use protocol_core::Timestamp;

use super::executor::{Simulation, Sleep};

/// The time for which a pipe holds everything up, now and then.
const STALL: Duration = Duration::from_secs(1);

/// Both pipes, and what cuts both.
#[derive(Debug)]
struct Line {
    pipes: [Pipe; 2],
    /// Milliseconds that a piece takes at most.
    latency: u64,
    /// Bytes on their way at a time, in each pipe.
    capacity: usize,
    /// Bytes that still come through before it is cut.
    fuse: usize,
}

#[derive(Debug, Default)]
struct Pipe {
    /// When each byte arrives.
    bytes: VecDeque<(Timestamp, u8)>,
    is_closed: bool,
    is_unread: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// Wakes only who has a reason, lest a lost wake-up go unnoticed.
fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// One end of one pipe.
#[derive(Debug)]
struct End {
    line: Rc<RefCell<Line>>,
    pipe: usize,
}

/// The reading end of a pipe.
#[derive(Debug)]
pub struct Reader {
    end: End,
    arrival: Option<Sleep>,
}

/// The writing end of a pipe. Dropping it ends what is read at the other.
#[derive(Debug)]
pub struct Writer(End);

impl Simulation {
    /// Returns the two ends of a line in some weather, which is cut after so many bytes.
    #[must_use]
    pub fn line(self, fuse: usize) -> [(Reader, Writer); 2] {
        let line = Rc::new(RefCell::new(Line {
            pipes: [Pipe::default(), Pipe::default()],
            latency: self.weather_of(&[20, 1, 0]),
            capacity: self.weather_of(&[64, 1_000, 100_000]),
            fuse,
        }));
        let end = |pipe| End { line: line.clone(), pipe };
        [0, 1].map(|pipe| (Reader { end: end(pipe), arrival: None }, Writer(end(1 - pipe))))
    }
}

/// A part of what could be taken at once.
fn part(most: usize) -> usize {
    1 + usize::try_from(Simulation.weather(most as u64)).expect("it is below a length")
}

impl AsyncRead for Reader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if room.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let End { line, pipe } = &self.end;
        let mut line = line.borrow_mut();
        let (is_cut, now) = (line.fuse == 0, Simulation.now());
        let pipe = &mut line.pipes[*pipe];
        let next = pipe.bytes.front().map(|(arrival, _)| *arrival);
        if next.is_some_and(|arrival| arrival <= now) {
            let arrived = pipe.bytes.iter().take_while(|(arrival, _)| *arrival <= now).count();
            let read = part(arrived.min(room.len()));
            for (byte, (_, sent)) in room.iter_mut().zip(pipe.bytes.drain(..read)) {
                *byte = sent;
            }
            wake(&mut pipe.writer);
            return Poll::Ready(Ok(read));
        }
        if next.is_none() && is_cut && Simulation.weather(2) == 0 {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if next.is_none() && (is_cut || pipe.is_closed) {
            return Poll::Ready(Ok(0));
        }
        pipe.reader = Some(cx.waker().clone());
        drop(line);
        self.arrival = next.map(|arrival| Simulation.sleep(arrival.since(now)));
        if let Some(arrival) = &mut self.arrival {
            assert!(Pin::new(arrival).poll(cx).is_pending(), "it is later");
        }
        Poll::Pending
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        let mut line = self.0.line.borrow_mut();
        let Line { pipes, latency, capacity, fuse } = &mut *line;
        let pipe = &mut pipes[self.0.pipe];
        if *fuse == 0 || pipe.is_unread {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = *capacity - pipe.bytes.len();
        if room == 0 {
            pipe.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let written = part(room.min(bytes.len()).min(*fuse));
        let is_stalled = Simulation.weather(64) == 0;
        let late = Duration::from_millis(Simulation.weather(*latency + 1));
        let last = pipe.bytes.back().map_or(Timestamp::ZERO, |(arrival, _)| *arrival);
        let arrival = last.max(Simulation.now() + if is_stalled { STALL } else { late });
        pipe.bytes.extend(bytes[..written].iter().map(|byte| (arrival, *byte)));
        wake(&mut pipe.reader);
        *fuse -= written;
        if *fuse == 0 {
            for pipe in pipes {
                if Simulation.weather(2) == 0 {
                    pipe.bytes.clear();
                }
                wake(&mut pipe.reader);
                wake(&mut pipe.writer);
            }
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.close();
        Poll::Ready(Ok(()))
    }
}

impl End {
    fn close(&self) {
        let pipe = &mut self.line.borrow_mut().pipes[self.pipe];
        pipe.is_closed = true;
        wake(&mut pipe.reader);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let pipe = &mut self.end.line.borrow_mut().pipes[self.end.pipe];
        pipe.is_unread = true;
        wake(&mut pipe.writer);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.close();
    }
}

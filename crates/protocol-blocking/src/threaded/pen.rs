//! Writing by whoever has something to write.
//!
//! The hub wakes a [`Pen`] when there is output. The thread that does so is the one that responded, and
//! it writes at once if nobody else does. A thread of its own goes on where a write would block, so that
//! a peer that does not read holds up no handler and no reading of cancels (G3).

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Wake, Waker};
use std::time::Duration;

use protocol_async::hub::{Hub, Messages, Output};

use super::direct::Direct;
use crate::park::Parker;

/// The most often that one thread takes output and writes it before it leaves the rest to the writer.
const TURNS: usize = 4;

/// The time after which the writer of a stuck stream looks whether it is given up.
const GLANCE: Duration = Duration::from_millis(20);

/// Writes on the calling thread, which is the writer, what other threads could not write.
pub(super) fn write(hub: Arc<Hub>, direct: Direct) {
    let parker = Parker::new();
    let ink =
        Ink { direct: Some(direct), output: Messages::default(), written: 0, left: Left::Idle };
    let pen =
        Pen { hub, writer: parker.waker().clone(), has_output: true.into(), ink: Mutex::new(ink) };
    let (pen, mut ended) = (Arc::new(pen), false);
    let waker = Waker::from(pen.clone());
    pen.write(&waker);
    while !ended {
        parker.park(None);
        ended = pen.go_on(&waker);
    }
}

/// A writer of one hub's output.
struct Pen {
    hub: Arc<Hub>,
    /// The thread that waits for room.
    writer: Waker,
    /// Whether there was output since somebody asked for it.
    has_output: AtomicBool,
    ink: Mutex<Ink>,
}

struct Ink {
    /// `None` once nothing can be written any more.
    direct: Option<Direct>,
    output: Messages,
    /// The bytes of `output` that are written.
    written: usize,
    left: Left,
}

/// The part that is left to the writer's thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing: any thread may write.
    Idle,
    /// All of the writing, for a write would block or goes on for long.
    Writing,
    /// Nothing ever again.
    Over,
}

impl Wake for Pen {
    fn wake(self: Arc<Self>) {
        self.has_output.store(true, Ordering::SeqCst);
        let waker = Waker::from(self.clone());
        self.write(&waker);
    }
}

impl Pen {
    /// Writes what there is, unless another thread writes, which then sees that there is more.
    fn write(&self, waker: &Waker) {
        // Of a thread that finds the lock taken, and the one that gives it back, one sees the other.
        fence(Ordering::SeqCst);
        while self.has_output.load(Ordering::SeqCst) {
            let Some(mut ink) = self.try_lock() else { return };
            while ink.left == Left::Idle && self.has_output.swap(false, Ordering::SeqCst) {
                ink.left = ink.write(&self.hub, waker, TURNS);
            }
            let left = ink.left;
            drop(ink);
            if left != Left::Idle {
                return self.writer.wake_by_ref();
            }
            fence(Ordering::SeqCst);
        }
    }

    /// Goes on as the writer, until any thread may write again. It reports whether all is over.
    fn go_on(&self, waker: &Waker) -> bool {
        let mut ink = self.ink.lock().unwrap_or_else(PoisonError::into_inner);
        while ink.left == Left::Writing {
            if let Some(direct) = &ink.direct {
                direct.wait(GLANCE);
            }
            ink.left = ink.write(&self.hub, waker, TURNS);
            if ink.left == Left::Writing && self.hub.is_over() {
                ink.direct = None;
            }
        }
        let is_over = ink.left == Left::Over;
        drop(ink);
        if !is_over {
            self.write(waker);
        }
        is_over
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Ink>> {
        match self.ink.try_lock() {
            Ok(ink) => Some(ink),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl Ink {
    /// Writes until there is no more, a write would block, or so much was taken.
    fn write(&mut self, hub: &Hub, waker: &Waker, turns: usize) -> Left {
        for _ in 0..turns {
            match self.write_taken() {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Left::Writing,
                Err(error) => {
                    hub.fail(&error);
                    self.direct = None;
                }
            }
            self.output.clear();
            self.written = 0;
            match hub.poll_output(waker, &mut self.output) {
                Output::Write => {}
                Output::Idle => return Left::Idle,
                Output::Over => {
                    self.direct = None;
                    return Left::Over;
                }
            }
        }
        Left::Writing
    }

    /// Writes what was taken. Once nothing can be written any more, that is dropped.
    fn write_taken(&mut self) -> io::Result<()> {
        let Some(direct) = &self.direct else { return Ok(()) };
        while let Some(rest @ [_, ..]) = self.output.bytes().get(self.written..) {
            match direct.try_write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

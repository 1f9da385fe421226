//! The choice of the thread that serves an arrival: the one that reads, a worker, or one begun for it.

use std::collections::HashSet;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;

use protocol_async::{Arrival, Incoming};

use super::work::AtWork;
use crate::handler::{Handler, Notification};

/// The responses of the reading thread that are held back for one write.
const AT_ONCE: usize = 32;

/// The place where the thread that reads leaves arrivals for workers.
pub(super) struct Desk {
    incoming: Incoming,
    handler: Arc<dyn Handler + Send + Sync>,
    immediate: HashSet<Box<str>>,
    board: Mutex<Board>,
    /// Wakes a worker that sleeps.
    left: Condvar,
}

#[derive(Default)]
struct Board {
    /// The oldest arrival, which no thread has yet. All others stay in the inbox, so there are none if it is
    /// absent and nobody has the turn.
    waiting: Option<Arrival>,
    /// An immediate arrival is being served. Nothing else is taken until it is done or waits. Whoever serves
    /// it looks for the next then.
    in_turn: bool,
    /// The number of workers that sleep.
    idle: usize,
    /// A thread was begun for what is immediate, and has not looked yet. It finds all that is left until then.
    helper_comes: bool,
    /// Nothing will arrive.
    is_closed: bool,
}

impl Desk {
    pub(super) fn new(
        incoming: Incoming,
        handler: Arc<dyn Handler + Send + Sync>,
        immediate: HashSet<Box<str>>,
    ) -> Self {
        let (board, left) = Default::default();
        Self { incoming, handler, immediate, board, left }
    }

    /// Serves as a worker, until nothing can arrive.
    pub(super) fn work(self: &Arc<Self>) {
        while let Some((arrival, is_immediate)) = self.next() {
            self.serve(arrival, is_immediate, || self.look(self.lock()));
        }
    }

    /// Ends the workers that sleep.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.left.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next arrival out of the inbox, without waiting.
    fn poll(&self) -> Option<Arrival> {
        let mut next = self.incoming.receive();
        match Pin::new(&mut next).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(arrival) => arrival.ok(),
            Poll::Pending => None,
        }
    }

    /// Leaves an arrival for a worker, and wakes one that sleeps once it can have the board. If all are at work,
    /// another thread serves what is immediate, for they may wait for it. One at a time is on its way.
    fn leave(self: &Arc<Self>, mut board: MutexGuard<'_, Board>, arrival: Option<Arrival>) {
        let is_immediate = arrival.as_ref().is_some_and(|arrival| self.is_immediate(arrival));
        board.waiting = arrival;
        if board.waiting.is_some() && board.idle > 0 {
            drop(board);
            self.left.notify_one();
        } else if is_immediate && !board.helper_comes {
            let desk = self.clone();
            let serve = move || {
                desk.lock().helper_comes = false;
                desk.serve_immediate(|| desk.look(desk.lock()));
            };
            // Without a thread, it waits for a worker.
            board.helper_comes = thread::Builder::new().spawn(serve).is_ok();
        }
    }

    /// Leaves the next arrival to another thread, unless one looks for it itself.
    fn look(self: &Arc<Self>, board: MutexGuard<'_, Board>) {
        if !board.in_turn && board.waiting.is_none() {
            self.leave(board, self.poll());
        }
    }

    /// Takes the next arrival for a worker, with whether it is immediate. If it is not, the one behind it is left
    /// to another thread.
    fn next(self: &Arc<Self>) -> Option<(Arrival, bool)> {
        let mut board = self.lock();
        loop {
            if !board.in_turn {
                if let Some(arrival) = board.waiting.take().or_else(|| self.poll()) {
                    board.in_turn = self.is_immediate(&arrival);
                    let is_immediate = board.in_turn;
                    self.look(board);
                    return Some((arrival, is_immediate));
                }
                if board.is_closed {
                    return None;
                }
            }
            board.idle += 1;
            board = self.left.wait(board).unwrap_or_else(PoisonError::into_inner);
            board.idle -= 1;
        }
    }

    fn is_immediate(&self, arrival: &Arrival) -> bool {
        match arrival {
            Arrival::Request(request, _) => self.immediate.contains(request.method.as_str()),
            Arrival::Notification(told) => self.immediate.contains(told.method.as_str()),
            _ => false,
        }
    }

    /// Takes the next arrival if the calling thread, which is no worker, is to serve it. Else it is left to
    /// a worker.
    fn take_immediate(self: &Arc<Self>) -> Option<Arrival> {
        let mut board = self.lock();
        // A worker is on its way to what it is to serve, or all are busy.
        if board.in_turn || board.waiting.as_ref().is_some_and(|it| !self.is_immediate(it)) {
            return None;
        }
        let arrival = board.waiting.take().or_else(|| self.poll());
        board.in_turn = arrival.as_ref().is_some_and(|arrival| self.is_immediate(arrival));
        if board.in_turn {
            return arrival;
        }
        self.leave(board, arrival);
        None
    }

    /// Takes a notification ahead of its turn, the oldest of its method.
    pub(super) fn take_notification(self: &Arc<Self>, method: &str) -> Option<Notification> {
        let mut board = self.lock();
        match board.waiting.take() {
            Some(Arrival::Notification(told)) if told.method == method => {
                self.look(board);
                Some(told)
            }
            other => {
                board.waiting = other;
                self.incoming.take_notification(method)
            }
        }
    }

    /// Serves what is immediate on the calling thread, until it has let others be served or read.
    pub(super) fn serve_immediate(self: &Arc<Self>, mut let_others: impl FnMut()) {
        let (mut has_let, mut cork, mut served) = (false, None, 0);
        while let Some(arrival) = self.take_immediate() {
            // Many at once are written at once.
            match served % AT_ONCE {
                0 => cork = None,
                1 => cork = Some(self.incoming.peer().cork()),
                _ => {}
            }
            served += 1;
            self.serve(arrival, true, || {
                (cork, has_let) = (None, true);
                let_others();
            });
            if has_let {
                return;
            }
        }
    }

    /// Serves an arrival. The turn of what is immediate ends before `let_others` is called, which is at most once, or
    /// when it is served.
    fn serve(self: &Arc<Self>, arrival: Arrival, mut has_turn: bool, mut let_others: impl FnMut()) {
        let incoming = &self.incoming;
        let take_notification = &|method: &str| self.take_notification(method);
        let let_read = &mut || {
            if mem::take(&mut has_turn) {
                self.end_turn();
                let_others();
            }
        };
        let work = AtWork { incoming, take_notification, let_read, responder: None, undoing: None };
        work.serve(arrival, &*self.handler);
        if has_turn {
            self.end_turn();
        }
    }

    fn end_turn(&self) {
        let mut board = self.lock();
        board.in_turn = false;
        if board.is_closed {
            self.left.notify_all();
        }
    }
}

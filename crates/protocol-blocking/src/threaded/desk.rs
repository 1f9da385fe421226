//! The choice of the thread that serves an arrival: the one that reads, or a worker.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

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
    /// Wakes the thread that reads, once nobody has the turn.
    turn_over: Condvar,
}

#[derive(Default)]
struct Board {
    /// The oldest arrival, which no worker has yet. All others stay in the inbox.
    waiting: Option<Arrival>,
    /// An immediate arrival is being served. Nothing else is taken until it is done or waits.
    in_turn: bool,
    /// The number of workers that sleep.
    idle: usize,
    /// Nothing will arrive.
    is_closed: bool,
}

impl Desk {
    pub(super) fn new(
        incoming: Incoming,
        handler: Arc<dyn Handler + Send + Sync>,
        immediate: HashSet<Box<str>>,
    ) -> Self {
        let (board, left, turn_over) = Default::default();
        Self { incoming, handler, immediate, board, left, turn_over }
    }

    /// Serves as a worker, until nothing can arrive.
    pub(super) fn work(&self) {
        while let Some((arrival, is_immediate)) = self.next() {
            let mut turn = is_immediate.then(|| Turn { desk: self, takes_next: false });
            self.serve(arrival, &mut || turn = None);
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

    /// Leaves an arrival for a worker, and wakes one that sleeps once it can have the board.
    fn leave(&self, mut board: MutexGuard<'_, Board>, arrival: Option<Arrival>) {
        let wakes = arrival.is_some() && board.idle > 0;
        board.waiting = arrival;
        drop(board);
        if wakes {
            self.left.notify_one();
        }
    }

    /// Takes the next arrival for a worker, with whether it is immediate. If it is not, another worker is woken
    /// if there is more to do.
    fn next(&self) -> Option<(Arrival, bool)> {
        let mut board = self.lock();
        loop {
            if !board.in_turn {
                if let Some(arrival) = board.waiting.take().or_else(|| self.poll()) {
                    board.in_turn = self.is_immediate(&arrival);
                    let is_immediate = board.in_turn;
                    if !is_immediate && board.idle > 0 {
                        let more = self.poll();
                        self.leave(board, more);
                    }
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

    /// Takes the next arrival if the calling thread, which reads, is to serve it. Else the arrival is
    /// left to a worker.
    fn take_immediate(&self) -> Option<Arrival> {
        let mut board = self.lock();
        // Nothing is read while an immediate arrival is being served, by whichever thread.
        while board.in_turn {
            board = self.turn_over.wait(board).unwrap_or_else(PoisonError::into_inner);
        }
        // A worker is on its way to it, or all are busy.
        if board.waiting.is_some() {
            return None;
        }
        let arrival = self.poll();
        if arrival.as_ref().is_some_and(|arrival| self.is_immediate(arrival)) {
            board.in_turn = true;
            return arrival;
        }
        self.leave(board, arrival);
        None
    }

    /// Takes a notification ahead of its turn, the oldest of its method.
    pub(super) fn take_notification(&self, method: &str) -> Option<Notification> {
        let mut board = self.lock();
        match board.waiting.take() {
            Some(Arrival::Notification(told)) if told.method == method => Some(told),
            other => {
                board.waiting = other;
                self.incoming.take_notification(method)
            }
        }
    }

    /// Serves what is immediate on the calling thread, which reads until it lets another thread read.
    pub(super) fn serve_immediate(&self, mut let_read: impl FnMut()) {
        let (mut has_let, mut cork, mut served) = (false, None, 0);
        while let Some(arrival) = self.take_immediate() {
            // Many at once are written at once.
            match served % AT_ONCE {
                0 => cork = None,
                1 => cork = Some(self.incoming.peer().cork()),
                _ => {}
            }
            served += 1;
            let mut turn = Some(Turn { desk: self, takes_next: true });
            let mut let_read = || {
                (cork, has_let) = (None, true);
                turn.take().into_iter().for_each(Turn::leave_next);
                let_read();
            };
            self.serve(arrival, &mut let_read);
            if has_let {
                return;
            }
        }
    }

    fn serve(&self, arrival: Arrival, let_read: &mut (dyn FnMut() + '_)) {
        let incoming = &self.incoming;
        let take_notification = &|method: &str| self.take_notification(method);
        let work = AtWork { incoming, take_notification, let_read, responder: None, undoing: None };
        work.serve(arrival, &*self.handler);
    }
}

/// The turn of an immediate arrival. Dropping it lets others be taken.
struct Turn<'d> {
    desk: &'d Desk,
    /// The thread that drops it takes the next arrival itself.
    takes_next: bool,
}

impl Turn<'_> {
    /// Leaves the next arrival to a worker.
    fn leave_next(mut self) {
        self.takes_next = false;
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut board = self.desk.lock();
        board.in_turn = false;
        self.desk.turn_over.notify_one();
        if board.is_closed {
            self.desk.left.notify_all();
        } else if !self.takes_next && board.idle > 0 && board.waiting.is_none() {
            let more = self.desk.poll();
            self.desk.leave(board, more);
        }
    }
}

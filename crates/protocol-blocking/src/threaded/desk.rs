//! The choice of the thread that serves an arrival: the one that reads, or a worker.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use protocol_async::{Arrival, Incoming};
use protocol_core::{BeforeStart, CloseReason};

use super::work::{AtDesk, serve};
use crate::handler::{Handler, Notification};
use crate::park::Parker;

/// The responses of the reading thread that are held back for one write.
const AT_ONCE: usize = 32;

/// The place where the thread that reads leaves what is for workers.
pub(super) struct Desk {
    incoming: Incoming,
    handler: Arc<dyn Handler + Send + Sync>,
    immediate: HashSet<Box<str>>,
    rule: BeforeStart,
    board: Mutex<Board>,
}

#[derive(Default)]
struct Board {
    /// The oldest arrival, which no worker has yet. All others stay in the inbox.
    waiting: Option<Arrival>,
    /// The workers that sleep.
    idle: Vec<Waker>,
}

impl Desk {
    pub(super) fn new(
        incoming: Incoming,
        handler: Arc<dyn Handler + Send + Sync>,
        immediate: HashSet<Box<str>>,
        rule: BeforeStart,
    ) -> Self {
        Self { incoming, handler, immediate, rule, board: Mutex::default() }
    }

    /// Serves as a worker, until the connection is closed.
    pub(super) fn work(&self) {
        let (parker, peer) = (Parker::new(), self.incoming.peer());
        let mut closed = peer.closed();
        loop {
            match self.take(parker.waker()) {
                Poll::Ready(Ok(arrival)) => self.serve(arrival, None),
                Poll::Ready(Err(_)) => return,
                Poll::Pending => {
                    // The hub wakes it for the end, and whoever leaves something here for the rest.
                    let mut context = Context::from_waker(parker.waker());
                    if Pin::new(&mut closed).poll(&mut context).is_pending() {
                        parker.park(None);
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the next arrival out of the inbox, without waiting.
    fn poll(&self) -> Poll<Result<Arrival, CloseReason>> {
        let mut next = self.incoming.receive();
        Pin::new(&mut next).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn is_immediate(&self, arrival: &Arrival) -> bool {
        match arrival {
            Arrival::Request(request, _) => self.immediate.contains(request.method.as_str()),
            Arrival::Notification(told) => self.immediate.contains(told.method.as_str()),
            _ => false,
        }
    }

    /// Takes the next arrival if the calling thread, which reads, is to serve it. Else the arrival is
    /// left to a worker, and one that sleeps is woken.
    fn take_immediate(&self) -> Option<Arrival> {
        let mut board = self.lock();
        // A worker is on its way to it, or all are busy.
        if board.waiting.is_some() {
            return None;
        }
        let Poll::Ready(Ok(arrival)) = self.poll() else { return None };
        if self.is_immediate(&arrival) {
            return Some(arrival);
        }
        board.waiting = Some(arrival);
        let worker = board.idle.pop();
        drop(board);
        worker.into_iter().for_each(Waker::wake);
        None
    }

    /// Takes the next arrival for a worker, and wakes another one if there is more to do.
    fn take(&self, waker: &Waker) -> Poll<Result<Arrival, CloseReason>> {
        let mut board = self.lock();
        board.idle.retain(|idle| !idle.will_wake(waker));
        let taken = match board.waiting.take() {
            Some(arrival) => Poll::Ready(Ok(arrival)),
            None => self.poll(),
        };
        let mut next = None;
        match &taken {
            Poll::Pending => board.idle.push(waker.clone()),
            Poll::Ready(Ok(_)) if !board.idle.is_empty() => {
                if let Poll::Ready(Ok(arrival)) = self.poll() {
                    board.waiting = Some(arrival);
                    next = board.idle.pop();
                }
            }
            Poll::Ready(_) => {}
        }
        drop(board);
        next.into_iter().for_each(Waker::wake);
        taken
    }

    /// Takes a notification ahead of its turn, the oldest of its method.
    fn take_notification(&self, method: &str) -> Option<Notification> {
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
            let mut let_read = || {
                (cork, has_let) = (None, true);
                let_read();
            };
            self.serve(arrival, Some(&mut let_read));
            if has_let {
                return;
            }
        }
    }

    fn serve(&self, arrival: Arrival, let_read: Option<&mut (dyn FnMut() + '_)>) {
        let take_notification = |method: &str| self.take_notification(method);
        let at_desk = Some(AtDesk { take_notification: &take_notification, let_read });
        serve(&self.incoming, arrival, &*self.handler, self.rule, at_desk);
    }
}

//! The account of memory of a process, shared by its connections.
//!
//! A connection charges its account while its endpoint is locked, so the charges of one connection have an
//! order. The lock of the account is held for one charge. Drivers whose grant changed are woken once no
//! lock is held, and each gives its own endpoint the grant.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::task::Waker;

use protocol_endpoint::{AccountLimits, Grant, Member};

use crate::catch_panic::catch_panic;
use crate::sync::{Arc, Mutex, lock};
use crate::waiter::{Effects, Endpoint};

/// The bytes by which a connection that is not limited may differ from its last charge.
const STEP: usize = 16 << 10;

/// An account of memory that connections draw on together. Clones are the same account.
///
/// A host passes it to each connection ([`Options::account`](crate::Options::account)). When its pool runs
/// out, connections that hold more than their share are limited step by step
/// ([`protocol_endpoint::Account`]), and at last one ends.
#[derive(Clone)]
pub struct Account {
    book: Arc<Mutex<Book>>,
}

type Book = protocol_endpoint::Account<Arc<Slot>>;

/// The place where a connection finds its grant.
#[derive(Default)]
struct Slot {
    /// A [`Grant`], as a number.
    grant: AtomicU8,
    /// The waker of the driver, and that of a thread that only reads.
    wakers: Mutex<[Option<Waker>; 2]>,
    /// Whether the reader was woken by the end of the connection.
    has_ended: AtomicBool,
}

/// A task or thread that is woken when the grant changes.
#[derive(Clone, Copy)]
pub(crate) enum Woken {
    Driver,
    Reader,
}

/// The connection's part in an account.
pub(crate) struct Membership {
    account: Account,
    member: Member,
    slot: Arc<Slot>,
    /// The bytes that were charged last.
    charged: AtomicUsize,
}

impl Account {
    /// Returns an account without a connection.
    #[must_use]
    pub fn new(limits: AccountLimits) -> Self {
        Self { book: Arc::new(Mutex::new(Book::new(limits))) }
    }

    /// Returns the bytes that all connections hold, as they were charged.
    #[must_use]
    pub fn used(&self) -> usize {
        lock(&self.book).used()
    }

    pub(crate) fn open(&self) -> Membership {
        let (slot, charged) = (Arc::<Slot>::default(), AtomicUsize::new(0));
        let mut book = lock(&self.book);
        let member = book.open(slot.clone());
        let changed = give(&mut book);
        drop(book);
        wake(changed);
        Membership { account: self.clone(), member, slot, charged }
    }
}

/// Gives connections the grants that changed. Returns the wakers, to be woken without a lock.
fn give(book: &mut Book) -> Vec<Waker> {
    let mut woken = Vec::new();
    for (slot, grant) in book.changed() {
        slot.grant.store(grant as u8, Ordering::Release);
        woken.extend(lock(&slot.wakers).iter_mut().filter_map(Option::take));
    }
    woken
}

impl Membership {
    /// Charges what the endpoint holds, as [`charge`](Self::charge) does, and gives it its grant. Returns
    /// the wakers, to be woken without a lock.
    ///
    /// The end of the connection wakes its reader too, once: it may leave the grant as it is.
    pub(crate) fn draw(&self, endpoint: &mut Endpoint, effects: &mut Effects) -> Vec<Waker> {
        let mut woken = self.charge(endpoint.held_bytes());
        endpoint.set_grant(self.grant(), effects);
        if endpoint.closed().is_some() && !self.slot.has_ended.swap(true, Ordering::Relaxed) {
            woken.extend(lock(&self.slot.wakers)[Woken::Reader as usize].take());
        }
        woken
    }

    /// Charges what is held, if that has changed enough or the grant is limited. The caller has a lock, so
    /// that charges have an order.
    pub(crate) fn charge(&self, held: usize) -> Vec<Waker> {
        let is_close = held.abs_diff(self.charged.load(Ordering::Relaxed)) < STEP;
        // The last byte above its share may be what limits it.
        if is_close && self.grant() == Grant::All {
            return Vec::new();
        }
        self.charged.store(held, Ordering::Relaxed);
        let mut book = lock(&self.account.book);
        if book.charge(self.member, held) { give(&mut book) } else { Vec::new() }
    }

    pub(crate) fn grant(&self) -> Grant {
        let all = [Grant::All, Grant::NoRequests, Grant::NoReading];
        let number = self.slot.grant.load(Ordering::Acquire);
        all.get(usize::from(number)).copied().unwrap_or(Grant::Revoked)
    }

    /// Has a task woken when the grant changes. The caller looks at the grant after that.
    pub(crate) fn watch(&self, who: Woken, waker: &Waker) {
        let is_there =
            |waiting: &Option<Waker>| waiting.as_ref().is_some_and(|it| it.will_wake(waker));
        if is_there(&lock(&self.slot.wakers)[who as usize]) {
            return;
        }
        // Wakers are the executor's, so they are cloned and dropped without the lock.
        let waker = waker.clone();
        let before = lock(&self.slot.wakers)[who as usize].replace(waker);
        drop(before);
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut book = lock(&self.account.book);
        book.close(self.member);
        let woken = give(&mut book);
        drop(book);
        wake(woken);
    }
}

/// Wakes tasks, with no lock held. A panic of one stops none of the others.
pub(crate) fn wake(wakers: Vec<Waker>) {
    wakers.into_iter().for_each(|waker| catch_panic(|| waker.wake()));
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Account").field("used", &self.used()).finish_non_exhaustive()
    }
}

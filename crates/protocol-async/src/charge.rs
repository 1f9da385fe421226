//! The charges of bytes that transports keep beside their endpoints.

use std::fmt;
use std::mem;
use std::task::{Poll, Waker};

use protocol_endpoint::Grant;

use crate::account::{self, Account, Membership, Woken};
use crate::shared::Shared;
use crate::sync::{Arc, Mutex, lock};

/// A transport that draws on an account by itself, because it carries messages of several connections. Clones are the
/// same transport.
#[derive(Clone)]
pub struct Holder(Arc<(Membership, Mutex<usize>)>);

impl Holder {
    /// Returns a transport that holds nothing yet.
    #[must_use]
    pub fn new(account: &Account) -> Self {
        Self(Arc::new((account.open(), Mutex::new(0))))
    }

    /// Returns a charge of the transport that is nothing yet.
    #[must_use]
    pub fn charge(&self) -> Charge {
        Charge { payer: Payer::Holder(self.clone()), bytes: 0 }
    }

    /// Returns what the account permits the transport.
    #[must_use]
    pub fn grant(&self) -> Grant {
        self.0.0.grant()
    }

    /// Is ready once the grant is another one than `before`. One task at a time may wait.
    pub fn poll_grant(&self, before: Grant, waker: &Waker) -> Poll<Grant> {
        self.0.0.watch(Woken::Driver, waker);
        Some(self.grant()).filter(|grant| *grant != before).map_or(Poll::Pending, Poll::Ready)
    }

    fn change(&self, before: usize, after: usize) {
        let (member, held) = &*self.0;
        let mut held = lock(held);
        *held = *held - before + after;
        let woken = member.charge(*held);
        drop(held);
        account::wake(woken);
    }
}

/// The charge of bytes that a transport keeps beside its endpoint. It ends when it is dropped.
#[derive(Debug)]
pub struct Charge {
    payer: Payer,
    bytes: usize,
}

#[derive(Debug)]
enum Payer {
    Holder(Holder),
    Connection(Arc<Shared>),
}

impl Charge {
    /// Returns a charge of a connection that is nothing yet.
    pub(crate) const fn of(shared: Arc<Shared>) -> Self {
        Self { payer: Payer::Connection(shared), bytes: 0 }
    }

    /// Returns the bytes.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Charges so many bytes in place of those before. Wakers may be woken, so no lock may be held.
    pub fn set(&mut self, bytes: usize) {
        let before = mem::replace(&mut self.bytes, bytes);
        match &self.payer {
            _ if before == bytes => {}
            Payer::Holder(holder) => holder.change(before, bytes),
            Payer::Connection(shared) => shared.note_kept(before, bytes),
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Holder").field("grant", &self.grant()).finish_non_exhaustive()
    }
}

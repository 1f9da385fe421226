//! The clients of a listener: their number, the limits that they share, and the stages of their end.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol_async::{Account, AccountLimits, Canceller};
use protocol_core::Cause;
use tungstenite::http::StatusCode;

use crate::limits::ListenerLimits;
use crate::lingering::Lingering;
use crate::meter::Unfinished;

/// The state that a listener and its clients share.
pub(crate) struct Admission {
    pub(crate) limits: ListenerLimits,
    pub(crate) unfinished: Arc<Unfinished>,
    pub(crate) account: Account,
    pub(crate) lingering: Lingering,
    clients: Mutex<Clients>,
    /// Set when the listener drains.
    pub(crate) draining: Canceller,
    /// Set when what is in flight has had its time to finish.
    pub(crate) cancelling: Canceller,
    /// Set when nobody is waited for any more.
    pub(crate) abandoned: Canceller,
    /// Set when the listener drains and no client is left.
    pub(crate) empty: Canceller,
}

/// The clients that are there.
#[derive(Default)]
struct Clients {
    all: usize,
    by_address: HashMap<IpAddr, Neighbours>,
    is_draining: bool,
}

/// The clients of one address.
#[derive(Default)]
struct Neighbours {
    there: usize,
    /// Their unfinished bytes, which are counted among all too.
    unfinished: Arc<AtomicUsize>,
}

/// The place of one client, until it is dropped.
pub(crate) struct Admitted {
    pub(crate) admission: Arc<Admission>,
    pub(crate) from: Option<IpAddr>,
    /// The unfinished bytes of its address. A client without an address is alone.
    pub(crate) unfinished: Arc<AtomicUsize>,
}

/// The reason for which a stream was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refused {
    /// There are [`ListenerLimits::connections`].
    Full,
    /// There are [`ListenerLimits::connections_per_address`] of its address.
    AddressFull,
    /// The listener drains.
    Draining,
}

impl Admission {
    pub(crate) fn new(limits: ListenerLimits) -> Self {
        Self {
            limits,
            unfinished: Unfinished::new(limits.unfinished_bytes),
            account: Account::new(AccountLimits::within(limits.memory_bytes)),
            lingering: Lingering::default(),
            clients: Mutex::default(),
            draining: Canceller::new(),
            cancelling: Canceller::new(),
            abandoned: Canceller::new(),
            empty: Canceller::new(),
        }
    }

    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connections(&self) -> usize {
        self.clients().all
    }

    pub(crate) fn admit(self: &Arc<Self>, from: Option<IpAddr>) -> Result<Admitted, Refused> {
        let from = from.map(charged);
        let mut clients = self.clients();
        if clients.is_draining {
            return Err(Refused::Draining);
        }
        if clients.all >= self.limits.connections {
            return Err(Refused::Full);
        }
        let mut unfinished = Arc::default();
        if let Some(from) = from {
            let there = clients.by_address.get(&from).map_or(0, |neighbours| neighbours.there);
            if there >= self.limits.connections_per_address {
                return Err(Refused::AddressFull);
            }
            let neighbours = clients.by_address.entry(from).or_default();
            neighbours.there += 1;
            unfinished = neighbours.unfinished.clone();
        }
        clients.all += 1;
        Ok(Admitted { admission: self.clone(), from, unfinished })
    }

    pub(crate) fn begin_to_drain(&self) {
        self.clients().is_draining = true;
        self.draining.cancel(Cause::Shutdown);
        self.note_empty();
    }

    fn note_empty(&self) {
        let clients = self.clients();
        let is_empty = clients.is_draining && clients.all == 0;
        drop(clients);
        if is_empty {
            self.empty.cancel(Cause::Shutdown);
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut clients = self.admission.clients();
        clients.all -= 1;
        if let Some(from) = self.from {
            match clients.by_address.get_mut(&from) {
                Some(neighbours) if neighbours.there > 1 => neighbours.there -= 1,
                _ => drop(clients.by_address.remove(&from)),
            }
        }
        drop(clients);
        self.admission.note_empty();
    }
}

impl Refused {
    /// Returns the status of the response that the client gets.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Full | Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
            Self::AddressFull => StatusCode::TOO_MANY_REQUESTS,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "there are too many connections (limits.connections)",
            Self::AddressFull => {
                "there are too many connections of this address (limits.connections_per_address)"
            }
            Self::Draining => "no connection is taken any more",
        })
    }
}

impl std::error::Error for Refused {}

/// Returns the address that is charged. A network of 64 bits is one customer's.
fn charged(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 64)))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f47_addresses_of_one_network_are_one() {
        let charged = |address: &str| charged(address.parse().unwrap()).to_string();
        assert_eq!(charged("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(charged("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(charged("192.0.2.1"), "192.0.2.1");
        assert_eq!(charged("::1"), "::");
    }
}

//! What a handle points at that cancels a call which is not sent yet.

use std::mem;

use protocol_core::{CallId, CancelOutcome, Cause};

use crate::shared::Shared;
use crate::spanned;
use crate::sync::{Mutex, Weak, lock};

/// What a [`CancellationHandle`](crate::CancellationHandle) of a prepared call points at. It keeps nothing alive.
pub(crate) struct Preparation(Mutex<Prepared>);

enum Prepared {
    Waiting,
    /// Before it was sent; it never is.
    Cancelled(Cause),
    Refused,
    Published {
        shared: Weak<Shared>,
        call: CallId,
    },
}

impl Preparation {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(Prepared::Waiting))
    }

    /// Why it was cancelled before it was sent, if it was.
    pub(crate) fn cause(&self) -> Option<Cause> {
        match *lock(&self.0) {
            Prepared::Cancelled(cause) => Some(cause),
            _ => None,
        }
    }

    /// It was sent, unless it was refused.
    pub(crate) fn published(&self, sent: Option<(Weak<Shared>, CallId)>) {
        let published =
            sent.map_or(Prepared::Refused, |(shared, call)| Prepared::Published { shared, call });
        let before = mem::replace(&mut *lock(&self.0), published);
        if let Prepared::Cancelled(cause) = before {
            // While it was being sent.
            self.cancel(cause);
        }
    }

    pub(crate) fn cancel(&self, cause: Cause) -> CancelOutcome {
        let mut prepared = lock(&self.0);
        let (shared, call) = match &*prepared {
            Prepared::Waiting => {
                *prepared = Prepared::Cancelled(cause);
                return CancelOutcome::Withdrawn;
            }
            Prepared::Cancelled(_) | Prepared::Refused => return CancelOutcome::AlreadySettled,
            Prepared::Published { shared, call } => (Weak::upgrade(shared), *call),
        };
        drop(prepared);
        shared.map_or(CancelOutcome::AlreadySettled, |shared| {
            spanned::cancelling(&shared, call, cause);
            shared.command(|core, now| core.cancel(call, cause, now))
        })
    }
}

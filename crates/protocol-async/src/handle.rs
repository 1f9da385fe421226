//! What cancels a call from anywhere.

use std::{fmt, mem};

use protocol_core::{CallId, CancelOutcome, Cause};

use crate::shared::Shared;
use crate::spanned;
use crate::sync::{Arc, Mutex, Weak, lock};

/// Cancels one call, from anywhere. It keeps neither the call nor the connection alive.
#[derive(Clone)]
pub struct CancellationHandle(Target);

#[derive(Clone)]
enum Target {
    Call {
        shared: Weak<Shared>,
        call: CallId,
    },
    /// A call that is prepared, and perhaps sent meanwhile.
    Prepared(Arc<Preparation>),
    Nothing,
}

impl CancellationHandle {
    pub(crate) fn of(shared: &Arc<Shared>, call: CallId) -> Self {
        Self(Target::Call { shared: Arc::downgrade(shared), call })
    }

    pub(crate) const fn of_prepared(preparation: Arc<Preparation>) -> Self {
        Self(Target::Prepared(preparation))
    }

    pub(crate) const fn of_nothing() -> Self {
        Self(Target::Nothing)
    }

    /// Cancels the call, cause `caller`; no effect on a settled one.
    pub fn cancel(&self) -> CancelOutcome {
        self.cancel_because(Cause::Caller, None)
    }

    /// As [`cancel`](Self::cancel), and tells the peer why in words, where the dialect has a place for
    /// that. A call that is not sent yet is taken back without a word.
    pub fn cancel_with_reason(&self, reason: &str) -> CancelOutcome {
        self.cancel_because(Cause::Caller, Some(reason))
    }

    pub(crate) fn cancel_because(&self, cause: Cause, reason: Option<&str>) -> CancelOutcome {
        let (shared, call) = match &self.0 {
            Target::Call { shared, call } => (Weak::upgrade(shared), *call),
            Target::Prepared(preparation) => return preparation.cancel(cause, reason),
            Target::Nothing => return CancelOutcome::AlreadySettled,
        };
        let Some(shared) = shared else { return CancelOutcome::AlreadySettled };
        spanned::cancelling(&shared, call, cause);
        shared.command(|core, now| core.cancel_because(call, cause, reason, now))
    }
}

impl fmt::Debug for CancellationHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CancellationHandle").finish_non_exhaustive()
    }
}

/// What a call has come to that can be cancelled before it is sent.
#[derive(Default)]
pub(crate) struct Preparation(Mutex<Prepared>);

#[derive(Default)]
enum Prepared {
    #[default]
    Waiting,
    /// Before it was sent; it never is.
    Cancelled(Cause),
    Published(CancellationHandle),
}

impl Preparation {
    /// Why it was cancelled before it was sent, if it was.
    pub(crate) fn cancelled(&self) -> Option<Cause> {
        match *lock(&self.0) {
            Prepared::Cancelled(cause) => Some(cause),
            Prepared::Waiting | Prepared::Published(_) => None,
        }
    }

    /// It was sent, and this cancels it now.
    pub(crate) fn published(&self, handle: CancellationHandle) {
        let before = mem::replace(&mut *lock(&self.0), Prepared::Published(handle));
        if let Prepared::Cancelled(cause) = before {
            // While it was being sent.
            self.cancel(cause, None);
        }
    }

    fn cancel(&self, cause: Cause, reason: Option<&str>) -> CancelOutcome {
        let mut prepared = lock(&self.0);
        let handle = match &*prepared {
            Prepared::Waiting => {
                *prepared = Prepared::Cancelled(cause);
                return CancelOutcome::Withdrawn;
            }
            Prepared::Cancelled(_) => return CancelOutcome::AlreadySettled,
            Prepared::Published(handle) => handle.clone(),
        };
        drop(prepared);
        handle.cancel_because(cause, reason)
    }
}

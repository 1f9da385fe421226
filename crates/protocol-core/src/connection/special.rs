//! What few requests have: apart from the rest, so that most requests take two bytes here.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::batches::BatchKey;
use super::negotiation::Declared;
use crate::dialect::Text;
use crate::operations::OperationId;
use crate::slot::put;
use crate::wire::abp::Origin;

#[derive(Clone, Debug)]
pub(super) struct Special {
    /// The batch that waits for its answer.
    pub(super) batch: Option<BatchKey>,
    /// What the peer declares with this request, if it is the exchange of capabilities.
    pub(super) declares: Option<Declared>,
    /// Where the answer goes, in an envelope that says more than the id.
    pub(super) origin: Option<Box<Origin>>,
    /// The type of the operation that it may start.
    pub(super) starts: Option<Text>,
    /// The operation that it started, whose token was its answer.
    pub(super) operation: Option<OperationId>,
}

impl Special {
    const fn is_empty(&self) -> bool {
        let Self { batch, declares, origin, starts, operation } = self;
        batch.is_none()
            && declares.is_none()
            && origin.is_none()
            && starts.is_none()
            && operation.is_none()
    }
}

/// By the slot of the request, up to the last one that ever was special: with most peers it stays empty.
///
/// Invariant: holds only unanswered requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Specials(Vec<Option<Box<Special>>>);

impl Specials {
    /// Keeps it, if there is anything in it.
    pub(super) fn put(&mut self, slot: usize, special: Special) {
        if !special.is_empty() {
            put(&mut self.0, slot, Box::new(special));
        }
    }

    pub(super) fn get(&self, slot: usize) -> Option<&Special> {
        self.0.get(slot)?.as_deref()
    }

    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut Special> {
        self.0.get_mut(slot)?.as_deref_mut()
    }

    pub(super) fn take(&mut self, slot: usize) -> Option<Box<Special>> {
        self.0.get_mut(slot)?.take()
    }
}

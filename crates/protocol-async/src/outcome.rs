//! Callbacks that get the outcome of a call.

pub(crate) use protocol_endpoint::CallOutcome;

use crate::catch_panic::catch_panic;

/// A callback for an outcome. The box around it makes one word of two, since it is moved with the row of
/// its call.
pub(crate) struct HandOver(Box<Then>);

type Then = Box<dyn FnOnce(CallOutcome) + Send>;

impl HandOver {
    pub(crate) fn to(then: impl FnOnce(CallOutcome) + Send + 'static) -> Self {
        Self(Box::new(Box::new(then)))
    }

    /// Hands the outcome over.
    pub(crate) fn give(self, outcome: CallOutcome) {
        catch_panic(|| (self.0)(outcome));
    }
}

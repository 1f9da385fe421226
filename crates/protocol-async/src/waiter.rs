//! The endpoint of this adapter, with what it waits with.

use std::task::Waker;

use protocol_endpoint::CallOutcome;

use crate::cancellation::Cancellation;
use crate::catch_panic::catch_panic;

/// A waiter of the endpoint: a task, or a function that gets the outcome of a call. It is two words,
/// because it is moved with the row of its call.
pub(crate) enum Waiter {
    Task(Waker),
    HandOver(HandOver),
}

/// A callback for an outcome. Its box is one word, and the callback alone is two.
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

pub(crate) type Endpoint = protocol_endpoint::Endpoint<Waiter, Cancellation>;
pub(crate) type Effect = protocol_endpoint::Effect<Waiter, Cancellation>;
pub(crate) type Effects = protocol_endpoint::Effects<Waiter, Cancellation>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g08_a_waiter_takes_two_words_of_its_call() {
        assert_eq!(size_of::<Waiter>(), size_of::<[usize; 2]>());
    }
}

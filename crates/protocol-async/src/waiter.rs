//! The endpoint of this adapter, with what it waits with.

use std::task::Waker;

use crate::cancellation::Cancellation;
use crate::outcome::HandOver;

/// A waiter of the endpoint: a task, or a function that gets the outcome of a call. It is two words,
/// because it is moved with the row of its call.
pub(crate) enum Waiter {
    Task(Waker),
    HandOver(HandOver),
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

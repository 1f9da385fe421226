//! The arms of the tables that this thread has taken, for the test that counts them.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::*;

std::thread_local! {
    static TAKEN: RefCell<BTreeSet<u32>> = const { RefCell::new(BTreeSet::new()) };
}

pub(super) fn take(line: u32) {
    TAKEN.with(|taken| taken.borrow_mut().insert(line));
}

/// Returns the lines of the arms taken so far, and forgets them.
pub(crate) fn taken() -> BTreeSet<u32> {
    TAKEN.take()
}

/// Returns the lines of the arms for possible pairs, and of the others.
pub(crate) fn all() -> (BTreeSet<u32>, BTreeSet<u32>) {
    let before = taken();
    let (mut possible, mut impossible) = (BTreeSet::new(), BTreeSet::new());
    let mut note = |is_impossible: bool| {
        let arms = if is_impossible { &mut impossible } else { &mut possible };
        arms.extend(taken());
    };
    for &phase in CallPhase::ALL {
        for &input in CallInput::ALL {
            note(phase.on(input).step == CallStep::Impossible);
        }
    }
    for &phase in RequestPhase::ALL {
        for &input in RequestInput::ALL {
            note(phase.on(input).step == RequestStep::Impossible);
        }
    }
    for &phase in Life::ALL {
        for &input in LifeInput::ALL {
            note(phase.on(input).step == LifeStep::Impossible);
        }
    }
    before.into_iter().for_each(take);
    (possible, impossible)
}

/// Declares the list of all values of an enum.
macro_rules! all {
    ($($of:ident: $($value:ident)*;)*) => {
        $(impl $of {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$value),*];
        })*
    };
}

all! {
    CallPhase: Queued Sent CancelQueued Cancelling AwaitingToken TokenCancelQueued
        AwaitingAcknowledgement;
    CallInput: Transmitted Cancel CancelOperation CancelRefused GiveUp Response TokenResponse
        CancelledResponse Acknowledged CancelFailed Stop;
    RequestPhase: Running Cancelled Silenced Operation OperationCancelled Responded;
    RequestInput: Cancel CancelSilently CancelRefused LateCancel BeginOperation Respond
        RespondAcknowledged End Release;
    Life: Opening Open Draining Closed;
    LifeInput: NewCall NewNestedCall NewRequest OpeningRequest OpenSession Drain CancelAll Abandon
        Lose Idle;
}

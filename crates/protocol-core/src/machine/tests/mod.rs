//! Properties of the tables.

mod reached;

use alloc::vec::Vec;

use crate::machine::table::{
    CallInput, CallPhase, CallStep, Life, LifeInput, LifeStep, RequestInput, RequestPhase,
    RequestStep, Transition,
};

fn calls() -> Vec<(CallPhase, CallInput, Transition<Option<CallPhase>, CallStep>)> {
    let pairs = CallPhase::ALL
        .iter()
        .flat_map(|&phase| CallInput::ALL.iter().map(move |&input| (phase, input)));
    pairs.map(|(phase, input)| (phase, input, phase.on(input))).collect()
}

fn requests() -> Vec<(RequestPhase, RequestInput, Transition<RequestPhase, RequestStep>)> {
    let pairs = RequestPhase::ALL
        .iter()
        .flat_map(|&phase| RequestInput::ALL.iter().map(move |&input| (phase, input)));
    pairs.map(|(phase, input)| (phase, input, phase.on(input))).collect()
}

#[test]
fn g04_only_a_call_without_a_cancel_ever_sends_one() {
    let sending = calls().into_iter().filter(|(.., on)| on.step == CallStep::SendCancel);
    let sending: Vec<_> = sending.map(|(phase, input, _)| (phase, input)).collect();
    assert_eq!(
        sending,
        [
            (CallPhase::Sent, CallInput::Cancel),
            (CallPhase::AwaitingToken, CallInput::TokenResponse)
        ]
    );
}

#[test]
fn g01_every_step_that_settles_ends_the_call_and_no_other_does() {
    for (phase, input, on) in calls() {
        let settles = matches!(
            on.step,
            CallStep::Withdraw
                | CallStep::AwaitTokenAndSettle
                | CallStep::Settle
                | CallStep::Complete
                | CallStep::WithdrawAndComplete
                | CallStep::CompleteCancelled
                | CallStep::WithdrawAndCompleteCancelled
        );
        assert_eq!(on.next.is_none(), settles, "{phase:?} {input:?}");
    }
}

#[test]
fn g01_nobody_waits_for_ever_who_does_not_want_to() {
    for phase in CallPhase::ALL {
        assert_eq!(phase.on(CallInput::GiveUp).next, None, "{phase:?}");
    }
}

#[test]
fn g02_no_row_responds_twice() {
    for (phase, input, on) in requests() {
        let responds = matches!(on.step, RequestStep::SendResponse | RequestStep::SendCancelled);
        let is_over = on.next == RequestPhase::Responded;
        assert!(!responds || is_over, "{phase:?} {input:?}");
        assert!(!responds || !phase.is_operation(), "{phase:?} {input:?}");
        assert!(phase.awaits_response() || is_over, "{phase:?} {input:?}");
    }
}

#[test]
fn f79_only_a_silenced_request_or_an_operation_has_its_response_withheld() {
    for (phase, input, on) in requests() {
        let withholds = on.step == RequestStep::Withhold;
        let is_silent = phase == RequestPhase::Silenced || phase.is_operation();
        let is_silent = is_silent || input == RequestInput::Release;
        assert!(!withholds || is_silent, "{phase:?} {input:?}");
        let silences = on.next == RequestPhase::Silenced && phase != RequestPhase::Silenced;
        assert!(!silences || input == RequestInput::CancelSilently, "{phase:?} {input:?}");
    }
}

#[test]
fn g07_the_end_comes_once_and_is_never_taken_back() {
    for &life in Life::ALL {
        let is_over = life == Life::Closed;
        for &input in LifeInput::ALL {
            let on = life.on(input);
            let closes = matches!(
                on.step,
                LifeStep::Close | LifeStep::LoseEverything | LifeStep::AbandonEverything
            );
            let will_be_over = on.next == Life::Closed;
            assert_eq!(closes, will_be_over && !is_over, "{life:?} {input:?}");
            assert!(!is_over || will_be_over, "{life:?} {input:?}");
            assert!(!is_over || on.step != LifeStep::Accept, "{life:?} {input:?}");
        }
    }
    assert_eq!(Life::Closed.on(LifeInput::Lose).step, LifeStep::Nothing);
}

#[test]
fn only_before_the_session_is_open_matters_what_opens_it() {
    for life in [Life::Open, Life::Draining, Life::Closed] {
        assert_eq!(life.on(LifeInput::OpeningRequest), life.on(LifeInput::NewRequest), "{life:?}");
        assert_eq!(life.on(LifeInput::OpenSession).next, life, "{life:?}");
    }
    // A session that is yet to be opened keeps nothing else from what an open one lets it do.
    for &input in LifeInput::ALL {
        let (opening, open) = (Life::Opening.on(input), Life::Open.on(input));
        assert_eq!(opening.step == open.step, input != LifeInput::NewRequest, "{input:?}");
    }
}

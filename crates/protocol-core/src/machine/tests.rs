//! What the tables promise.

use super::table::{
    CALL_TABLE, CallInput, CallPhase, CallStep, LIFE_TABLE, Life, LifeInput, LifeStep,
    REQUEST_TABLE, RequestPhase, RequestStep,
};

#[test]
fn g04_only_a_call_without_a_cancel_ever_sends_one() {
    for (phase, row) in CALL_TABLE.iter().enumerate() {
        for (input, transition) in row.iter().enumerate() {
            let is_first = [
                (CallPhase::Sent as usize, CallInput::Cancel as usize),
                (CallPhase::AwaitingToken as usize, CallInput::Token as usize),
            ];
            let sends = transition.step == CallStep::SendCancel;
            assert_eq!(sends, is_first.contains(&(phase, input)), "{phase} {input}");
        }
    }
}

#[test]
fn g01_every_step_that_settles_ends_the_call_and_no_other_does() {
    for transition in CALL_TABLE.iter().flatten() {
        let settles = matches!(
            transition.step,
            CallStep::Withdraw
                | CallStep::AwaitTokenAndSettle
                | CallStep::Settle
                | CallStep::Complete
                | CallStep::WithdrawAndComplete
                | CallStep::CompleteCancelled
                | CallStep::WithdrawAndCompleteCancelled
        );
        assert_eq!(transition.next.is_none(), settles, "{transition:?}");
    }
}

#[test]
fn g01_nobody_waits_for_ever_who_does_not_want_to() {
    for row in &CALL_TABLE {
        assert_eq!(row[CallInput::Forget as usize].next, None, "{row:?}");
    }
}

#[test]
fn g02_no_row_answers_twice() {
    let answered = Some(RequestPhase::Responded);
    for row in &REQUEST_TABLE {
        for transition in row {
            let answers =
                matches!(transition.step, RequestStep::SendResponse | RequestStep::SendCancelled);
            assert!(!answers || transition.next == answered, "{transition:?}");
        }
    }
    for phase in [RequestPhase::Operation, RequestPhase::OperationCancelled] {
        let row = &REQUEST_TABLE[phase as usize];
        let answers = |step| matches!(step, RequestStep::SendResponse | RequestStep::SendCancelled);
        assert!(!row.iter().any(|transition| answers(transition.step)), "{row:?}");
    }
    let row = &REQUEST_TABLE[RequestPhase::Responded as usize];
    assert!(row.iter().all(|transition| transition.next == answered), "{row:?}");
}

#[test]
fn g07_the_end_comes_once_and_is_never_taken_back() {
    for life in [Life::Opening, Life::Open, Life::Draining, Life::Closed, Life::Abandoned] {
        let is_over = matches!(life, Life::Closed | Life::Abandoned);
        for transition in LIFE_TABLE[life as usize] {
            let closes = matches!(
                transition.step,
                LifeStep::Close | LifeStep::LoseEverything | LifeStep::AbandonEverything
            );
            let will_be_over = matches!(transition.next, Some(Life::Closed | Life::Abandoned));
            assert_eq!(closes, will_be_over && !is_over, "{life:?} {transition:?}");
            assert!(!is_over || will_be_over, "{life:?} {transition:?}");
            assert!(!is_over || transition.step != LifeStep::Accept, "{life:?} {transition:?}");
        }
    }
    assert_eq!(Life::Closed.on(LifeInput::Lose).step, LifeStep::Nothing);
}

#[test]
fn only_before_the_session_is_open_matters_what_opens_it() {
    for life in [Life::Open, Life::Draining, Life::Closed, Life::Abandoned] {
        assert_eq!(life.on(LifeInput::OpeningRequest), life.on(LifeInput::NewRequest), "{life:?}");
        assert_eq!(life.on(LifeInput::OpenSession).next, Some(life), "{life:?}");
    }
    // A session that is yet to be opened keeps nothing else from what an open one lets it do.
    for (column, transition) in LIFE_TABLE[Life::Opening as usize].into_iter().enumerate() {
        let open = LIFE_TABLE[Life::Open as usize][column];
        let is_request = column == LifeInput::NewRequest as usize;
        assert_eq!(transition.step == open.step, !is_request, "{transition:?} {open:?}");
    }
}

//! The rows of calls, their numbers and their extras.

use super::*;
use crate::machine::{Machine, ResponseKind};
use crate::{CallOptions, Config, Dialect, Violation};

fn insert(calls: &mut Calls<()>) -> CallId {
    let id = calls.next_id();
    let (phase, parent, ending, refusal, extras) = (CallPhase::Queued, None, None, None, None);
    calls.insert(Call { id, data: (), parent, phase, ending, refusal, extras });
    id
}

fn remove(calls: &mut Calls<()>, call: CallId) {
    let key = calls.find(call).unwrap();
    let (done, _) = calls.settle(key, Some(Settlement::Result), None, 0);
    assert_eq!(done.call, call);
}

#[test]
fn numbers_wrap_at_31_bits_and_skip_all_those_in_flight() {
    let mut calls = Calls::new(0);
    let (first, second) = (insert(&mut calls), insert(&mut calls));
    assert_eq!((first.number(), second.number()), (1, 2));
    calls.last = CallId(u64::from(CallId::LAST_NUMBER) - 1);
    assert_eq!(insert(&mut calls).number(), 0x7fff_ffff);
    let cancel = calls.number_cancel(calls.find(first).unwrap());
    assert_eq!(cancel, 3, "1 and 2 are in flight");
    calls.last = CallId(2 * u64::from(CallId::LAST_NUMBER) + 1);
    assert_eq!(insert(&mut calls).number(), 4, "and so is the cancel 3");
    assert!(calls.get(first).is_some() && calls.get(second).is_some());
}

#[test]
fn a_reissued_number_does_not_belong_to_the_old_id() {
    let mut calls = Calls::new(0);
    let old = insert(&mut calls);
    remove(&mut calls, old);
    calls.last = CallId(u64::from(CallId::LAST_NUMBER));
    let new = insert(&mut calls);
    assert_eq!(old.number(), new.number());
    assert!(calls.get(old).is_none() && calls.get(new).is_some());
    assert!(calls.find(old).is_none() && calls.find(new).is_some());
}

#[test]
fn g12_nothing_is_remembered_of_the_last_call_of_a_reissued_number() {
    let mut machine = Machine::<(), ()>::new(Config::client(Dialect::JSON_RPC));
    let call = |machine: &mut Machine<(), ()>| {
        let options = CallOptions::default();
        let permit = machine.call(&options).unwrap();
        let id = permit.commit(Facts::default(), (), Timestamp::ZERO);
        machine.transmitted(id.number());
        id
    };
    let responded =
        |machine: &mut Machine<(), ()>| machine.receive_response(1, ResponseKind::Result);
    let old = call(&mut machine);
    // It settles here, so its response would be late.
    machine.cancel(old, Cause::Dropped, Timestamp::ZERO);
    machine.handle_timeout(Timestamp::from_millis(u64::MAX / 2));
    assert!(machine.calls.get(old).is_none() && machine.calls.settled_numbers.get(&1).is_some());
    machine.calls.last = CallId(u64::from(CallId::LAST_NUMBER));
    let new = call(&mut machine);
    assert_eq!(new.number(), old.number());
    assert_eq!(responded(&mut machine), None);
    assert_eq!(responded(&mut machine), Some(Violation::DuplicateResponse));
}

#[test]
fn g12_the_last_message_of_a_number_is_told_from_those_before() {
    let mut calls = Calls::new(0);
    let first = insert(&mut calls);
    calls.take_number();
    let second = calls.last;
    let issued = |calls: &Calls<()>| [0, 1, 2, 3].map(|number| calls.last.latest_numbered(number));
    assert_eq!(issued(&calls), [None, Some(first), Some(second), None]);
    remove(&mut calls, first);
    calls.last = CallId(u64::from(CallId::LAST_NUMBER));
    let again = insert(&mut calls);
    assert_eq!((again.number(), calls.last.latest_numbered(1)), (1, Some(again)));
    assert_eq!(issued(&calls)[2], Some(second));
}

#[test]
fn g08_so_many_boxes_are_kept_for_the_next_calls() {
    let mut calls = Calls::new(0);
    let all: Vec<CallId> = (0..Calls::<()>::SPARE + 9).map(|_| insert(&mut calls)).collect();
    for (before, call) in all.into_iter().enumerate() {
        let key = calls.find(call).unwrap();
        calls.extras(key).deadline = Some(Timestamp::from_millis(7));
        calls.timers.insert((Timestamp::from_millis(7), call, TimerReason::Deadline));
        remove(&mut calls, call);
        // Each call takes the box of the one before.
        assert_eq!(calls.spare.len(), 1, "after {before}");
        assert_eq!(calls.spare[0].deadline, None, "nothing of it is left in the box");
    }
    let all: Vec<CallId> = (0..Calls::<()>::SPARE + 9).map(|_| insert(&mut calls)).collect();
    for call in &all {
        calls.extras(calls.find(*call).unwrap());
    }
    for call in all {
        remove(&mut calls, call);
    }
    assert_eq!(calls.spare.len(), Calls::<()>::SPARE);
}

#[test]
fn g08_a_row_is_small() {
    // A ticket takes four bytes.
    assert_eq!(size_of::<Call<u32>>(), 32);
}

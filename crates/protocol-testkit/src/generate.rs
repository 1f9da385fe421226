//! Operations from bytes: one generator for fuzzers and for property tests.

use std::time::Duration;

use protocol_core::{Cause, Grace, Role, Shutdown};

use crate::hostile::Hostile;
use crate::operation::{Answering, Asked, Method, Operation};

/// No sequence is longer: what a fuzzer finds has to be read by someone.
const MOST: usize = 400;

/// Makes operations of bytes. Total: any bytes make some, and cutting bytes off at the end cuts
/// operations off at the end, so that shrinking works.
///
/// The operations have no dialect: do them in a [`World`](crate::World) of each.
#[must_use]
pub fn operations(bytes: &[u8]) -> Vec<Operation> {
    let mut source = Source(bytes);
    std::iter::from_fn(|| operation(&mut source)).take(MOST).collect()
}

/// Bytes that are used up; zeros after their end.
struct Source<'a>(&'a [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[usize::from(self.byte()) % from.len()].clone()
    }
}

/// Draws an operation. Most of the 64 chances go to operations that keep messages flowing, or nothing would
/// happen.
fn operation(source: &mut Source<'_>) -> Option<Operation> {
    if source.0.is_empty() {
        return None;
    }
    // One byte chooses the kind and the end.
    let first = source.byte();
    let at = if first & 1 == 0 { Role::Client } else { Role::Server };
    Some(match (first >> 1) % 64 {
        0..=8 => Operation::Call { at, asked: asked(source) },
        9 => match source.byte() {
            request @ 0..=0xbf => Operation::Begin { at, request },
            call @ 0xc0.. => Operation::SendCancel { at, call },
        },
        10..=14 => {
            let cause = source.pick(&[Cause::Caller, Cause::Caller, Cause::Dropped]);
            Operation::Cancel { at, call: source.byte(), cause }
        }
        15 => Operation::Detach { at, call: source.byte() },
        16..=24 => {
            let request = source.byte();
            Operation::Respond { at, request, answer: answer(source) }
        }
        25 => Operation::End { at, request: source.byte() },
        26 => Operation::GiveUp { at, request: source.byte() },
        27 => Operation::Notify { at, long: source.pick(&[false, true]) },
        28 | 29 => Operation::Progress { at, token: source.pick(&[1, 2]) },
        30..=39 => Operation::Drain { at, messages: source.pick(&[1, 1, 2, 3, u8::MAX]) },
        40..=51 => {
            let place = source.byte();
            Operation::Arrive { at, place, piece: source.pick(&[0, 0, 0, 1, 7]) }
        }
        52..=57 => {
            let message = source.pick(&Hostile::ALL);
            Operation::Hostile { to: at, message, id: source.byte() }
        }
        58..=61 => Operation::Wait { millis: source.pick(&[0, 1, 5, 10, 20, 50]) },
        62 => match source.byte() % 8 {
            0 => Operation::HangUp { at },
            1 => Operation::Cut,
            _ => Operation::Drain { at, messages: u8::MAX },
        },
        _ => match source.byte() % 8 {
            0 => Operation::Shutdown { at, how: Shutdown::Drain },
            1 => Operation::Shutdown { at, how: Shutdown::CancelAll },
            2 => Operation::Shutdown { at, how: Shutdown::Abandon },
            _ => Operation::Arrive { at, place: 0, piece: 0 },
        },
    })
}

fn answer(source: &mut Source<'_>) -> Answering {
    match source.byte() {
        place @ 0xc0.. => Answering::Revision(place % 8),
        other => {
            let answers = [Answering::Result, Answering::Error, Answering::Cancelled];
            answers[usize::from(other % 3)]
        }
    }
}

fn asked(source: &mut Source<'_>) -> Asked {
    use Method::{Declare, Discover, Initialize, Listen, Task, Tool, Work};
    // One byte for the usual call, more for one with timers.
    let first = source.byte();
    let method =
        [Work, Work, Tool, Declare, Initialize, Task, Listen, Discover][usize::from(first % 8)];
    let mut asked = Asked { method, ..Asked::work(1 + (first >> 3) % 2) };
    if first & 0x10 != 0 {
        asked.deadline = source.pick(&[0, 5, 30]);
        asked.idle = source.pick(&[0, 4, 20]);
        asked.hard_cap = source.pick(&[0, 0, 25]);
    }
    if first & 0x20 != 0 {
        let settle = |millis| Grace::Settle(Duration::from_millis(millis));
        asked.grace = Some(source.pick(&[Grace::Await, settle(0), settle(9)]));
    }
    if first & 0xc0 == 0xc0 {
        asked.parent = Some(source.byte());
    }
    asked
}

//! `protocol-core`, both ends in one thread; as `peer-core relay …` with a relay between them.

use bench_harness::{Cancelling, Hanging, Held, Laps, Payload, Size, Subject, heap, measure};
use peer_core::Ends;
use protocol_core::{CallId, CallOptions, Outcome};

/// Requests that are sent before the other side has its turn, where there is a choice.
const TURN: usize = 64;

struct Core<const HOPS: usize>(Ends);

impl<const HOPS: usize> Subject for Core<HOPS> {
    const NAME: &'static str = ["core", "core, through a relay"][HOPS];
    const CANCELLING: Cancelling = Cancelling::Answered;

    fn join(limit: usize) -> Self {
        Self(Ends::new(limit, HOPS))
    }

    fn echo(&mut self, width: usize, total: usize, payload: &Payload) {
        for _ in 0..total / width {
            self.0.echo(width, payload, CallOptions::default());
        }
    }

    fn cancel(&mut self, width: usize, laps: &mut Laps) {
        let Self(ends) = self;
        let payload = Size::Small.payload();
        let mut calls = Vec::with_capacity(width);
        while laps.begin() {
            let ended = Hanging::ended();
            for _ in 0..width {
                calls.push(ends.caller.call("bench/hang", &payload, CallOptions::default()));
            }
            ends.turn(|_| {}, |outcome| panic!("nothing is answered yet: {outcome:?}"));
            laps.all_run();
            for call in calls.drain(..) {
                ends.caller.cancel(call);
            }
            let mut settled = 0;
            let hangs = |_| panic!("only cancels are sent");
            ends.turn(hangs, |outcome| {
                assert!(matches!(outcome, Outcome::Cancelled { error: Some(_), .. }));
                settled += 1;
            });
            laps.end();
            assert_eq!((settled, Hanging::ended() - ended), (width, width));
        }
    }

    fn hold(count: usize) -> Held {
        let payload = Size::Small.payload();
        let (mut caller, mut callee) = (0, 0);
        heap::set_counting(true);
        let mut calls = heap::adding_to(&mut caller, || Vec::with_capacity(count));
        let mut ends = Ends::new(count, HOPS);
        for begun in (0..count).step_by(TURN) {
            let input = heap::adding_to(&mut caller, || {
                for _ in begun..count.min(begun + TURN) {
                    calls.push(ends.caller.call("bench/hang", &payload, CallOptions::default()));
                }
                ends.caller.write()
            });
            heap::adding_to(&mut callee, || ends.callee.serve(input, |_| {}));
        }
        heap::set_counting(false);
        assert_eq!(Hanging::begun(), count);
        std::mem::forget((ends, calls));
        Held { caller, callee, handle: size_of::<CallId>() }
    }
}

fn main() {
    if std::env::args().nth(1).is_some_and(|variant| variant == "relay") {
        measure::<Core<1>>(1);
    } else {
        measure::<Core<0>>(0);
    }
}

//! A router of 500 methods: it compiles with the default limits, and a request costs what it costs with 5.

#![allow(unsafe_code, reason = "the counting allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::future::{Future, Pending, pending};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use protocol_async::Timer;
use protocol_core::{Config, Dialect, Timestamp};
use protocol_router::Router;

struct Counting;

thread_local! {
    static ALLOCATED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // What is larger is a buffer, and when those grow depends on when the pipe has its whims.
        if layout.size() <= 4 << 10 {
            let (times, bytes) = ALLOCATED.get();
            ALLOCATED.set((times + 1, bytes + layout.size()));
        }
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[derive(Clone)]
struct StandingStill;

impl Timer for StandingStill {
    type Sleep = Pending<()>;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn sleep_until(&self, _: Timestamp) -> Pending<()> {
        pending()
    }
}

/// Each with a closure, and so a type, of its own.
macro_rules! add {
    ($router:ident: $($name:literal)*) => { $(add!(@ $router, $name; 0 1 2 3 4);)* };
    (@ $router:ident, $name:literal; $($digit:literal)*) => {
        $(add!(@@ $router, $name, $digit; 0 1 2 3 4 5 6 7 8 9);)*
    };
    (@@ $router:ident, $name:literal, $middle:literal; $($digit:literal)*) => {
        $($router = $router.request(
            concat!("method/", $name, $middle, $digit),
            async |(n,): (u32,), _| Ok(n + $middle * 10 + $digit),
        );)*
    };
}

fn of_500() -> Router {
    let mut router = Router::new();
    add!(router: 0 1 2 3 4 5 6 7 8 9);
    router
}

fn of_5() -> Router {
    let mut router = Router::new();
    add!(@@ router, 9, 4; 0 1 2 3 4);
    router
}

/// Returns the size of the future of `serve`, and the number and the bytes of the allocations in 1,000 round
/// trips.
fn cost(router: &Router) -> (usize, (usize, usize)) {
    const ROUNDS: u32 = 1_000;
    let (near_reader, far_writer) = piper::pipe(4 << 10);
    let (far_reader, near_writer) = piper::pipe(4 << 10);
    let (client, server) = (Config::client(Dialect::ACP_V1), Config::server(Dialect::ACP_V1));
    let (peer, _incoming, near) =
        protocol_async::connect(near_reader, near_writer, StandingStill, client);
    let (_server, incoming, far) =
        protocol_async::connect(far_reader, far_writer, StandingStill, server);
    let served = router.serve(&incoming);
    let size = size_of_val(&served);
    let (mut near, mut far, mut served) = (pin!(near), pin!(far), pin!(served));
    let calls = async {
        let rounds = async || {
            for n in 0..ROUNDS {
                assert_eq!(peer.call::<u32>("method/944", (n,)).await.unwrap(), n + 44);
            }
            ALLOCATED.get()
        };
        // The first ones make what the next ones use again.
        let before = rounds().await;
        let after = rounds().await;
        (after.0 - before.0, after.1 - before.1)
    };
    let mut calls = pin!(calls);
    let mut task = Context::from_waker(Waker::noop());
    loop {
        assert!(near.as_mut().poll(&mut task).is_pending());
        assert!(far.as_mut().poll(&mut task).is_pending());
        assert!(served.as_mut().poll(&mut task).is_pending());
        if let Poll::Ready(allocated) = calls.as_mut().poll(&mut task) {
            return (size, allocated);
        }
    }
}

#[test]
fn f41_a_router_of_500_costs_a_request_what_one_of_5_does() {
    let (few, many) = (cost(&of_5()), cost(&of_500()));
    println!("5 methods: {few:?}; 500: {many:?}");
    assert_eq!(few, many);
}

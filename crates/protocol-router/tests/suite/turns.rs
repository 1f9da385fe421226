//! The turns of `serve`: other tasks run, however much waits to be served.

use std::cell::Cell;
use std::future::{Future, Pending, pending};
use std::io::Write;
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use protocol_async::Timer;
use protocol_core::{Config, Dialect, Timestamp};
use protocol_router::{LocalRouter, Router};

use crate::wire::{cancel, request};

/// A clock by hand, in microseconds.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicU64>);

impl Timer for Clock {
    type Sleep = Pending<()>;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + Duration::from_micros(self.0.load(SeqCst))
    }

    fn sleep_until(&self, _: Timestamp) -> Pending<()> {
        pending()
    }
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// Returns how many handlers each turn begins, where 900 requests wait and a handler takes so long.
fn turns(micros: u64) -> Vec<usize> {
    let (reader, mut far_writer) = piper::pipe(1 << 20);
    let (_far_reader, writer) = piper::pipe(1 << 20);
    let clock = Clock::default();
    let config = Config::server(Dialect::ACP_V1);
    let (peer, incoming, driver) = protocol_async::connect(reader, writer, clock.clone(), config);
    let begun = Rc::new(Cell::new(0));
    let counted = begun.clone();
    let router = LocalRouter::new().request("work", async move |_: (usize,), _| {
        counted.set(counted.get() + 1);
        clock.0.fetch_add(micros, SeqCst);
        Ok(())
    });
    let all: String = (0..900).map(|id| request(id, "work") + "\n").collect();
    let mut driver = pin!(driver);
    let mut noop = Context::from_waker(Waker::noop());
    let mut left = all.as_bytes();
    while peer.in_flight(1_000).len() < 900 {
        if let Poll::Ready(bytes) = far_writer.poll_fill_bytes(&mut noop, left) {
            left = &left[bytes..];
        }
        assert!(driver.as_mut().poll(&mut noop).is_pending());
    }
    let wakes = Arc::new(Count::default());
    let waker = wakes.clone().into();
    let mut served = pin!(router.serve(&incoming));
    let mut turns = Vec::new();
    loop {
        let (before, woken) = (begun.get(), wakes.0.load(SeqCst));
        assert!(served.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        if begun.get() > before {
            turns.push(begun.get() - before);
        }
        if wakes.0.load(SeqCst) == woken {
            assert_eq!(turns.iter().sum::<usize>(), 900, "it sleeps while something waits");
            return turns;
        }
    }
}

#[test]
fn f88_a_turn_begins_32_handlers_at_most() {
    let turns = turns(0);
    assert!(turns.iter().all(|&begun| begun <= 32) && turns.len() == 900 / 32 + 1, "{turns:?}");
}

#[test]
fn f88_a_turn_takes_a_millisecond_and_at_most_four_handlers_more() {
    for (micros, most) in [(20, 32), (100, 12), (300, 8), (400, 4), (1_000, 2), (100_000, 2)] {
        let turns = turns(micros);
        assert!(turns.iter().all(|&begun| begun <= most), "{micros} µs: {turns:?}");
    }
}

/// Lets 900 requests that take 1 ms of a processor each wait on a runtime of one thread. The handler of the
/// hundredth writes a cancel. Counts the handlers that begin from then until it is read.
fn begun_until_a_cancel_is_read(is_spawned: bool) -> usize {
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        far.set_nonblocking(true).unwrap();
        let far = tokio::net::UnixStream::from_std(far).unwrap();
        let served = protocol_tokio::unix(far, Config::server(Dialect::ACP_V1));
        let all = (0..900).map(|id| request(id, "work"));
        let all: String = [request(1_000, "waits")].into_iter().chain(all).map(line).collect();
        (&near).write_all(all.as_bytes()).unwrap();
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = begun.clone();
        let (tell, told) = tokio::sync::oneshot::channel();
        let (near, tell) = (Arc::new(near), Arc::new(Mutex::new(Some(tell))));
        let router = Router::new()
            .request("waits", async move |_: (usize,), cx| {
                cx.cancellation().cancelled().await;
                tell.lock().unwrap().take().unwrap().send(begun.load(SeqCst)).unwrap();
                Ok(())
            })
            .request("work", async move |_: (usize,), _| {
                thread::sleep(Duration::from_millis(1));
                if counted.fetch_add(1, SeqCst) + 1 == 100 {
                    (&*near).write_all(line(cancel(1_000)).as_bytes()).unwrap();
                }
                Ok(())
            });
        let serve = async move { router.serve(&served.incoming).await };
        let read = if is_spawned {
            tokio::spawn(serve);
            told.await.unwrap()
        } else {
            tokio::select! {
                read = told => read.unwrap(),
                _ = serve => panic!("the connection is open"),
            }
        };
        read - 100
    })
}

fn line(message: String) -> String {
    message + "\n"
}

#[test]
fn f88_a_cancel_is_read_while_900_handlers_wait() {
    for is_spawned in [false, true] {
        let begun = begun_until_a_cancel_is_read(is_spawned);
        println!("{begun} handlers of 1 ms began before the cancel was read");
        assert!(begun <= 20, "{begun} began before the cancel was read; spawned: {is_spawned}");
    }
}

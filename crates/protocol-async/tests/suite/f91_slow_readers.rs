//! The patience is with a peer that reads nothing. One that reads slowly is waited for, also when all
//! that is left is one long write.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use protocol_async::{Options, Timer, connect};
use protocol_core::{CallOptions, Config, Dialect, Shutdown, Timestamp};

/// A pipe with room for some bytes, and a clock. A test moves both by hand.
#[derive(Clone, Default)]
struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    now: Timestamp,
    /// Bytes that the peer sent.
    sent: Vec<u8>,
    room: usize,
    written: usize,
    wakers: Vec<Waker>,
    is_woken: bool,
}

impl AsyncRead for World {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let sent = std::mem::take(&mut self.0.lock().unwrap().sent);
        room[..sent.len()].copy_from_slice(&sent);
        if sent.is_empty() { Poll::Pending } else { Poll::Ready(Ok(sent.len())) }
    }
}

impl AsyncWrite for World {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.0.lock().unwrap();
        let written = bytes.len().min(inner.room);
        if written == 0 {
            inner.wakers.push(cx.waker().clone());
            return Poll::Pending;
        }
        inner.room -= written;
        inner.written += written;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Some streams write the rest before they close, for which a peer has to read.
        if self.0.lock().unwrap().room == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl Timer for World {
    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().now
    }

    fn sleep_until(&self, due: Timestamp) -> Self::Sleep {
        let world = self.clone();
        Box::pin(poll_fn(move |cx| {
            let mut inner = world.0.lock().unwrap();
            inner.wakers.push(cx.waker().clone());
            if inner.now >= due { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}

impl Wake for World {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().is_woken = true;
    }
}

impl World {
    /// Lets time pass, and lets the peer read so many bytes.
    fn pass(&self, millis: u64, read: usize) {
        let wakers = {
            let mut inner = self.0.lock().unwrap();
            inner.now = inner.now + Duration::from_millis(millis);
            inner.room += read;
            std::mem::take(&mut inner.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Polls a driver for as long as it is woken. Returns whether it has ended.
    fn run(&self, driver: Pin<&mut impl Future>) -> bool {
        self.run_as(&Waker::from(Arc::new(self.clone())), driver)
    }

    /// Polls as [`run`](Self::run) does, as the task of this waker.
    fn run_as(&self, waker: &Waker, mut driver: Pin<&mut impl Future>) -> bool {
        let mut cx = Context::from_waker(waker);
        while std::mem::take(&mut self.0.lock().unwrap().is_woken) {
            if driver.as_mut().poll(&mut cx).is_ready() {
                return true;
            }
        }
        false
    }
}

fn options() -> Options {
    let mut options = Options::new(Config::client(Dialect::ACP_V1));
    options.patience = Duration::from_secs(1);
    options
}

#[test]
fn f91_a_peer_that_reads_one_long_batch_slowly_is_waited_for() {
    let world = World::default();
    world.0.lock().unwrap().is_woken = true;
    let (peer, incoming, driver) = connect(world.clone(), world.clone(), world.clone(), options());
    let mut driver = pin!(driver);
    peer.try_notify("long", ["x".repeat(10_000)]).unwrap();
    peer.shutdown(Shutdown::Drain);
    drop((peer, incoming));
    // It takes ten times the patience, and each part comes within it.
    for part in 0..12 {
        assert!(!world.run(driver.as_mut()), "given up after {part} parts");
        world.pass(900, 800);
    }
    world.pass(900, 800);
    assert!(world.run(driver.as_mut()), "everything is written");
    assert!(world.0.lock().unwrap().written > 10_000);
}

#[test]
fn g08_a_peer_that_stops_reading_one_long_batch_is_given_up() {
    let world = World::default();
    world.0.lock().unwrap().is_woken = true;
    let (peer, incoming, driver) = connect(world.clone(), world.clone(), world.clone(), options());
    let mut driver = pin!(driver);
    peer.try_notify("long", ["x".repeat(10_000)]).unwrap();
    drop((peer, incoming));
    for _ in 0..3 {
        assert!(!world.run(driver.as_mut()));
        world.pass(900, 800);
    }
    assert!(!world.run(driver.as_mut()));
    world.pass(1_000, 0);
    assert!(world.run(driver.as_mut()), "it is given up after its last part and the patience");
}

/// The task that writes is stuck, and wakes up for the deadline all the same.
#[test]
fn g05_a_deadline_frees_its_caller_in_the_middle_of_a_write() {
    let world = World::default();
    world.0.lock().unwrap().is_woken = true;
    let (peer, _incoming, driver) = connect(world.clone(), world.clone(), world.clone(), options());
    let mut driver = pin!(driver);
    peer.try_notify("long", ["x".repeat(10_000)]).unwrap();
    assert!(!world.run(driver.as_mut()));
    let options = CallOptions::default().timeout(Duration::from_millis(50));
    let mut sent = pin!(peer.call_with::<()>("slow", (), options));
    assert!(!world.run(driver.as_mut()));
    world.pass(50, 0);
    assert!(!world.run(driver.as_mut()));
    assert!(sent.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// The bytes give the driver nothing else to do.
#[test]
fn g05_a_deadline_that_is_due_when_bytes_come_frees_its_caller() {
    let world = World::default();
    world.0.lock().unwrap().is_woken = true;
    let (peer, _incoming, driver) = connect(world.clone(), world.clone(), world.clone(), options());
    let mut driver = pin!(driver);
    let waker = Waker::from(Arc::new(world.clone()));
    let options = CallOptions::default().timeout(Duration::from_millis(50));
    let mut sent = pin!(peer.call_with::<()>("slow", (), options));
    world.pass(0, 1_000);
    assert!(!world.run_as(&waker, driver.as_mut()));
    world.0.lock().unwrap().sent = b"{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n".to_vec();
    world.pass(50, 0);
    assert!(!world.run_as(&waker, driver.as_mut()));
    assert!(sent.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
}

/// Such as one over TLS, whose goodbye finds no room.
#[test]
fn g08_a_writer_that_can_not_be_closed_is_waited_for_as_long_as_one_that_does_not_write() {
    let world = World::default();
    world.0.lock().unwrap().is_woken = true;
    let (peer, incoming, driver) = connect(world.clone(), world.clone(), world.clone(), options());
    let mut driver = pin!(driver);
    drop((peer, incoming));
    for _ in 0..2 {
        assert!(!world.run(driver.as_mut()));
        world.pass(500, 0);
    }
    assert!(world.run(driver.as_mut()), "it ends without closing");
}

//! F85: no code and no destructor of the host's runs while a connection is locked. Each value here uses a
//! handle of its connection when it is called, woken, cloned or dropped, which would never return under the
//! lock.

use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use protocol_async::hub::{Hub, Messages};
use protocol_async::{Arrival, Failure, Incoming, Options, Peer, SentRequest, SharedOperations};
use protocol_core::{CallOptions, Config, Dialect, InputBuffer, Shutdown, Timestamp};

/// Runs a test in a thread of its own. A test that is stuck is reported, and does not hang the others.
fn returns(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    let running = thread::spawn(move || {
        test();
        let _ = done.send(());
    });
    if is_done.recv_timeout(Duration::from_secs(60)).is_err() && !running.is_finished() {
        panic!("the connection was locked");
    }
    running.join().unwrap();
}

/// A connection, and how often the host's values used it.
struct Bench {
    hub: Hub,
    peer: Peer,
    incoming: Incoming,
    used: Arc<AtomicUsize>,
}

impl Bench {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = Options::new(Config::client(Dialect::ACP_V1));
        change(&mut options);
        let (hub, peer, incoming) = Hub::new(options, || Timestamp::ZERO);
        Self { hub, peer, incoming, used: Arc::default() }
    }

    fn receive(&self, line: &str) {
        let mut input = InputBuffer::new();
        input.extend_from_slice(line.as_bytes());
        input.extend_from_slice(b"\n");
        let _ = self.hub.receive(&mut input);
    }

    fn write(&self) -> String {
        let mut out = Messages::default();
        let _ = self.hub.poll_output(Waker::noop(), &mut out);
        String::from_utf8(out.bytes().to_vec()).unwrap()
    }

    fn user(&self) -> User {
        User { peer: self.peer.clone(), used: self.used.clone() }
    }

    fn used(&self) -> usize {
        self.used.load(SeqCst)
    }
}

/// A value that uses the connection when it is woken and when it is dropped.
struct User {
    peer: Peer,
    used: Arc<AtomicUsize>,
}

impl User {
    fn use_it(&self) {
        let _ = self.peer.is_closed();
        let _ = self.peer.in_flight(1);
        self.used.fetch_add(1, SeqCst);
    }

    fn waker(self) -> Waker {
        Waker::from(Arc::new(self))
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.use_it();
    }
}

impl Wake for User {
    fn wake(self: Arc<Self>) {
        self.use_it();
    }
}

/// An error that owns a call in flight, as `?` makes one.
struct GaveUp {
    _call: SentRequest<()>,
    _user: User,
}

impl fmt::Debug for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GaveUp")
    }
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("gave up")
    }
}

impl std::error::Error for GaveUp {}

#[test]
fn f85_a_failure_that_owns_a_call_is_a_response() {
    returns(|| {
        let bench = Bench::new(|_| {});
        bench.receive(r#"{"jsonrpc":"2.0","id":7,"method":"m"}"#);
        let taken = pin!(bench.incoming.receive()).poll(&mut Context::from_waker(Waker::noop()));
        let std::task::Poll::Ready(Ok(Arrival::Request(_, responder))) = taken else { panic!() };
        let call = bench.peer.call("ask", ());
        responder
            .respond_with_failure(Failure::internal(GaveUp { _call: call, _user: bench.user() }));
        let written = bench.write();
        assert!(written.contains(r#""id":7,"error":{"code":-32603"#), "{written}");
        assert_eq!(bench.used(), 1);
    });
}

#[test]
fn f85_a_failure_that_waits_for_room_is_dropped_before() {
    returns(|| {
        let bench = Bench::new(|options| options.config.limits.unsent_messages = 1);
        bench.receive(r#"{"jsonrpc":"2.0","id":7,"method":"m"}"#);
        let taken = pin!(bench.incoming.receive()).poll(&mut Context::from_waker(Waker::noop()));
        let std::task::Poll::Ready(Ok(Arrival::Request(_, responder))) = taken else { panic!() };
        let call = bench.peer.call("ask", ());
        let gave_up = GaveUp { _call: call, _user: bench.user() };
        responder.respond_with_failure(Failure::internal(gave_up));
        assert_eq!(bench.used(), 1);
        let written = bench.write() + &bench.write();
        assert!(written.contains(r#""id":7,"error":{"code":-32603"#), "{written}");
    });
}

#[test]
fn f85_callbacks_use_any_handle() {
    returns(|| {
        let peer = Arc::<Mutex<Option<Peer>>>::default();
        let seen = Arc::<AtomicUsize>::default();
        let using = || {
            let (peer, seen) = (peer.clone(), seen.clone());
            move || {
                let peer = peer.lock().unwrap().clone().unwrap();
                // What a callback makes happen is shown, too.
                peer.call::<()>("log", ()).cancel();
                let _ = peer.in_flight(1);
                seen.fetch_add(1, SeqCst);
            }
        };
        let (trace, observer, noise) = (using(), using(), using());
        let traced = AtomicUsize::new(0);
        let bench = Bench::new(|options| {
            // It calls the peer, and so would trace its own call for ever.
            options.trace = Some(Box::new(move |_, _| {
                if traced.fetch_add(1, SeqCst) < 2 {
                    trace();
                }
            }));
            let observed = AtomicUsize::new(0);
            options.observer = Some(Box::new(move |_| {
                if observed.fetch_add(1, SeqCst) < 2 {
                    observer();
                }
            }));
            options.noise = Some(Box::new(move |_, _| noise()));
        });
        *peer.lock().unwrap() = Some(bench.peer.clone());
        bench.receive("no message");
        bench.receive(r#"{"jsonrpc":"2.0","id":99,"result":"nobody asked"}"#);
        bench.write();
        bench.peer.shutdown(Shutdown::Abandon);
        let seen = seen.load(SeqCst);
        assert!(seen >= 5, "noise, two messages and two decisions: {seen}");
        *peer.lock().unwrap() = None;
    });
}

#[test]
fn f85_wakers_are_cloned_woken_and_dropped_unlocked() {
    returns(|| {
        let bench = Bench::new(|options| options.config.limits.unsent_messages = 1);
        let mut out = Messages::default();
        let last = bench.user().waker();
        let mut cx = Context::from_waker(&last);
        let mut call = pin!(bench.peer.call::<()>("m", ()));
        let mut arrival = pin!(bench.incoming.receive());
        let mut notified = pin!(bench.peer.notify("n", ()));
        let (mut ready, mut flushed) = (pin!(bench.peer.ready()), pin!(bench.peer.flushed()));
        let mut closed = pin!(bench.peer.closed());
        // Each waker is kept by the connection alone, and dropped when the last one takes its place.
        macro_rules! replace {
            ($future:expr) => {{
                let replaced = bench.user().waker();
                let before = bench.used();
                assert!($future.as_mut().poll(&mut Context::from_waker(&replaced)).is_pending());
                drop(replaced);
                assert_eq!(bench.used(), before, "it waits");
                assert!($future.as_mut().poll(&mut cx).is_pending());
                assert_eq!(bench.used(), before + 1, "it is dropped");
            }};
        }
        replace!(call);
        replace!(arrival);
        replace!(notified);
        replace!(ready);
        replace!(flushed);
        replace!(closed);
        let mut replaced = Some(bench.user().waker());
        for waker in [replaced.take().unwrap(), last.clone(), last.clone()] {
            let _ = bench.hub.poll(&waker, &mut out);
            out.clear();
        }
        let dropped = bench.used();
        assert!(dropped >= 7, "the driver drops its waker too: {dropped}");
        drop(last);
        bench.write();
        bench.receive(r#"{"jsonrpc":"2.0","method":"n"}"#);
        bench.peer.shutdown(Shutdown::Abandon);
        assert!(bench.used() > dropped + 3, "it is woken by all that happened");
    });
}

#[test]
fn f85_callbacks_of_outcomes_and_markers_are_dropped_unlocked() {
    returns(|| {
        let bench = Bench::new(|_| {});
        let user = bench.user();
        let options = CallOptions::default();
        let sent: SentRequest<()> = bench.peer.call_with("m", (), options);
        // Nobody is left to hand the outcome to, and what the callback owns goes with it.
        sent.on_result(move |_| drop(user));
        bench.receive(r#"{"jsonrpc":"2.0","id":7,"method":"m"}"#);
        let taken = pin!(bench.incoming.receive()).poll(&mut Context::from_waker(Waker::noop()));
        let std::task::Poll::Ready(Ok(Arrival::Request(_, responder))) = taken else { panic!() };
        let user = bench.user();
        responder.cancellation().on_cancel(move |_| drop(user)).forever();
        responder.respond_with_failure(Failure::Cancelled);
        assert_eq!(bench.used(), 1, "the followers of the marker end with the request");
        bench.peer.shutdown(Shutdown::Abandon);
        assert_eq!(bench.used(), 2);
    });
}

#[test]
fn f85_the_clock_of_operations_uses_them() {
    returns(|| {
        let own = Arc::<OnceLock<SharedOperations>>::default();
        let (clock, used) = (own.clone(), Arc::<AtomicUsize>::default());
        let uses = used.clone();
        let operations = SharedOperations::new(move || {
            let _ = clock.get().map(SharedOperations::metrics);
            uses.fetch_add(1, SeqCst);
            Timestamp::ZERO
        });
        assert!(own.set(operations.clone()).is_ok());
        let mut options = Options::new(Config::server(Dialect::ERLMCP));
        options.operations = Some(operations);
        let (hub, _peer, _incoming) = Hub::new(options, || Timestamp::ZERO);
        hub.receive_message(br#"{"jsonrpc":"2.0","id":1,"method":"tool/call"}"#);
        hub.finish(&InputBuffer::new(), None);
        assert_eq!(used.load(SeqCst), 2, "an operation begins, and is cancelled");
    });
}

//! The limits that the host on one thread has from its endpoint, and the waiting of a host's own loop.
#![cfg(unix)]

use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{PATIENCE, Wire, acp, cancel, notification, raw, request, result};
use protocol_async::{Budget, CallError, Cheap, KeepAlive, Options, OverBudget, Unanswered};
use protocol_blocking::single::{FdTransport, Host, OwnCall};
use protocol_blocking::{Answer, Handler, Notification, Request, Responder, threaded};
use protocol_core::{
    CallOptions, Cause, CloseReason, Config, Dialect, Shutdown, Violation, WireId,
};
use serde_json::{Value, json};

type OnSocket = Host<FdTransport<UnixStream, UnixStream>>;

fn host(options: impl Into<Options>) -> (Wire, OnSocket) {
    let (wire, stream) = Wire::pair();
    (wire, Host::new(FdTransport::new(stream.try_clone().unwrap(), stream), options))
}

fn echo(request: &Request, _: &mut dyn Responder) -> Answer {
    Ok(request.params.clone().unwrap_or_else(|| raw(&Value::Null)))
}

fn over_budget(host: &OnSocket) -> &OverBudget {
    host.error().unwrap().get_ref().unwrap().downcast_ref().unwrap()
}

#[test]
fn g05_a_response_that_is_there_beats_a_deadline_that_has_passed() {
    let (mut wire, mut host) = host(acp());
    let time = Duration::from_millis(1);
    let mut call = host.start_call("m", None, CallOptions::default().timeout(time)).unwrap();
    host.tick(&echo).unwrap();
    wire.receive();
    wire.send([result(1, &json!(5))]);
    // The host does something else meanwhile.
    thread::sleep(10 * time);
    host.tick(&echo).unwrap();
    assert_eq!(host.take_outcome(&mut call).unwrap().unwrap().get(), "5");
}

// F91

#[test]
fn f91_a_callback_that_panics_takes_no_response_from_anybody() {
    let called = Arc::new(AtomicUsize::new(0));
    let mut options = Options::new(acp());
    let count = called.clone();
    options.observer = Some(Box::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        panic!("as the test wants");
    }));
    let count = called.clone();
    options.trace = Some(Box::new(move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        panic!("as the test wants");
    }));
    let (mut wire, mut host) = host(options);
    // The violation and the cancel are verdicts.
    wire.send([request(1, "echo", &json!([1])), "[]".into(), request(2, "echo", &json!([2]))]);
    wire.send([request(3, "echo", &json!([3])), cancel(3)]);
    wire.hang_up();
    assert_eq!(host.run(&echo).unwrap(), CloseReason::PeerGone);
    drop(host);
    let responses: Vec<Value> = std::iter::from_fn(|| wire.next()).collect();
    let of = |id: u64| responses.iter().filter(|response| response["id"] == id).count();
    assert_eq!([1, 2, 3].map(of), [1; 3], "{responses:?}");
    assert!(called.load(Ordering::Relaxed) > 7, "each message and each verdict is shown");
}

#[test]
fn f91_a_vain_cancel_is_charged() {
    let mut options = Options::new(acp());
    options.budgets.vain_cancels = Budget::Limited { per_second: 1, burst: 3 };
    let (mut wire, mut host) = host(options);
    wire.send((0..5).map(|_| cancel(7)));
    wire.hang_up();
    assert_eq!(host.run(&echo).unwrap(), CloseReason::PeerGone);
    assert_eq!(over_budget(&host).what, Cheap::VainCancel);
}

#[test]
fn f91_a_keep_alive_asks_and_ends_a_silent_peer() {
    let mut options = Options::new(acp());
    let every = Duration::from_millis(5);
    let patience = Duration::from_millis(200);
    options.keep_alive = Some(KeepAlive::by("are you there", every).patience(patience));
    let (mut wire, mut host) = host(options);
    let running = thread::spawn(move || (host.run(&echo).unwrap(), host));
    let first = wire.receive();
    assert_eq!(first["method"], "are you there");
    wire.send([result(first["id"].as_u64().unwrap(), &Value::Null)]);
    assert_eq!(wire.receive()["method"], "are you there", "it asks again");
    let (reason, host) = running.join().unwrap();
    assert_eq!(reason, CloseReason::PeerGone);
    let error = host.error().unwrap();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(error.get_ref().unwrap().is::<Unanswered>());
}

#[test]
fn f91_noise_is_seen() {
    /// Fails the test when noise is reported as a violation.
    struct Quiet;
    impl Handler for Quiet {
        fn request(&self, _: &Request, _: &mut dyn Responder) -> Answer {
            Ok(raw(&Value::Null))
        }
        fn violation(&self, violation: Violation, _: Option<&WireId>) {
            unreachable!("{violation}")
        }
    }

    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut options = Options::new(Config::client(Dialect::ACP_V1));
    let record = seen.clone();
    options.noise = Some(Box::new(move |_, bytes| {
        record.lock().unwrap().push(String::from_utf8(bytes.to_vec()).unwrap());
    }));
    let (mut wire, mut host) = host(options);
    wire.send(["Listening on standard input"]);
    wire.hang_up();
    assert_eq!(host.run(&Quiet).unwrap(), CloseReason::PeerGone);
    assert_eq!(*seen.lock().unwrap(), ["Listening on standard input"]);
}

/// The limits of the requests at work can't be reached here: there is one at a time, and one always fits.
#[test]
fn f91_one_request_is_at_work_whatever_its_limits() {
    let mut options = Options::new(acp());
    (options.work_requests, options.work_bytes) = (0, 0);
    let (mut wire, mut host) = host(options);
    wire.send((1..=3).map(|id| request(id, "echo", &json!([id]))));
    wire.hang_up();
    host.run(&echo).unwrap();
    assert!(wire.answers(3).iter().all(|response| response["result"] == json!([response["id"]])));
}

#[test]
fn f91_a_waiting_response_above_its_limit_is_replaced() {
    let mut config = acp();
    config.limits.unsent_bytes = 64 << 10;
    let mut options = Options::new(config);
    options.response_bytes = 10;
    options.pipe_bytes = 1;
    let (mut wire, mut host) = host(options);
    let big =
        |_: &Request, _: &mut dyn Responder| -> Answer { Ok(raw(&json!("x".repeat(60_000)))) };
    wire.send((1..=20).map(|id| request(id, "big", &json!([]))));
    // The socket takes less than all. It is read once one of them waits.
    for _ in 0..20 {
        assert_eq!(host.tick(&big).unwrap(), None);
    }
    let running = thread::spawn(move || host.run(&big).unwrap());
    let responses = wire.answers(20);
    let overload = acp().dialect.overload_code;
    let is_replaced = |response: &&Value| response["error"]["code"] == overload;
    let replaced = responses.iter().filter(is_replaced).count();
    let kept = responses.iter().filter(|response| response["result"].is_string()).count();
    assert!(replaced > 0 && kept > 0, "{replaced}, {kept}");
    assert_eq!(replaced + kept, 20);
    wire.hang_up();
    running.join().unwrap();
}

#[test]
fn f91_an_outcome_above_its_limit_is_not_kept() {
    let mut options = Options::new(acp());
    options.result_bytes = 100;
    let (mut wire, mut host) = host(options);
    // Settles so many calls with 60 bytes each.
    let mut id = 0;
    let mut settled = |host: &mut Host<_>, count| -> Vec<OwnCall> {
        let start = |_| host.start_call("m", None, CallOptions::default()).unwrap();
        let calls = (0..count).map(start).collect();
        host.tick(&echo).unwrap();
        wire.send((id + 1..=id + count).map(|id| result(id, &json!("x".repeat(58)))));
        id += count;
        host.tick(&echo).unwrap();
        calls
    };
    let mut calls = settled(&mut host, 2);
    assert!(matches!(host.take_outcome(&mut calls[1]), Some(Err(CallError::Untaken))));
    assert!(host.take_outcome(&mut calls[1]).is_none());
    // An outcome that is taken makes room, and so does one that is dropped.
    assert!(host.take_outcome(&mut calls[0]).unwrap().is_ok());
    drop(settled(&mut host, 1));
    let mut last = settled(&mut host, 1);
    assert!(host.take_outcome(&mut last[0]).unwrap().is_ok());
}

/// A call that nobody awaits is released although the peer never responds to it. That makes room for another.
#[test]
fn g12_a_dropped_call_is_released_after_a_grace() {
    let mut options = Options::new(acp());
    options.config.limits.calls = 1;
    options.config.abandoned_grace = SHORT;
    let (_wire, mut host) = host(options);
    let call = host.start_call("ask", None, CallOptions::default()).unwrap();
    host.tick(&echo).unwrap();
    drop(call);
    host.tick(&echo).unwrap();
    assert!(host.start_call("ask", None, CallOptions::default()).is_err());
    while host.wait(LONG) {
        host.tick(&echo).unwrap();
        if host.start_call("ask", None, CallOptions::default()).is_ok() {
            return;
        }
    }
    panic!("no timer releases the call");
}

/// The patience is with a peer that reads nothing.
#[test]
fn f91_a_peer_that_is_slow_and_reads_is_waited_for() {
    let mut options = Options::new(acp());
    options.patience = Duration::from_secs(1);
    let (mut wire, mut host) = host(options);
    wire.request(1, "big", &json!([]));
    wire.hang_up();
    let big =
        |_: &Request, _: &mut dyn Responder| -> Answer { Ok(raw(&json!("x".repeat(2 << 20)))) };
    let running = thread::spawn(move || host.run(&big).unwrap());
    let begun = Instant::now();
    let mut read = 0;
    let mut room = vec![0; 512 << 10];
    // It takes longer than the patience, and each part comes within it.
    while read < 2 << 20 {
        if begun.elapsed() <= Duration::from_millis(1_200) {
            thread::sleep(Duration::from_millis(150));
        }
        let more = wire.read(&mut room);
        assert!(more > 0, "it was given up after {read} bytes and {:?}", begun.elapsed());
        read += more;
    }
    assert!(begun.elapsed() > Duration::from_millis(1_200), "{:?}", begun.elapsed());
    running.join().unwrap();
}

// F92

/// Publishes diagnostics of each document that is opened, for which it asks for the configuration.
struct Diagnostics;

impl Handler for Diagnostics {
    fn request(&self, request: &Request, _: &mut dyn Responder) -> Answer {
        Err(request.unknown_method())
    }

    fn notification(
        &self,
        notification: &Notification,
        responder: &mut dyn Responder,
    ) -> ControlFlow<()> {
        responder.sleep(Duration::from_millis(1)).unwrap();
        responder.checkpoint().unwrap();
        let limit: Value = responder.call("workspace/configuration", json!({})).unwrap();
        let later = responder.take_notification("textDocument/didChange").map(|it| it.params);
        let told = json!([notification.params, limit, later.is_some()]);
        responder.notify("textDocument/publishDiagnostics", told).unwrap();
        ControlFlow::Break(())
    }
}

fn f92_speaks(mut wire: Wire, serve: impl FnOnce() -> CloseReason + Send + 'static) {
    let running = thread::spawn(serve);
    wire.send([notification("textDocument/didOpen", &json!(["a"]))]);
    let asked = wire.receive();
    assert_eq!(asked["method"], "workspace/configuration");
    let changed = notification("textDocument/didChange", &json!(["b"]));
    wire.send([changed, result(asked["id"].as_u64().unwrap(), &json!(7))]);
    let told = wire.receive();
    assert_eq!(told["method"], "textDocument/publishDiagnostics");
    assert_eq!(told["params"], json!([["a"], 7, true]));
    assert_eq!(running.join().unwrap(), CloseReason::Shutdown, "it breaks");
}

#[test]
fn f92_a_notification_can_notify_and_call() {
    let (wire, mut host) = host(acp());
    f92_speaks(wire, move || host.run(&Diagnostics).unwrap());
}

#[test]
fn f92_a_notification_can_notify_and_call_on_threads_too() {
    let (wire, stream) = Wire::pair();
    f92_speaks(wire, move || {
        let (_, incoming) = threaded::unix(stream, acp()).unwrap();
        threaded::serve(&incoming, 1, &Diagnostics)
    });
}

/// Long enough that a test which waits for it fails.
const LONG: Duration = PATIENCE;
const SHORT: Duration = Duration::from_millis(20);

fn waited<T>(wait: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    (wait(), begun.elapsed())
}

#[test]
fn f92_wait_lasts_while_there_is_nothing_and_ends_with_input() {
    let (mut wire, mut host) = host(acp());
    assert_eq!(host.tick(&echo).unwrap(), None);
    let (has_work, time) = waited(|| host.wait(SHORT));
    assert!(!has_work && time >= SHORT, "{time:?}");

    let peer = thread::spawn(move || {
        thread::sleep(SHORT);
        wire.request(1, "echo", &json!([1]));
        assert_eq!(wire.receive()["result"], json!([1]));
        wire.hang_up();
        wire
    });
    let (has_work, time) = waited(|| host.wait(LONG));
    assert!(has_work && time < LONG / 2, "{time:?}");
    // A loop that only ticks and waits serves all there is, and ends.
    let reason = loop {
        if let Some(reason) = host.tick(&echo).unwrap() {
            break reason;
        }
        assert!(host.wait(LONG));
    };
    assert_eq!(reason, CloseReason::PeerGone);
    assert!(host.wait(LONG), "a connection that is over is not waited for");
    drop(peer.join().unwrap());
}

/// Handlers that take as long as the next request needs to come would keep the host from its own work.
#[test]
fn a_tick_serves_one_arrival_and_the_wait_for_the_next_ends_at_once() {
    let (mut wire, mut host) = host(acp());
    let served = std::cell::Cell::new(0);
    let count = |_: &Request, _: &mut dyn Responder| -> Answer {
        served.set(served.get() + 1);
        Ok(raw(&json!(served.get())))
    };
    wire.send((1..=3).map(|id| request(id, "count", &json!([]))));
    for id in 1..=3 {
        let (has_work, time) = waited(|| host.wait(LONG));
        assert!(has_work && time < LONG / 2, "arrivals are queued: {time:?}");
        assert_eq!(host.tick(&count).unwrap(), None);
        assert_eq!((served.get(), &wire.receive()["result"]), (id, &json!(id)));
    }
    assert!(!host.wait(SHORT));
}

#[test]
fn f92_wait_ends_when_a_timer_is_due() {
    let (_wire, mut host) = host(acp());
    let options = CallOptions::default().timeout(SHORT);
    let mut call = host.start_call("silence", None, options).unwrap();
    host.tick(&echo).unwrap();
    let (has_work, time) = waited(|| host.wait(LONG));
    assert!(has_work && time < LONG / 2, "{time:?}");
    assert!(host.take_outcome(&mut call).is_none(), "the wait itself does nothing");
    // Nor does one that begins when it is due.
    assert!(host.wait(LONG));
    host.tick(&echo).unwrap();
    let timed_out = host.take_outcome(&mut call).unwrap().unwrap_err();
    assert!(matches!(timed_out, CallError::TimedOut { cause: Cause::Deadline }), "{timed_out}");
}

#[test]
fn f92_wait_ends_for_output_and_for_a_dropped_call() {
    let (mut wire, mut host) = host(acp());
    host.tick(&echo).unwrap();
    host.notify("hello", None).unwrap();
    assert!(host.wait(LONG), "there is room to write");
    host.tick(&echo).unwrap();
    assert_eq!(wire.receive()["method"], "hello");
    assert!(!host.wait(SHORT));

    let call = host.start_call("ask", None, CallOptions::default()).unwrap();
    host.tick(&echo).unwrap();
    assert!(!host.wait(SHORT));
    drop(call);
    assert!(host.wait(LONG));
    host.tick(&echo).unwrap();
    assert_eq!(wire.receive()["method"], "ask");
    assert_eq!(wire.receive()["method"], "$/cancel_request");

    // A call whose outcome was taken is no work when it is dropped.
    let mut call = host.start_call("ask", None, CallOptions::default()).unwrap();
    host.tick(&echo).unwrap();
    let id = wire.receive()["id"].as_u64().unwrap();
    wire.send([result(1, &Value::Null), result(id, &json!(2))]);
    assert!(host.wait(LONG));
    host.tick(&echo).unwrap();
    assert_eq!(host.take_outcome(&mut call).unwrap().unwrap().get(), "2");
    drop(call);
    assert!(!host.wait(SHORT));
}

/// The outbox is full, and the peer reads nothing.
#[test]
fn f92_wait_does_not_spin_while_a_response_has_no_room() {
    let mut config = acp();
    config.limits.unsent_bytes = 2 << 20;
    let (mut wire, mut host) = host(config);
    let big =
        |_: &Request, _: &mut dyn Responder| -> Answer { Ok(raw(&json!("x".repeat(3 << 19)))) };
    wire.send((1..=4).map(|id| request(id, "big", &json!([]))));
    for _ in 0..10 {
        assert_eq!(host.tick(&big).unwrap(), None);
    }
    let (has_work, time) = waited(|| host.wait(SHORT));
    assert!(!has_work && time >= SHORT, "{time:?}");
    let reading = thread::spawn(move || (wire.answers(4), wire));
    while !reading.is_finished() {
        host.wait(SHORT);
        assert_eq!(host.tick(&big).unwrap(), None);
    }
    let (responses, _wire) = reading.join().unwrap();
    assert!(responses.iter().all(|response| response["result"].is_string()));
}

/// The same peer has closed: it is given up when its patience ends, by a loop that waits.
#[test]
fn f92_wait_ends_with_the_patience() {
    let mut options = Options::new(acp());
    options.patience = SHORT;
    let (mut wire, mut host) = host(options);
    wire.request(1, "big", &json!([]));
    wire.hang_up();
    let big =
        |_: &Request, _: &mut dyn Responder| -> Answer { Ok(raw(&json!("x".repeat(10 << 20)))) };
    let (reason, time) = waited(|| {
        loop {
            if let Some(reason) = host.tick(&big).unwrap() {
                break reason;
            }
            assert!(host.wait(LONG));
        }
    });
    assert_eq!(reason, CloseReason::PeerGone);
    assert!(time < LONG / 2, "{time:?}");
}

/// As above, and only the wait can know since when the connection is closed.
#[test]
fn f92_wait_ends_with_the_patience_after_a_shutdown() {
    let mut options = Options::new(acp());
    options.patience = SHORT;
    let (_wire, mut host) = host(options);
    host.notify("big", Some(&raw(&json!(["x".repeat(10 << 20)])))).unwrap();
    host.tick(&echo).unwrap();
    host.shutdown(Shutdown::CancelAll);
    let (has_work, time) = waited(|| host.wait(LONG));
    assert!(has_work && time < LONG / 2, "{time:?}");
    assert_eq!(host.tick(&echo).unwrap(), Some(CloseReason::Shutdown));
}

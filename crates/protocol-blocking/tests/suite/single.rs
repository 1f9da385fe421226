//! Promises of the single-threaded host alone.
#![cfg(unix)]

use crate::support;

use std::io;
use std::net::{TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use protocol_async::{Budget, CallError, Cheap, OverBudget};
use protocol_blocking::single::{FdTransport, Host, PlainTransport, Readiness, Ready, Transport};
use protocol_blocking::threaded::{Options, Way};
use protocol_blocking::{Answer, BeforeStart, Handler, Notification, Request, Responder};
use protocol_core::{CallOptions, CancelOutcome, Cause, CloseReason, Config, Dialect, Framing};
use serde_json::{Value, json};
use support::streams::pipe;
use support::{Runtime, Server, Wire, acp, cancel, cancelled, raw, request, result};

fn echo(request: &Request, _: &mut dyn Responder) -> Answer {
    Ok(request.params.clone().unwrap_or_else(|| raw(&Value::Null)))
}

#[test]
fn other_requests_stay_queued_and_are_served_in_order() {
    let mut server = Server::start(Runtime::Single);
    server.wire.request(1, "steps", &json!([]));
    assert_eq!(server.told(), "started");
    server.wire.send([request(2, "echo", &json!([2])), request(3, "sleep", &json!([]))]);
    server.wire.send([request(4, "echo", &json!([4])), cancel(3), cancel(1)]);
    let ids = [(); 4].map(|()| server.wire.receive()["id"].as_u64().unwrap());
    assert_eq!(ids, [1, 2, 3, 4]);
    assert_eq!(server.told_so_far(), ["peer"], "request 3 was cancelled in the queue and not run");
}

#[test]
fn a_cancel_of_another_request_does_not_stop_the_one_at_work() {
    let mut server = Server::start(Runtime::Single);
    server.wire.request(1, "stop", &json!([]));
    assert_eq!(server.told(), "waiting");
    server.wire.send([request(2, "sleep", &json!([])), cancel(2)]);
    // It goes on for some turns after that.
    for _ in 0..3 {
        assert_eq!(server.told(), "waiting");
    }
    server.wire.send([support::notification("stop", &json!([1]))]);
    assert_eq!(server.wire.receive()["result"], json!({ "stopped": [1] }));
    assert_eq!(server.wire.receive(), cancelled(2));
}

#[test]
fn sleep_lasts_and_wakes_at_once() {
    let mut server = Server::start(Runtime::Single);
    server.wire.request(1, "sleep", &json!([]));
    assert_eq!(server.told(), "asleep");
    // It is asleep, or about to be; a cancel wakes it either way.
    let begun = Instant::now();
    server.wire.send([cancel(1)]);
    assert_eq!(server.wire.receive(), cancelled(1));
    assert!(begun.elapsed() < Duration::from_secs(5));

    let (mut wire, mut host) = client();
    wire.request(1, "sleep", &json!([]));
    let sleep = |_: &Request, responder: &mut dyn Responder| -> Answer {
        let begun = Instant::now();
        responder.sleep(Duration::from_millis(30))?;
        Ok(raw(&json!(begun.elapsed() >= Duration::from_millis(30))))
    };
    let running = thread::spawn(move || host.run(&sleep).unwrap());
    assert_eq!(wire.receive()["result"], true);
    wire.hang_up();
    running.join().unwrap();
}

#[test]
fn it_works_on_pipes_unix_sockets_and_tcp() {
    fn check<T: Transport>(transport: T, mut peer: impl io::Write, answers: impl io::Read) {
        peer.write_all((request(1, "echo", &json!(["x"])) + "\n").as_bytes()).unwrap();
        drop(peer);
        let mut host = Host::new(transport, acp());
        assert_eq!(host.run(&echo).unwrap(), CloseReason::PeerGone);
        drop(host);
        let answer: Value = serde_json::from_reader(answers).unwrap();
        assert_eq!(answer["result"], json!(["x"]));
    }
    /// Hangs up one way when it is dropped.
    struct HangUp<S>(S, fn(&S));
    impl<S: io::Write> io::Write for HangUp<S> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.0.flush()
        }
    }
    impl<S> Drop for HangUp<S> {
        fn drop(&mut self) {
            (self.1)(&self.0);
        }
    }

    let ((from_peer, peer), (answers, to_peer)) = (pipe(), pipe());
    check(FdTransport::new(from_peer, to_peer), peer, answers);

    let (near, far) = UnixStream::pair().unwrap();
    let peer =
        HangUp(near.try_clone().unwrap(), |s| s.shutdown(std::net::Shutdown::Write).unwrap());
    check(FdTransport::new(far.try_clone().unwrap(), far), peer, near);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let far = listener.accept().unwrap().0;
    let peer =
        HangUp(near.try_clone().unwrap(), |s| s.shutdown(std::net::Shutdown::Write).unwrap());
    check(FdTransport::new(far.try_clone().unwrap(), far), peer, near);
}

#[test]
fn a_plain_transport_serves_what_is_there() {
    let input = [1, 2, 3].map(|id| request(id, "echo", &json!([id])) + "\n").concat();
    let mut output = Vec::new();
    let mut host = Host::new(PlainTransport::new(input.as_bytes(), &mut output), acp());
    assert_eq!(host.run(&echo).unwrap(), CloseReason::PeerGone);
    drop(host);
    let answers: Vec<Value> = serde_json::Deserializer::from_slice(&output)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(answers.len(), 3);
    assert_eq!(answers[2]["result"], json!([3]));
}

#[test]
fn a_plain_transport_reads_what_is_there_before_a_timer_is_due() {
    let input = result(1, &json!("answer")) + "\n";
    let mut host = Host::new(PlainTransport::new(input.as_bytes(), io::sink()), acp());
    let options = CallOptions::default().timeout(support::PATIENCE);
    let begun = Instant::now();
    assert_eq!(host.call("ask", None, options).unwrap().get(), "\"answer\"");
    assert!(begun.elapsed() < support::PATIENCE);
}

#[test]
fn a_plain_transport_is_not_read_while_a_handler_works() {
    let input = [request(1, "look", &json!([])), request(2, "look", &json!([])), cancel(2)];
    let input = input.join("\n") + "\n";
    let look = |_: &Request, responder: &mut dyn Responder| -> Answer {
        responder.sleep(Duration::from_millis(1))?;
        Ok(raw(&json!(responder.checkpoint().is_ok())))
    };
    let mut output = Vec::new();
    let mut host = Host::new(PlainTransport::new(input.as_bytes(), &mut output), acp());
    host.run(&look).unwrap();
    drop(host);
    let text = String::from_utf8(output).unwrap();
    // One read brought all three, so the second was marked before its turn.
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.lines().next().unwrap().contains("true"), "{text}");
    assert!(text.contains("-32800"), "{text}");
}

fn client() -> (Wire, Host<FdTransport<UnixStream, UnixStream>>) {
    let (wire, stream) = Wire::pair();
    (wire, Host::new(FdTransport::new(stream.try_clone().unwrap(), stream), acp()))
}

#[test]
fn g01_a_host_may_call_before_it_serves() {
    let (mut wire, mut host) = client();
    // The answer is there before the question; and a request that comes meanwhile waits.
    wire.send([request(9, "echo", &json!([9])), result(1, &json!("early"))]);
    let peer = thread::spawn(move || {
        assert_eq!(wire.receive()["method"], "hello");
        wire.send([result(1, &json!("answer"))]);
        assert_eq!(wire.receive()["id"], 9);
        wire.hang_up();
    });
    let answer = host.call("hello", None, CallOptions::default()).unwrap();
    assert!(["\"answer\"", "\"early\""].contains(&answer.get()));
    host.run(&echo).unwrap();
    peer.join().unwrap();
}

#[test]
fn g05_timers_fire_while_it_waits() {
    let (mut wire, mut host) = client();
    let options = CallOptions::default().timeout(Duration::from_millis(30));
    let error = host.call("silence", None, options).unwrap_err();
    assert!(matches!(error, CallError::TimedOut { cause: Cause::Deadline }), "{error}");
    drop(wire.receive());
    // The cancel leaves with whatever the host does next.
    wire.hang_up();
    host.run(&echo).unwrap();
    assert_eq!(wire.receive()["params"], json!({ "requestId": 1 }));
}

#[test]
fn g05_timers_fire_while_a_handler_works() {
    let (mut wire, mut host) = client();
    wire.request(1, "work", &json!([]));
    let nested = |_: &Request, responder: &mut dyn Responder| -> Answer {
        let options = CallOptions::default().timeout(Duration::from_millis(300));
        let error = responder.call_raw("silence", None, options).unwrap_err();
        Ok(raw(&json!(error.to_string())))
    };
    let running = thread::spawn(move || host.run(&nested).unwrap());
    assert_eq!(wire.receive()["method"], "silence");
    assert_eq!(wire.receive()["params"], json!({ "requestId": 1 }));
    assert_eq!(wire.receive()["result"], "timed out (deadline)");
    wire.hang_up();
    running.join().unwrap();
}

#[test]
fn b18_a_deadline_while_our_write_is_stuck() {
    let (_wire, mut host) = client();
    host.notify("big", Some(&*raw(&json!(["x".repeat(8 << 20)])))).unwrap();
    let options = CallOptions::default().timeout(Duration::from_millis(30));
    let error = host.call("silence", None, options).unwrap_err();
    assert!(matches!(error, CallError::TimedOut { cause: Cause::Deadline }), "{error}");
}

#[test]
fn g07_a_lost_peer_settles_the_hosts_own_call() {
    let (wire, mut host) = client();
    drop(wire);
    let error = host.call("hello", None, CallOptions::default()).unwrap_err();
    assert!(matches!(error, CallError::ConnectionLost { cause: Cause::PeerGone, .. }), "{error}");
}

#[test]
fn g08_requests_above_the_inbox_limit_are_refused() {
    let (mut wire, stream) = Wire::pair();
    let mut options = Options::new(acp());
    options.inbox_bytes = 1_000;
    let transport = FdTransport::new(stream.try_clone().unwrap(), stream);
    let mut host = Host::new(transport, options);
    let text = "x".repeat(600);
    wire.send((1..=4).map(|id| request(id, "echo", &json!([text]))));
    wire.hang_up();
    host.run(&echo).unwrap();
    let answers = wire.answers(4);
    // One read brought them all: the first waits, and there is no room for more beside it.
    assert_eq!(answers[0]["result"], json!([text]));
    let code = acp().dialect.overload_code;
    assert!(answers[1..].iter().all(|answer| answer["error"]["code"] == code), "{answers:?}");
}

#[test]
fn f03_answers_wait_for_room_after_the_end_of_input_too() {
    /// Works on though its peer is gone.
    struct Stubborn;

    impl Handler for Stubborn {
        fn request(&self, _: &Request, _: &mut dyn Responder) -> Answer {
            Ok(raw(&json!("x".repeat(90_000))))
        }

        fn cancelled_before_start(&self, _: &Request) -> BeforeStart {
            BeforeStart::Delivered
        }
    }

    let (mut wire, stream) = Wire::pair();
    let mut config = acp();
    config.limits.unsent_bytes = 100_000;
    wire.send((1..=10).map(|id| request(id, "big", &json!([]))));
    wire.hang_up();
    let peer = thread::spawn(move || wire.answers(10));
    let mut host = Host::new(FdTransport::new(stream.try_clone().unwrap(), stream), config);
    assert_eq!(host.run(&Stubborn).unwrap(), CloseReason::PeerGone);
    assert!(peer.join().unwrap().iter().all(|answer| answer["result"].is_string()));
}

#[test]
#[cfg(target_os = "linux")] // The pipe is made larger.
fn f34_a_write_error_ends_the_connection_once_what_was_said_before_is_read() {
    struct Count(std::cell::Cell<usize>);
    impl Handler for Count {
        fn request(&self, _: &Request, _: &mut dyn Responder) -> Answer {
            unreachable!("there are none")
        }
        fn notification(&self, _: &Notification, _: &mut dyn Responder) -> ControlFlow<()> {
            self.0.set(self.0.get() + 1);
            ControlFlow::Continue(())
        }
    }

    let ((from_peer, mut peer), (answers, to_peer)) = (pipe(), pipe());
    // More than one read takes.
    rustix::pipe::fcntl_setpipe_size(&peer, 1 << 20).unwrap();
    let lines = (support::notification("n", &json!([])) + "\n").repeat(5_000);
    io::Write::write_all(&mut peer, lines.as_bytes()).unwrap();
    let mut host = Host::new(FdTransport::new(from_peer, to_peer), acp());
    let mut call = host.start_call("never answered", None, CallOptions::default()).unwrap();
    drop(answers);
    let count = Count(0.into());
    assert_eq!(host.run(&count).unwrap(), CloseReason::PeerGone);
    assert_eq!(count.0.get(), 5_000);
    assert_eq!(host.error().unwrap().kind(), io::ErrorKind::BrokenPipe);
    let Err(lost) = host.take_outcome(&mut call).unwrap() else { panic!("nobody answered") };
    let CallError::ConnectionLost { cause: Cause::PeerGone, how } = lost else { panic!("{lost}") };
    assert_eq!(how.map(String::from), host.error().map(ToString::to_string));
    drop(peer);
}

#[test]
fn f35_a_peer_that_has_closed_and_does_not_read_is_not_waited_for_for_ever() {
    assert_eq!(Options::new(acp()).patience, Duration::from_secs(5));
    let (mut wire, stream) = Wire::pair();
    let mut options = Options::new(acp());
    options.patience = Duration::from_millis(20);
    wire.request(1, "echo", &json!(["x".repeat(100_000)]));
    wire.request(2, "big", &json!([]));
    let mut host = Host::new(FdTransport::new(stream.try_clone().unwrap(), stream), options);
    let big = |_: &Request, _: &mut dyn Responder| -> Answer {
        wire.hang_up();
        Ok(raw(&json!("x".repeat(10 << 20))))
    };
    assert_eq!(host.run(&big).unwrap(), CloseReason::PeerGone);
    assert!(host.error().is_none());
}

/// The same while a response waits for room.
#[test]
fn f35_nor_is_one_for_which_an_answer_has_no_room() {
    let (wire, stream) = Wire::pair();
    let mut wire = wire;
    let mut config = acp();
    config.limits.unsent_bytes = 2 << 20;
    let mut options = Options::new(config);
    options.patience = Duration::from_millis(20);
    wire.send((1..=3).map(|id| request(id, "big", &json!([]))));
    wire.hang_up();
    /// Works on though its peer is gone.
    struct Stubborn;
    impl Handler for Stubborn {
        fn request(&self, _: &Request, _: &mut dyn Responder) -> Answer {
            Ok(raw(&json!("x".repeat(3 << 19))))
        }
        fn cancelled_before_start(&self, _: &Request) -> BeforeStart {
            BeforeStart::Delivered
        }
    }
    let mut host = Host::new(FdTransport::new(stream.try_clone().unwrap(), stream), options);
    assert_eq!(host.run(&Stubborn).unwrap(), CloseReason::PeerGone);
}

/// A loop of the host's own, which never waits.
#[test]
fn f35_a_tick_serves_what_is_there_and_returns() {
    let (mut wire, mut host) = client();
    assert_eq!(host.tick(&echo).unwrap(), None, "nothing is there");
    wire.send([request(1, "echo", &json!([1])), request(2, "echo", &json!([2])), cancel(2)]);
    assert_eq!(host.tick(&echo).unwrap(), None);
    assert_eq!(wire.receive()["result"], json!([1]));
    assert_eq!(host.tick(&echo).unwrap(), None);
    assert_eq!(wire.receive(), cancelled(2));

    // A call of its own, while idle.
    let mut call = host.start_call("ask", None, CallOptions::default()).unwrap();
    assert_eq!(host.tick(&echo).unwrap(), None);
    assert!(host.take_outcome(&mut call).is_none());
    assert_eq!(wire.receive()["method"], "ask");
    wire.send([result(1, &json!("answer"))]);
    host.tick(&echo).unwrap();
    assert_eq!(host.take_outcome(&mut call).unwrap().unwrap().get(), "\"answer\"");
    assert_eq!(host.cancel(&call), CancelOutcome::AlreadySettled);

    // One that is cancelled, and one that is dropped.
    let mut cancelled = host.start_call("cancelled", None, CallOptions::default()).unwrap();
    let dropped = host.start_call("dropped", None, CallOptions::default()).unwrap();
    host.tick(&echo).unwrap();
    assert_eq!(host.cancel(&cancelled), CancelOutcome::Sent);
    drop(dropped);
    host.tick(&echo).unwrap();
    let said = [(); 4].map(|()| wire.receive());
    assert_eq!(said[2]["params"]["requestId"], 2);
    assert_eq!(said[3]["params"]["requestId"], 3);
    wire.send([support::cancelled(2).to_string()]);
    host.tick(&echo).unwrap();
    assert!(matches!(
        host.take_outcome(&mut cancelled),
        Some(Err(CallError::Cancelled { cause: Cause::Caller, .. }))
    ));

    wire.hang_up();
    assert_eq!(host.tick(&echo).unwrap(), Some(CloseReason::PeerGone));
}

#[test]
fn f35_a_tick_does_not_wait_for_a_peer_that_does_not_read() {
    let (mut wire, stream) = Wire::pair();
    let mut config = acp();
    config.limits.unsent_bytes = 2 << 20;
    let mut host = Host::new(FdTransport::new(stream.try_clone().unwrap(), stream), config);
    let served = std::cell::Cell::new(0);
    let big = |_: &Request, _: &mut dyn Responder| -> Answer {
        served.set(served.get() + 1);
        Ok(raw(&json!("x".repeat(3 << 19))))
    };
    wire.send((1..=4).map(|id| request(id, "big", &json!([]))));
    for _ in 0..5 {
        assert_eq!(host.tick(&big).unwrap(), None);
    }
    assert!(served.get() < 4, "while an answer has no room, no other is made");
    let before = served.get();
    // It is in the inbox still, and marked.
    wire.send([cancel(4)]);
    host.tick(&big).unwrap();
    assert_eq!(served.get(), before);
    let reading = thread::spawn(move || (wire.answers(4), wire));
    while !reading.is_finished() {
        assert_eq!(host.tick(&big).unwrap(), None);
    }
    let (answers, _wire) = reading.join().unwrap();
    assert!(answers[..3].iter().all(|answer| answer["result"].is_string()));
    assert_eq!(answers[3], cancelled(4));
    assert_eq!(served.get(), 3);
}

#[test]
fn a_trace_sees_every_message() {
    use std::sync::{Arc, Mutex};
    let (mut wire, stream) = Wire::pair();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut options = Options::new(acp());
    let record = seen.clone();
    options.trace = Some(Box::new(move |way, message| {
        record.lock().unwrap().push((way, String::from_utf8(message.to_vec()).unwrap()));
    }));
    let mut host = Host::new(FdTransport::new(stream.try_clone().unwrap(), stream), options);
    wire.request(1, "echo", &json!([1]));
    wire.hang_up();
    host.run(&echo).unwrap();
    let seen = seen.lock().unwrap();
    let ways: Vec<Way> = seen.iter().map(|(way, _)| *way).collect();
    assert_eq!(ways, [Way::Received, Way::Sent]);
    assert!(seen[1].1.ends_with('}'), "without framing: {seen:?}");
}

/// A transport whose waiting fails after some turns.
#[derive(Debug)]
struct Failing {
    input: Vec<u8>,
    turns: u32,
}

impl Transport for Failing {
    fn readiness(&self) -> Readiness {
        Readiness::Told
    }

    fn wait(&mut self, interest: Ready, _: Option<Duration>) -> io::Result<Ready> {
        self.turns = self.turns.checked_sub(1).ok_or(io::ErrorKind::Other)?;
        Ok(Ready { read: interest.read && !self.input.is_empty(), write: interest.write })
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        room[..self.input.len()].copy_from_slice(&self.input);
        Ok(std::mem::take(&mut self.input).len())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }
}

/// Nothing that was to be written is, so it is all there still.
#[test]
fn f10_the_token_of_an_operation_is_never_shown() {
    let mut config = Config::server(Dialect::ERLMCP);
    config.dialect.framing = Framing::Newline;
    let mut options = Options::new(config);
    options.entropy = || Some([0xA5; 16]);
    let input = (request(1, "tool/call", &json!({})) + "\n").into_bytes();
    let mut host = Host::new(Failing { input, turns: 1 }, options);
    host.run(&echo).unwrap_err();
    let shown = format!("{host:?}");
    // As text, and as the numbers that bytes are printed as.
    let secrets = ["A5".repeat(16), "65, 53, ".repeat(16)];
    assert!(secrets.iter().all(|secret| !shown.contains(secret)), "{shown}");
}

#[test]
fn g07_a_failing_transport_ends_the_handler_and_is_reported() {
    let input = (request(1, "steps", &json!([])) + "\n").into_bytes();
    let mut host = Host::new(Failing { input, turns: 20 }, acp());
    let causes = std::sync::Mutex::new(Vec::new());
    let steps = |_: &Request, responder: &mut dyn Responder| -> Answer {
        loop {
            if let Err(cancelled) = responder.checkpoint() {
                causes.lock().unwrap().push(cancelled.cause);
                return Err(cancelled.into());
            }
        }
    };
    assert_eq!(host.run(&steps).unwrap_err().kind(), io::ErrorKind::Other);
    assert_eq!(causes.into_inner().unwrap(), [Cause::Shutdown]);
}

#[test]
fn g08_what_costs_the_peer_little_has_a_budget() {
    let (near, mut far) = UnixStream::pair().unwrap();
    let mut options = Options::new(Config::server(Dialect::ACP_V1));
    options.budgets.violations = Budget::Limited { per_second: 1, burst: 3 };
    let mut host = Host::new(FdTransport::new(&near, &near), options);
    for _ in 0..4 {
        io::Write::write_all(&mut far, b"[]\n").unwrap();
    }
    assert_eq!(host.run(&echo).unwrap(), CloseReason::PeerGone);
    let over = host.error().unwrap().get_ref().unwrap().downcast_ref::<OverBudget>().unwrap();
    assert_eq!(over.what, Cheap::Violation);
}

#[test]
fn f77_a_call_of_another_host_is_not_cancelled() {
    let host = || {
        let (near, far) = UnixStream::pair().unwrap();
        let transport = FdTransport::new(near.try_clone().unwrap(), near);
        (Host::new(transport, Config::client(Dialect::ACP_V1)), far)
    };
    let [(mut one, _far), (mut other, _other_far)] = [host(), host()];
    let own = one.start_call("m", None, CallOptions::default()).unwrap();
    let foreign = other.start_call("m", None, CallOptions::default()).unwrap();
    assert_eq!(one.cancel(&foreign), CancelOutcome::AlreadySettled);
    assert_ne!(one.cancel(&own), CancelOutcome::AlreadySettled);
    assert_ne!(other.cancel(&foreign), CancelOutcome::AlreadySettled);
}

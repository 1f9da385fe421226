//! Our own calls on threads: their outcomes, their cancels, and what leaves when.
#![cfg(unix)]

use crate::support;

use std::future::Future;
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use protocol_async::CallError;
use protocol_blocking::threaded::{
    Arrival, Incoming, Options, Peer, SentRequest, Wait, Way, connect, serve, tcp, unix,
};
use protocol_blocking::{Answer, Request, Responder, block_on, block_on_for};
use protocol_core::{
    CallOptions, CancelOutcome, Cause, CloseReason, Config, Dialect, Refusal, Shutdown,
};
use serde_json::{Value, json};
use support::streams::{Fickle, Panicking, held_writer, pipe, told_reader};
use support::{PATIENCE, Wire, cancel, cancelled, notification, raw, request, result};

fn acp() -> Config {
    Config::client(Dialect::ACP_V1)
}

fn client() -> (Wire, Peer, Incoming) {
    let (wire, stream) = Wire::pair();
    let (peer, incoming) = unix(stream, acp()).unwrap();
    (wire, peer, incoming)
}

fn slow(peer: &Peer) -> SentRequest<Value> {
    peer.call("slow", json!([]))
}

fn timing_out(after: Duration) -> CallOptions {
    CallOptions::default().timeout(after)
}

#[test]
fn a_writer_with_a_buffer_is_flushed() {
    let (mut wire, stream) = Wire::pair();
    let reader = stream.try_clone().unwrap();
    let (peer, _incoming) = connect(reader, BufWriter::new(stream), acp());
    peer.try_notify("hello", ()).unwrap();
    assert_eq!(wire.receive()["method"], "hello");
    wire.hang_up();
}

#[test]
fn g01_a_call_and_its_result_over_every_stream() {
    let echo = |request: &Request, _: &mut dyn Responder| -> Answer {
        Ok(request.params.clone().unwrap_or_else(|| raw(&Value::Null)))
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dialled = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (unix_near, unix_far) = UnixStream::pair().unwrap();
    let ((from_server, to_client), (from_client, to_server)) = (pipe(), pipe());
    let connections = [
        (unix(unix_near, acp()).unwrap(), unix(unix_far, support::acp()).unwrap()),
        (tcp(dialled, acp()).unwrap(), tcp(listener.accept().unwrap().0, support::acp()).unwrap()),
        (connect(from_server, to_server, acp()), connect(from_client, to_client, support::acp())),
    ];
    for ((peer, mine), (_, incoming)) in connections {
        let server = thread::spawn(move || serve(&incoming, 2, &echo));
        let answer: Value = peer.call("echo", json!({ "a": [1, "é"] })).wait().unwrap();
        assert_eq!(answer, json!({ "a": [1, "é"] }));
        drop((peer, mine));
        server.join().expect("dropping every handle hangs up, which ends the server");
    }
}

#[test]
fn g06_the_last_words_arrive_over_tcp_though_the_peer_says_more() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (peer, incoming) = tcp(listener.accept().unwrap().0, acp()).unwrap();
    peer.try_notify("last", ["x".repeat(1 << 20)]).unwrap();
    near.peek(&mut [0]).unwrap();
    drop((peer, incoming));
    for _ in 0..5 {
        thread::sleep(Duration::from_millis(10));
        writeln!(near, "{}", notification("more", &json!([]))).unwrap();
    }
    let mut all = Vec::new();
    near.read_to_end(&mut all).unwrap();
    assert!(all.len() > 1 << 20, "{}", all.len());
}

#[test]
fn g01_errors_come_back_as_they_are() {
    let (mut wire, peer, _incoming) = client();
    let sent = slow(&peer);
    wire.receive();
    wire.send([r#"{"jsonrpc":"2.0","id":1,"error":{"code":-5,"message":"no","data":[1]}}"#]);
    let Err(CallError::Error(error)) = sent.wait() else { panic!("an error") };
    assert_eq!((error.code, error.message.as_str()), (-5, "no"));
    assert_eq!(error.data.unwrap().get(), "[1]");
}

#[test]
fn b01_a_malformed_answer_settles_the_call() {
    let (mut wire, peer, _incoming) = client();
    let sent = slow(&peer);
    wire.receive();
    wire.send([r#"{"jsonrpc":"2.0","id":1,"error":{"code":"high"}}"#]);
    assert!(matches!(sent.wait(), Err(CallError::Malformed)));
}

#[test]
fn g05_any_thread_may_cancel() {
    let (mut wire, peer, _incoming) = client();
    let sent = slow(&peer);
    assert_eq!(wire.receive()["method"], "slow");
    let handle = sent.cancellation_handle();
    let canceller = thread::spawn(move || (handle.cancel(), handle.cancel()));
    assert_eq!(wire.receive()["params"], json!({ "requestId": 1 }));
    wire.send([cancelled(1).to_string()]);
    let error = sent.wait().unwrap_err();
    assert!(matches!(error, CallError::Cancelled { cause: Cause::Caller, error: Some(_) }));
    let (first, second) = canceller.join().unwrap();
    assert_eq!(first, CancelOutcome::Sent);
    assert!(matches!(second, CancelOutcome::AlreadySent | CancelOutcome::AlreadySettled));
}

#[test]
fn g05_dropping_cancels_and_says_so_once() {
    let (mut wire, peer, _incoming) = client();
    let sent = slow(&peer);
    assert_eq!(wire.receive()["id"], 1);
    sent.cancel();
    drop(sent);
    assert_eq!(wire.receive()["method"], "$/cancel_request");
    peer.try_notify("next", json!([])).unwrap();
    assert_eq!(wire.receive()["method"], "next", "there is never a second cancel");
}

#[test]
fn g05_dropping_a_settled_call_sends_nothing() {
    let (mut wire, peer, _incoming) = client();
    let mut sent = slow(&peer);
    wire.receive();
    wire.send([result(1, &json!(1))]);
    assert_eq!(sent.wait_timeout(PATIENCE).unwrap().unwrap(), json!(1));
    drop(sent);
    peer.try_notify("next", json!([])).unwrap();
    assert_eq!(wire.receive()["method"], "next");
}

#[test]
fn g05_detaching_cancels_nothing() {
    let (mut wire, peer, _incoming) = client();
    slow(&peer).detach();
    assert_eq!(wire.receive()["method"], "slow");
    peer.try_notify("next", json!([])).unwrap();
    assert_eq!(wire.receive()["method"], "next");
}

#[test]
fn a_cancellation_handle_keeps_nothing_alive() {
    let (mut wire, peer, incoming) = client();
    let sent = slow(&peer);
    wire.receive();
    wire.send([result(1, &json!(1))]);
    let handle = sent.cancellation_handle();
    sent.wait().unwrap();
    drop((peer, incoming));
    assert_eq!(wire.next(), None, "the connection hangs up");
    assert_eq!(handle.cancel(), CancelOutcome::AlreadySettled);
}

#[test]
fn g05_a_deadline_frees_the_caller_at_once_and_sends_the_cancel() {
    let (mut wire, peer, _incoming) = client();
    let begun = Instant::now();
    let options = timing_out(Duration::from_millis(300));
    let sent: SentRequest<Value> = peer.call_with("slow", json!([]), options);
    let error = sent.wait().unwrap_err();
    assert!(matches!(error, CallError::TimedOut { cause: Cause::Deadline }), "{error}");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    assert_eq!(wire.receive()["method"], "slow");
    assert_eq!(wire.receive()["params"], json!({ "requestId": 1 }));
    // The answer is late, and harms nothing.
    wire.send([result(1, &json!("late"))]);
    let sent = slow(&peer);
    wire.receive();
    wire.send([result(2, &json!("in time"))]);
    assert_eq!(sent.wait().unwrap(), "in time");
}

#[test]
fn g05_a_deadline_frees_the_caller_while_our_write_is_stuck() {
    let ((input, _far), (writer, held)) = (pipe(), held_writer());
    let (peer, _incoming) = connect(input, writer, acp());
    peer.try_notify("stuck", json!([])).unwrap();
    held.begun();
    let mut sent: SentRequest<Value> =
        peer.call_with("slow", json!([]), timing_out(Duration::from_millis(20)));
    let outcome = sent.wait_timeout(PATIENCE).expect("no write is waited for");
    assert!(matches!(outcome, Err(CallError::TimedOut { cause: Cause::Deadline })));
    held.permit();
    // It never left, so nor does its cancel (G4).
    drop((peer, _incoming, sent));
    assert!(held.is_dropped());
}

#[test]
fn g12_a_wait_may_give_up_and_go_on() {
    let (mut wire, peer, _incoming) = client();
    let mut sent = slow(&peer);
    assert!(sent.wait_timeout(Duration::from_millis(5)).is_none());
    wire.receive();
    wire.send([result(1, &json!(1))]);
    assert_eq!(sent.wait().unwrap(), json!(1));
}

#[test]
fn g07_a_hang_up_settles_every_call() {
    let (wire, peer, _incoming) = client();
    let sent: Vec<_> = (0..10).map(|_| slow(&peer)).collect();
    drop(wire);
    for sent in sent {
        let error = sent.wait().unwrap_err();
        assert!(
            matches!(error, CallError::ConnectionLost { cause: Cause::PeerGone, .. }),
            "{error}"
        );
    }
    assert!(matches!(slow(&peer).wait(), Err(CallError::Refused(Refusal::Closed))));
}

#[test]
fn g05_a_shutdown_that_abandons_settles_every_call() {
    let (_wire, peer, _incoming) = client();
    let sent = slow(&peer);
    peer.shutdown(Shutdown::Abandon);
    let error = sent.wait().unwrap_err();
    assert!(matches!(error, CallError::ConnectionLost { cause: Cause::Shutdown, .. }), "{error}");
}

#[test]
fn g04_a_call_that_has_not_left_is_withdrawn() {
    let ((input, _far), (writer, held)) = (pipe(), held_writer());
    let (peer, _incoming) = connect(input, writer, acp());
    peer.try_notify("first", json!([])).unwrap();
    held.begun();
    let sent = slow(&peer);
    assert_eq!(sent.cancel(), CancelOutcome::Withdrawn);
    let error = sent.wait().unwrap_err();
    assert!(matches!(error, CallError::Cancelled { cause: Cause::Caller, error: None }));
    peer.try_notify("last", json!([])).unwrap();
    held.permit();
    assert_eq!(held.write(), "{\"jsonrpc\":\"2.0\",\"method\":\"last\",\"params\":[]}\n");
}

#[test]
fn g04_a_cork_puts_request_and_cancel_into_one_write() {
    let ((input, _far), (writer, held)) = (pipe(), held_writer());
    let (peer, _incoming) = connect(input, writer, acp());
    let cork = peer.cork();
    peer.try_notify("edit", json!([])).unwrap();
    let sent = slow(&peer);
    assert_eq!(sent.cancel(), CancelOutcome::Sent);
    drop(cork);
    let written = held.write();
    let edit = support::notification("edit", &json!([]));
    let expected = [edit, request(1, "slow", &json!([])), cancel(1)];
    let lines: Vec<Value> =
        written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let expected = expected.map(|line| serde_json::from_str::<Value>(&line).unwrap());
    assert_eq!(lines, expected);
}

#[test]
fn g08_a_full_outbox_refuses_and_says_when_there_is_room() {
    let mut config = acp();
    config.limits.unsent_bytes = 1_000;
    let ((input, _far), (writer, held)) = (pipe(), held_writer());
    let (peer, _incoming) = connect(input, writer, config);
    peer.try_notify("stuck", json!([])).unwrap();
    held.begun();
    let text = "x".repeat(300);
    let refused = loop {
        if let Err(refusal) = peer.try_notify("fill", json!([text])) {
            break refusal;
        }
    };
    assert_eq!(refused, Refusal::OutboxFull);
    assert_eq!(block_on_for(&mut peer.ready(), Duration::from_millis(20)), None);
    held.permit();
    block_on_for(&mut peer.ready(), PATIENCE).expect("the outbox was taken out of");
    peer.try_notify("fill", json!([text])).unwrap();
    held.permit();
    held.permit();
}

/// Reports when it is woken.
struct Telling(Sender<()>);

impl Wake for Telling {
    fn wake(self: Arc<Self>) {
        // The test may be over.
        let _ = self.0.send(());
    }
}

/// Responses fill the outbox. A peer that has ended its input may still take as long as it likes to read them.
#[test]
fn g07_whoever_waits_for_room_is_woken_by_the_end() {
    let mut config = support::acp();
    config.limits.unsent_bytes = 1_000;
    let ((input, mut far), (writer, held)) = (pipe(), held_writer());
    let mut options = Options::new(config);
    // It is not the end of this that wakes.
    options.patience = 2 * PATIENCE;
    let (peer, incoming) = connect(input, writer, options);
    let text = raw(&json!("x".repeat(300)));
    for id in 1..=3 {
        far.write_all((request(id, "work", &json!([])) + "\n").as_bytes()).unwrap();
        let Ok(Arrival::Request(_, responder)) = block_on(incoming.receive()) else {
            panic!("a request")
        };
        responder.answer(Ok(text.clone()));
        if id == 1 {
            held.begun();
        }
    }
    assert_eq!(peer.try_notify("more", [&text, &text]), Err(Refusal::OutboxFull));

    let (tell, woken) = channel();
    let waker = Waker::from(Arc::new(Telling(tell)));
    let mut cx = Context::from_waker(&waker);
    let mut ready = peer.ready();
    assert!(Pin::new(&mut ready).poll(&mut cx).is_pending());
    drop(far);
    woken.recv_timeout(PATIENCE).expect("it is woken");
    assert!(Pin::new(&mut ready).poll(&mut cx).is_ready());
    assert_eq!(peer.try_notify("late", json!([])), Err(Refusal::Closed));
}

#[test]
fn flushed_waits_for_the_last_byte() {
    let ((input, _far), (writer, held)) = (pipe(), held_writer());
    let (peer, _incoming) = connect(input, writer, acp());
    block_on(peer.flushed());
    peer.try_notify("stuck", json!([])).unwrap();
    held.begun();
    assert_eq!(block_on_for(&mut peer.flushed(), Duration::from_millis(20)), None);
    held.permit();
    block_on_for(&mut peer.flushed(), PATIENCE).expect("it is written");
}

#[test]
fn f43_what_was_answered_is_written_when_serve_returns() {
    let ((input, mut far), (writer, held)) = (pipe(), held_writer());
    let (peer, incoming) = connect(input, writer, Config::server(Dialect::ACP_V1));
    let served = thread::spawn(move || {
        serve(&incoming, 2, &|request: &Request, _: &mut dyn Responder| {
            Ok(request.params.clone().unwrap_or_default())
        })
    });
    far.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":[1]}\n").unwrap();
    held.begun();
    drop(far);
    assert_eq!(block_on_for(&mut peer.flushed(), Duration::from_millis(20)), None);
    assert!(!served.is_finished(), "the answer hangs in the writer");
    held.permit();
    served.join().unwrap();
}

#[test]
fn dropping_the_last_handle_ends_every_thread_and_closes_the_writer() {
    let ((input, far), (writer, held)) = (pipe(), held_writer());
    let (reader, ended) = told_reader(input);
    let (peer, incoming) = connect(reader, writer, acp());
    peer.try_notify("last words", json!([])).unwrap();
    drop((peer, incoming));
    assert!(held.write().contains("last words"), "the queued message is written");
    assert!(held.is_dropped());
    // A read can't be interrupted: the reader ends with its input.
    drop(far);
    assert_eq!(ended.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected));
}

#[test]
fn g08_a_peer_that_does_not_read_is_given_up_with_the_write_that_is_stuck() {
    let (far, near) = UnixStream::pair().unwrap();
    let mut options = Options::new(acp());
    options.patience = Duration::from_millis(20);
    let (peer, incoming) = unix(near, options).unwrap();
    // More than a socket holds.
    peer.try_notify("big", ("x".repeat(4 << 20),)).unwrap();
    drop((peer, incoming));

    // The peer can't write any more either: the socket is down, and so is the write that was in it.
    far.set_nonblocking(true).unwrap();
    let begun = Instant::now();
    while !matches!((&far).write(b"\n"), Err(error) if error.kind() == ErrorKind::BrokenPipe) {
        assert!(begun.elapsed() < PATIENCE, "the socket is still open");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn f34_a_stream_that_is_not_ready_has_not_ended() {
    let ((from_server, to_client), (from_client, to_server)) = (pipe(), pipe());
    let (peer, _mine) = connect(Fickle::new(from_server), Fickle::new(to_server), acp());
    let (_, incoming) = connect(from_client, to_client, support::acp());
    let echo = |request: &Request, _: &mut dyn Responder| -> Answer {
        Ok(request.params.clone().unwrap_or_else(|| raw(&Value::Null)))
    };
    let server = thread::spawn(move || serve(&incoming, 1, &echo));
    let long = json!(["x".repeat(500)]);
    for _ in 0..3 {
        assert_eq!(peer.call::<Value>("echo", &long).wait().unwrap(), long);
    }
    assert!(!peer.is_closed());
    drop((peer, _mine));
    assert_eq!(server.join().unwrap(), CloseReason::PeerGone);
}

/// The host's own setting, which ended the connection after the first silence.
#[test]
fn f34_a_read_timeout_of_the_socket_is_no_end() {
    let (mut wire, stream) = Wire::pair();
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let (peer, _incoming) = unix(stream, acp()).unwrap();
    for id in 1..=20 {
        let sent = slow(&peer);
        wire.receive();
        wire.send([result(id, &json!(id))]);
        assert_eq!(sent.wait().unwrap(), json!(id));
    }
}

/// TCP says so once, when its peer has not answered for long. After that the input ends.
#[test]
fn a_time_out_of_the_system_is_the_reason_of_the_end() {
    struct Lost(Option<rustix::io::Errno>);

    impl Read for Lost {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            self.0.take().map_or(Ok(0), |lost| Err(lost.into()))
        }
    }

    let lost = rustix::io::Errno::TIMEDOUT;
    let (peer, _incoming) = connect(Lost(Some(lost)), io::sink(), acp());
    let lost = format!("peer_gone: {}", io::Error::from(lost));
    assert_eq!(block_on(peer.closed()).to_string(), lost);
}

#[test]
fn f34_a_stream_that_panics_ends_the_connection() {
    let (reader, _far_writer) = pipe();
    let (_far_reader, writer) = pipe();
    let (peer, _incoming) = connect(Panicking, writer, acp());
    assert!(matches!(
        slow(&peer).wait(),
        Err(CallError::ConnectionLost { .. } | CallError::Refused(_))
    ));
    assert_eq!(block_on(peer.closed()).to_string(), "peer_gone: the stream panicked");

    let (peer, _incoming) = connect(reader, Panicking, acp());
    let lost = slow(&peer).wait();
    assert!(
        matches!(lost, Err(CallError::ConnectionLost { cause: Cause::PeerGone, .. })),
        "{lost:?}"
    );
    assert_eq!(block_on(peer.closed()).to_string(), "peer_gone: the stream panicked");
}

/// The thread that reads runs the callback, and writes what the callback sends.
#[test]
fn f85_a_callback_that_is_shown_a_message_can_notify_the_peer() {
    let (mut wire, stream) = Wire::pair();
    let (give, given) = channel::<Peer>();
    let mut options = Options::new(acp());
    options.trace = Some(Box::new(move |way, _| {
        if way == Way::Received {
            given.recv().unwrap().try_notify("seen", json!([])).unwrap();
        }
    }));
    let (peer, _incoming) = unix(stream, options).unwrap();
    block_on(peer.flushed());
    wire.send([notification("n", &json!([]))]);
    give.send(peer.clone()).unwrap();
    assert_eq!(wire.receive()["method"], "seen");
}

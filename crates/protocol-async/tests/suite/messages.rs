//! The message driver over a transport in memory, polled only when it was woken, on a clock that is
//! moved by hand.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_core::Stream;
use futures_util::{FutureExt, Sink};
use protocol_async::{
    Arrival, CallError, Incoming, KeepAlive, MessageDriver, Options, Peer, Responder, SentRequest,
    Timer, Verdict, connect_messages,
};
use protocol_core::{CallOptions, Cause, Config, Dialect, Shutdown, Timestamp};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

/// The peer's end of a transport, which the test moves.
#[derive(Default)]
struct Wire {
    /// `None` is the end.
    incoming: VecDeque<Option<io::Result<Vec<u8>>>>,
    sent: Vec<Vec<u8>>,
    /// The number of messages that it takes before somebody reads.
    room: usize,
    flushes: usize,
    /// The error of the next flush.
    failure: Option<io::ErrorKind>,
    is_closed: bool,
    waker: Option<Waker>,
}

#[derive(Clone, Default)]
struct Transport(Arc<Mutex<Wire>>);

impl Stream for Transport {
    type Item = io::Result<Vec<u8>>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut wire = self.0.lock().unwrap();
        match wire.incoming.pop_front() {
            Some(item) => Poll::Ready(item),
            None => {
                wire.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Sink<Vec<u8>> for Transport {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.0.lock().unwrap();
        wire.waker = Some(cx.waker().clone());
        if wire.room == 0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }

    fn start_send(self: Pin<&mut Self>, message: Vec<u8>) -> io::Result<()> {
        let mut wire = self.0.lock().unwrap();
        wire.room = wire.room.checked_sub(1).unwrap();
        wire.sent.push(message);
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.0.lock().unwrap();
        wire.flushes += 1;
        Poll::Ready(wire.failure.take().map_or(Ok(()), |kind| Err(kind.into())))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().unwrap().is_closed = true;
        Poll::Ready(Ok(()))
    }
}

/// A clock that is moved by hand, and the wakers of its sleepers.
#[derive(Clone, Default)]
struct Clock(Arc<Mutex<(Timestamp, Option<Waker>)>>);

impl Timer for Clock {
    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn now(&self) -> Timestamp {
        self.0.lock().unwrap().0
    }

    fn sleep_until(&self, due: Timestamp) -> Self::Sleep {
        let clock = self.0.clone();
        Box::pin(std::future::poll_fn(move |cx| {
            let mut clock = clock.lock().unwrap();
            clock.1 = Some(cx.waker().clone());
            if clock.0 >= due { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, SeqCst);
    }
}

/// A connection, and the peer's side of it.
struct Bench {
    peer: Option<Peer>,
    incoming: Incoming,
    driver: MessageDriver<Transport, Clock>,
    wire: Arc<Mutex<Wire>>,
    clock: Clock,
    woken: Arc<Flag>,
    ended: Option<io::Result<()>>,
}

impl Bench {
    fn new(dialect: Dialect) -> Self {
        Self::with(Config::client(dialect))
    }

    fn with(options: impl Into<Options>) -> Self {
        let (transport, clock) = (Transport::default(), Clock::default());
        let wire = transport.0.clone();
        wire.lock().unwrap().room = usize::MAX;
        let (peer, incoming, driver) = connect_messages(transport, clock.clone(), options);
        let woken = Arc::new(Flag(AtomicBool::new(true)));
        Self { peer: Some(peer), incoming, driver, wire, clock, woken, ended: None }
    }

    /// Polls the driver for as long as it is woken.
    fn run(&mut self) {
        let waker = Waker::from(self.woken.clone());
        let mut cx = Context::from_waker(&waker);
        while self.ended.is_none() && self.woken.0.swap(false, SeqCst) {
            if let Poll::Ready(ended) = pin!(&mut self.driver).poll(&mut cx) {
                self.ended = Some(ended);
            }
        }
    }

    fn deliver(&mut self, items: impl IntoIterator<Item = Option<io::Result<Vec<u8>>>>) {
        let waker = {
            let mut wire = self.wire.lock().unwrap();
            wire.incoming.extend(items);
            wire.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
        self.run();
    }

    fn receive(&mut self, messages: &[Value]) {
        let messages: Vec<_> =
            messages.iter().map(|message| Some(Ok(message.to_string().into()))).collect();
        self.deliver(messages);
    }

    fn advance(&mut self, by: Duration) {
        let waker = {
            let mut clock = self.clock.0.lock().unwrap();
            clock.0 = clock.0 + by;
            clock.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
        self.run();
    }

    fn room(&mut self, room: usize) {
        let waker = {
            let mut wire = self.wire.lock().unwrap();
            wire.room = room;
            wire.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
        self.run();
    }

    /// Returns everything that was sent since the last time, each message by itself.
    fn sent(&mut self) -> Vec<Value> {
        self.run();
        let sent = std::mem::take(&mut self.wire.lock().unwrap().sent);
        sent.iter().map(|message| serde_json::from_slice(message).unwrap()).collect()
    }

    fn call(&self, method: &str) -> SentRequest<Value> {
        self.peer.as_ref().unwrap().call(method, ())
    }

    fn request(&mut self) -> Responder {
        match self.incoming.receive().now_or_never() {
            Some(Ok(Arrival::Request(_, responder))) => responder,
            other => panic!("{other:?} is no request"),
        }
    }

    fn hang_up(mut self) -> io::Result<()> {
        self.peer = None;
        drop(self.incoming);
        self.ended.unwrap()
    }
}

fn request(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "work" })
}

fn cancel(id: u64) -> Value {
    json!({ "jsonrpc": "2.0", "method": "$/cancel_request", "params": { "requestId": id } })
}

#[test]
fn each_message_is_sent_by_itself_whatever_the_framing_of_the_dialect() {
    for dialect in [Dialect::ACP_V1, Dialect::LSP_3_17] {
        let mut bench = Bench::new(dialect);
        let calls = [bench.call("a"), bench.call("b")];
        let sent = bench.sent();
        assert_eq!((&sent[0]["method"], &sent[1]["method"]), (&json!("a"), &json!("b")));
        bench.receive(&[json!({ "jsonrpc": "2.0", "id": sent[0]["id"], "result": 7 })]);
        let [first, _second] = calls;
        assert_eq!(first.now_or_never().unwrap().unwrap(), 7);
    }
}

#[test]
fn messages_that_wait_together_leave_in_one_flush() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    let cork = bench.peer.as_ref().unwrap().cork();
    let calls: Vec<_> = (0..1_000).map(|_| bench.call("work")).collect();
    assert_eq!(bench.sent().len(), 0);
    drop(cork);
    assert_eq!(bench.sent().len(), 1_000);
    assert_eq!(bench.wire.lock().unwrap().flushes, 1);
    drop(calls);
}

#[test]
fn g05_what_a_cork_holds_is_given_up_with_the_connection() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    let cork = bench.peer.as_ref().unwrap().cork();
    let call = bench.call("work");
    bench.peer.as_ref().unwrap().shutdown(Shutdown::Abandon);
    assert!(call.now_or_never().unwrap().is_err());
    drop(cork);
    assert_eq!(bench.sent(), Vec::<Value>::new());
}

#[test]
fn f47_one_poll_reads_no_more_than_its_turn() {
    for (text, most) in [("".to_owned(), 16), ("x".repeat(1_000), 4), ("x".repeat(10_000), 1)] {
        let mut bench = Bench::new(Dialect::ACP_V1);
        let message = json!({ "jsonrpc": "2.0", "method": "n", "params": [text] }).to_string();
        let flood = (0..1_000).map(|_| Some(Ok(message.clone().into_bytes())));
        bench.wire.lock().unwrap().incoming.extend(flood);
        let waker = Waker::from(bench.woken.clone());
        let polled = pin!(&mut bench.driver).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        let read = 1_000 - bench.wire.lock().unwrap().incoming.len();
        assert!(0 < read && read <= most, "{read} messages were read");
        bench.run();
        assert_eq!(bench.wire.lock().unwrap().incoming.len(), 0, "the others have theirs");
    }
}

#[test]
fn a_driver_that_has_done_all_there_is_sleeps() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    bench.run();
    let call = bench.call("work");
    assert!(bench.woken.0.swap(false, SeqCst));
    let waker = Waker::from(bench.woken.clone());
    let mut cx = Context::from_waker(&waker);
    assert!(pin!(&mut bench.driver).poll(&mut cx).is_pending());
    assert_eq!(bench.wire.lock().unwrap().sent.len(), 1);
    assert!(!bench.woken.0.load(SeqCst), "all is sent");

    let note = json!({ "jsonrpc": "2.0", "method": "note" }).to_string();
    bench.wire.lock().unwrap().incoming.push_back(Some(Ok(note.into_bytes())));
    assert!(pin!(&mut bench.driver).poll(&mut cx).is_pending());
    assert!(bench.incoming.receive().now_or_never().is_some());
    assert!(!bench.woken.0.load(SeqCst), "all is read, and there is nothing to send");
    drop(call);
}

#[test]
fn who_waits_until_all_is_written_sleeps_until_it_is() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    bench.room(0);
    let stuck = bench.call("stuck");
    bench.run();
    let peer = bench.peer.clone().unwrap();
    let mut flushed = pin!(peer.flushed());
    let woken = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Waker::from(woken.clone());
    let mut cx = Context::from_waker(&waker);
    assert!(flushed.as_mut().poll(&mut cx).is_pending());
    let other = bench.call("other");
    bench.receive(&[request(1)]);
    assert!(!woken.0.load(SeqCst), "nothing is written yet");
    bench.room(8);
    assert!(woken.0.load(SeqCst));
    assert!(flushed.as_mut().poll(&mut cx).is_ready());
    drop((stuck, other));
}

#[test]
fn g03_cancels_are_marked_while_the_peer_reads_nothing() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    bench.room(0);
    bench.receive(&[request(1), request(2)]);
    let (first, second) = (bench.request(), bench.request());
    first.respond(to_raw_value("stuck").unwrap());
    // It is being written, and can't be.
    bench.run();
    bench.receive(&[cancel(2)]);
    assert!(second.cancellation().is_cancelled());
    assert_eq!(bench.sent(), Vec::<Value>::new());
    bench.room(8);
    assert_eq!(bench.sent().len(), 1);
}

#[test]
fn g04_what_the_peer_has_no_room_for_can_be_withdrawn() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    bench.room(0);
    let stuck = bench.call("stuck");
    bench.run();
    let withdrawn = bench.call("withdrawn");
    bench.run();
    drop(withdrawn);
    bench.room(8);
    assert_eq!(bench.sent().len(), 1);
    drop(stuck);
}

#[test]
fn g04_only_so_much_is_taken_to_be_written_and_the_rest_can_be_withdrawn() {
    let mut options = Options::new(Config::client(Dialect::ACP_V1));
    options.pipe_bytes = 1;
    let mut bench = Bench::with(options);
    bench.room(0);
    let [first, second, withdrawn] = ["first", "second", "withdrawn"].map(|name| bench.call(name));
    bench.run();
    drop(withdrawn);
    bench.room(8);
    let sent: Vec<Value> = bench.sent().iter().map(|sent| sent["method"].clone()).collect();
    assert_eq!(sent, ["first", "second"]);
    drop((first, second));
}

#[test]
fn f91_a_peer_that_takes_a_batch_slowly_is_waited_for() {
    let mut options = Options::new(Config::client(Dialect::ACP_V1));
    options.patience = Duration::from_secs(1);
    let mut bench = Bench::with(options);
    bench.room(0);
    let peer = bench.peer.take().unwrap();
    (0..6).for_each(|n| peer.try_notify("n", [n]).unwrap());
    peer.shutdown(Shutdown::Drain);
    for part in 0..5 {
        bench.room(1);
        assert_eq!(bench.sent().len(), 1, "given up after {part} parts");
        bench.advance(Duration::from_millis(900));
    }
    assert!(bench.ended.is_none() && !bench.wire.lock().unwrap().is_closed);
    bench.advance(Duration::from_millis(100));
    assert!(bench.ended.is_some(), "it took nothing for as long as the patience");
}

#[test]
fn g05_a_deadline_frees_its_caller_however_stuck_the_peer_is() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    bench.room(0);
    let options = CallOptions::default().timeout(Duration::from_secs(3));
    let sent = bench.peer.as_ref().unwrap().call_with::<Value>("work", (), options);
    bench.run();
    bench.advance(Duration::from_secs(3));
    let outcome = sent.now_or_never().unwrap();
    assert!(matches!(outcome, Err(CallError::TimedOut { cause: Cause::Deadline })), "{outcome:?}");
}

#[test]
fn g07_a_keep_alive_asks_once_in_its_interval_however_soon_it_is_answered() {
    let second = Duration::from_secs(1);
    let dialect = Dialect::MCP_2025_06_18;
    let how = KeepAlive::every(10 * second, &dialect).unwrap().patience(2 * second);
    let mut options = Options::new(Config::client(dialect));
    options.keep_alive = Some(how);
    let mut bench = Bench::with(options);
    bench.run();
    let mut asked = Vec::new();
    for now in 1..=40 {
        bench.advance(second);
        for ping in bench.sent() {
            assert_eq!(ping["method"], "ping");
            bench.receive(&[json!({ "jsonrpc": "2.0", "id": ping["id"], "result": {} })]);
            asked.push(now);
        }
    }
    assert_eq!(asked, [10, 20, 30, 40]);
}

#[test]
fn g07_the_peers_goodbye_settles_every_call_and_marks_every_request() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    let call = bench.call("work");
    bench.receive(&[request(1)]);
    let responder = bench.request();
    bench.deliver([None]);
    assert_eq!(responder.cancellation().cause(), Some(Cause::PeerGone));
    let outcome = call.now_or_never().unwrap();
    assert!(matches!(outcome, Err(CallError::ConnectionLost { .. })), "{outcome:?}");
    drop(responder);
    bench.run();
    assert!(bench.wire.lock().unwrap().is_closed);
    assert!(bench.hang_up().is_ok());
}

#[test]
fn g07_an_error_ends_reading_and_is_what_the_driver_says_but_a_hang_up_is_none() {
    use io::ErrorKind::{ConnectionReset, InvalidData};
    for (kind, said) in [(InvalidData, Some(InvalidData)), (ConnectionReset, None)] {
        let mut bench = Bench::new(Dialect::ACP_V1);
        let call = bench.call("work");
        bench.deliver([Some(Err(kind.into()))]);
        assert!(call.now_or_never().unwrap().is_err());
        assert_eq!(bench.hang_up().err().map(|error| error.kind()), said);
    }
}

#[test]
fn the_first_error_is_what_the_driver_returns() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    bench.room(0);
    bench.peer.as_ref().unwrap().try_notify("n", [1]).unwrap();
    bench.deliver([Some(Err(io::Error::other("first")))]);
    bench.wire.lock().unwrap().failure = Some(io::ErrorKind::PermissionDenied);
    bench.room(1);
    assert_eq!(bench.hang_up().unwrap_err().to_string(), "first");
}

/// The messages that the peer sent before are read first, however many they are. A transport may pause between two.
#[test]
fn f34_an_error_of_sending_ends_the_connection_and_is_told() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    let (answered, lost) = (bench.call("answered"), bench.call("lost"));
    bench.run();
    let note = json!({"jsonrpc": "2.0", "method": "before"});
    let peer = bench.peer.clone().unwrap();
    peer.try_notify("nobody takes it", ()).unwrap();
    bench.wire.lock().unwrap().failure = Some(io::ErrorKind::StorageFull);
    bench.receive(&vec![note; 100]);
    bench.receive(&[json!({"jsonrpc": "2.0", "id": 1, "result": 5})]);
    assert_eq!(answered.now_or_never().unwrap().unwrap(), 5);
    bench.advance(Duration::from_secs(1));
    let lost = lost.now_or_never().unwrap();
    assert!(matches!(lost, Err(CallError::ConnectionLost { cause: Cause::PeerGone, .. })));
    let closed = peer.closed().now_or_never().unwrap();
    assert_eq!(closed.error.unwrap().kind(), io::ErrorKind::StorageFull);
    drop(peer);
    assert_eq!(bench.hang_up().unwrap_err().kind(), io::ErrorKind::StorageFull);
}

#[test]
fn g09_bad_messages_are_answered_and_the_connection_lives() {
    let mut config = Config::server(Dialect::ACP_V1);
    config.limits.message_bytes = 64;
    let mut bench = Bench::with(config);
    let mut bad: Vec<Vec<u8>> = vec![b"".to_vec(), b"{".to_vec(), b"\xff".to_vec()];
    bad.push(vec![b' '; 65]);
    bench.deliver(bad.into_iter().map(|message| Some(Ok(message))));
    let codes: Vec<_> = bench.sent().iter().map(|sent| sent["error"]["code"].clone()).collect();
    assert_eq!(codes, [-32700, -32700, -32700, -32600]);
    bench.receive(&[request(1)]);
    while !matches!(bench.incoming.receive().now_or_never(), Some(Ok(Arrival::Request(..)))) {}
}

#[test]
fn f61_what_is_no_message_is_noise_and_the_observer_sees_all_else_and_the_end() {
    let told = Arc::<Mutex<Vec<String>>>::default();
    let mut options = Options::new(Config::client(Dialect::ACP_V1));
    let (noise, seen) = (told.clone(), told.clone());
    options.noise = Some(Box::new(move |_, bytes: &[u8]| {
        noise.lock().unwrap().push(format!("noise: {}", String::from_utf8_lossy(bytes)));
    }));
    options.observer = Some(Box::new(move |verdict: &Verdict| {
        seen.lock().unwrap().push(match verdict {
            Verdict::Violation { id, .. } => format!("violation: {}", id.as_ref().unwrap()),
            Verdict::Closed { reason } => format!("closed: {reason}"),
            other => format!("{other:?}"),
        });
    }));
    let mut bench = Bench::with(options);
    bench.deliver([Some(Ok(b"listening on port 80".to_vec()))]);
    bench.receive(&[json!({ "jsonrpc": "2.0", "id": 99, "result": "nobody asked" })]);
    bench.deliver([None]);
    let told = told.lock().unwrap();
    assert_eq!(*told, ["noise: listening on port 80", "violation: 99", "closed: peer_gone"]);
}

#[test]
fn our_goodbye_waits_for_the_peers_and_for_what_is_still_on_its_way() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    bench.peer = None;
    bench.incoming = Bench::new(Dialect::ACP_V1).incoming;
    bench.run();
    assert!(bench.wire.lock().unwrap().is_closed && bench.ended.is_none());
    bench.receive(&[request(1)]);
    assert!(bench.ended.is_none());
    bench.deliver([None]);
    assert!(bench.ended.is_some());
}

#[test]
fn our_goodbye_waits_for_two_seconds_at_most() {
    let mut bench = Bench::new(Dialect::ACP_V1);
    bench.peer = None;
    bench.incoming = Bench::new(Dialect::ACP_V1).incoming;
    bench.run();
    bench.advance(Duration::from_millis(1_999));
    assert!(bench.ended.is_none());
    bench.advance(Duration::from_millis(1));
    assert!(bench.ended.is_some());
}

/// The alarm was set for the patience with the last write, which came to its end in time.
#[test]
fn our_goodbye_waits_for_two_seconds_whatever_was_waited_for_before() {
    let mut options = Options::new(Config::client(Dialect::ACP_V1));
    options.patience = Duration::from_secs(1);
    let mut bench = Bench::with(options);
    bench.room(0);
    let peer = bench.peer.take().unwrap();
    peer.try_notify("n", ()).unwrap();
    peer.shutdown(Shutdown::Drain);
    bench.run();
    bench.advance(Duration::from_millis(900));
    bench.room(1);
    assert!(bench.wire.lock().unwrap().is_closed && bench.ended.is_none());
    bench.advance(Duration::from_millis(1_999));
    assert!(bench.ended.is_none());
    bench.advance(Duration::from_millis(1));
    assert!(bench.ended.is_some());
}

#[test]
fn f61_a_line_over_the_limit_is_no_noise_and_shows_nothing_behind_it() {
    let told = Arc::<Mutex<Vec<String>>>::default();
    let mut options = Options::new(Config::client(Dialect::ACP_V1));
    options.config.limits.message_bytes = 100;
    let (noise, seen) = (told.clone(), told.clone());
    options.noise = Some(Box::new(move |_, bytes: &[u8]| {
        noise.lock().unwrap().push(format!("noise: {}", String::from_utf8_lossy(bytes)));
    }));
    options.observer = Some(Box::new(move |verdict: &Verdict| {
        seen.lock().unwrap().push(format!("{verdict:?}"));
    }));
    let mut bench = Bench::with(options);
    let lines =
        format!("[\"{}\"]\n{}\n", "x".repeat(100), r#"{"jsonrpc":"2.0","method":"secret"}"#);
    bench.deliver([Some(Ok(lines.into_bytes()))]);
    let told = told.lock().unwrap();
    assert!(told.len() == 1 && told[0].contains("TooLarge"), "{told:?}");
}

//! The pace of a relay, by hand and on a clock of the test's own. A relay reads a side slowly while the other
//! side does not take its messages (F70). It waits for a client that has ended its input (F76).

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures_io::{AsyncRead, AsyncWrite};
use protocol_async::Timer;
use protocol_async::relay::{Input, NotRead, Options, Wait, relay};
use protocol_core::{Config, Dialect, Timestamp};
use protocol_relay::{RelayEvent, Side};

/// A clock that stands until the test moves it. It wakes nobody, for the test polls the sleepers anyway.
#[derive(Clone, Default)]
struct Clock {
    millis: Arc<AtomicU64>,
    /// The time until which the latest sleep lasts.
    asked: Arc<Mutex<Timestamp>>,
}

impl Clock {
    fn advance(&self, millis: u64) {
        self.millis.fetch_add(millis, Ordering::Relaxed);
    }
}

impl Timer for Clock {
    type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.millis.load(Ordering::Relaxed))
    }

    fn sleep_until(&self, due: Timestamp) -> Self::Sleep {
        let clock = self.clone();
        *clock.asked.lock().unwrap() = due;
        Box::pin(std::future::poll_fn(move |_| {
            if clock.now() >= due { Poll::Ready(()) } else { Poll::Pending }
        }))
    }
}

/// One direction of a line. The test holds its other end.
#[derive(Clone, Default)]
struct Pipe(Arc<Mutex<Bytes>>);

#[derive(Default)]
struct Bytes {
    bytes: Vec<u8>,
    /// Nothing more comes once these are read.
    is_ended: bool,
    /// Each read returns the same bytes again.
    is_endless: bool,
    /// The number of bytes that can still be written. `None` is no limit.
    room: Option<usize>,
    /// Nothing can ever be written again.
    is_broken: bool,
    /// Closing it waits for ever.
    never_closes: bool,
}

impl Pipe {
    fn put(&self, line: &str) {
        let mut pipe = self.0.lock().unwrap();
        pipe.bytes.extend_from_slice(line.as_bytes());
        pipe.bytes.push(b'\n');
    }

    fn end(&self) {
        self.0.lock().unwrap().is_ended = true;
    }

    fn stick(&self, is_stuck: bool) {
        self.0.lock().unwrap().room = is_stuck.then_some(0);
    }

    /// Takes so many more bytes, and then none.
    fn take(&self, bytes: usize) {
        self.0.lock().unwrap().room = Some(bytes);
    }

    fn break_off(&self) {
        self.0.lock().unwrap().is_broken = true;
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap().bytes.len()
    }

    fn lines(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut self.0.lock().unwrap().bytes);
        String::from_utf8(bytes).unwrap().lines().map(Into::into).collect()
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.lock().unwrap();
        let read = room.len().min(pipe.bytes.len());
        if read == 0 && !pipe.is_ended {
            return Poll::Pending;
        }
        room[..read].copy_from_slice(&pipe.bytes[..read]);
        if !pipe.is_endless {
            pipe.bytes.drain(..read);
        }
        Poll::Ready(Ok(read))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut pipe = self.0.lock().unwrap();
        if pipe.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = pipe.room.map_or(bytes.len(), |room| room.min(bytes.len()));
        if taken == 0 {
            return Poll::Pending;
        }
        pipe.room = pipe.room.map(|room| room - taken);
        pipe.bytes.extend_from_slice(&bytes[..taken]);
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.0.lock().unwrap().never_closes { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

/// Whether it was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A relay whose two peers are the test.
struct Bench {
    clock: Clock,
    from_client: Pipe,
    to_client: Pipe,
    from_server: Pipe,
    to_server: Pipe,
    told: Arc<Mutex<Vec<String>>>,
    driver: Pin<Box<dyn Future<Output = io::Result<()>>>>,
}

/// The bytes that may be unsent on one side.
const UNSENT: usize = 4 << 20;
/// The unsent bytes from which on the relay reads the other side slowly.
const SLOW: usize = UNSENT / 16;
/// The bytes of one read.
const READ: usize = 64 << 10;

impl Bench {
    fn new(answer_after_end: Duration) -> Self {
        let (mut up, mut down) = (Config::server(Dialect::ACP_V1), Config::client(Dialect::ACP_V1));
        (up.limits.unsent_bytes, down.limits.unsent_bytes) = (UNSENT, UNSENT);
        let told = Arc::<Mutex<Vec<String>>>::default();
        let mut options = Options::new(up, down);
        options.answer_after_end = answer_after_end;
        let (events, waits, inputs) = (told.clone(), told.clone(), told.clone());
        options.inputs = Some(Box::new(move |input: Input<'_>, _| {
            let (Input::TooLarge(_, bytes) | Input::Broken(_, bytes)) = input else { return };
            inputs.lock().unwrap().push(String::from_utf8(bytes.to_vec()).unwrap());
        }));
        options.observer = Some(Box::new(move |side: Side, event: RelayEvent| {
            events.lock().unwrap().push(format!("{side}: {event}"));
        }));
        options.waits = Some(Box::new(move |wait: Wait| {
            waits.lock().unwrap().push(format!("{wait:?}"));
        }));
        let [from_client, to_client, from_server, to_server] =
            std::array::from_fn(|_| Pipe::default());
        let clock = Clock::default();
        let driver = Box::pin(relay(
            (from_client.clone(), to_client.clone()),
            (from_server.clone(), to_server.clone()),
            clock.clone(),
            options,
        ));
        Self { clock, from_client, to_client, from_server, to_server, told, driver }
    }

    /// Lets the relay do everything that it can at this time. Returns whether it has ended.
    fn run(&mut self) -> bool {
        self.ends().is_some()
    }

    /// Returns the result of the relay if it ends at this time.
    fn ends(&mut self) -> Option<io::Result<()>> {
        // It may have more turns to do than it takes in one poll.
        let mut cx = Context::from_waker(Waker::noop());
        (0..1_000).find_map(|_| match self.driver.as_mut().poll(&mut cx) {
            Poll::Ready(ended) => Some(ended),
            Poll::Pending => None,
        })
    }

    /// Returns whether the relay waits for somebody, and does not ask to be polled again at once.
    fn is_at_rest(&mut self) -> bool {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(woken.clone());
        self.driver.as_mut().poll(&mut Context::from_waker(&waker)).is_pending()
            && !woken.0.load(Ordering::Relaxed)
    }

    fn told(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }
}

const CANCEL: &str = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;

#[test]
fn f70_a_server_whose_client_does_not_read_is_read_slowly_and_nothing_is_lost() {
    let mut bench = Bench::new(Duration::ZERO);
    bench.from_client.put(r#"{"jsonrpc":"2.0","id":1,"method":"work"}"#);
    bench.to_client.stick(true);
    let padding = "x".repeat(1_000);
    let said: Vec<String> = (0..6_000)
        .map(|n| format!(r#"{{"jsonrpc":"2.0","method":"n","params":[{n},"{padding}"]}}"#))
        .collect();
    said.iter().for_each(|line| bench.from_server.put(line));
    let all = bench.from_server.len();
    assert!(all > UNSENT, "more than the relay keeps");

    bench.run();
    let read = all - bench.from_server.len();
    // What leaves the outbox to be written waits there no more.
    assert!((SLOW..SLOW + 4 * READ).contains(&read), "{read} bytes are read at once");
    bench.run();
    assert_eq!(all - bench.from_server.len(), read, "and no more at this time");
    for reads in 1..=3 {
        bench.clock.advance(100);
        bench.run();
        assert_eq!(all - bench.from_server.len(), read + reads * READ, "one read each 100 ms");
    }

    assert_eq!(bench.to_server.lines().len(), 1);
    bench.from_client.put(CANCEL);
    bench.run();
    assert_eq!(bench.to_server.lines(), [CANCEL], "a cancel passes all the same");

    bench.to_client.stick(false);
    bench.run();
    assert_eq!(bench.to_client.lines(), said, "at full pace again");
    assert_eq!(bench.told(), [""; 0]);
}

#[test]
fn f70_what_does_not_fit_is_told_as_before() {
    let mut bench = Bench::new(Duration::ZERO);
    bench.to_client.stick(true);
    let padding = "x".repeat(10_000);
    let line = format!(r#"{{"jsonrpc":"2.0","method":"n","params":["{padding}"]}}"#);
    (0..1_000).for_each(|_| bench.from_server.put(&line));
    for _ in 0..200 {
        bench.clock.advance(100);
        bench.run();
    }
    let told = bench.told();
    assert!(told.len() > 500, "{}", told.len());
    assert!(told[0].starts_with("down: notification n was not forwarded: "), "{}", told[0]);
}

#[test]
fn g04_what_the_server_does_not_take_can_be_withdrawn() {
    let mut bench = Bench::new(Duration::ZERO);
    let ask = |id: u64, bytes: usize| {
        let padding = "x".repeat(bytes);
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"work","params":["{padding}"]}}"#)
    };
    bench.to_server.stick(true);
    bench.from_client.put(&ask(4, 0));
    bench.run();
    for id in [3, 2, 1] {
        bench.from_client.put(&ask(id, 50_000));
        bench.run();
    }
    // The first leaves, and as much of the rest is taken as is written at once.
    bench.to_server.take(ask(4, 0).len() + 1);
    bench.run();
    bench.from_client.put(CANCEL);
    bench.run();
    bench.to_server.stick(false);
    bench.run();
    let taken: Vec<usize> =
        bench.to_server.lines().iter().map(|line| line.len() / 50_000).collect();
    assert_eq!(taken, [0, 1, 1], "nothing of the one that was cancelled");
}

#[test]
fn f76_the_end_of_input_is_kept_back_until_all_is_answered_or_the_time_is_over() {
    for is_answered in [true, false] {
        let mut bench = Bench::new(Duration::from_secs(5));
        bench.from_client.put(r#"{"jsonrpc":"2.0","id":1,"method":"work"}"#);
        bench.from_client.end();
        bench.run();
        assert_eq!(bench.told(), ["Answers { requests: 1, within: 5s }"]);
        assert_eq!(*bench.clock.asked.lock().unwrap(), Timestamp::from_millis(5_000));
        assert_eq!(bench.to_server.lines().len(), 1);
        bench.clock.advance(4_999);
        assert!(!bench.run());
        assert_eq!(bench.to_server.lines(), [""; 0], "nothing is cancelled");
        let answer = r#"{"jsonrpc":"2.0","id":1,"result":7}"#;
        if is_answered {
            bench.from_server.put(answer);
            bench.run();
            assert_eq!(bench.to_client.lines(), [answer]);
            assert_eq!(bench.told(), ["up: closed: peer_gone", "down: closed: shutdown"]);
        } else {
            bench.clock.advance(1);
            bench.run();
            assert_eq!(bench.to_server.lines(), [CANCEL]);
            let told = bench.told();
            assert!(told.contains(&"Cancelled { requests: 1, within: 30s }".into()), "{told:?}");
        }
        bench.from_server.end();
        assert!(bench.run(), "it ends when the server does");
    }
}

#[test]
fn f76_a_client_that_reads_no_more_is_gone_though_its_input_is_open() {
    let mut bench = Bench::new(Duration::from_secs(3_600));
    bench.from_client.put(r#"{"jsonrpc":"2.0","id":1,"method":"work"}"#);
    bench.run();
    assert_eq!(bench.to_server.lines().len(), 1);
    bench.to_client.break_off();
    bench.from_server.put(r#"{"jsonrpc":"2.0","method":"n"}"#);
    bench.run();
    assert_eq!(bench.to_server.lines(), [CANCEL]);
    let told = bench.told();
    assert!(told.contains(&"Cancelled { requests: 1, within: 30s }".into()), "{told:?}");
}

#[test]
fn f34_a_client_that_reads_no_more_is_gone_though_it_never_stops_talking() {
    let mut bench = Bench::new(Duration::ZERO);
    let note = r#"{"jsonrpc":"2.0","method":"n"}"#;
    bench.from_client.put(note);
    bench.from_client.0.lock().unwrap().is_endless = true;
    bench.to_client.break_off();
    bench.from_server.put(note);
    bench.run();
    assert_eq!(bench.told(), ["up: closed: peer_gone", "down: closed: shutdown"]);
    let last = bench.to_server.lines().len();
    assert!((1..300).contains(&last), "{last} reads are more than its last words take");
}

#[test]
fn f76_a_held_end_is_told_in_time_though_the_server_takes_nothing() {
    let mut bench = Bench::new(Duration::from_millis(5_050));
    bench.from_client.put(r#"{"jsonrpc":"2.0","id":1,"method":"work"}"#);
    bench.run();
    bench.to_server.stick(true);
    let padding = "x".repeat(1_000);
    let line = format!(r#"{{"jsonrpc":"2.0","method":"n","params":["{padding}"]}}"#);
    (0..1_000).for_each(|_| bench.from_client.put(&line));
    bench.from_client.end();
    while bench.told().is_empty() {
        bench.clock.advance(100);
        bench.run();
        assert!(bench.is_at_rest());
    }
    // The next time at which it would be read, were there anything to read.
    bench.clock.advance(100);
    bench.run();
    assert!(bench.is_at_rest(), "nothing is read, so no pace is waited for");
    bench.clock.advance(4_949);
    bench.run();
    assert!(bench.is_at_rest() && bench.told().is_empty());
    bench.clock.advance(1);
    bench.run();
    let told = bench.told();
    assert!(told.contains(&"Cancelled { requests: 1, within: 30s }".into()), "{told:?}");
    assert!(bench.is_at_rest());
}

#[test]
fn f69_a_client_that_does_not_read_has_time_for_as_long_as_the_server_works() {
    let mut bench = Bench::new(Duration::ZERO);
    bench.to_client.stick(true);
    let note = r#"{"jsonrpc":"2.0","method":"n"}"#;
    bench.from_client.put(r#"{"jsonrpc":"2.0","id":1,"method":"work"}"#);
    bench.from_server.put(note);
    bench.run();
    bench.from_client.end();
    bench.run();
    assert_eq!(bench.to_server.lines().len(), 2, "it is asked, and then cancelled");
    bench.clock.advance(5_000);
    assert!(bench.ends().is_none());
    bench.to_client.stick(false);
    bench.run();
    assert_eq!(bench.to_client.lines(), [note]);
}

#[test]
fn f69_what_a_peer_does_not_read_in_time_is_lost_with_an_error_and_who_reads_slowly_has_time() {
    for side in [Side::Up, Side::Down] {
        let mut bench = Bench::new(Duration::ZERO);
        let padding = "x".repeat(1_000);
        let line = format!(r#"{{"jsonrpc":"2.0","method":"n","params":["{padding}"]}}"#);
        let (from, to) = match side {
            Side::Up => (bench.from_server.clone(), bench.to_client.clone()),
            Side::Down => (bench.from_client.clone(), bench.to_server.clone()),
        };
        to.stick(true);
        (0..10).for_each(|_| from.put(&line));
        bench.run();
        bench.from_client.end();
        bench.from_server.end();
        assert!(!bench.run());
        for _ in 0..10 {
            bench.clock.advance(4_999);
            assert!(bench.ends().is_none(), "it was waited for 5 s");
            to.take(100);
            assert!(bench.ends().is_none(), "it reads");
        }
        bench.clock.advance(4_999);
        assert!(bench.ends().is_none(), "the time begins again with every byte");
        bench.clock.advance(1);
        let error = bench.ends().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let lost = error.get_ref().unwrap().downcast_ref::<NotRead>().unwrap();
        assert_eq!(lost.side, side);
    }
}

/// All that it was to be told is written, so nothing is lost.
#[test]
fn g08_a_side_that_can_not_be_closed_is_waited_for_no_longer_than_one_that_does_not_read() {
    for side in [Side::Up, Side::Down] {
        let mut bench = Bench::new(Duration::ZERO);
        let to = if side == Side::Up { &bench.to_client } else { &bench.to_server };
        to.0.lock().unwrap().never_closes = true;
        bench.from_client.end();
        bench.from_server.end();
        assert!(!bench.run());
        bench.clock.advance(4_999);
        assert!(!bench.run());
        assert!(bench.is_at_rest());
        bench.clock.advance(1);
        assert!(bench.ends().unwrap().is_ok());
    }
}

/// A request of the peer's is lost with the other side. The error for it finds no room.
#[test]
fn f69_a_peer_that_does_not_read_is_given_up_though_a_response_waits_for_room() {
    for side in [Side::Up, Side::Down] {
        let mut bench = Bench::new(Duration::ZERO);
        let (from, to, asks) = match side {
            Side::Up => (&bench.from_server, &bench.to_client, &bench.from_client),
            Side::Down => (&bench.from_client, &bench.to_server, &bench.from_server),
        };
        let (from, to, asks) = (from.clone(), to.clone(), asks.clone());
        to.stick(true);
        asks.put(r#"{"jsonrpc":"2.0","id":1,"method":"ask"}"#);
        bench.run();
        let padding = "x".repeat(60_000);
        let long = format!(r#"{{"jsonrpc":"2.0","method":"n","params":["{padding}"]}}"#);
        let short = r#"{"jsonrpc":"2.0","method":"n"}"#;
        (0..80).for_each(|_| from.put(&long));
        (0..4_000).for_each(|_| from.put(short));
        for _ in 0..200 {
            bench.clock.advance(100);
            bench.run();
        }
        let told = bench.told();
        assert!(told.iter().any(|told| told.contains("the outbox is full")), "{told:?}");
        from.end();
        assert!(bench.ends().is_none());
        bench.clock.advance(5_000);
        let error = bench.ends().expect("it is given up").unwrap_err();
        let closed = bench.told().into_iter().filter(|told| told.contains("closed: "));
        assert_eq!(closed.count(), 2, "both sides are told");
        assert_eq!(error.get_ref().unwrap().downcast_ref::<NotRead>().unwrap().side, side);
    }
}

#[test]
fn g10_the_outline_of_a_message_over_the_limit_that_ends_its_side_is_an_input() {
    let mut bench = Bench::new(Duration::from_secs(9));
    bench.from_client.put(r#"{"jsonrpc":"2.0","id":1,"method":"slow"}"#);
    assert!(!bench.run());
    bench.from_client.end();
    assert!(!bench.run());
    bench.told();
    let long = "x".repeat(17 << 20);
    bench.from_server.put(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":"{long}"}}"#));
    assert!(bench.run(), "that was the last response");
    assert_eq!(bench.told()[0], r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
}

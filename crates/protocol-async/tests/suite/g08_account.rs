//! The heap of a connection stays under the formula of all layers (G8, F31, F44, F48). That holds whatever the
//! peer does, and whatever nobody takes, reads or responds to. A counting allocator drives each row to its
//! worst, all of them on one connection.

use std::cell::{Cell, RefCell};
use std::future::{Future, Pending, pending};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::FutureExt;
use heap::Heap;
use protocol_async::{
    Arrival, CallError, Cork, Driver, Incoming, KeepAlive, Memory, Options, Peer, Request,
    Responder, SentRequest, Timer, connect,
};
use protocol_core::{Config, Dialect, Timestamp};
use serde_json::value::{RawValue, to_raw_value};

/// Time stands still.
#[derive(Clone)]
struct Still;

impl Timer for Still {
    type Sleep = Pending<()>;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn sleep_until(&self, _: Timestamp) -> Pending<()> {
        pending()
    }
}

/// The bytes that the peer sends. Their memory is allocated before anything is counted.
#[derive(Clone)]
struct Says(Rc<RefCell<Vec<u8>>>);

impl AsyncRead for Says {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut said = self.0.borrow_mut();
        let read = said.len().min(room.len());
        if read == 0 {
            return Poll::Pending;
        }
        room[..read].copy_from_slice(&said[..read]);
        said.drain(..read);
        Poll::Ready(Ok(read))
    }
}

/// A writer to the peer, which takes all bytes or none.
#[derive(Clone)]
struct Reads(Rc<Cell<bool>>);

impl AsyncWrite for Reads {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.0.get() { Poll::Ready(Ok(bytes.len())) } else { Poll::Pending }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A connection, and a peer that sends and reads when the test says so.
struct Account {
    memory: Memory,
    heap: Heap,
    peer: Peer,
    incoming: Incoming,
    driver: Driver<Says, Reads, Still>,
    says: Says,
    reads: Reads,
    at_work: Vec<(Request, Responder)>,
    calls: Vec<SentRequest>,
    cork: Option<Cork>,
}

impl Account {
    fn new(options: Options) -> Self {
        let says = Says(Rc::new(RefCell::new(Vec::with_capacity(4 << 20))));
        let reads = Reads(Rc::new(Cell::new(true)));
        let (at_work, calls) = (Vec::with_capacity(1 << 10), Vec::with_capacity(1 << 10));
        let memory = options.memory();
        let heap = Heap::of_thread();
        let (peer, incoming, driver) = connect(says.clone(), reads.clone(), Still, options);
        Self { memory, heap, peer, incoming, driver, says, reads, at_work, calls, cork: None }
    }

    /// Returns the number of bytes that are held now.
    fn live(&self) -> usize {
        self.heap.held()
    }

    /// Returns the most bytes that were held. Asserts that they were under the formula.
    fn judge(&self) -> usize {
        let peak = self.heap.peak();
        let total = self.memory.total();
        assert!(peak <= total, "{peak} bytes were held\n{}", self.memory);
        peak
    }

    fn says(&mut self, message: &str) {
        let mut said = self.says.0.borrow_mut();
        said.extend_from_slice(message.as_bytes());
        said.push(b'\n');
        assert!(said.capacity() <= 4 << 20, "the peer's own memory is not counted");
        drop(said);
        self.run();
    }

    fn run(&mut self) {
        for _ in 0..64 {
            let _ = Pin::new(&mut self.driver).poll(&mut Context::from_waker(Waker::noop()));
        }
    }

    fn asks(&mut self, id: &str, method: &str, params: &str) {
        self.says(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"{method}","params":[{params}]}}"#
        ));
    }

    fn takes(&mut self) {
        while let Some(Ok(arrival)) = self.incoming.receive().now_or_never() {
            if let Arrival::Request(request, responder) = arrival {
                self.at_work.push((request, responder));
            }
        }
    }

    fn call(&mut self, method: &str) {
        self.calls.push(self.peer.call_raw(method, None, protocol_core::CallOptions::default()));
        self.run();
    }

    fn answers(&mut self, number: usize, result: &str) {
        self.says(&format!(r#"{{"jsonrpc":"2.0","id":{number},"result":"{result}"}}"#));
    }
}

fn options() -> Options {
    let mut config = Config::server(Dialect::JSON_RPC);
    config.limits.message_bytes = 8 << 10;
    config.limits.header_bytes = 256;
    config.limits.id_bytes = 64;
    config.limits.calls = 64;
    config.limits.requests = 64;
    config.limits.unsent_bytes = 16 << 10;
    config.limits.unsent_messages = 128;
    config.limits.batch_members = 64;
    config.limits.abandoned_ids = 16;
    config.limits.early_cancels = 16;
    config.limits.works = 16;
    let mut options = Options::new(config);
    options.inbox_bytes = 64 << 10;
    options.work_requests = 32;
    options.work_bytes = 64 << 10;
    options.response_bytes = 64 << 10;
    options.result_bytes = 64 << 10;
    options.pipe_bytes = 4 << 10;
    options
}

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

fn json(bytes: usize) -> Box<RawValue> {
    to_raw_value(&text(bytes)).unwrap()
}

#[test]
fn g08_what_nobody_takes_reads_or_answers_stays_under_the_formula() {
    let mut account = Account::new(options());
    let long = text(7 << 10);
    let mut held = vec![("nothing", account.live())];
    // What each of them adds is under its own row, too.
    let mut note = |account: &Account, what, row: usize| {
        account.judge();
        let (_, before) = held[held.len() - 1];
        let more = account.live().saturating_sub(before);
        assert!(more <= row, "{more} more bytes are held after {what}, {row} is the most");
        held.push((what, account.live()));
    };
    let memory = account.memory;

    for _ in 0..64 {
        account.call(&long);
    }
    note(&account, "calls with long methods", memory.core);
    for number in 1..=48 {
        account.answers(number, &long);
    }
    note(&account, "results that nobody takes", memory.results);
    for id in 0..64 {
        account.asks(&format!("{id}{}", text(40)), &long, "");
        account.takes();
    }
    note(&account, "requests at work", memory.work + memory.handles);
    account.at_work.clear();
    for id in 0..64 {
        account.asks(&format!("{id}"), "m", "");
        account.takes();
    }
    assert_eq!(account.at_work.len(), 32, "it takes as many as the limit allows");
    note(&account, "small ones in their place", 0);
    account.reads.0.set(false);
    let note_params = serde_json::value::to_raw_value(&[text(1 << 10)]).unwrap();
    let cork = account.peer.cork();
    account.cork = Some(cork);
    for _ in 0..200 {
        let _ = account.peer.try_notify_raw("n", Some(&note_params));
        account.run();
    }
    note(&account, "a cork", memory.corked + 4 * (16 << 10));
    while let Some((_, responder)) = account.at_work.pop() {
        responder.respond(json(7 << 10));
        account.run();
    }
    note(&account, "answers that wait", memory.responses);
    for id in 100..400 {
        account.asks(&format!("{id}"), &long, "");
        account.says(r#"{"jsonrpc":"2.0","method":"n","params":[1]}"#);
        account.says(&format!(r#"{{"jsonrpc":"2.0","id":"{}","method":7}}"#, text(60)));
    }
    note(&account, "arrivals", memory.inbox + memory.responses);
    let batch = vec![r#"{"jsonrpc":"2.0","method":"n"}"#; 64].join(",");
    for _ in 0..64 {
        account.says(&format!("[{batch}]"));
    }
    note(&account, "batches", memory.inbox);
    account.says.0.borrow_mut().extend_from_slice(&[b'['; 8 << 10]);
    account.run();
    note(&account, "an unfinished message", memory.reading);
    account.cork = None;
    account.reads.0.set(true);
    account.run();
    drop(account.incoming.clone());
    note(&account, "all is read", 0);

    let peak = account.judge();
    println!("{}\nat most held: {peak}", account.memory);
    held.iter().for_each(|(what, live)| println!("{live:>8} after: {what}"));
    assert!(peak > account.memory.total() / 6, "no row is driven to its worst");
}

#[test]
fn g08_a_result_that_does_not_fit_is_told_to_its_caller() {
    let mut options = options();
    options.result_bytes = 3 << 10;
    let mut account = Account::new(options);
    (0..4).for_each(|_| account.call("ask"));
    (1..=4).for_each(|number| account.answers(number, &text(1 << 10)));
    let outcomes: Vec<bool> = std::mem::take(&mut account.calls)
        .into_iter()
        .map(|call| match call.now_or_never().unwrap() {
            Ok(_) => true,
            Err(CallError::Untaken) => false,
            Err(other) => panic!("{other}"),
        })
        .collect();
    assert_eq!(outcomes, [true, true, false, false], "two fit, and each settles once (G1)");
    // What is taken makes room again; and one alone always fits.
    account.call("ask");
    account.answers(5, &text(7 << 10));
    assert!(account.calls.remove(0).now_or_never().unwrap().is_ok());
}

#[test]
fn f44_the_name_of_a_method_is_not_kept_with_its_request() {
    let mut account = Account::new(options());
    account.reads.0.set(false);
    let long = text(8 << 10 >> 1);
    // All are refused or wait to be: only rows are left of them.
    for id in 0..64 {
        account.asks(&format!("{id}"), &long, "");
        account.takes();
    }
    let work: usize = account.at_work.iter().map(|(request, _)| request.method.len()).sum();
    let live = account.live();
    assert!(live < work + (64 << 10), "{live} bytes are held, {work} of them at work");
}

#[test]
fn g08_what_a_burst_took_is_given_back() {
    let mut options = options();
    options.config.limits.unsent_messages = 1 << 16;
    options.config.limits.unsent_bytes = 16 << 20;
    options.inbox_bytes = 16 << 20;
    let mut account = Account::new(options);
    let quiet = account.live();
    let cork = account.peer.cork();
    for _ in 0..20_000 {
        account.peer.try_notify_raw("n", None).unwrap();
    }
    for _ in 0..8 {
        account.says(&"{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n".repeat(4_000));
    }
    let burst = account.live();
    drop(cork);
    account.takes();
    account.run();
    let after = account.live();
    // Room for one write of the usual size stays, and for one read.
    assert!(burst > 20 * after, "{after} are kept of {burst}, and {quiet} were before");
}

#[test]
fn f47_a_driver_reads_so_much_and_then_others_have_their_turn() {
    let mut account = Account::new(Options::new(Config::server(Dialect::JSON_RPC)));
    let flood = "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n".repeat(100_000);
    account.says.0.borrow_mut().extend_from_slice(flood.as_bytes());
    let mut polls = 0;
    while !account.says.0.borrow().is_empty() {
        let before = account.says.0.borrow().len();
        let _ = Pin::new(&mut account.driver).poll(&mut Context::from_waker(Waker::noop()));
        let read = before - account.says.0.borrow().len();
        assert!(read <= 64 << 10, "{read} bytes in one poll");
        polls += 1;
    }
    assert!(polls > flood.len() >> 16);
}

#[test]
fn g08_a_keep_alive_without_an_interval_leaves_time_for_the_rest() {
    let mut options = options();
    let every = std::time::Duration::ZERO;
    // Its own request is of another protocol, so there is nothing to ask with.
    let keep_alive = KeepAlive::every(every, &Dialect::MCP_2025_11_25).unwrap();
    options.keep_alive = Some(keep_alive);
    let mut account = Account::new(options);
    account.asks("1", "work", "");
    account.takes();
    assert_eq!(account.at_work.len(), 1);
}

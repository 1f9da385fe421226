//! Connections draw on one account of memory. Only a connection that holds more than its share is limited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Poll, Wake, Waker};

use futures_util::FutureExt;
use protocol_async::hub::{Holder, Hub, Messages};
use protocol_async::{Account, AccountLimits, Arrival, Grant, Incoming, Options, Peer};
use protocol_core::{Config, Dialect, InputBuffer, Timestamp};

const MIB: usize = 1 << 20;

/// A server of one connection, whose bytes the test moves.
struct Bench {
    hub: Hub,
    peer: Peer,
    incoming: Incoming,
    input: InputBuffer,
}

impl Bench {
    fn new(account: &Account) -> Self {
        let mut options = Options::new(Config::server(Dialect::ACP_V1));
        options.account = Some(account.clone());
        let (hub, peer, incoming) = Hub::new(options, || Timestamp::ZERO);
        Self { hub, peer, incoming, input: InputBuffer::new() }
    }

    fn reads(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
        let _ = self.hub.receive(&mut self.input);
    }

    fn asks(&mut self, id: usize, length: usize) {
        let params = "x".repeat(length);
        let text = format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"m\",\"params\":[\"{params}\"]}}\n"
        );
        self.reads(text.as_bytes());
    }

    fn writes(&self) -> String {
        let mut out = Messages::default();
        self.hub.poll_output(Waker::noop(), &mut out);
        let written = String::from_utf8(out.bytes().to_vec()).unwrap();
        out.clear();
        self.hub.poll_output(Waker::noop(), &mut out);
        written
    }
}

/// Counts how often a task is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn account() -> Account {
    Account::new(AccountLimits::of(8 * MIB))
}

#[test]
fn f99_who_holds_too_much_is_limited_until_it_holds_less_and_its_driver_is_woken() {
    let account = account();
    let (mut greedy, mut modest) = (Bench::new(&account), Bench::new(&account));
    (0..10).for_each(|id| greedy.asks(id, MIB / 2));
    assert_eq!(greedy.writes(), "", "they wait to be served");
    greedy.asks(11, 10);
    let overload = Dialect::ACP_V1.overload_code.to_string();
    assert!(greedy.writes().contains(&overload), "no new requests");
    assert!(greedy.hub.may_read());

    greedy.reads(&vec![b' '; MIB / 2]);
    let count = Arc::new(Count::default());
    let waker = count.clone().into();
    assert!(!greedy.hub.poll_may_read(&waker), "{}", account.used());
    modest.asks(1, 100 << 10);
    assert!(modest.hub.may_read() && modest.writes().is_empty(), "it is served");
    assert!(modest.incoming.receive().now_or_never().is_some());

    assert_eq!(count.0.load(Relaxed), 0);
    for _ in 0..3 {
        let arrived = greedy.incoming.receive().now_or_never();
        assert!(matches!(arrived, Some(Ok(Arrival::Request(..)))));
    }
    assert!(greedy.hub.may_read() && greedy.peer.closed().now_or_never().is_none());
    assert!(count.0.load(Relaxed) > 0, "the reading task is woken");
}

#[test]
fn f99_the_one_that_holds_most_is_ended_by_its_own_driver_and_says_why() {
    let account = account();
    let (mut greedy, mut other) = (Bench::new(&account), Bench::new(&account));
    (0..10).for_each(|id| greedy.asks(id, MIB / 2));
    let (driver, reader) = (Arc::new(Count::default()), Arc::new(Count::default()));
    greedy.hub.poll_timers(&driver.clone().into());
    // What another one takes is what makes it one too many.
    other.reads(&vec![b' '; 3 * MIB / 2]);
    assert_eq!(driver.0.load(Relaxed), 1, "{}", account.used());
    assert!(!greedy.hub.poll_may_read(&reader.into()));
    let closed = greedy.peer.closed().now_or_never().unwrap();
    assert!(closed.error.unwrap().to_string().contains("memory"));
    assert!(greedy.hub.is_over(), "nothing of it waits to be written");
    assert!(other.peer.closed().now_or_never().is_none());

    drop((greedy, other));
    assert_eq!(account.used(), 0);
}

#[test]
fn f99_who_comes_back_to_its_share_by_a_little_is_limited_no_more() {
    let account = account();
    let (bench, other) = (Bench::new(&account), Bench::new(&account));
    let (mut kept, mut others) = (bench.hub.charge(), other.hub.charge());
    let share = 7 * MIB / 2;
    others.set(3 * MIB);
    kept.set(share + 1);
    assert_eq!(bench.hub.grant(), Grant::NoReading);
    // Nothing else may change for ever: what is left may wait for a cancel that is not read.
    kept.set(share);
    assert_eq!(bench.hub.grant(), Grant::All);
}

#[test]
fn f99_the_room_of_an_input_buffer_is_charged_and_goes_back() {
    let account = account();
    let mut bench = Bench::new(&account);
    bench.reads(&vec![b' '; MIB]);
    assert!(account.used() >= 2 * MIB, "an unfinished message may be copied once");
    bench.reads(b"{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n");
    assert!(account.used() >= MIB / 2, "its room is still there: {}", account.used());
    bench.peer.note_unfinished(3 * MIB);
    assert!(account.used() >= 6 * MIB, "a transport may hold one too");
    drop(bench);
    assert_eq!(account.used(), 0);
}

#[test]
fn what_a_transport_keeps_beside_its_endpoint_is_charged_to_the_connection() {
    let account = account();
    // Only whoever has more than its share is limited, so there are two.
    let (bench, _other) = (Bench::new(&account), Bench::new(&account));
    let (mut one, mut two) = (bench.hub.charge(), bench.hub.charge());
    one.set(MIB);
    two.set(MIB);
    one.set(3 * MIB);
    assert_eq!(account.used(), 4 * MIB);
    assert_eq!(bench.hub.grant(), Grant::All);
    two.set(3 * MIB);
    assert_eq!(bench.hub.grant(), Grant::NoRequests);
    drop(one);
    assert_eq!((account.used(), bench.hub.grant()), (3 * MIB, Grant::All));
    drop((bench, two));
    assert_eq!(account.used(), 0);
}

#[test]
fn a_transport_without_an_endpoint_draws_on_the_account_and_is_told_its_grant() {
    let account = account();
    let (holder, _other) = (Holder::new(&account), Bench::new(&account));
    let count = Arc::new(Count::default());
    let waker = count.clone().into();
    assert!(holder.poll_grant(Grant::All, &waker).is_pending());
    let (mut one, mut two) = (holder.charge(), holder.charge());
    one.set(5 * MIB);
    assert_eq!(count.0.load(Relaxed), 0);
    two.set(3 * MIB / 2);
    assert_eq!(count.0.load(Relaxed), 1);
    assert_eq!(holder.poll_grant(Grant::All, &waker), Poll::Ready(Grant::NoReading));
    drop(two);
    assert_eq!(count.0.load(Relaxed), 2);
    assert_eq!(holder.poll_grant(Grant::NoReading, &waker), Poll::Ready(Grant::All));
    one.set(15 * MIB / 2);
    assert_eq!(holder.grant(), Grant::Revoked);
    drop((one, holder));
    assert_eq!(account.used(), 0);
}

#[test]
fn f99_who_waits_to_read_is_woken_by_the_end_that_changes_no_grant() {
    let account = account();
    let (mut greedy, _other) = (Bench::new(&account), Bench::new(&account));
    (0..10).for_each(|id| greedy.asks(id, MIB / 2));
    greedy.reads(&vec![b' '; MIB / 2]);
    let reader = Arc::new(Count::default());
    assert!(!greedy.hub.poll_may_read(&reader.clone().into()), "{}", account.used());
    assert!(greedy.peer.closed().now_or_never().is_none());
    greedy.hub.finish(&greedy.input, None);
    assert!(greedy.peer.closed().now_or_never().is_some());
    assert!(!greedy.hub.may_read(), "it holds as much as before");
    assert_eq!(reader.0.load(Relaxed), 1);
    // A driver that asks again is not woken by its own question.
    assert!(!greedy.hub.poll_may_read(&reader.clone().into()));
    assert_eq!(reader.0.load(Relaxed), 1);
}

//! Searches the orderings of threads that share a connection. No wake-up is lost (shuttle reports that as a
//! deadlock), nothing settles twice, and no lock waits for another.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test --release -p rescind-async --test shuttle`

#![cfg(shuttle)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use protocol_async::CallError;
use protocol_async::hub::{Hub, Messages, Output};
use protocol_async::{Arrival, Canceller, InFlight, Incoming, Peer, Phase, Responder};
use protocol_core::{
    CallOptions, CancelOutcome, Cause, Config, Dialect, InputBuffer, Refusal, Shutdown, Timestamp,
};
use shuttle::future::block_on;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::thread;

const RUNS: usize = 20_000;

/// Tries random orderings, and orderings with a few switches at unlucky places.
fn search(test: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(test.clone(), RUNS);
    shuttle::check_pct(test, RUNS, 3);
}

fn connection(config: Config) -> (Arc<Hub>, Peer, Incoming) {
    let (hub, peer, incoming) = Hub::new(config, || Timestamp::ZERO);
    (Arc::new(hub), peer, incoming)
}

fn acp() -> Config {
    Config::client(Dialect::ACP_V1)
}

fn receive(hub: &Hub, message: &str) {
    let mut input = InputBuffer::new();
    input.extend_from_slice(message.as_bytes());
    input.extend_from_slice(b"\n");
    let _ = hub.receive(&mut input);
}

fn cancel(hub: &Hub, id: u32) {
    let params = format!(r#"{{"requestId":{id}}}"#);
    receive(hub, &format!(r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{params}}}"#));
}

fn answer(hub: &Hub, id: u32) {
    receive(hub, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":1}}"#));
}

/// Writes what there is now.
fn write(hub: &Hub) -> String {
    let (mut all, mut output) = (Vec::new(), Messages::default());
    while hub.poll_output(std::task::Waker::noop(), &mut output) == Output::Write {
        all.extend_from_slice(output.bytes());
        output.clear();
    }
    String::from_utf8(all).unwrap()
}

/// Writes until the connection is over.
async fn write_all(hub: &Hub) -> String {
    let (mut all, mut output) = (Vec::new(), Messages::default());
    poll_fn(|cx| {
        loop {
            match hub.poll_output(cx.waker(), &mut output) {
                Output::Write => {
                    all.extend_from_slice(output.bytes());
                    output.clear();
                }
                Output::Idle => return Poll::Pending,
                Output::Over => return Poll::Ready(()),
            }
        }
    })
    .await;
    String::from_utf8(all).unwrap()
}

async fn request(incoming: &Incoming) -> Responder {
    match incoming.receive().await {
        Ok(Arrival::Request(_, responder)) => responder,
        other => panic!("no request: {other:?}"),
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    block_on(poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))))
}

#[test]
fn g01_an_answer_races_a_cancel_and_the_one_who_waits() {
    search(|| {
        let (hub, peer, _incoming) = connection(acp());
        let mut sent = peer.call::<u8>("m", ());
        write(&hub);
        let handle = sent.cancellation_handle();
        let answering = thread::spawn({
            let hub = hub.clone();
            move || answer(&hub, 1)
        });
        let cancelling = thread::spawn(move || handle.cancel());
        // One task asks and goes away, another one waits.
        let outcome = match poll_once(&mut sent) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => block_on(sent),
        };
        assert_eq!(outcome.unwrap(), 1);
        answering.join().unwrap();
        let cancelled = cancelling.join().unwrap();
        assert!(matches!(cancelled, CancelOutcome::Sent | CancelOutcome::AlreadySettled));
        assert_eq!(peer.in_flight(9), []);
    });
}

#[test]
fn g01_an_answer_races_on_result_and_the_end() {
    search(|| {
        let (hub, peer, incoming) = connection(acp());
        let sent = peer.call::<u8>("m", ());
        write(&hub);
        let runs = Arc::new(AtomicUsize::new(0));
        let answering = thread::spawn({
            let hub = hub.clone();
            move || answer(&hub, 1)
        });
        let ending = thread::spawn(move || peer.shutdown(Shutdown::Abandon));
        let counted = runs.clone();
        sent.on_result(move |_| {
            counted.fetch_add(1, SeqCst);
        });
        answering.join().unwrap();
        ending.join().unwrap();
        assert_eq!(runs.load(SeqCst), 1);
        assert!(block_on(incoming.receive()).is_err());
    });
}

#[test]
fn g05_drop_races_the_answer() {
    search(|| {
        let (hub, peer, _incoming) = connection(acp());
        let sent = peer.call::<u8>("m", ());
        write(&hub);
        let answering = thread::spawn({
            let hub = hub.clone();
            move || answer(&hub, 1)
        });
        drop(sent);
        answering.join().unwrap();
        assert_eq!(peer.in_flight(9), []);
    });
}

#[test]
fn g05_a_cancel_races_publishing() {
    search(|| {
        let (hub, peer, _incoming) = connection(acp());
        let prepared = peer.prepare::<u8>("m", (), CallOptions::default());
        let handle = prepared.cancellation_handle();
        let cancelling = thread::spawn(move || handle.cancel());
        let writing = thread::spawn({
            let hub = hub.clone();
            move || write(&hub)
        });
        let sent = prepared.publish();
        cancelling.join().unwrap();
        let mut written = writing.join().unwrap();
        written += &write(&hub);
        match &peer.in_flight(9)[..] {
            [] => {
                let outcome = block_on(sent);
                assert!(matches!(outcome, Err(CallError::Cancelled { cause: Cause::Caller, .. })));
                assert_eq!(written, "", "it was withdrawn");
            }
            [InFlight { phase: Phase::Cancelling, .. }] => {
                assert!(written.contains("requestId"), "it was sent, and so was its cancel");
            }
            other => panic!("the cancel is lost: {other:?}"),
        }
    });
}

#[test]
fn g03_setting_a_marker_races_those_who_come_and_go() {
    search(|| {
        let canceller = Canceller::new();
        let waiting: Vec<_> = (0..2)
            .map(|_| {
                let marker = canceller.marker();
                thread::spawn(move || {
                    let mut impatient = marker.cancelled();
                    let _ = poll_once(&mut impatient);
                    let patient = marker.cancelled();
                    drop(impatient);
                    assert_eq!(block_on(patient), Cause::Caller);
                })
            })
            .collect();
        let child = canceller.marker().child();
        let runs = Arc::new(AtomicUsize::new(0));
        let counted = runs.clone();
        let following = canceller.marker().on_cancel(move |_| {
            counted.fetch_add(1, SeqCst);
        });
        let cancelling = thread::spawn(move || canceller.cancel(Cause::Caller));
        drop(following);
        assert_eq!(block_on(child.marker().cancelled()), Cause::Parent);
        for waiting in waiting {
            waiting.join().unwrap();
        }
        cancelling.join().unwrap();
        assert!(runs.load(SeqCst) <= 1);
    });
}

#[test]
fn b28_arrivals_race_those_who_take_them() {
    search(|| {
        let (hub, _peer, incoming) = connection(acp());
        let arriving = thread::spawn(move || {
            for _ in 0..2 {
                receive(&hub, r#"{"jsonrpc":"2.0","method":"n"}"#);
            }
            hub
        });
        let taking: Vec<_> = (0..2)
            .map(|_| {
                let incoming = incoming.clone();
                thread::spawn(move || {
                    let mut impatient = incoming.receive();
                    let taken = match poll_once(&mut impatient) {
                        Poll::Ready(taken) => taken,
                        Poll::Pending => {
                            drop(impatient);
                            block_on(incoming.receive())
                        }
                    };
                    assert!(matches!(taken, Ok(Arrival::Notification(_))));
                })
            })
            .collect();
        for taking in taking {
            taking.join().unwrap();
        }
        drop(arriving.join().unwrap());
    });
}

#[test]
fn g10_commands_race_the_writer() {
    search(|| {
        let (hub, peer, incoming) = connection(acp());
        let writing = thread::spawn(move || block_on(write_all(&hub)));
        let other = peer.clone();
        let notifying = thread::spawn(move || {
            let cork = other.cork();
            other.try_notify("a", ()).unwrap();
            drop(cork);
            block_on(other.flushed());
        });
        peer.try_notify("b", ()).unwrap();
        drop((peer, incoming));
        notifying.join().unwrap();
        let written = writing.join().unwrap();
        assert!(written.contains("\"a\"") && written.contains("\"b\""));
    });
}

#[test]
fn g08_room_races_those_who_wait_for_it() {
    search(|| {
        let mut config = acp();
        config.limits.unsent_bytes = 100;
        let (hub, peer, incoming) = connection(config);
        let writing = thread::spawn(move || block_on(write_all(&hub)));
        let sending: Vec<_> = (0..2)
            .map(|_| {
                let peer = peer.clone();
                thread::spawn(move || {
                    for _ in 0..2 {
                        while let Err(refusal) = peer.try_notify("n", ["x".repeat(50)]) {
                            assert_eq!(refusal, Refusal::OutboxFull);
                            block_on(peer.ready());
                        }
                    }
                })
            })
            .collect();
        drop((peer, incoming));
        for sending in sending {
            sending.join().unwrap();
        }
        assert_eq!(writing.join().unwrap().lines().count(), 4);
    });
}

/// A message on either connection becomes a command on the other, in both directions at once.
#[test]
fn b07_two_connections_forward_to_each_other() {
    search(|| {
        let (west, to_west, from_west) = connection(acp());
        let (east, to_east, from_east) = connection(acp());
        for hub in [&west, &east] {
            receive(hub, r#"{"jsonrpc":"2.0","id":7,"method":"m"}"#);
        }
        to_east.call::<u8>("m", ()).forward_response_to(block_on(request(&from_west)));
        to_west.call::<u8>("m", ()).forward_response_to(block_on(request(&from_east)));
        write(&west);
        write(&east);
        let hops = [(west.clone(), east.clone()), (east.clone(), west.clone())];
        let cancelling = hops.map(|(from, to)| {
            thread::spawn(move || {
                cancel(&from, 7);
                answer(&to, 1);
            })
        });
        for cancelling in cancelling {
            cancelling.join().unwrap();
        }
        assert_eq!((to_west.in_flight(9), to_east.in_flight(9)), (vec![], vec![]));
        for hub in [west, east] {
            assert!(write(&hub).contains(r#""id":7,"result":1"#));
        }
    });
}

/// Every handle is dropped while the driver is.
#[test]
fn g07_the_end_races_the_handles() {
    search(|| {
        let (hub, peer, incoming) = connection(acp());
        let sent = peer.call::<u8>("m", ());
        receive(&hub, r#"{"jsonrpc":"2.0","id":7,"method":"m"}"#);
        let responder = block_on(request(&incoming));
        let marker = responder.cancellation();
        let waiting = thread::spawn(move || block_on(sent).unwrap_err());
        let ending = thread::spawn(move || drop(hub));
        let answering = thread::spawn(move || drop(responder));
        let flushing = thread::spawn(move || block_on(peer.flushed()));
        assert!(block_on(incoming.receive()).is_err());
        for thread in [ending, answering, flushing] {
            thread.join().unwrap();
        }
        assert!(matches!(waiting.join().unwrap(), CallError::ConnectionLost { .. }));
        assert!(marker.cause().is_none_or(|cause| cause == Cause::Shutdown));
    });
}

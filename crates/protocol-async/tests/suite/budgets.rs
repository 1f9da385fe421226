//! Budgets bound what costs a peer next to nothing: cancelled requests, cancels in vain and broken rules. The
//! connection of a peer that overspends one ends, and the reason is reported (decision 27, after the rapid
//! reset of HTTP/2).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use futures_util::FutureExt;
use protocol_async::hub::{Hub, Messages};
use protocol_async::{
    Arrival, Budget, Budgets, CallError, Cheap, Incoming, Options, OverBudget, Peer, Verdict,
};
use protocol_core::{CallOptions, Cause, CloseReason, Config, Dialect, InputBuffer, Timestamp};

/// A server whose clock the test moves.
struct Bench {
    hub: Hub,
    peer: Peer,
    incoming: Incoming,
    millis: Arc<AtomicU64>,
    seen: Arc<Mutex<Vec<OverBudget>>>,
}

impl Bench {
    fn new(config: Config, change: impl FnOnce(&mut Options)) -> Self {
        let (millis, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (clock, told) = (millis.clone(), seen.clone());
        let mut options = Options::new(config);
        options.observer = Some(Box::new(move |verdict| {
            if let Verdict::OverBudget { over } = verdict {
                told.lock().unwrap().push(*over);
            }
        }));
        change(&mut options);
        let now = move || Timestamp::from_millis(clock.load(Relaxed));
        let (hub, peer, incoming) = Hub::new(options, now);
        Self { hub, peer, incoming, millis, seen }
    }

    fn says(&self, message: &str) {
        let mut input = InputBuffer::new();
        input.extend_from_slice(message.as_bytes());
        input.extend_from_slice(b"\n");
        let _ = self.hub.receive(&mut input);
    }

    fn asks(&self, id: u32) {
        self.says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"work"}}"#));
    }

    fn cancels(&self, id: u32) {
        let params = format!(r#"{{"requestId":{id}}}"#);
        let method = "$/cancel_request";
        self.says(&format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#));
    }

    fn over(&self) -> Option<OverBudget> {
        let closed = self.peer.closed().now_or_never()?;
        assert_eq!(closed.reason, CloseReason::PeerGone);
        let error = closed.error.unwrap();
        let over = error.get_ref().unwrap().downcast_ref::<OverBudget>().copied();
        assert_eq!(self.seen.lock().unwrap().as_slice(), over.as_slice(), "it is an event, once");
        over
    }
}

const FEW: Budget = Budget::Limited { per_second: 10, burst: 3 };

fn server() -> Config {
    Config::server(Dialect::ACP_V1)
}

#[test]
fn g08_requests_are_cancelled_only_so_often() {
    let bench = Bench::new(server(), |options| options.budgets.cancelled_requests = FEW);
    for id in 0..3 {
        bench.asks(id);
        bench.cancels(id);
    }
    assert!(bench.over().is_none());
    // A tenth of a second earns one more.
    bench.millis.store(100, Relaxed);
    bench.asks(3);
    bench.cancels(3);
    assert!(bench.over().is_none());
    bench.asks(4);
    let call = bench.peer.call::<()>("ask", ());
    bench.asks(5);
    bench.cancels(4);
    let over = bench.over().unwrap();
    assert_eq!((over.what, over.budget), (Cheap::CancelledRequest, FEW));

    // Everybody is told: requests by their markers, callers by what their calls come to.
    let lost = call.now_or_never().unwrap().unwrap_err();
    let CallError::ConnectionLost { cause: Cause::PeerGone, how: Some(how) } = lost else {
        panic!("{lost}")
    };
    assert!(how.contains("the peer cancels requests too often"), "{how}");
    let mut causes = Vec::new();
    while let Some(Ok(Arrival::Request(_, responder))) = bench.incoming.receive().now_or_never() {
        causes.extend(responder.cancellation().cause());
    }
    assert_eq!(causes[4..], [Cause::Peer, Cause::PeerGone]);
}

#[test]
fn g08_cancels_in_vain_are_taken_only_so_often() {
    let bench = Bench::new(server(), |options| options.budgets.vain_cancels = FEW);
    (0..3).for_each(|id| bench.cancels(id));
    assert!(bench.over().is_none());
    bench.cancels(3);
    assert_eq!(bench.over().unwrap().what, Cheap::VainCancel);
}

#[test]
fn g09_rules_are_broken_only_so_often() {
    let bench = Bench::new(server(), |options| options.budgets.violations = FEW);
    (0..3).for_each(|_| bench.says("[]"));
    assert!(bench.over().is_none(), "the connection lives");
    bench.says("[]");
    assert_eq!(bench.over().unwrap().what, Cheap::Violation);
}

/// All members of a batch are read before anything of them is acted upon.
#[test]
fn g09_a_budget_that_a_batch_goes_over_is_reported_once() {
    let config = Config::server(Dialect::JSON_RPC);
    let bench = Bench::new(config, |options| options.budgets.violations = FEW);
    bench.says("[1,2,3,4,5,6,7,8]");
    assert_eq!(bench.over().unwrap().what, Cheap::Violation);
}

/// A prompt turn, begun and stopped by its name.
#[test]
fn g08_work_is_begun_and_stopped_only_so_often() {
    let bench = Bench::new(server(), |options| options.budgets.cancelled_requests = FEW);
    let params = r#""params":{"sessionId":"s"}"#;
    for id in 0..4 {
        assert!(bench.over().is_none(), "{id} were stopped");
        bench.says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt",{params}}}"#));
        bench.says(&format!(r#"{{"jsonrpc":"2.0","method":"session/cancel",{params}}}"#));
    }
    assert_eq!(bench.over().unwrap().what, Cheap::CancelledRequest);
}

/// Requests of an agent that our own stop cancels: the agent can't know of it.
#[test]
fn g08_requests_that_our_own_stop_cancels_are_free() {
    let client = Config::client(Dialect::ACP_V1);
    let bench = Bench::new(client, |options| options.budgets.cancelled_requests = FEW);
    let params = serde_json::json!({ "sessionId": "s" });
    let prompt = bench.peer.call::<()>("session/prompt", &params);
    let _ = bench.hub.poll_output(Waker::noop(), &mut Messages::default());
    let params = r#""params":{"sessionId":"s"}"#;
    let asks = |id: u32| {
        let method = "session/request_permission";
        bench.says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}",{params}}}"#));
    };
    (0..6).for_each(asks);
    prompt.stop();
    (6..10).for_each(asks);
    for _ in 0..10 {
        let Some(Ok(Arrival::Request(_, responder))) = bench.incoming.receive().now_or_never()
        else {
            panic!("a request has arrived")
        };
        assert_eq!(responder.cancellation().cause(), Some(Cause::Stopped));
    }
    assert!(bench.over().is_none());
}

#[test]
fn g08_what_the_peer_can_not_know_is_free() {
    // Requests over a limit are answered so.
    let mut config = server();
    config.limits.requests = 1;
    let bench = Bench::new(config, |options| options.budgets.violations = FEW);
    (0..10).for_each(|id| bench.asks(id));
    assert!(bench.over().is_none());

    // An answer that our cancel has overtaken, and what a server prints beside its messages.
    let client = Config::client(Dialect::ACP_V1);
    let bench = Bench::new(client, |options| options.budgets.violations = FEW);
    (0..10).for_each(|_| bench.says("Listening on port 7"));
    assert!(bench.over().is_none());

    // Of answers that our cancels have overtaken the core remembers a few; the others look like second ones.
    let mut client = Config::client(Dialect::ACP_V1);
    client.limits.abandoned_ids = 1;
    let bench = Bench::new(client, |options| options.budgets.violations = FEW);
    let options = CallOptions::default().timeout(Duration::from_millis(1));
    let calls = [(); 10].map(|()| bench.peer.call_raw::<()>("ask", None, options));
    let mut out = Messages::default();
    let _ = bench.hub.poll_output(Waker::noop(), &mut out);
    bench.millis.store(1, Relaxed);
    let _ = bench.hub.poll_timers(Waker::noop());
    for call in calls {
        let id = call.id().unwrap().number();
        assert!(matches!(call.now_or_never(), Some(Err(CallError::TimedOut { .. }))));
        bench.says(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":null}}"#));
    }
    assert!(bench.over().is_none());
}

#[test]
fn g08_a_budget_may_be_off() {
    let bench = Bench::new(server(), |options| options.budgets = Budgets::UNLIMITED);
    for id in 0..70_000 {
        bench.cancels(id);
        bench.says("[]");
    }
    assert!(bench.over().is_none());
}

#[test]
fn g08_whatever_may_be_in_flight_may_be_cancelled_at_once() {
    let bench = Bench::new(server(), |_| ());
    let Budget::Limited { burst, .. } = Budgets::default().cancelled_requests else { panic!() };
    assert!(server().limits.requests <= burst as usize);
    (0..burst / 8).for_each(|id| bench.asks(id));
    (0..burst / 8).for_each(|id| bench.cancels(id));
    assert!(bench.over().is_none());
}

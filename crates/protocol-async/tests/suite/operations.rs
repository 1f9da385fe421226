//! The registry of operations and the requests that start them.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use protocol_async::hub::Hub;
use protocol_async::{Arrival, Incoming, Options, SharedOperations};
use protocol_core::{Config, Dialect, InputBuffer, Shutdown, Timestamp};

thread_local! {
    /// It is dropped while an operation is registered.
    static SERVING: RefCell<Option<Incoming>> = const { RefCell::new(None) };
}

#[test]
fn an_operation_whose_request_is_refused_meanwhile_is_not_listed() {
    for unsent_messages in [8, 1] {
        let operations = SharedOperations::new(|| Timestamp::ZERO);
        let mut options = Options::new(Config::server(Dialect::ERLMCP));
        options.config.limits.unsent_messages = unsent_messages;
        options.operations = Some(operations.clone());
        options.entropy = || {
            SERVING.take();
            Some([7; 16])
        };
        let (hub, peer, incoming) = Hub::new(options, || Timestamp::ZERO);
        // With one place, the refusal waits for room.
        peer.try_notify("n", ()).unwrap();
        SERVING.set(Some(incoming));
        hub.receive_message(br#"{"jsonrpc":"2.0","id":1,"method":"tool/call"}"#);
        let mut listed = 0;
        operations.for_each(|_| listed += 1);
        assert_eq!(listed, 0, "nobody would ever end it");
    }
}

/// The line has no end, so the request is read with the end of the input, and is cancelled before it has a token.
#[test]
fn g07_an_operation_that_was_cancelled_before_it_began_is_cleaned_up() {
    let cleaned = Arc::<Mutex<Vec<String>>>::default();
    let log = cleaned.clone();
    let operations =
        SharedOperations::new(|| Timestamp::ZERO).clean_up("tool/call", move |ended| {
            log.lock().unwrap().push(ended.reason.as_ref().unwrap().to_string());
        });
    let mut options = Options::new(Config::server(Dialect::ERLMCP));
    options.operations = Some(operations.clone());
    let (hub, _peer, incoming) = Hub::new(options, || Timestamp::ZERO);
    let mut input = InputBuffer::new();
    input.extend_from_slice(br#"{"jsonrpc":"2.0","id":1,"method":"tool/call"}"#);
    assert!(hub.receive(&mut input).is_continue());
    hub.finish(&input, None);
    let Some(Ok(Arrival::Request(_, responder))) = incoming.receive().now_or_never() else {
        panic!("a request has arrived")
    };
    let mut statuses = Vec::new();
    operations.for_each(|info| statuses.push(info.status.as_str()));
    assert_eq!(statuses, ["cancelled"]);
    drop(responder);
    assert_eq!(*cleaned.lock().unwrap(), ["error: peer_gone"]);
}

#[test]
fn g07_each_clone_of_a_registry_cleans_up_by_its_own_handlers() {
    let cleaned = Arc::new(AtomicUsize::new(0));
    let log = cleaned.clone();
    let without = SharedOperations::new(|| Timestamp::ZERO);
    let with = without.clone().clean_up("tool/call", move |_| {
        log.fetch_add(1, Relaxed);
    });
    let sides = [with, without].map(|operations| {
        let mut options = Options::new(Config::server(Dialect::ERLMCP));
        options.operations = Some(operations);
        let (hub, peer, incoming) = Hub::new(options, || Timestamp::ZERO);
        hub.receive_message(br#"{"jsonrpc":"2.0","id":1,"method":"tool/call"}"#);
        let Some(Ok(Arrival::Request(_, responder))) = incoming.receive().now_or_never() else {
            panic!("a request has arrived")
        };
        (hub, peer, incoming, responder)
    });
    for (_, peer, _, responder) in sides {
        peer.shutdown(Shutdown::CancelAll);
        drop(responder);
    }
    assert_eq!(cleaned.load(Relaxed), 1, "its operation was cancelled");
}

//! A handle of one connection is refused by every other one of the process (F77).

use std::task::Waker;

use futures_util::FutureExt;
use protocol_async::hub::{Hub, Messages, Output};
use protocol_async::{Arrival, CallError, Incoming, Peer, Responder, SentRequest};
use protocol_core::{CallId, CallOptions, Config, Dialect, Refusal, Timestamp};

fn connection() -> (Hub, Peer, Incoming) {
    Hub::new(Config::server(Dialect::ACP_V1), || Timestamp::ZERO)
}

/// Receives the first request of a connection.
fn request(hub: &Hub, incoming: &Incoming) -> Responder {
    hub.receive_message(br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
    let Some(Ok(Arrival::Request(_, responder))) = incoming.receive().now_or_never() else {
        panic!("a request has arrived")
    };
    responder
}

fn call(peer: &Peer, parent: &Responder) -> SentRequest {
    peer.call_raw("nested", None, CallOptions::default().parent(parent.handle()))
}

fn has_output(hub: &Hub) -> bool {
    hub.poll_output(Waker::noop(), &mut Messages::default()) == Output::Write
}

#[test]
fn f77_a_parent_of_another_connection_is_refused() {
    let [one, other] = [(); 2].map(|()| connection());
    let own = request(&one.0, &one.2);
    let foreign = request(&other.0, &other.2);
    assert_eq!(own.handle().number(), foreign.handle().number());
    assert_ne!(own.handle(), foreign.handle());
    let refused = call(&one.1, &foreign);
    assert_eq!(refused.id(), None);
    let outcome = refused.now_or_never().unwrap();
    assert!(matches!(outcome, Err(CallError::Refused(Refusal::UnknownParent))), "{outcome:?}");
    assert!(!has_output(&one.0), "nothing is on the wire");
    let nested = [call(&one.1, &own), call(&other.1, &foreign)].map(|call| call.id().unwrap());
    assert_eq!(nested.map(CallId::number), [1, 1]);
    assert_ne!(nested[0], nested[1]);
}

#[test]
fn f77_a_host_that_numbers_its_connections_is_obeyed() {
    let numbered = |number| {
        let mut config = Config::server(Dialect::ACP_V1);
        config.connection = number;
        let (hub, _peer, incoming) = Hub::new(config, || Timestamp::ZERO);
        request(&hub, &incoming).handle()
    };
    assert_eq!(numbered(7), numbered(7));
    assert!(numbered(7) < numbered(8));
}

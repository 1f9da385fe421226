//! Cancels and losses that a transport knows of by other means than a message.

use futures_util::FutureExt;
use std::task::Waker;

use protocol_async::hub::{Hub, Messages, Output};
use protocol_async::{Arrival, CallError, Responder};
use protocol_core::{Cause, Config, Dialect, InputBuffer, Timestamp, WireId};

/// Makes a connection with requests 1 and "1".
fn connection(dialect: Dialect) -> (Hub, Vec<Responder>) {
    let (hub, _, incoming) = Hub::new(Config::server(dialect), || Timestamp::ZERO);
    let take = |id: &str| {
        hub.receive_message(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#).as_bytes());
        match incoming.receive().now_or_never() {
            Some(Ok(Arrival::Request(_, responder))) => responder,
            other => panic!("{other:?}"),
        }
    };
    let responders = ["1", r#""1""#].map(take).into();
    (hub, responders)
}

fn id(token: &str) -> WireId {
    WireId::from_json(token).expect("it is an id")
}

#[test]
fn a_request_is_cancelled_by_its_id_and_no_other_one() {
    let (hub, responders) = connection(Dialect::MCP_2026_07_28_HTTP);
    hub.cancel_request(&id(r#""1""#), Cause::Peer);
    let causes: Vec<_> = responders.iter().map(|it| it.cancellation().cause()).collect();
    assert_eq!(causes, [None, Some(Cause::Peer)]);
}

#[test]
fn an_id_that_is_not_in_flight_is_ignored_and_the_first_cause_stays() {
    let (hub, responders) = connection(Dialect::MCP_2025_11_25_HTTP);
    hub.cancel_request(&id("2"), Cause::PeerGone);
    hub.cancel_request(&id("1"), Cause::PeerGone);
    hub.cancel_request(&id("1"), Cause::Peer);
    let causes: Vec<_> = responders.iter().map(|it| it.cancellation().cause()).collect();
    assert_eq!(causes, [Some(Cause::PeerGone), None]);
}

#[test]
fn a_call_whose_stream_is_lost_settles_alone_and_once() {
    let config = Config::client(Dialect::MCP_2026_07_28_HTTP);
    let (hub, peer, _incoming) = Hub::new(config, || Timestamp::ZERO);
    let mut lost = peer.call::<u32>("a", ());
    let mut other = peer.call::<u32>("b", ());
    let mut out = Messages::default();
    let _ = hub.poll_output(Waker::noop(), &mut out);
    out.clear();
    hub.lose_call(1, "the stream broke");
    hub.lose_call(7, "it was never there");
    match (&mut lost).now_or_never() {
        Some(Err(CallError::ConnectionLost { cause: Cause::PeerGone, how: Some(how) })) => {
            assert_eq!(&*how, "the stream broke");
        }
        outcome => panic!("{outcome:?}"),
    }
    // It is late, and no response to another call.
    hub.receive_message(br#"{"jsonrpc":"2.0","id":1,"result":1}"#);
    assert!((&mut other).now_or_never().is_none());
    hub.receive_message(br#"{"jsonrpc":"2.0","id":2,"result":2}"#);
    assert!(matches!((&mut other).now_or_never(), Some(Ok(2))));
    assert!(!hub.is_closed() && peer.closed().now_or_never().is_none());
    hub.finish(&InputBuffer::new(), None);
    assert!(peer.closed().now_or_never().is_some_and(|closed| closed.error.is_none()));
}

#[test]
fn a_call_that_has_not_left_is_withdrawn_when_its_stream_is_lost() {
    let config = Config::client(Dialect::MCP_2026_07_28_HTTP);
    let (hub, peer, _incoming) = Hub::new(config, || Timestamp::ZERO);
    let lost = peer.call::<u32>("a", ());
    hub.lose_call(1, "there is no server");
    assert!(matches!(lost.now_or_never(), Some(Err(CallError::ConnectionLost { .. }))));
    assert_eq!(hub.poll_output(Waker::noop(), &mut Messages::default()), Output::Idle);
}

//! Cancels that a transport knows of by other means than a message.

use futures_util::FutureExt;
use protocol_async::hub::Hub;
use protocol_async::{Arrival, Responder};
use protocol_core::{Cause, Config, Dialect, Timestamp, WireId};

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
    WireId::from_token(token).expect("it is an id")
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

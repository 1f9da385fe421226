//! Hops of a proxy: no id of one connection reaches the other one, and nothing does so twice.

use std::task::Waker;

use futures_util::FutureExt;
use protocol_async::hub::{Hub, Messages, Output};
use protocol_async::{Incoming, Peer};
use protocol_core::{CallOptions, Config, Dialect, Timestamp};
use serde_json::{Value, json};

/// One of the two connections of a proxy, whose peer is the test.
struct Side {
    hub: Hub,
    peer: Peer,
    incoming: Incoming,
}

impl Side {
    fn new(config: Config) -> Self {
        let (hub, peer, incoming) = Hub::new(config, || Timestamp::ZERO);
        Self { hub, peer, incoming }
    }

    fn hears(&self, message: &Value) {
        self.hub.receive_message(message.to_string().as_bytes());
    }

    /// Forwards everything that has arrived.
    fn forwards_to(&self, other: &Self) {
        while let Some(Ok(arrival)) = self.incoming.receive().now_or_never() {
            other.peer.send_proxied(arrival).unwrap();
        }
    }

    fn says(&self) -> Vec<Value> {
        let (mut all, mut out) = (Vec::new(), Messages::default());
        while self.hub.poll_output(Waker::noop(), &mut out) == Output::Write {
            let mut texts = Vec::new();
            while let Some(text) = out.take_next() {
                texts.push(text.to_vec());
            }
            all.extend(texts.iter().map(|text| serde_json::from_slice::<Value>(text).unwrap()));
            out.clear();
        }
        all
    }
}

/// The two connections of a proxy: to the client, and to the server.
fn proxy(mut dialect: Dialect) -> (Side, Side) {
    dialect.framing = protocol_core::Framing::Whole;
    (Side::new(Config::server(dialect.clone())), Side::new(Config::client(dialect)))
}

fn dap(seq: u32, command: &str, arguments: &Value) -> Value {
    json!({ "seq": seq, "type": "request", "command": command, "arguments": arguments })
}

/// A proxy of a debug adapter that can cancel requests.
fn debug_proxy() -> (Side, Side) {
    let (up, down) = proxy(Dialect::DAP);
    up.hears(&dap(6, "initialize", &json!({})));
    up.forwards_to(&down);
    assert_eq!(down.says(), [dap(1, "initialize", &json!({}))]);
    down.hears(&json!({
        "seq": 1, "type": "response", "request_seq": 1, "command": "initialize", "success": true,
        "body": { "supportsCancelRequest": true },
    }));
    assert_eq!(up.says().len(), 1);
    (up, down)
}

#[test]
fn b25_a_cancel_of_a_progress_and_a_request_reaches_the_adapter_as_two() {
    let (up, down) = debug_proxy();
    up.hears(&dap(7, "launch", &json!({})));
    up.forwards_to(&down);
    assert_eq!(down.says(), [dap(2, "launch", &json!({}))]);
    up.hears(&dap(8, "cancel", &json!({ "requestId": 7, "progressId": "p" })));
    up.forwards_to(&down);
    let said = down.says();
    let cancels: Vec<&Value> = said.iter().map(|cancel| &cancel["arguments"]).collect();
    assert_eq!(cancels.len(), 2, "{cancels:?}");
    assert!(cancels.contains(&&json!({ "requestId": 2 })), "{cancels:?}");
    assert!(cancels.contains(&&json!({ "progressId": "p" })), "{cancels:?}");
}

#[test]
fn b25_a_cancel_that_names_nothing_is_not_forwarded() {
    let (up, down) = debug_proxy();
    up.hears(&dap(7, "cancel", &json!({ "progressId": null })));
    up.forwards_to(&down);
    assert_eq!(down.says(), [Value::Null; 0]);
    let said = up.says();
    assert_eq!((&said[0]["request_seq"], &said[0]["success"]), (&json!(7), &json!(false)));
}

#[test]
fn b25_the_begin_of_a_progress_names_no_request_of_another_connection() {
    let (up, down) = debug_proxy();
    let event = |seq: u32, body: &Value| json!({ "seq": seq, "type": "event", "event": "progressStart", "body": body });
    down.hears(&event(2, &json!({ "progressId": "p", "requestId": 1, "title": "t" })));
    down.forwards_to(&up);
    assert_eq!(up.says(), [event(2, &json!({ "progressId": "p", "title": "t" }))]);
}

fn prompt(id: u32) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": { "sessionId": "s" } })
}

#[test]
fn g04_a_stop_reaches_the_agent_once() {
    let (up, down) = proxy(Dialect::ACP_V1);
    let stop =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s" } });
    up.hears(&prompt(7));
    up.forwards_to(&down);
    assert_eq!(down.says(), [prompt(1)]);
    up.hears(&stop);
    assert_eq!(down.says(), [stop], "the call follows the request at once");
    // Another turn of the session, which is the proxy's own.
    let params = serde_json::value::to_raw_value(&json!({ "sessionId": "s" })).unwrap();
    let own = down.peer.call_raw::<Value>("session/prompt", Some(&params), CallOptions::default());
    assert_eq!(down.says(), [prompt(2)]);
    up.forwards_to(&down);
    assert_eq!(down.says(), [Value::Null; 0], "it would stop the other turn");
    drop(own);
}

#[test]
fn g04_a_stop_of_what_this_hop_did_not_stop_is_forwarded() {
    let (up, down) = proxy(Dialect::ACP_V1);
    let stop =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s" } });
    up.hears(&stop);
    up.forwards_to(&down);
    assert_eq!(down.says(), [stop]);
}

#[test]
fn g04_a_stop_of_a_turn_that_began_while_the_one_before_stops_is_forwarded() {
    let (up, down) = proxy(Dialect::ACP_V2);
    let stop =
        json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": "s" } });
    for turn in 1..=2 {
        up.hears(&prompt(turn));
        up.forwards_to(&down);
        assert_eq!(down.says(), [prompt(turn)]);
        down.hears(&json!({ "jsonrpc": "2.0", "id": turn, "result": {} }));
        assert_eq!(up.says().len(), 1, "the turn goes on after the response");
        up.hears(&stop);
        up.forwards_to(&down);
        assert_eq!(down.says(), std::slice::from_ref(&stop), "turn {turn}");
    }
    up.hears(&stop);
    up.forwards_to(&down);
    assert_eq!(down.says(), [Value::Null; 0], "both are stopping");
}

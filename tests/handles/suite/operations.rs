//! Cancels that are acknowledged, operations that outlive their requests, and what else a dialect may
//! ask of the handles.

use protocol_async::{Arrival, Incoming, Peer};
use protocol_core::{
    CallError, CancelOutcome, Cause, Config, Dialect, Framing, Refusal, Role, RpcError,
};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::{against_far, connect, notification, request, result_line, run};
use crate::pipe::{ENDLESS, pipe};

/// One side of a dialect, whose messages are lines here.
fn side(dialect: Dialect, role: Role) -> Config {
    let mut config = Config::client(dialect);
    config.dialect.framing = Framing::Newline;
    config.role = role;
    config
}

/// A client and a server.
fn both(dialect: Dialect) -> ((Peer, Incoming), (Peer, Incoming)) {
    let (near_reader, far_writer) = pipe(ENDLESS);
    let (far_reader, near_writer) = pipe(ENDLESS);
    (
        connect(near_reader, near_writer, side(dialect.clone(), Role::Client)),
        connect(far_reader, far_writer, side(dialect, Role::Server)),
    )
}

#[test]
fn g02_a_cancel_by_token_marks_the_operation_and_is_acknowledged() {
    run(async {
        let ((client, told), (_server, incoming)) = both(Dialect::ERLMCP);
        let started: Value = client.call("tool/call", json!({ "name": "slow" })).await.unwrap();
        let (_, responder) = request(&incoming).await;
        let stopped: Value = client.call("cancel", started.clone()).await.unwrap();
        assert_eq!(stopped, json!({ "status": "cancelled" }));
        assert_eq!(responder.cancellation().cause(), Some(Cause::Peer));
        let Ok(Arrival::Notification(notified)) = told.receive().await else { panic!() };
        let said: Value = notified.params().unwrap();
        assert_eq!(notified.method, "notifications/cancelled");
        assert_eq!(said["requestId"], started["cancellationToken"]);
        assert_eq!(said["reason"], "client_requested");
        assert!(said["timestamp"].as_u64() > Some(1_700_000_000_000), "Unix time: {said}");
        // Its end tells nobody anything; then it is gone.
        responder.respond_with_failure(RpcError::new(-5, "whatever"));
        let gone = client.call::<Value>("cancel", started).await.unwrap_err();
        assert!(matches!(gone, CallError::Error(error) if error.code == -32001));
    });
}

#[test]
fn g05_a_call_dropped_before_its_token_is_cancelled_when_that_comes() {
    run(async {
        let (client, _, mut server) = against_far(side(Dialect::ERLMCP, Role::Client), ENDLESS);
        let sent = client.call::<Value>("tool/call", json!({ "name": "slow" }));
        server
            .expect(r#"{"jsonrpc":"2.0","id":1,"method":"tool/call","params":{"name":"slow"}}"#)
            .await;
        drop(sent);
        server.send(&[&result_line(1, r#"{"cancellationToken":"AB"}"#)]).await;
        server
            .expect(
                r#"{"jsonrpc":"2.0","id":2,"method":"cancel","params":{"cancellationToken":"AB"}}"#,
            )
            .await;
    });
}

#[test]
fn g03_what_is_cancelled_before_its_turn_is_skipped_where_the_dialect_says_so() {
    run(async {
        let mut config = side(Dialect::ABP, Role::Server);
        // The clock says nothing that a test could expect.
        config.unix_time_at_zero = std::time::Duration::MAX;
        let (_app, incoming, mut agent) = against_far(config, ENDLESS);
        let message = |kind: &str, id: u8, payload: &str| {
            let time = if kind.ends_with("-result") { u64::MAX } else { 0 };
            format!(r#"{{"type":"{kind}","id":{id},"timestamp":{time},"payload":{payload}}}"#)
        };
        agent.send(&[&message("initialize", 0, "{}")]).await;
        request(&incoming).await.1.respond(to_raw_value(&json!({})).unwrap());
        agent.expect(&message("initialize-result", 0, "{}")).await;
        // In one write: the second is cancelled before any handler could begin.
        agent
            .send(&[
                &message("capabilities/call", 1, r#"{"capability":"print"}"#),
                &message("capabilities/call", 2, r#"{"capability":"export.pdf"}"#),
                &message("capabilities/cancel", 3, r#"{"callId":2}"#),
                &message("capabilities/progress", 4, "{}"),
            ])
            .await;
        let result = r#"{"callId":2,"cancelled":true}"#;
        agent.expect(&message("capabilities/cancel-result", 3, result)).await;
        let (first, responder) = request(&incoming).await;
        assert_eq!(first.method, "print");
        notification(&incoming, "capabilities/progress").await;
        let result = r#"{"callId":2,"success":false,"cancelled":true}"#;
        agent.expect(&message("capabilities/call-result", 2, result)).await;
        responder.respond(to_raw_value("done").unwrap());
        let result = r#"{"callId":1,"success":true,"data":"done"}"#;
        agent.expect(&message("capabilities/call-result", 1, result)).await;
    });
}

#[test]
fn g05_a_cancel_may_say_why_in_words() {
    run(async {
        let (client, _, mut server) =
            against_far(side(Dialect::MCP_2025_06_18, Role::Client), ENDLESS);
        let sent = client.call::<Value>("tools/call", json!({}));
        server.line().await;
        assert_eq!(sent.cancel_with_reason("enough"), CancelOutcome::Sent);
        server
            .expect(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}"#)
            .await;
    });
}

#[test]
fn g02_a_server_ends_what_the_dialect_lets_it_end_and_nothing_else() {
    run(async {
        let ((client, _), (_server, incoming)) = both(Dialect::MCP);
        let listening = client.call::<Value>("subscriptions/listen", json!({}));
        let (_, responder) = request(&incoming).await;
        responder.end(Some("closing")).unwrap();
        assert!(matches!(listening.await, Err(CallError::Cancelled { cause: Cause::Peer, .. })));
        let other = client.call::<Value>("tools/call", json!({}));
        let (_, responder) = request(&incoming).await;
        let (refusal, responder) = responder.end(None).unwrap_err();
        assert_eq!(refusal, Refusal::NotOursToEnd);
        responder.respond(to_raw_value(&1).unwrap());
        assert_eq!(other.await.unwrap(), 1);
    });
}

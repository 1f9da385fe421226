//! Cancels that are acknowledged, operations that outlive their requests, and other demands of
//! dialects on the handles.

use std::sync::{Arc, Mutex};

use protocol_async::{Arrival, CallError, Incoming, Options, Peer, RpcError, SharedOperations};
use protocol_core::{
    CancelOutcome, Cause, Config, Dialect, Framing, Refusal, Role, Shutdown, Timestamp,
};
use serde_json::value::to_raw_value;
use serde_json::{Value, json};

use super::{against_far, connect, notification, request, result_line, run};
use crate::pipe::{ENDLESS, pipe};

/// One side of a dialect, whose messages are lines here.
fn side(dialect: Dialect, role: Role) -> Config {
    let mut config = match role {
        Role::Client => Config::client(dialect),
        Role::Server => Config::server(dialect),
    };
    config.dialect.framing = Framing::Newline;
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
            let time = if kind.ends_with("-result") { i64::MAX } else { 0 };
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
fn f30_any_number_of_requests_may_be_cancelled_before_their_turn() {
    // As many as may be in flight, but for two.
    const MANY: usize = 16_382;
    run(async {
        let (_app, incoming, mut agent) = against_far(side(Dialect::ABP, Role::Server), ENDLESS);
        let message = |kind: &str, id: usize, payload: &str| {
            format!(r#"{{"type":"{kind}","id":{id},"timestamp":0,"payload":{payload}}}"#)
        };
        agent.send(&[&message("initialize", 0, "{}")]).await;
        request(&incoming).await.1.respond(to_raw_value(&json!({})).unwrap());
        agent.line().await;
        let call = |id| message("capabilities/call", id, r#"{"capability":"print"}"#);
        let cancel =
            |id| message("capabilities/cancel", MANY + id, &format!(r#"{{"callId":{id}}}"#));
        let all: Vec<_> = (1..=MANY).map(call).chain((1..=MANY).map(cancel)).collect();
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        agent.send(&all).await;
        // Each cancel is acknowledged when it is marked.
        for _ in 0..MANY {
            assert!(agent.line().await.unwrap().contains("cancel-result"));
        }
        agent.send(&[&message("capabilities/call", 3 * MANY, r#"{"capability":"last"}"#)]).await;
        let (last, _responder) = request(&incoming).await;
        assert_eq!(last.method, "last");
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

type Log = Arc<Mutex<Vec<String>>>;

/// Returns a client and a server of erlmcp, the server's operations, and a log of those that were
/// cleaned up.
fn kept() -> ((Peer, Incoming), (Peer, Incoming), SharedOperations, Log) {
    let cleaned = Log::default();
    let log = cleaned.clone();
    let operations =
        SharedOperations::new(|| Timestamp::ZERO).clean_up("tool/call", move |ended| {
            let partial = ended.partial.as_ref().map_or("nothing", |partial| partial.get());
            log.lock().unwrap().push(format!("{} {partial}", ended.reason.as_ref().unwrap()));
            panic!("contained");
        });
    let (near_reader, far_writer) = pipe(ENDLESS);
    let (far_reader, near_writer) = pipe(ENDLESS);
    let mut options = Options::new(side(Dialect::ERLMCP, Role::Server));
    options.operations = Some(operations.clone());
    (
        connect(near_reader, near_writer, side(Dialect::ERLMCP, Role::Client)),
        connect(far_reader, far_writer, options),
        operations,
        cleaned,
    )
}

fn statuses(operations: &SharedOperations) -> Vec<String> {
    let mut statuses = Vec::new();
    operations.for_each(|info| statuses.push(format!("{} {}", info.kind, info.status.as_str())));
    statuses
}

#[test]
fn operations_are_kept_from_their_token_to_their_answer_and_cleaned_up_after_once() {
    run(async {
        let ((client, _told), (_server, incoming), operations, cleaned) = kept();
        let cleaned = || cleaned.lock().unwrap().clone();
        let begin = async || {
            let started: Value = client.call("tool/call", ()).await.unwrap();
            (started, request(&incoming).await.1)
        };
        let (first, responder) = begin().await;
        let (_, other) = begin().await;
        assert_eq!(statuses(&operations), ["tool/call active"; 2]);
        for _ in 0..2 {
            let _: Value = client.call("cancel", &first).await.unwrap();
        }
        assert_eq!(statuses(&operations), ["tool/call cancelled", "tool/call active"]);
        assert_eq!(cleaned(), [""; 0], "its worker still runs");
        responder.answer(Ok(to_raw_value(&7).unwrap()));
        assert_eq!(
            (statuses(&operations).len(), cleaned()),
            (1, vec!["client_requested 7".into()])
        );

        other.answer(Ok(to_raw_value(&8).unwrap()));
        let (_, dropped) = begin().await;
        drop(dropped);
        let (last, dropped) = begin().await;
        let _: Value = client.call("cancel", &last).await.unwrap();
        drop(dropped);
        assert_eq!(statuses(&operations), [""; 0]);
        assert_eq!(cleaned()[1..], ["client_requested nothing"]);
        let metrics = operations.metrics();
        let kind = &metrics.kinds()[0];
        let counts = (kind.registered, kind.completed, kind.lost, kind.cancelled, kind.active);
        assert_eq!((counts, metrics.partial_results()), ((4, 1, 1, 2, 0), 1));
        // Requests that start no operation are none of its business.
        let pong = client.call::<Value>("ping", ());
        let (_, responder) = request(&incoming).await;
        responder.answer(Ok(to_raw_value(&()).unwrap()));
        pong.await.unwrap();
        assert_eq!(operations.metrics().kinds().len(), 1);
    });
}

#[test]
fn g07_operations_end_with_their_connection() {
    run(async {
        let ((client, told), (server, incoming), operations, cleaned) = kept();
        let _: Value = client.call("tool/call", ()).await.unwrap();
        let _: Value = client.call("tool/call", ()).await.unwrap();
        let (_, responder) = request(&incoming).await;
        // The second waits in the inbox, and nobody will take it.
        client.shutdown(Shutdown::Abandon);
        drop((client, told));
        responder.cancellation().cancelled().await;
        drop((server, incoming));
        assert_eq!(statuses(&operations), ["tool/call cancelled"]);
        drop(responder);
        assert_eq!(statuses(&operations), [""; 0]);
        assert_eq!(*cleaned.lock().unwrap(), ["error: peer_gone nothing"; 2]);
    });
}

//! Our client and our server, in each revision.

use std::time::Duration;

use protocol_async::{Arrival, CallError};
use protocol_core::{CallOptions, CancelOutcome, Cause};
use protocol_http::connect::{ClientOptions, Target};
use protocol_http::server::ServerOptions;
use serde_json::{Value, json};

use crate::host::{Client, Host, Report, how};

const VERSIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

#[tokio::test]
async fn calls_and_progress_go_over_http_in_each_revision() {
    for version in VERSIONS {
        let mut host = Host::start(ServerOptions::default()).await;
        let client = host.client(version).await;
        let name = "Hello, 世界";
        assert_eq!(client.call("tools/call", json!({ "name": name })).await.unwrap(), name);
        let count = json!({ "to": 3, "_meta": { "progressToken": "a" } });
        let counted = client.call("count", count);
        for number in 1..=3 {
            let (method, params) = client.notified().await;
            assert_eq!((&*method, &params["progress"]), ("notifications/progress", &json!(number)));
        }
        assert_eq!(counted.await.unwrap(), "counted");
        let error = client.call("nothing", json!({})).await.unwrap_err();
        assert!(matches!(&error, CallError::Error(error) if error.code == -32601), "{error:?}");
        assert_eq!(host.server.sessions(), usize::from(version != "2026-07-28"));
        client.end().await;
        assert_eq!(host.server.sessions(), 0, "{version}: DELETE has ended it");
    }
}

#[tokio::test]
async fn a_cancel_stops_the_handler_in_each_revision_and_its_cause_is_the_peer() {
    for version in VERSIONS {
        let mut host = Host::start(ServerOptions::default()).await;
        let client = host.client(version).await;
        let call = client.call("wait", json!({}));
        assert_eq!(host.report().await, Report::Began);
        let settles =
            if version == "2026-07-28" { CancelOutcome::Settled } else { CancelOutcome::Sent };
        assert_eq!(call.cancel(), settles);
        assert_eq!(host.report().await, Report::Cancelled(Cause::Peer), "{version}");
        let error = call.await.unwrap_err();
        assert!(matches!(error, CallError::Cancelled { cause: Cause::Caller, .. }), "{error:?}");
        assert!(client.call("tools/call", json!({ "name": "a" })).await.is_ok(), "others go on");
    }
}

#[tokio::test]
async fn a_deadline_cancels_as_the_caller_does() {
    for version in ["2025-11-25", "2026-07-28"] {
        let mut host = Host::start(ServerOptions::default()).await;
        let client = host.client(version).await;
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({ "_meta": meta });
        // A deadline that passes before the handler begins shows nothing, so the next one is later.
        for doubled in 0.. {
            let options = CallOptions::default().timeout(Duration::from_millis(50 << doubled));
            let mut call = client.peer.call_with::<Value>("wait", params.clone(), options);
            let early = tokio::select! {
                _ = host.report() => None,
                outcome = &mut call => Some(outcome),
            };
            let has_begun = early.is_none();
            let outcome = match early {
                Some(outcome) => outcome,
                None => call.await,
            };
            assert!(matches!(outcome, Err(CallError::TimedOut { .. })));
            if has_begun {
                break;
            }
        }
        while host.report().await != Report::Cancelled(Cause::Peer) {}
    }
}

#[tokio::test]
async fn sixty_four_calls_are_in_flight_and_one_cancel_stops_one() {
    for version in ["2025-11-25", "2026-07-28"] {
        let mut host = Host::start(ServerOptions::default()).await;
        let client = host.client(version).await;
        let calls: Vec<_> = (0..64).map(|_| client.call("wait", json!({}))).collect();
        for _ in 0..64 {
            assert_eq!(host.report().await, Report::Began);
        }
        calls[17].cancel();
        assert_eq!(host.report().await, Report::Cancelled(Cause::Peer));
        host.gate.notify_waiters();
        for (at, call) in calls.into_iter().enumerate() {
            assert_eq!(call.await.is_ok(), at != 17, "{version} {at}");
        }
    }
}

#[tokio::test]
async fn one_response_stream_too_many_loses_its_call_at_once() {
    let mut host = Host::start(ServerOptions::default()).await;
    let mut options = ClientOptions::default();
    options.streams = 1;
    let client = Client::new(&host.url, "2026-07-28", options);
    let first = client.call("wait", json!({}));
    assert_eq!(host.report().await, Report::Began);
    assert!(how(client.call("wait", json!({})).await).contains("options.streams"));
    host.gate.notify_one();
    assert_eq!(first.await.unwrap(), "waited");
    assert!(client.call("tools/call", json!({ "name": "a" })).await.is_ok(), "its place is free");
}

#[tokio::test]
async fn a_server_asks_its_client_in_the_stream_of_a_call_and_on_its_own() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut host = Host::start(ServerOptions::default()).await;
        let client = host.client(version).await;
        let call = client.call("ask", json!({}));
        let Arrival::Request(request, responder) = client.incoming.receive().await.unwrap() else {
            panic!("it is a request")
        };
        assert_eq!(request.method, "roots/list");
        responder.cast().respond_with_result(Ok::<_, protocol_async::Failure>(json!(["root"])));
        assert_eq!(call.await.unwrap(), json!(["root"]));
        assert_eq!(client.call("notify", json!({})).await.unwrap(), "notified");
        assert_eq!(client.notified().await.0, "notifications/message");
    }
}

#[tokio::test]
async fn a_client_without_the_secret_learns_the_status_and_one_with_it_is_served() {
    let mut options = ServerOptions::default();
    options.token = Some("correct-horse".into());
    let host = Host::start(options).await;
    let client = Client::new(&host.url, "2026-07-28", ClientOptions::default());
    let lost = client.call("tools/call", json!({ "name": "a" })).await;
    assert!(how(lost).contains("status 401"));
    let mut shown = ClientOptions::default();
    shown.token = Some("correct-horse".into());
    assert!(!format!("{shown:?}").contains("horse"));
    let client = Client::new(&host.url, "2026-07-28", shown);
    assert_eq!(client.call("tools/call", json!({ "name": "a" })).await.unwrap(), "a");
}

/// Linux shows the timers of connections: one of kind 2 is that of TCP's keep-alive.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn g08_tcp_asks_a_silent_peer_whether_it_is_there_on_both_sides() {
    let mut host = Host::start(ServerOptions::default()).await;
    let client = host.client("2026-07-28").await;
    let _call = client.call("wait", json!({}));
    assert_eq!(host.report().await, Report::Began);
    let port: u16 = host.url.rsplit([':', '/']).nth(1).unwrap().parse().unwrap();
    let (port, mut kinds) = (format!(":{port:04X}"), Vec::new());
    for _ in 0..1_000 {
        let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
        let lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let open =
            lines.filter(|it| it[3] == "01" && it[1..3].iter().any(|at| at.ends_with(&port)));
        kinds = open.map(|it| it[5].split(':').next().unwrap().to_owned()).collect();
        if kinds == ["02", "02"] {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{kinds:?}");
}

#[test]
fn an_address_is_http_with_a_host() {
    for good in ["http://localhost", "http://[::1]:80/mcp?a=b", "http://example.com:1/"] {
        assert!(good.parse::<Target>().is_ok(), "{good}");
    }
    for (bad, said) in [
        ("ws://localhost", "http://"),
        ("localhost:80", "no scheme: write http://"),
        ("127.0.0.1:80/mcp", "no scheme: write http://"),
        ("http://me@localhost", "HOST:PORT"),
        ("http://localhost:65536/mcp", "HOST:PORT"),
        ("https://localhost:https/mcp", ""),
        ("http://localhost:", "HOST:PORT"),
        ("http:// ", "no address"),
    ] {
        let error = bad.parse::<Target>().unwrap_err().to_string();
        assert!(error.contains(said), "{bad}: {error}");
    }
}

//! Requests and their responses, and requests that are refused.

use std::sync::Arc;
use std::time::Duration;

use protocol_async::Arrival;
use protocol_core::Config;
use protocol_http::Rules;
use protocol_http::server::{Server, ServerOptions};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::{Instant, timeout};

use crate::client::send;
use crate::host::{Host, Report, request};

const SECOND: Duration = Duration::from_secs(1);

fn result(response: &str) -> Value {
    serde_json::from_str::<Value>(response).unwrap()["result"].clone()
}

#[tokio::test]
async fn a_request_in_a_session_has_its_response_in_a_stream_of_events() {
    let host = Host::new(ServerOptions::default());
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let session = host.open(version).await;
        let mut response = session.post(&request(1, "echo", &json!([1]))).await;
        assert_eq!(response.status, 200);
        assert_eq!(response.header("content-type"), Some("text/event-stream"));
        assert_eq!(response.header("mcp-session-id"), None, "only who opens it gets it");
        assert_eq!(result(&response.event().await.unwrap()), json!([1]));
        assert_eq!(response.event().await, None);
    }
    assert_eq!(host.server.sessions(), 3);
}

#[tokio::test]
async fn a_client_that_accepts_no_events_has_one_body() {
    let host = Host::new(ServerOptions::default());
    let session = host.open("2025-06-18").await;
    let accept = [("accept", "application/json")];
    let count = json!({ "to": 3, "_meta": { "progressToken": 7 } });
    let response = session.send("POST", &accept, &request(1, "count", &count)).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert!(response.header("content-length").is_some());
    assert_eq!(result(&response.body().await), "counted");
}

#[tokio::test]
async fn a_request_without_a_session_has_its_response_and_leaves_nothing() {
    let mut host = Host::new(ServerOptions::default());
    let (body, headers) = Host::modern("echo", json!({ "a": 1 }));
    let mut response = send(&host.server, "POST", &headers, &body).await;
    assert_eq!((response.status, response.header("mcp-session-id")), (200, None));
    assert_eq!(result(&response.event().await.unwrap())["a"], 1);
    assert_eq!(response.event().await, None);
    assert_eq!(host.report().await, crate::host::Report::Over);
    assert_eq!(host.server.sessions(), 0);
}

#[tokio::test]
async fn an_unknown_method_has_status_404_where_the_revision_says_so_each_time() {
    let host = Host::new(ServerOptions::default());
    for _ in 0..200 {
        let (body, headers) = Host::modern("nothing", json!({}));
        let response = send(&host.server, "POST", &headers, &body).await;
        assert_eq!(response.status, 404);
        assert!(response.body().await.contains("-32601"));
    }
    let session = host.open("2025-11-25").await;
    let mut response = session.post(&request(1, "nothing", &json!({}))).await;
    assert_eq!(response.status, 200);
    assert!(response.event().await.unwrap().contains("-32601"));
}

#[tokio::test]
async fn an_initialize_opens_no_session_where_the_revision_has_none() {
    let host = Host::new(ServerOptions::default());
    let (body, headers) = Host::modern("initialize", json!({ "protocolVersion": "2025-06-18" }));
    let response = send(&host.server, "POST", &headers, &body).await;
    assert_eq!((response.status, response.header("mcp-session-id")), (404, None));
    assert_eq!(host.server.sessions(), 0);
}

#[tokio::test]
async fn requests_that_may_not_come_in_have_their_status() {
    let host = Host::new(ServerOptions::default());
    let session = host.open("2025-06-18").await;
    let echo = request(1, "echo", &json!({}));
    let id = ("mcp-session-id", &*session.id);
    for (status, method, headers) in [
        (403, "POST", &[("origin", "https://evil.example")][..]),
        (403, "POST", &[("host", "evil.example")]),
        (404, "POST", &[(":path", "/other")]),
        (405, "PUT", &[]),
        (406, "GET", &[("accept", "text/html")]),
        (415, "POST", &[("content-type", "text/plain")]),
        (400, "POST", &[("mcp-protocol-version", "1999-01-01")]),
        (400, "POST", &[id, ("mcp-protocol-version", "2026-07-28")]),
        (400, "POST", &[("mcp-protocol-version", "2026-07-28"), ("mcp-method", "echo")]),
        (400, "POST", &[]),
        (400, "GET", &[]),
        (400, "DELETE", &[]),
        (404, "POST", &[("mcp-session-id", "0123")]),
        (404, "GET", &[("mcp-session-id", "0123")]),
        (404, "DELETE", &[("mcp-session-id", "0123")]),
        (405, "GET", &[("mcp-protocol-version", "2026-07-28")]),
    ] {
        let refused = send(&host.server, method, headers, &echo).await;
        assert_eq!(refused.status, status, "{method} {headers:?}");
        assert!(refused.body().await.contains(r#""error""#));
    }
    for body in ["{", "[]", r#"{"jsonrpc":"2.0","id":1,"method":"echo"}x"#] {
        assert_eq!(session.post(body).await.status, 400, "{body}");
    }
    assert_eq!(session.post(&echo).await.status, 200, "the session is as before");
}

#[tokio::test]
async fn a_mirrored_header_that_differs_from_the_body_is_refused() {
    let host = Host::new(ServerOptions::default());
    let (body, mut headers) = Host::modern("echo", json!({}));
    assert_eq!(send(&host.server, "POST", &headers, &body).await.status, 200);
    headers[1].1 = "other";
    let refused = send(&host.server, "POST", &headers, &body).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body().await.contains("-32020"));
}

/// "The protocol version sent by the client SHOULD be the one negotiated."
#[tokio::test]
async fn a_session_takes_a_request_that_names_another_version_with_sessions() {
    let host = Host::new(ServerOptions::default());
    let session = host.open("2025-11-25").await;
    let headers = [("mcp-session-id", &*session.id), ("mcp-protocol-version", "2025-03-26")];
    let mut taken = send(&host.server, "POST", &headers, &request(1, "echo", &json!({}))).await;
    assert_eq!(taken.status, 200);
    assert!(taken.event().await.is_some_and(|event| event.contains(r#""result":{}"#)));
}

#[tokio::test]
async fn a_session_takes_the_version_that_its_initialize_settled_offered_or_not() {
    let mut newest = ServerOptions::default();
    newest.gate.revisions = vec![&Rules::MCP_2025_11_25];
    for (options, settled) in [(ServerOptions::default(), "2024-11-05"), (newest, "2025-06-18")] {
        let session = Host::new(options).open(settled).await;
        assert_eq!(session.post(&request(1, "echo", &json!({}))).await.status, 200, "{settled}");
        let other = [("mcp-session-id", &*session.id), ("mcp-protocol-version", "1999-01-01")];
        assert_eq!(send(session.server(), "POST", &other, "{}").await.status, 400);
    }
}

#[tokio::test]
async fn a_server_without_sessions_has_post_alone_and_names_its_version() {
    let mut options = ServerOptions::default();
    options.gate.revisions = vec![&Rules::MCP_2026_07_28];
    let host = Host::new(options);
    for method in ["GET", "DELETE"] {
        let old = [("mcp-session-id", "0123"), ("mcp-protocol-version", "2025-11-25")];
        let refused = send(&host.server, method, &old, "").await;
        assert_eq!((refused.status, refused.header("allow")), (405, Some("POST")));
    }
    let refused = send(&host.server, "POST", &[], &request(1, "initialize", &json!({}))).await;
    assert_eq!(refused.status, 400);
    let body: Value = serde_json::from_str(&refused.body().await).unwrap();
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!(1), &json!(-32020)));
    assert_eq!(body["error"]["data"]["supported"], json!(["2026-07-28"]));
}

/// A browser asks with OPTIONS, without the secret, before a page may send JSON. Each response says that the page may read it.
#[tokio::test]
async fn a_page_that_is_admitted_may_send_requests_and_read_their_responses() {
    let mut options = ServerOptions::default();
    options.gate.origins = vec!["https://example.com".into()];
    options.token = Some("secret".into());
    let host = Host::new(options);
    let (body, mut headers) = Host::modern("echo", json!({}));
    headers.push(("authorization", "Bearer secret"));
    for origin in ["https://example.com", "http://localhost:3000"] {
        let page = ("origin", origin);
        let asked = [
            page,
            ("access-control-request-method", "POST"),
            ("access-control-request-headers", "authorization,content-type,mcp-method"),
        ];
        let allowed = send(&host.server, "OPTIONS", &asked, "").await;
        assert_eq!(allowed.status, 204);
        assert_eq!(allowed.header("access-control-allow-methods"), Some("POST, GET, DELETE"));
        assert_eq!(allowed.header("access-control-allow-headers"), Some("*, authorization"));
        let taken = send(&host.server, "POST", &[&headers[..], &[page]].concat(), &body).await;
        let refused = send(&host.server, "POST", &[page], &body).await;
        assert_eq!((taken.status, refused.status), (200, 401));
        let elsewhere = send(&host.server, "POST", &[page, (":path", "/other")], "").await;
        assert_eq!(elsewhere.status, 404);
        for response in [allowed, taken, refused, elsewhere] {
            assert_eq!(response.header("access-control-allow-origin"), Some(origin));
            assert_eq!(response.header("access-control-expose-headers"), Some("*"));
            assert_eq!(response.header("vary"), Some("origin"));
        }
    }
    let stranger = [("origin", "https://evil.example")];
    let host_of_another = [("origin", "https://example.com"), ("host", "evil.example")];
    for (status, headers) in [(403, &stranger[..]), (403, &host_of_another), (405, &[])] {
        let refused = send(&host.server, "OPTIONS", headers, "").await;
        assert_eq!(refused.status, status);
        assert_eq!(refused.header("access-control-allow-origin"), None);
        assert_eq!(refused.header("access-control-allow-methods"), None);
    }
}

#[tokio::test]
async fn a_version_that_is_not_offered_is_named_in_the_response_to_its_request() {
    let host = Host::new(ServerOptions::default());
    let (body, mut headers) = Host::modern("echo", json!({}));
    headers[0].1 = r#"v"9"#;
    let refused = send(&host.server, "POST", &headers, &body).await;
    assert_eq!(refused.status, 400);
    let body: Value = serde_json::from_str(&refused.body().await).unwrap();
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!(1), &json!(-32022)));
    assert_eq!(body["error"]["data"]["requested"], r#"v"9"#);
    assert_eq!(body["error"]["data"]["supported"][0], "2026-07-28");
}

#[tokio::test]
async fn a_request_without_what_its_meta_has_to_say_is_refused() {
    let host = Host::new(ServerOptions::default());
    for missing in ["protocolVersion", "clientCapabilities"] {
        let (body, headers) = Host::modern("echo", json!({}));
        let mut body: Value = serde_json::from_str(&body).unwrap();
        let meta = body["params"]["_meta"].as_object_mut().unwrap();
        assert!(meta.remove(&format!("io.modelcontextprotocol/{missing}")).is_some());
        let refused = send(&host.server, "POST", &headers, &body.to_string()).await;
        assert_eq!(refused.status, 400);
        let body: Value = serde_json::from_str(&refused.body().await).unwrap();
        assert_eq!((&body["id"], &body["error"]["code"]), (&json!(1), &json!(-32602)));
    }
}

#[tokio::test]
async fn a_method_that_the_revision_has_removed_is_unknown() {
    let host = Host::new(ServerOptions::default());
    for removed in ["initialize", "ping", "logging/setLevel", "resources/subscribe"] {
        let (body, headers) = Host::modern(removed, json!({}));
        let refused = send(&host.server, "POST", &headers, &body).await;
        assert_eq!(refused.status, 404, "{removed}");
        assert!(refused.body().await.contains(r#""id":1,"error":{"code":-32601"#));
    }
}

#[tokio::test]
async fn a_capability_that_the_client_lacks_has_a_status_of_its_own() {
    let host = Host::new(ServerOptions::default());
    let (body, headers) = Host::modern("needs", json!({}));
    let refused = send(&host.server, "POST", &headers, &body).await;
    assert_eq!(refused.status, 400);
    assert!(refused.body().await.contains("-32021"));
    let session = host.open("2025-11-25").await;
    assert_eq!(session.post(&request(1, "needs", &json!({}))).await.status, 200);
}

#[tokio::test]
async fn a_body_over_the_limit_is_refused_whether_its_length_is_declared_or_not() {
    let mut options = ServerOptions::default();
    options.body_bytes = 1_000;
    let host = Host::new(options);
    let session = host.open("2025-06-18").await;
    let long = request(1, "echo", &json!("x".repeat(1_000)));
    assert_eq!(session.post(&long).await.status, 413);
    let body = format!("{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    let chunked = [("mcp-session-id", &*session.id), ("transfer-encoding", "chunked")];
    let sent = crate::client::begin_raw(&host.server, &chunked, &body).await;
    assert_eq!(sent.head().await.status, 413);
    let short = request(1, "echo", &json!("x".repeat(900)));
    assert_eq!(session.post(&short).await.status, 200);
}

/// A client that writes all of its body first reads no status if the connection ends meanwhile.
#[tokio::test]
async fn a_body_over_the_limit_is_read_to_its_end_so_that_its_client_sees_the_status() {
    let mut options = ServerOptions::default();
    options.body_bytes = 1_000;
    let host = Host::new(options);
    let long = request(1, "echo", &json!("x".repeat(1_000_000)));
    assert_eq!(send(&host.server, "POST", &[], &long).await.status, 413);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_is_given_up() {
    let host = Host::new(ServerOptions::default());
    let session = host.open("2025-06-18").await;
    let id = [("mcp-session-id", &*session.id), ("content-length", "10")];
    let sent = crate::client::begin_raw(&host.server, &id, "{").await;
    assert_eq!(sent.head().await.status, 408);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_asks_nothing_is_ended() {
    let host = Host::new(ServerOptions::default());
    for begun in ["", "P", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let (mut near, far) = duplex(1 << 10);
        near.write_all(begun.as_bytes()).await.unwrap();
        let ended = timeout(SECOND * 31, host.server.serve_connection(far)).await;
        assert!(ended.is_ok(), "after {begun:?}");
    }
}

/// Each client acknowledges pings. The second ignores the first ping after GOAWAY, with which HTTP/2 ends.
#[tokio::test(start_paused = true)]
async fn g08_a_connection_of_http_2_without_a_stream_is_ended() {
    const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    const GET_X: &[u8] = b"\0\0\x11\x01\x05\0\0\0\x01\x82\x86\x04\x02/x\x01\x09localhost";
    const HEADERS: u8 = 1;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    let host = Host::new(ServerOptions::default());
    for (ends, most) in [(true, SECOND * 61), (false, SECOND * 121)] {
        let (mut near, far) = duplex(1 << 10);
        near.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        near.write_all(&[&SETTINGS, GET_X].concat()).await.unwrap();
        let client = tokio::spawn(async move {
            let (mut ignored, mut statuses) = (0, 0);
            let mut head = [0; 9];
            while near.read_exact(&mut head).await.is_ok() {
                let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
                near.read_exact(&mut payload).await.unwrap();
                match head[3] {
                    HEADERS => statuses += 1,
                    GOAWAY if !ends => ignored = 1,
                    PING if ignored == 1 => ignored = 2,
                    PING => {
                        let pong = [&[0, 0, 8, PING, 1, 0, 0, 0, 0], &*payload].concat();
                        let _ = near.write_all(&pong).await;
                    }
                    _ => {}
                }
            }
            statuses
        });
        let ended = timeout(most, host.server.serve_connection(far)).await;
        assert!(ended.is_ok(), "one that ends: {ends}");
        assert_eq!(client.await.unwrap(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_without_the_secret_is_unknown() {
    let mut options = ServerOptions::default();
    options.token = Some("secret".into());
    let host = Host::new(options);
    let (body, mut headers) = Host::modern("echo", json!({}));
    for wrong in ["", "Bearer", "Bearer other", "Basic secret"] {
        headers.truncate(2);
        headers.push(("authorization", wrong));
        let refused = send(&host.server, "POST", &headers, &body).await;
        assert_eq!(refused.status, 401, "{wrong}");
        assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
    }
    headers[2].1 = "bearer secret";
    assert_eq!(send(&host.server, "POST", &headers, &body).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn f110_a_guess_takes_a_second_whatever_it_is_refused_for() {
    let mut options = ServerOptions::default();
    options.token = Some("secret".into());
    let host = Host::new(options);
    let (body, headers) = Host::modern("echo", json!({}));
    let wrong = ("authorization", "Bearer other");
    let old = ("mcp-protocol-version", "1");
    let right = ("authorization", "Bearer secret");
    for (more, waits) in [(&[][..], 0), (&[right], 0), (&[wrong], 1), (&[old, wrong], 1)] {
        let begun = Instant::now();
        let named = |name: &str| more.iter().any(|(other, _)| *other == name);
        let kept = headers.iter().filter(|(name, _)| !named(name)).copied();
        let shown: Vec<_> = kept.chain(more.iter().copied()).collect();
        let status = send(&host.server, "POST", &shown, &body).await.status;
        assert_eq!(begun.elapsed().as_secs(), waits, "{more:?} has status {status}");
    }
}

#[tokio::test]
async fn one_session_more_than_there_may_be_is_refused() {
    let mut options = ServerOptions::default();
    options.sessions = 1;
    let host = Host::new(options);
    let session = host.open("2025-06-18").await;
    let (body, headers) = Host::modern("echo", json!({}));
    assert_eq!(send(&host.server, "POST", &headers, &body).await.status, 503);
    assert_eq!(session.send("DELETE", &[], "").await.status, 204);
    // Its place is free once its endpoint has ended, which takes a few turns.
    while send(&host.server, "POST", &headers, &body).await.status == 503 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_nobody_uses_ends() {
    let mut host = Host::new(ServerOptions::default());
    let session = host.open("2025-06-18").await;
    tokio::time::sleep(SECOND * 60 * 29).await;
    assert_eq!(session.post(&request(1, "echo", &json!({}))).await.status, 200);
    tokio::time::sleep(SECOND * 60 * 29).await;
    assert_eq!(host.server.sessions(), 1, "it was used");
    assert_eq!(host.report().await, crate::host::Report::Over);
    assert_eq!(session.post(&request(1, "echo", &json!({}))).await.status, 404);
}

#[tokio::test]
async fn a_message_that_the_endpoint_refuses_ends_its_stream() {
    let host = Host::new(ServerOptions::default());
    let session = host.open("2025-06-18").await;
    for (id, body) in [
        ("1.5", r#"{"jsonrpc":"2.0","id":1.5,"method":"echo"}"#),
        ("2", r#"{"jsonrpc":"1.0","id":2,"method":"echo"}"#),
        ("3", r#"{"id":3,"method":"echo"}"#),
        ("4", r#"{"jsonrpc":"2.0","id":4,"method":"echo","params":7}"#),
    ] {
        let mut response = session.post(body).await;
        let error = response.event().await.unwrap();
        assert!(error.contains("-32600") && error.contains(&format!(r#""id":{id},"#)), "{error}");
        assert_eq!(response.event().await, None, "{body}");
    }
}

#[tokio::test]
async fn an_id_that_the_endpoint_could_not_repeat_is_refused_and_leaves_nothing() {
    let mut options = ServerOptions::default();
    options.session.exchanges = 1;
    let host = Host::new(options);
    let session = host.open("2025-06-18").await;
    let long = json!({ "jsonrpc": "2.0", "id": "x".repeat(300), "method": "echo" }).to_string();
    assert_eq!(session.post(&long).await.status, 400);
    let mut listening = session.get(None).await;
    let count = json!({ "to": 2, "_meta": { "progressToken": "x".repeat(300) } });
    let mut response = session.post(&request(1, "count", &count)).await;
    assert_eq!(result(&response.event().await.unwrap()), "counted", "nothing is open");
    for _ in 0..2 {
        // Progress under such a token goes where other messages go.
        assert!(listening.event().await.unwrap().contains("notifications/progress"));
    }
}

#[tokio::test]
async fn g02_a_message_with_two_ids_is_refused_and_leaves_nothing() {
    let mut options = ServerOptions::default();
    (options.session.exchanges, options.sessions) = (1, 2);
    let host = Host::new(options);
    let session = host.open("2025-06-18").await;
    let (modern, headers) = Host::modern("echo", json!({}));
    let twice = |body: &str| body.replace(r#""id":1"#, r#""id":2,"id":1"#);
    let echo = request(1, "echo", &json!({}));
    for (body, response) in [
        (&echo, session.post(&twice(&echo)).await),
        (&modern, send(&host.server, "POST", &headers, &twice(&modern)).await),
    ] {
        assert_eq!(response.status, 400, "{body}");
        assert!(response.body().await.contains("-32600"));
    }
    assert_eq!(session.post(&echo).await.status, 200);
    assert_eq!(send(&host.server, "POST", &headers, &modern).await.status, 200);
}

#[tokio::test]
async fn g02_a_request_that_the_server_ends_has_the_end_of_its_stream_and_leaves_nothing() {
    let mut options = ServerOptions::default();
    options.sessions = 1;
    let server = Server::new(options, |peer, incoming| async move {
        while let Ok(arrival) = incoming.receive().await {
            let Arrival::Request(_, responder) = arrival else { continue };
            peer.notify("m", json!({})).await.unwrap();
            peer.flushed().await;
            responder.end(None).unwrap();
        }
    });
    let (body, headers) = Host::modern("subscriptions/listen", json!({}));
    for accept in ["text/event-stream", "application/json", "text/event-stream"] {
        let headers = [&headers[..], &[("accept", accept)]].concat();
        let mut ended = send(&server, "POST", &headers, &body).await;
        while ended.status == 503 {
            // The place of the one before is free once its endpoint has ended, which takes a few turns.
            ended = send(&server, "POST", &headers, &body).await;
        }
        if accept == "application/json" {
            assert_eq!((ended.status, &*ended.body().await), (202, ""));
        } else {
            assert!(ended.event().await.unwrap().contains(r#""method":"m""#));
            assert_eq!(ended.event().await, None);
        }
    }
}

#[tokio::test]
async fn a_batch_counts_as_many_exchanges_as_it_has_messages() {
    let mut options = ServerOptions::default();
    options.session.exchanges = 3;
    let mut host = Host::new(options);
    let session = host.open("2025-03-26").await;
    let wait = |id| request(id, "wait", &json!({}));
    let two = |id| format!("[{},{}]", wait(id), wait(id + 1));
    let _open = session.post(&two(1)).await;
    for _ in 0..2 {
        assert_eq!(host.report().await, Report::Began);
    }
    assert_eq!(session.post(&two(3)).await.status, 503);
    assert_eq!(session.post(&request(5, "echo", &json!({}))).await.status, 200);
}

#[tokio::test]
async fn a_batch_that_the_endpoint_could_not_take_is_refused_and_leaves_nothing() {
    let mut options = ServerOptions::default();
    options.session.exchanges = 2;
    options.endpoint = Arc::new(|dialect| {
        let mut config = Config::server(dialect);
        config.limits.batch_members = 1;
        config.into()
    });
    let host = Host::new(options);
    let session = host.open("2025-03-26").await;
    let echo = |id| request(id, "echo", &json!([id]));
    assert_eq!(session.post(&format!("[{},{}]", echo(1), echo(2))).await.status, 400);
    for id in [1, 2] {
        let mut response = session.post(&echo(id)).await;
        assert_eq!(result(&response.event().await.unwrap()), json!([id]));
    }
}

#[tokio::test]
async fn a_batch_has_all_of_its_responses_in_one_stream() {
    let host = Host::new(ServerOptions::default());
    let session = host.open("2025-03-26").await;
    let batch =
        format!("[{},{}]", request(1, "echo", &json!([1])), request(2, "echo", &json!([2])));
    let mut response = session.post(&batch).await;
    let mut text = String::new();
    while let Some(event) = response.event().await {
        text += &event;
    }
    assert!(text.contains("[1]") && text.contains("[2]"), "{text}");
    assert_eq!(host.open("2025-06-18").await.post(&batch).await.status, 400);
}

#[tokio::test]
async fn a_body_that_the_endpoint_could_not_take_is_refused_and_leaves_nothing() {
    let mut options = ServerOptions::default();
    options.endpoint = Arc::new(|dialect| {
        let mut config = Config::server(dialect);
        config.limits.message_bytes = 1_000;
        config.into()
    });
    let host = Host::new(options);
    let long = json!({ "a": "x".repeat(1_000) });
    let (body, headers) = Host::modern("echo", long.clone());
    assert_eq!(send(&host.server, "POST", &headers, &body).await.status, 413);
    assert_eq!(send(&host.server, "POST", &[], &request(1, "initialize", &long)).await.status, 413);
    let session = host.open("2025-06-18").await;
    assert_eq!(session.post(&request(1, "echo", &long)).await.status, 413);
    assert_eq!(session.post(&request(1, "echo", &json!({}))).await.status, 200);
    while host.server.sessions() > 1 {
        tokio::task::yield_now().await;
    }
}

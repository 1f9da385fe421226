//! `rescind relay --listen http://…`: MCP or ACP over HTTP in front of servers on standard streams.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::http::{HOUR, LOCAL, Response, Serving, request};
use crate::support::{PATIENCE, rescind};

/// A server that shows its process and everything that it is sent.
const SERVER: &str =
    r#"echo "server $$" >&2; tee /dev/stderr | "$RESCIND" serve --dialect mcp; echo ended >&2"#;

/// A server that opens a session, and dies of the next request.
const MORTAL: &str = r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}'
    read -r line; exit 7"#;

const MODERN: &str = "Mcp-Protocol-Version: 2026-07-28\r\n";

fn relay(more: &[&str], server: &str) -> Serving {
    Serving::run(&[&["relay", "--listen", LOCAL], more, &["--", "sh", "-c", server]].concat())
}

/// Opens a session, and returns the headers of its requests.
fn open(relay: &Serving) -> String {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
    let mut opened = relay.post("", &request("initialize", &params));
    assert_eq!(opened.data()["result"]["protocolVersion"], "2025-11-25");
    let id = opened.head.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap();
    format!("Mcp-Session-Id: {id}\r\nMcp-Protocol-Version: 2025-11-25\r\n")
}

fn tool(name: &str, arguments: &Value) -> Value {
    let meta = json!({ "progressToken": 7 });
    request("tools/call", &json!({ "name": name, "arguments": arguments, "_meta": meta }))
}

/// Begins a tool that takes for ever, in a session.
fn sleep(relay: &mut Serving, session: &str) -> Response {
    let response = relay.post(session, &tool("sleep", &json!({ "ms": HOUR })));
    relay.running.says(&["tools/call"]);
    response
}

/// Waits for the next server to report which process it is.
fn server(relay: &mut Serving) -> String {
    let line = relay.running.says(&["server "]);
    format!("/proc/{}", line.trim().trim_start_matches("server "))
}

/// Counts the servers that were started.
fn servers(stderr: &str) -> usize {
    stderr.lines().filter(|line| line.starts_with("server ")).count()
}

fn await_end(process: &str) {
    let deadline = Instant::now() + PATIENCE;
    while Path::new(process).exists() {
        assert!(Instant::now() < deadline, "{process} is left");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn each_session_has_a_server_and_progress_comes_before_its_result() {
    let relay = relay(&[], SERVER);
    for session in [open(&relay), open(&relay)] {
        let mut response =
            relay.post(&session, &tool("count", &json!({ "to": 50, "every_ms": 0 })));
        for number in 1..=50 {
            let progress = json!({ "progressToken": 7, "progress": number, "total": 50 });
            assert_eq!(response.data()["params"], progress);
        }
        assert_eq!(response.data()["result"]["isError"], false);
        assert_eq!(response.next_data(), None);
    }
    let said = relay.end();
    assert_eq!((said.code, servers(&said.stderr)), (Some(0), 2), "{said:?}");
}

/// A part of a server that opens a session, and then says a number of notifications with 8,000 bytes each.
fn talkative(number: usize) -> String {
    format!(
        r#"echo "server $$" >&2; text=$(head -c 8000 /dev/zero | tr '\0' x); number=0; read -r line
        echo '{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"2025-11-25"}}}}'; read -r line
        while [ $number -lt {number} ]; do number=$((number + 1))
        echo '{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":7,"progress":'$number',"message":"'$text'"}}}}'
        done"#
    )
}

/// There are more than fit into what is held for a client that reads nothing at first.
#[test]
fn g08_notifications_that_a_client_reads_slowly_wait_and_are_not_dropped() {
    const MANY: usize = 4_000;
    let last =
        r#"echo "said all" >&2; echo '{"jsonrpc":"2.0","id":2,"result":{}}'; cat >/dev/null"#;
    let mut relay = relay(&[], &format!("{}; {last}", talkative(MANY)));
    let session = open(&relay);
    let mut response = relay.post(&session, &tool("count", &json!({})));
    relay.running.says(&["said all"]);
    for number in 1..=MANY {
        assert_eq!(response.data()["params"]["progress"], number);
    }
    assert!(response.data()["result"].is_object());
    let said = relay.end();
    assert!(!said.stderr.contains("dropped"), "{said:?}");
}

#[test]
fn a_request_of_the_server_has_the_response_of_its_client() {
    let relay = relay(&[], SERVER);
    let session = open(&relay);
    let mut response = relay.post(&session, &tool("nested", &json!({ "ms": 1 })));
    let asked = response.data();
    assert_eq!((&asked["method"], &asked["params"]), (&json!("sleep"), &json!({ "ms": 1 })));
    let own = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "slept": true } });
    assert_eq!(relay.post(&session, &own).status, 202);
    let result = response.data()["result"].clone();
    assert_eq!(result["content"][0]["text"], r#"{"slept":true}"#, "{result}");
}

#[test]
fn b25_a_posted_cancel_reaches_the_server_under_the_id_of_its_own_request() {
    let mut relay = relay(&[], SERVER);
    let session = open(&relay);
    let mut response = sleep(&mut relay, &session);
    let cancel = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 1 } });
    assert_eq!(relay.post(&session, &cancel).status, 202);
    relay.running.says(&["notifications/cancelled", r#""requestId":2"#]);
    assert_eq!(response.next_data(), None);
    assert_eq!(relay.end().code, Some(0));
}

#[test]
fn a_closed_stream_is_a_cancel_in_2026_07_28_and_the_server_goes_on() {
    let mut relay = relay(&[], SERVER);
    let response = relay.call_tool("sleep", &json!({ "ms": HOUR }), "");
    relay.running.says(&["tools/call"]);
    drop(response);
    relay.running.says(&["notifications/cancelled", r#""requestId":1"#]);
    let mut response = relay.call_tool("echo", &json!({ "a": 1 }), "");
    assert_eq!(response.data()["result"]["content"][0]["text"], r#"{"a":1}"#);
    let said = relay.end();
    assert_eq!((said.code, servers(&said.stderr)), (Some(0), 1), "{said:?}");
}

#[test]
fn requests_without_a_session_share_a_server_and_the_same_token_means_each_its_own() {
    let relay = relay(&[], SERVER);
    let begin = |to: u32| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": 7,
        });
        let params =
            json!({ "name": "count", "arguments": { "to": to, "every_ms": 20 }, "_meta": meta });
        let headers = format!("{MODERN}Mcp-Method: tools/call\r\nMcp-Name: count\r\n");
        relay.post(&headers, &request("tools/call", &params))
    };
    let lengths = [20, 10];
    for (mut response, length) in lengths.map(begin).into_iter().zip(lengths) {
        for number in 1..=length {
            let progress = json!({ "progressToken": 7, "progress": number, "total": length });
            assert_eq!(response.data()["params"], progress);
        }
        let last = response.data();
        assert_eq!((&last["id"], &last["result"]["isError"]), (&json!(1), &json!(false)));
    }
    assert_eq!(servers(&relay.end().stderr), 1);
}

/// Posts a request without a session.
fn post_modern(relay: &Serving, id: &Value, method: &str, more_meta: &Value) -> Response {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    meta.as_object_mut().unwrap().extend(more_meta.as_object().unwrap().clone());
    let mut body = request(method, &json!({ "_meta": meta }));
    body["id"] = id.clone();
    relay.post(&format!("{MODERN}Mcp-Method: {method}\r\n"), &body)
}

#[test]
fn what_a_client_subscribed_to_names_its_own_request() {
    let server = r#"read -r line
        told='"_meta":{"io.modelcontextprotocol/subscriptionId":1}'
        echo '{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{'"$told"'}}'
        echo '{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",'"$told"'}}'
        cat >/dev/null"#;
    let relay = relay(&[], server);
    let mut response = post_modern(&relay, &json!("sub"), "subscriptions/listen", &json!({}));
    for part in ["params", "result"] {
        let told = response.data();
        let id = &told[part]["_meta"]["io.modelcontextprotocol/subscriptionId"];
        assert_eq!(id, "sub", "{told}");
    }
    assert_eq!(relay.end().code, Some(0));
}

#[test]
fn a_log_message_goes_to_the_one_request_that_asked_for_any() {
    let server = r#"read -r line; read -r line
        echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"data":0}}'
        echo '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'
        for id in 1 2; do echo '{"jsonrpc":"2.0","id":'$id',"result":{}}'; done
        cat >/dev/null"#;
    let relay = relay(&[], server);
    let level = json!({ "io.modelcontextprotocol/logLevel": "info" });
    let mut silent = post_modern(&relay, &json!(1), "tools/list", &json!({}));
    let mut asked = post_modern(&relay, &json!(2), "tools/list", &level);
    assert_eq!(asked.data()["params"]["data"], 1);
    assert!(asked.data()["result"].is_object());
    assert!(silent.data()["result"].is_object());
    assert_eq!(relay.end().code, Some(0));
}

#[test]
fn delete_cancels_what_is_open_and_ends_the_server() {
    let mut relay = relay(&[], SERVER);
    let session = open(&relay);
    let process = server(&mut relay);
    let _open = sleep(&mut relay, &session);
    assert_eq!(relay.send("DELETE", &session, "").status, 204);
    relay.running.says(&["notifications/cancelled", r#""requestId":2"#]);
    relay.running.says(&["ended"]);
    await_end(&process);
    assert_eq!(relay.end().code, Some(0));
}

/// There are more notifications than fit into what is held for a server that reads nothing.
#[test]
fn delete_ends_a_server_that_does_not_read_while_a_notification_waits_for_room() {
    let deaf = r#"echo "server $$" >&2; read -r line
        echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}'; sleep 1000"#;
    let mut relay = relay(&["--exit-grace", "100ms"], deaf);
    let session = open(&relay);
    let process = server(&mut relay);
    let told =
        json!({ "jsonrpc": "2.0", "method": "told", "params": { "text": "x".repeat(4_000_000) } });
    for _ in 0..20 {
        assert_eq!(relay.post(&session, &told).status, 202);
    }
    assert_eq!(relay.send("DELETE", &session, "").status, 204);
    await_end(&process);
    assert_eq!(relay.end().code, Some(0));
}

#[test]
fn sigterm_responds_to_what_is_open_and_leaves_no_server() {
    let mut relay = relay(&[], SERVER);
    let session = open(&relay);
    let own = server(&mut relay);
    let in_session = sleep(&mut relay, &session);
    let alone = relay.call_tool("sleep", &json!({ "ms": HOUR }), "");
    let shared = server(&mut relay);
    relay.running.says(&["tools/call"]);
    let said = relay.end();
    assert_eq!(said.code, Some(0), "{said:?}");
    let left = [own, shared].map(|process| Path::new(&process).exists());
    assert_eq!(left, [false, false], "{said:?}");
    assert_eq!(said.stderr.matches("notifications/cancelled").count(), 2, "{said:?}");
    for mut response in [in_session, alone] {
        assert!(response.data()["error"].is_object());
    }
}

/// A server that reads everything and never responds.
const SILENT: &str = r#"echo "server $$" >&2; cat >/dev/null; echo ended >&2"#;

/// Asks for a session of a silent server, which can't be cancelled.
fn open_silent(relay: &mut Serving) -> (String, Response) {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {} });
    let response = relay.post("", &request("initialize", &params));
    (server(relay), response)
}

#[test]
fn delete_ends_a_server_that_does_not_respond_after_the_grace() {
    let mut relay = relay(&["--grace", "100ms"], SILENT);
    let (process, response) = open_silent(&mut relay);
    let id = response.head.lines().find(|line| line.starts_with("mcp-session-id: ")).unwrap();
    assert_eq!(relay.send("DELETE", &format!("{id}\r\n"), "").status, 204);
    relay.running.says(&["ended"]);
    await_end(&process);
    assert_eq!(relay.end().code, Some(0));
}

#[test]
fn sigterm_responds_in_the_place_of_a_server_that_does_not() {
    let mut relay = relay(&["--grace", "1h"], SILENT);
    let (process, mut response) = open_silent(&mut relay);
    let said = relay.end();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(!Path::new(&process).exists(), "{said:?}");
    assert_eq!(response.data()["error"]["message"], "the next hop is gone");
}

#[test]
fn a_server_that_is_deaf_is_ended_with_the_relay() {
    let deaf = r#"trap "" TERM; echo "server $$" >&2; while :; do sleep 1000; done"#;
    let mut relay = relay(&["--exit-grace", "100ms"], deaf);
    let response = relay.call_tool("sleep", &json!({ "ms": HOUR }), "");
    let process = server(&mut relay);
    let said = relay.end();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stderr.contains("was killed"), "{said:?}");
    assert!(!Path::new(&process).exists());
    drop(response);
}

#[test]
fn a_server_that_dies_responds_with_an_error_and_its_session_is_over() {
    let relay = relay(&[], MORTAL);
    let session = open(&relay);
    let mut response = relay.post(&session, &tool("sleep", &json!({ "ms": HOUR })));
    assert_eq!(response.data()["error"]["message"], "the next hop is gone");
    // The end of the stream comes before that of the session.
    let deadline = Instant::now() + PATIENCE;
    while relay.post(&session, &tool("echo", &json!({}))).status != 404 {
        assert!(Instant::now() < deadline, "the session goes on");
    }
    let said = relay.end();
    assert!(said.stderr.contains("sh failed: exit status: 7"), "{said:?}");
}

#[test]
fn a_shared_server_that_dies_is_followed_by_another() {
    let relay = relay(&[], r#"echo "server $$" >&2; read -r line; exit 7"#);
    for _ in 0..2 {
        let mut response = relay.call_tool("echo", &json!({}), "");
        assert_eq!(response.data()["error"]["message"], "the next hop is gone");
    }
    assert_eq!(servers(&relay.end().stderr), 2);
}

#[test]
fn an_unknown_method_has_status_404_behind_the_relay_too() {
    let relay = relay(&[], SERVER);
    // The server responds at once from now on.
    relay.call_tool("echo", &json!({}), "").data();
    assert_eq!(post_modern(&relay, &json!(1), "nothing", &json!({})).status, 404);
}

#[test]
fn a_request_that_takes_too_long_is_given_up_and_cancelled_on_the_server() {
    let mut relay = relay(&["--method", "tools/*=cap:100ms"], SERVER);
    let session = open(&relay);
    let mut response = sleep(&mut relay, &session);
    assert_eq!(response.data()["error"]["code"], -32803);
    relay.running.says(&["notifications/cancelled", r#""requestId":2"#]);
    let said = relay.end();
    assert!(said.stderr.contains("a request was given up: timed out (hard_cap)"), "{said:?}");
}

#[test]
fn a_recording_is_summarized_at_the_end_unless_that_is_to_be_quiet() {
    for (quiet, is_summarized) in [(None, true), (Some("--quiet"), false)] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("summary-{quiet:?}.jsonl"));
        let record = ["--record", path.to_str().unwrap()];
        let relay = relay(&[&record[..], quiet.as_slice()].concat(), SERVER);
        open(&relay);
        let said = relay.end();
        assert_eq!(said.stderr.contains("0 never answered"), is_summarized, "{said:?}");
    }
}

#[test]
fn a_server_that_can_not_be_started_is_an_error_of_the_request() {
    let mut relay = Serving::run(&["relay", "--listen", LOCAL, "--", "/there/is/no/such/server"]);
    let mut response = relay.call_tool("echo", &json!({}), "");
    assert_eq!(response.data()["error"]["message"], "the server can't be started");
    relay.running.says(&["can't start /there/is/no/such/server"]);
    assert_eq!(relay.end().code, Some(0));
}

#[test]
fn g08_no_more_servers_run_than_there_is_room_for() {
    let relay = relay(&["--servers", "1"], SERVER);
    open(&relay);
    let mut refused = relay.call_tool("echo", &json!({}), "");
    assert_eq!(refused.data()["error"]["message"], "the server can't be started");
    let said = relay.end();
    assert!(said.stderr.contains("too many servers run (--servers)"), "{said:?}");
    assert_eq!(servers(&said.stderr), 1);
}

#[test]
fn a_relay_listens_over_http_alone() {
    for (arguments, said) in [
        (&["--listen", "ws://127.0.0.1:0"][..], "http://"),
        (&["--listen", LOCAL, "--dialect", "lsp"], "--dialect mcp-http"),
        (&["--listen", LOCAL, "--trace"], "--trace"),
        (&["--allow-anyone"], "--listen"),
    ] {
        let refused = rescind([&["relay"], arguments, &["--", "true"]].concat());
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
}

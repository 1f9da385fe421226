//! `rescind serve --listen` and `rescind call --connect`: the same over a WebSocket.

use std::env;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tungstenite::Message;

use crate::support::listening::{HOUR, LOCAL, Listening, UPGRADE, receive, send};
use crate::support::{self, Running, at_once, rescind};

/// As long as is asked for.
const MS: &str = r#"{"ms":"$MS"}"#;

#[test]
fn calls_are_answered_and_cancelled_in_every_dialect() {
    for dialect in ["jsonrpc", "acp", "acp-v2", "acp-draft", "lsp", "mcp", "mcp-2025-11-25", "abp"]
    {
        let server = Listening::start(&[LOCAL, "--dialect", dialect]);
        let said = server.call(&["--dialect", dialect, "echo", r#"{"a":1}"#]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "{\"a\":1}\n"), "{said:?}");
        let sleep = ["--dialect", dialect, "--cancel-after", "50ms", "sleep", HOUR];
        let said = server.call(&sleep);
        assert_eq!(said.code, Some(3), "{dialect}: {said:?}");
        assert!(said.stderr.contains("cancelled sleep after "), "{dialect}: {said:?}");
        assert!(said.took < Duration::from_secs(10), "{dialect}: {said:?}");
    }
}

#[test]
fn a_server_that_listens_passes_every_check_but_those_of_processes() {
    let acp = env::var_os("RESCIND_EVERY_CHECK").map(|_| ("acp", "nested"));
    let all = acp.into_iter().chain([("lsp", "nested"), ("abp", "sleep")]);
    at_once(3, all, |(dialect, method)| {
        let server = Listening::start(&[LOCAL, "--dialect", dialect]);
        let (slow, reverse) = (["--slow", "sleep", MS], ["--reverse", method, MS]);
        let connect = ["--dialect", dialect, "--slow-time", "500ms", "--connect", &server.url];
        let said =
            support::conform([&["conform", "server"][..], &slow, &reverse, &connect].concat());
        assert_eq!(said.code, Some(0), "{dialect}: {said:?}");
        assert!(said.stdout.contains("end/pending") && !said.stdout.contains("end/orphan"));
    });
}

#[test]
fn a_server_that_does_not_listen_is_told_in_one_line() {
    let said = rescind(["conform", "server", "--connect", "ws://127.0.0.1:1"]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(6), 1), "{said:?}");
    assert!(said.stderr.contains("can't be started: ws://127.0.0.1:1: "), "{said:?}");
}

#[test]
fn b26_connections_do_not_cancel_each_others_requests() {
    let server = Listening::start(&[LOCAL]);
    let (mut one, mut other) = (server.open(), server.open());
    send(&mut one, 1, "sleep", HOUR);
    send(&mut other, 1, "sleep", r#"{"ms":300}"#);
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    one.send(Message::text(cancel)).unwrap();
    assert_eq!(receive(&mut one)["error"]["code"], -32800);
    assert_eq!(receive(&mut other)["result"], json!({ "slept_ms": 300 }));
}

#[test]
fn g03_both_leave_in_one_write_and_the_cancel_is_there_in_time() {
    let server = Listening::start(&[LOCAL]);
    let said = server.call(&["--cancel-after", "0", "sleep", HOUR]);
    assert_eq!(said.code, Some(3), "{said:?}");
}

#[test]
fn g05_ctrl_c_cancels_and_answers_what_is_in_flight_and_says_goodbye() {
    let mut server = Listening::start(&[LOCAL]);
    let mut socket = server.open();
    send(&mut socket, 1, "echo", "[1]");
    assert_eq!(receive(&mut socket)["result"], json!([1]));
    send(&mut socket, 2, "sleep", HOUR);
    send(&mut socket, 3, "echo", "[3]");
    assert_eq!(receive(&mut socket)["id"], 3);
    server.signal(Signal::INT);
    let answer = receive(&mut socket);
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32800)));
    assert!(socket.read().unwrap().is_close());
    while socket.read().is_ok() {}
    let said = server.running.end();
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn g07_a_server_that_goes_is_a_lost_connection() {
    let server = Listening::start(&[LOCAL]);
    let arguments = ["call", "--trace", "--connect", &server.url, "stubborn", HOUR];
    let mut caller = Running::start(arguments, &[]);
    caller.says(&["-->", "stubborn"]);
    let id = Pid::from_raw(i32::try_from(server.running.id()).unwrap()).unwrap();
    kill_process(id, Signal::KILL).unwrap();
    assert_eq!(caller.end().code, Some(5));
}

#[test]
fn pages_of_strangers_are_refused() {
    let server = Listening::start(&[LOCAL]);
    let from = |origin: &str| format!("{UPGRADE}Origin: {origin}\r\n");
    let switching = "HTTP/1.1 101 Switching Protocols";
    let forbidden = "HTTP/1.1 403 Forbidden";
    assert_eq!(server.status("/", UPGRADE), switching);
    assert_eq!(server.status("/", &from("http://localhost:3000")), switching);
    assert_eq!(server.status("/", &from("https://example.com")), forbidden);
    assert_eq!(server.status("/", &from("null")), forbidden);

    let allowed = [LOCAL, "--allow-origin", "https://example.com", "--allow-origin", "null"];
    let server = Listening::start(&allowed);
    assert_eq!(server.status("/", &from("https://example.com")), switching);
    assert_eq!(server.status("/", &from("null")), switching);
    assert_eq!(server.status("/", &from("https://example.org")), forbidden);
}

#[test]
fn a_path_is_served_alone() {
    let server = Listening::start(&["ws://localhost:0/abp"]);
    assert!(server.url.ends_with("/abp"), "{}", server.url);
    assert_eq!(server.status("/abp", UPGRADE), "HTTP/1.1 101 Switching Protocols");
    assert_eq!(server.status("/", UPGRADE), "HTTP/1.1 404 Not Found");
}

/// Asserts that one line reports the mistake, with exit code 2.
#[track_caller]
fn says(arguments: &[&str], part: &str) {
    ends(2, arguments, part);
}

#[track_caller]
fn ends(code: i32, arguments: &[&str], part: &str) {
    let said = rescind(arguments);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(code), 1), "{said:?}");
    assert!(said.stderr.contains(part), "{part:?} is not in {said:?}");
}

#[test]
fn what_can_not_be_is_said_in_one_line() {
    let server = Listening::start(&[LOCAL]);
    let taken = format!("can't listen on {}: Address already in use", server.url);
    says(&["serve", "--listen", &server.url], &taken);
    let elsewhere = format!("{}/elsewhere", Listening::start(&["ws://127.0.0.1:0/here"]).url);
    let unreached = format!("can't connect to {elsewhere}: ");
    ends(6, &["call", "--connect", &elsewhere, "m"], &unreached);
    says(&["serve", "--listen", "ftp://localhost:1"], "begins with ws://");
    says(&["call", "--connect", "ftp://localhost:1", "m"], "begins with ws://");
    says(&["serve", "--listen", "wss://localhost:0"], "--certificate");
    says(&["serve", "--listen", "ws://localhost:0", "--certificate", "a", "--key", "b"], "wss://");
    says(&["serve", "--listen", LOCAL, "--runtime", "smol"], "--runtime <NAME>");
    says(&["serve", "--allow-origin", "null"], "--listen <URL>");
    says(&["call", "--connect", LOCAL, "m", "--", "cat"], "[COMMAND]...");
}

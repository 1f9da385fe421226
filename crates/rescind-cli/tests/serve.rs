//! `rescind serve`: the same suite on every runtime and in every dialect, over standard streams.

use serde_json::{Value, json};

use crate::support::{Dialect, Server, cancelled, notification, request};

const RUNTIMES: [&str; 4] = ["blocking", "single", "tokio", "smol"];
const HOUR: u64 = 3_600_000;

/// Runs a check on every runtime, in every dialect.
fn everywhere(check: impl Fn(&mut Server)) {
    for runtime in RUNTIMES {
        for dialect in Dialect::ALL {
            let mut server = Server::start(runtime, dialect);
            check(&mut server);
            let (code, rest, complaints) = server.end();
            assert_eq!((code, rest), (Some(0), vec![]), "{runtime}, {dialect:?}: {complaints}");
        }
    }
}

/// Runs a check on every runtime, in every dialect with a cancel on the wire.
fn wherever_it_can_be_cancelled(check: impl Fn(&mut Server)) {
    everywhere(|server| {
        if server.dialect != Dialect::JsonRpc {
            check(server);
        }
    });
}

fn error_code(server: &Server) -> (Value, Value) {
    let mut answer = server.receive();
    (answer["id"].take(), answer["error"]["code"].take())
}

#[test]
fn echo_answers_with_what_it_got() {
    everywhere(|server| {
        server.request(1, "echo", json!({ "a": ["é", 1.50] }));
        assert_eq!(server.receive()["result"], json!({ "a": ["é", 1.50] }));
        server.request(2, "echo", Value::Null);
        assert_eq!(server.receive(), json!({ "jsonrpc": "2.0", "id": 2, "result": null }));
    });
}

#[test]
fn b09_a_sleep_is_cancelled_however_early() {
    wherever_it_can_be_cancelled(|server| {
        let cancel = server.dialect.cancel(1).unwrap();
        server.send([request(1, "sleep", json!({ "ms": HOUR })), cancel]);
        assert_eq!(server.receive(), cancelled(1));
        server.request(2, "sleep", json!({ "ms": HOUR }));
        server.cancel(2);
        assert_eq!(server.receive(), cancelled(2));
        server.request(3, "sleep", json!({ "ms": 1 }));
        assert_eq!(server.receive()["result"], json!({ "slept_ms": 1 }));
    });
}

#[test]
fn g02_a_stubborn_request_is_answered_as_ever() {
    wherever_it_can_be_cancelled(|server| {
        let cancel = server.dialect.cancel(1).unwrap();
        server.send([request(1, "stubborn", json!({ "ms": 30 })), cancel.clone(), cancel]);
        assert_eq!(server.receive()["result"], json!({ "slept_ms": 30 }));
    });
}

#[test]
fn count_tells_its_progress_and_a_cancelled_one_how_far_it_came() {
    everywhere(|server| {
        let (method, token) = match server.dialect {
            Dialect::JsonRpc => ("progress", None),
            Dialect::Acp => ("session/update", Some(("sessionId", "sessionId"))),
            Dialect::Lsp => ("$/progress", Some(("workDoneToken", "token"))),
        };
        let mut params = json!({ "to": 2, "every_ms": 1 });
        if let Some((asked, _)) = token {
            params[asked] = json!("t");
        }
        server.request(1, "count", params);
        let receive = || std::iter::repeat_with(|| server.receive());
        // LSP's progress has a beginning and an end.
        let is_bare = |it: &Value| {
            let kind = it["params"]["value"]["kind"].as_str();
            kind.is_none_or(|kind| kind == "report")
        };
        for count in 1..=2 {
            let progress = receive().find(is_bare).unwrap();
            assert_eq!(progress["method"], method);
            if let Some((_, answered)) = token {
                assert_eq!(progress["params"][answered], "t");
                assert_eq!(progress["params"]["value"]["count"], count);
            } else {
                assert_eq!(progress["params"]["count"], count);
            }
        }
        let response = receive().find(is_bare).unwrap();
        assert_eq!(response["result"], json!({ "counted": 2, "of": 2 }));
    });
    wherever_it_can_be_cancelled(|server| {
        server.request(2, "count", json!({ "to": 1_000_000, "every_ms": 1 }));
        let progress = server.receive();
        assert!(progress["params"].get("sessionId").is_none(), "no session was named: {progress}");
        server.cancel(2);
        let answer = std::iter::repeat_with(|| server.receive())
            .find(|message| message.get("id").is_some())
            .unwrap();
        assert_eq!(answer["result"]["of"], 1_000_000);
        assert!(answer["result"]["counted"].as_u64().unwrap() >= 1);
    });
}

#[test]
fn g06_nested_calls_us_and_passes_the_cancel_on() {
    wherever_it_can_be_cancelled(|server| {
        server.request(1, "nested", json!({ "ms": HOUR }));
        let inner = server.receive();
        assert_eq!(inner["method"], "sleep");
        assert_eq!(inner["params"], json!({ "ms": HOUR }));
        server.cancel(1);
        let id = inner["id"].as_u64().unwrap();
        assert_eq!(server.receive(), server.dialect.cancel(id).unwrap());
        server.send([cancelled(id)]);
        assert_eq!(server.receive(), cancelled(1));

        server.request(2, "nested", json!({ "ms": 5 }));
        let inner = server.receive();
        server.send([json!({ "jsonrpc": "2.0", "id": inner["id"], "result": { "slept_ms": 5 } })]);
        assert_eq!(server.receive()["result"], json!({ "slept_ms": 5 }));
    });
}

#[test]
fn fail_fails_as_told() {
    everywhere(|server| {
        server.request(1, "fail", json!({ "code": -7, "message": "as told" }));
        assert_eq!(server.receive()["error"], json!({ "code": -7, "message": "as told" }));
    });
}

#[test]
fn g09_bad_messages_are_answered_and_the_next_good_one_works() {
    for runtime in RUNTIMES {
        for dialect in Dialect::ALL {
            let mut server = Server::start(runtime, dialect);
            server.send_text(["{nonsense", r#"{"jsonrpc":"2.0","id":5,"method":1}"#]);
            assert_eq!(error_code(&server), (Value::Null, json!(-32700)));
            assert_eq!(error_code(&server), (json!(5), json!(-32600)));
            server.request(6, "no/such/method", Value::Null);
            assert_eq!(error_code(&server), (json!(6), json!(-32601)));
            server.request(7, "sleep", json!({ "ms": "long" }));
            assert_eq!(error_code(&server), (json!(7), json!(-32602)));
            server.request(8, "echo", json!([8]));
            assert_eq!(server.receive()["result"], json!([8]), "{runtime}, {dialect:?}");
            let (code, rest, complaints) = server.end();
            assert_eq!((code, rest), (Some(0), vec![]));
            assert_eq!(complaints.lines().count(), 2, "each violation is a line: {complaints}");
        }
    }
}

#[test]
fn b05_a_duplicate_id_is_refused_and_the_first_lives() {
    wherever_it_can_be_cancelled(|server| {
        let sleep = request(1, "sleep", json!({ "ms": HOUR }));
        server.send([sleep.clone(), sleep]);
        assert_eq!(error_code(server), (json!(1), json!(-32600)));
        server.cancel(1);
        assert_eq!(server.receive(), cancelled(1));
    });
}

#[test]
fn g07_the_end_of_input_ends_it_and_what_runs_is_answered() {
    for runtime in RUNTIMES {
        for dialect in Dialect::ALL {
            let mut server = Server::start(runtime, dialect);
            server
                .send([request(1, "echo", json!([1])), request(2, "sleep", json!({ "ms": HOUR }))]);
            let (code, mut rest, complaints) = server.end();
            rest.sort_by_key(|answer| answer["id"].as_u64());
            assert_eq!(code, Some(0), "{runtime}, {dialect:?}: {complaints}");
            assert_eq!(rest[0]["result"], json!([1]), "{runtime}, {dialect:?}");
            assert_eq!(rest[1..], [cancelled(2)], "{runtime}, {dialect:?}");
        }
    }
}

#[test]
fn acp_opens_prompts_and_stops() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime, Dialect::Acp);
        server.request(0, "initialize", json!({ "protocolVersion": 1 }));
        assert_eq!(server.receive()["result"]["protocolVersion"], 1);
        server.request(1, "session/new", json!({ "cwd": "/", "mcpServers": [] }));
        let session = server.receive()["result"]["sessionId"].take();
        let prompt = json!({ "sessionId": session, "prompt": [] });

        // A stale one: nothing is being prompted, so it must not stop what comes.
        server.send([notification("session/cancel", json!({ "sessionId": session }))]);
        server.request(2, "echo", json!([]));
        server.receive();
        server.request(3, "session/prompt", prompt.clone());
        assert_eq!(server.receive()["params"]["update"]["sessionUpdate"], "agent_message_chunk");
        assert_eq!(server.receive()["method"], "session/update", "{runtime}: it goes on");
        server.send([
            notification("session/cancel", json!({ "sessionId": "another" })),
            notification("session/cancel", json!({ "sessionId": session })),
        ]);
        let answer = std::iter::repeat_with(|| server.receive())
            .find(|message| message.get("id").is_some())
            .unwrap();
        assert_eq!(answer["result"], json!({ "stopReason": "cancelled" }), "{runtime}");

        server.request(4, "session/prompt", prompt);
        server.receive();
        server.cancel(4);
        let answer = std::iter::repeat_with(|| server.receive())
            .find(|message| message.get("id").is_some())
            .unwrap();
        assert_eq!(answer, cancelled(4), "{runtime}");
    }
}

#[test]
fn lsp_opens_shuts_down_and_exits() {
    for runtime in RUNTIMES {
        let begin = |server: &mut Server| {
            server.request(0, "initialize", json!({ "capabilities": {} }));
            assert_eq!(server.receive()["result"]["serverInfo"]["name"], "rescind");
            server.send([notification("initialized", json!({}))]);
        };
        let mut server = Server::start(runtime, Dialect::Lsp);
        begin(&mut server);
        server.request(1, "shutdown", Value::Null);
        assert_eq!(server.receive(), json!({ "jsonrpc": "2.0", "id": 1, "result": null }));
        server.send([json!({ "jsonrpc": "2.0", "method": "exit" })]);
        // Its input stays open here too: the end of input is no failure, whatever came before.
        assert_eq!(server.wait(), Some(0), "{runtime}: `exit` after `shutdown` is none");

        let mut server = Server::start(runtime, Dialect::Lsp);
        begin(&mut server);
        server.send([json!({ "jsonrpc": "2.0", "method": "exit" })]);
        // Its input stays open: `exit` alone has to end it.
        assert_eq!(server.wait(), Some(1), "{runtime}: `exit` without `shutdown` is a failure");
    }
}

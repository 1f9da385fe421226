//! The promises of every way of running a handler, tested on each of them.
#![cfg(unix)]

use crate::support;

use protocol_core::CloseReason;
use serde_json::json;
use support::{
    ORDERED, RUNTIMES, Runtime, Server, cancel, cancelled, notification, request, result,
};

#[test]
fn a_request_is_answered_and_the_end_of_input_ends_it() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.request(7, "echo", &json!({ "a": 1 }));
        assert_eq!(server.wire.receive(), json!({"jsonrpc":"2.0","id":7,"result":{"a":1}}));
        assert_eq!(server.end(), (CloseReason::PeerGone, vec![]), "{runtime:?}");
    }
}

/// The request is cancelled by the end, so its handler is not run.
#[test]
fn g07_a_last_line_without_its_end_is_a_message() {
    for runtime in RUNTIMES {
        for message in [request(1, "echo", &json!([])), notification("last", &json!([]))] {
            let mut server = Server::start(runtime);
            server.wire.request(0, "echo", &json!([]));
            assert_eq!(server.wire.receive()["id"], 0);
            server.wire.write(message.as_bytes());
            server.wire.hang_up();
            if message.contains("last") {
                assert_eq!(server.told(), "last", "{runtime:?}");
            } else {
                assert_eq!(server.wire.receive(), cancelled(1), "{runtime:?}");
            }
            assert_eq!(server.wait(), (CloseReason::PeerGone, vec![]), "{runtime:?}");
        }
    }
}

#[test]
fn f21_the_host_is_told_why_params_do_not_fit_and_the_peer_only_where() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.request(7, "big", &json!(["hunter2"]));
        let error = server.wire.receive()["error"].take();
        let message = "invalid params of \"big\", at line 1 column 10";
        assert_eq!(error, json!({ "code": -32602, "message": message }), "{runtime:?}");
        let reason = "invalid type: string \"hunter2\", expected usize at line 1 column 10";
        assert_eq!(server.told(), format!("big: {reason}"), "{runtime:?}");
    }
}

#[test]
fn f37_an_error_of_serde_tells_the_peer_nothing_and_the_host_everything() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.request(7, "leak", &json!([]));
        let error = server.wire.receive()["error"].take();
        assert_eq!(error, json!({ "code": -32603, "message": "internal error" }), "{runtime:?}");
        let reason = "invalid type: string \"hunter2\", expected u8 at line 1 column 9";
        assert_eq!(server.told(), format!("leak failed: {reason}"), "{runtime:?}");
    }
}

#[test]
fn g03_a_running_handler_sees_its_cancel() {
    for method in ["steps", "sleep"] {
        for runtime in RUNTIMES {
            let mut server = Server::start(runtime);
            server.wire.request(1, method, &json!([]));
            server.told();
            server.wire.send([cancel(1)]);
            assert_eq!(server.told(), "peer", "{method} on {runtime:?}");
            assert_eq!(server.wire.receive(), cancelled(1));
        }
    }
}

#[test]
fn b06_an_awaited_cancel_does_not_hang_the_connection() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        // Every worker waits for its own cancel, and more requests wait for a worker.
        for id in 1..=6 {
            server.wire.request(id, "sleep", &json!([]));
        }
        server.wire.send((1..=6).map(cancel));
        let answers = server.wire.answers(6);
        assert_eq!(answers, (1..=6).map(cancelled).collect::<Vec<_>>(), "{runtime:?}");
    }
}

#[test]
fn b07_cancels_are_read_while_our_writes_are_stuck() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        // An answer that no socket buffer holds, and that we don't read.
        server.wire.request(1, "big", &json!([2 << 20]));
        server.wire.request(2, "steps", &json!([]));
        assert_eq!(server.told(), "started");
        server.wire.send([cancel(2)]);
        assert_eq!(server.told(), "peer", "{runtime:?}");
        let answers = server.wire.answers(2);
        assert_eq!(answers[0]["result"].as_str().unwrap().len(), 2 << 20);
        assert_eq!(answers[1], cancelled(2));
    }
}

#[test]
fn b08_what_was_cancelled_in_the_queue_is_answered_and_never_run() {
    for runtime in ORDERED {
        let mut server = Server::start(runtime);
        server.wire.request(1, "gate", &json!([]));
        assert_eq!(server.told(), "at the gate");
        let queued = (2..=50).map(|id| request(id, "sleep", &json!([])));
        server.wire.send(queued.chain((2..=50).map(cancel)));
        server.release();
        assert_eq!(server.wire.receive()["id"], 1);
        for id in 2..=50 {
            assert_eq!(server.wire.receive(), cancelled(id), "{runtime:?}");
        }
        assert_eq!(server.told_so_far(), [""; 0], "{runtime:?}");
    }
}

#[test]
fn b09_a_cancel_in_the_write_of_its_request_is_not_lost() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        for id in 1..=100 {
            server.wire.send([request(id, "sleep", &json!([])), cancel(id)]);
            assert_eq!(server.wire.receive(), cancelled(id), "{runtime:?}");
        }
    }
}

#[test]
fn g03_ten_thousand_requests_and_cancels_in_one_write() {
    const COUNT: u64 = 10_000;
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        // We read nothing until all is written: neither side may wait for the other.
        let requests = (1..=COUNT).map(|id| request(id, "sleep", &json!([])));
        server.wire.send(requests.chain((1..=COUNT).map(cancel)));
        let answers = server.wire.answers(COUNT);
        assert!(answers.into_iter().eq((1..=COUNT).map(cancelled)), "{runtime:?}");
        assert_eq!(server.end(), (CloseReason::PeerGone, vec![]));
    }
}

#[test]
fn g02_a_cancel_after_the_answer_changes_nothing() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.request(1, "echo", &json!([1]));
        assert_eq!(server.wire.receive()["result"], json!([1]));
        server.wire.send([cancel(1), cancel(99), request(1, "echo", &json!([2]))]);
        assert_eq!(server.wire.receive()["result"], json!([2]), "{runtime:?}");
        assert_eq!(server.end().1, [""; 0]);
    }
}

#[test]
fn g06_a_cancelled_request_cancels_the_call_made_for_it() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.request(9, "nested", &json!([]));
        let inner = server.wire.receive();
        assert_eq!((&inner["method"], &inner["id"]), (&json!("inner"), &json!(1)));
        server.wire.send([cancel(9)]);
        assert_eq!(server.wire.receive()["params"], json!({ "requestId": 1 }), "{runtime:?}");
        server.wire.send([cancelled(1).to_string()]);
        assert_eq!(server.wire.receive(), cancelled(9), "{runtime:?}");
    }
}

#[test]
fn b23_the_result_of_a_nested_call_wins_over_a_cancel() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.request(9, "nested", &json!([]));
        server.wire.receive();
        server.wire.send([cancel(9), result(1, &json!("done"))]);
        let mut answer = server.wire.receive();
        if answer["method"] == "$/cancel_request" {
            // Our cancel crossed the result.
            answer = server.wire.receive();
        }
        assert_eq!(answer["result"], json!({ "inner": "done" }), "{runtime:?}");
    }
}

#[test]
fn g06_other_requests_wait_for_a_nested_call_on_one_thread() {
    for runtime in ORDERED {
        let mut server = Server::start(runtime);
        server.wire.request(1, "nested", &json!([]));
        server.wire.receive();
        server.wire.send([request(2, "echo", &json!([2])), request(3, "echo", &json!([3]))]);
        server.wire.send([result(1, &json!("done"))]);
        let ids = [(); 3].map(|()| server.wire.receive()["id"].as_u64().unwrap());
        assert_eq!(ids, [1, 2, 3], "{runtime:?}");
    }
}

#[test]
fn g07_the_end_of_input_marks_what_runs_and_it_is_answered_still() {
    for method in ["steps", "sleep"] {
        for runtime in RUNTIMES {
            let mut server = Server::start(runtime);
            server.wire.request(1, method, &json!([]));
            server.told();
            server.wire.hang_up();
            assert_eq!(server.told(), "peer_gone", "{method} on {runtime:?}");
            assert_eq!(server.end(), (CloseReason::PeerGone, vec![cancelled(1)]));
        }
    }
}

#[test]
fn g07_the_end_of_input_settles_a_nested_call() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.request(1, "nested", &json!([]));
        server.wire.receive();
        server.wire.hang_up();
        assert_eq!(server.wire.receive(), cancelled(1), "the request is, too: {runtime:?}");
        assert_eq!(server.told_so_far(), [""; 0], "its handler did not fail: {runtime:?}");
        assert_eq!(server.end().0, CloseReason::PeerGone);
    }
}

#[test]
fn b33_a_panic_answers_its_own_request_and_harms_no_other() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.request(1, "panic", &json!([]));
        let message = "the handler of \"panic\" panicked";
        assert_eq!(
            server.wire.receive()["error"],
            json!({ "code": -32603, "message": message }),
            "{runtime:?}"
        );
        // The host is told with what.
        assert!(server.told().starts_with("panic failed: panicked"), "{runtime:?}");
        server.wire.send([notification("panic", &json!([])), request(2, "echo", &json!([2]))]);
        assert_eq!(server.wire.receive()["result"], json!([2]), "{runtime:?}");
        assert_eq!(server.end(), (CloseReason::PeerGone, vec![]));
    }
}

/// Values of the host's are dropped after the response, and by nobody else's thread.
#[test]
fn b33_a_destructor_that_panics_harms_no_other_request() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        for id in 0..20 {
            server.wire.send([notification("panic with a bomb", &json!([]))]);
            for method in ["fail with a bomb", "panic with a bomb"] {
                server.wire.request(id, method, &json!([]));
                let response = server.wire.receive();
                let expected = (&json!(id), &json!(-32603));
                assert_eq!((&response["id"], &response["error"]["code"]), expected, "{runtime:?}");
                assert!(server.told().starts_with(method), "{runtime:?}");
            }
            server.wire.request(id, "undo with a bomb", &json!([]));
            assert_eq!(server.wire.receive(), cancelled(id), "{runtime:?}");
            let undone = ["undo step 2 failed", "undo step 1 failed"];
            assert_eq!([server.told(), server.told()], undone, "{runtime:?}");
        }
        assert_eq!(server.end(), (CloseReason::PeerGone, vec![]), "{runtime:?}");
    }
}

#[test]
fn g09_bad_messages_are_answered_and_the_next_good_one_works() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.send(["{nonsense", "", "[]", r#"{"jsonrpc":"2.0","id":5,"method":1}"#]);
        assert_eq!(server.wire.receive()["error"]["code"], -32700);
        assert_eq!(server.wire.receive()["error"]["code"], -32600);
        let invalid = server.wire.receive();
        assert_eq!((&invalid["id"], &invalid["error"]["code"]), (&json!(5), &json!(-32600)));
        server.wire.request(6, "echo", &json!([6]));
        assert_eq!(server.wire.receive()["result"], json!([6]), "{runtime:?}");
        server.wire.request(7, "big", &json!(["not a number"]));
        assert_eq!(server.wire.receive()["error"]["code"], -32602);
        server.wire.request(8, "unheard_of", &json!([]));
        assert_eq!(server.wire.receive()["error"]["code"], -32601);
    }
}

#[test]
fn g09_the_host_is_told_what_the_peer_did_wrong() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.send([r#"{"jsonrpc":"2.0","id":5,"method":1}"#]);
        assert_eq!(server.wire.receive()["error"]["code"], -32600);
        assert_eq!(
            server.told(),
            "request 5: invalid request: method is not a string",
            "{runtime:?}"
        );
    }
}

#[test]
fn a_handler_takes_the_notification_it_waits_for_ahead_of_its_turn() {
    for runtime in ORDERED {
        let mut server = Server::start(runtime);
        server.wire.request(1, "stop", &json!([]));
        assert_eq!(server.told(), "waiting");
        server.wire.send([
            notification("other", &json!([])),
            request(2, "echo", &json!([])),
            notification("stop", &json!(["now"])),
        ]);
        assert_eq!(server.wire.receive()["result"], json!({ "stopped": ["now"] }), "{runtime:?}");
        assert_eq!(server.wire.receive()["id"], 2);
        let told = server.told_so_far();
        assert_eq!(told.last().unwrap(), "other", "the overtaken notification keeps its turn");
    }
}

#[test]
fn progress_leaves_before_the_answer() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        server.wire.request(1, "progress", &json!([]));
        for step in 1..=3 {
            assert_eq!(server.wire.receive()["params"], json!([step]), "{runtime:?}");
        }
        assert_eq!(server.wire.receive()["id"], 1);
    }
}

#[test]
fn g05_a_break_cancels_what_runs_answers_it_and_ends() {
    for runtime in RUNTIMES {
        let mut server = Server::start(runtime);
        // Only where there is a second worker can a notification be taken while one works.
        if matches!(runtime, Runtime::Threaded(2..)) {
            server.wire.request(1, "steps", &json!([]));
            assert_eq!(server.told(), "started");
        }
        server.wire.send([notification("exit", &json!([])), request(2, "sleep", &json!([]))]);
        let (reason, rest) = server.wait();
        assert_eq!(reason, CloseReason::Shutdown, "{runtime:?}");
        let answered: Vec<_> = rest.iter().map(|answer| &answer["error"]["code"]).collect();
        assert!(answered.iter().all(|&code| *code == json!(-32800)), "{runtime:?}: {rest:?}");
    }
}

#[test]
fn g08_answers_larger_than_the_outbox_wait_or_are_refused() {
    for runtime in RUNTIMES {
        let mut config = support::acp();
        config.limits.unsent_bytes = 100 << 10;
        let mut server = Server::with(runtime, config);
        let many = (1..=20).map(|id| request(id, "big", &json!([90_000])));
        server.wire.send(many.chain([request(21, "big", &json!([200_000]))]));
        let answers = server.wire.answers(21);
        let (too_large, fit) = answers.split_last().unwrap();
        assert!(fit.iter().all(|answer| answer["result"].is_string()), "{runtime:?}");
        assert_eq!(
            too_large["error"]["message"], "the response is too large (limits.unsent_bytes)",
            "{runtime:?}"
        );
    }
}

//! Requests, responses and notifications that pass through, and messages that must not.

use protocol_core::{Config, Dialect};
use protocol_relay::Side;

use crate::bench::{
    Bench, between_all, between_cancelling, cancel, error, notification, request, result,
};

const NOTHING: [String; 0] = [];

#[test]
fn b14_every_id_comes_back_as_it_was_written() {
    between_all(|bench, near, far| {
        for (number, id) in ["7", r#""7""#, "0", r#""""#, r#""\u00e9""#].iter().enumerate() {
            let next = (number + 1).to_string();
            bench.receive(near, &request(id, "work"));
            assert_eq!(bench.sent(far), [request(&next, "work")]);
            bench.receive(far, &result(&next, "{}"));
            assert_eq!(bench.sent(near), [result(id, "{}")]);
        }
        assert_eq!((bench.events(), bench.in_flight()), (vec![], [0; 4]));
    });
}

#[test]
fn g02_params_results_and_errors_pass_verbatim() {
    between_all(|bench, near, far| {
        let params = r#"{"n":9007199254740993, "f":1.50,"progressToken":7,"workDoneToken":"\u0061","deep":[null,{}]}"#;
        bench.receive(
            near,
            &format!(r#"{{"params":{params},"method":"a\/b","jsonrpc":"2.0","id":"x"}}"#),
        );
        let passed = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"a/b","params":{params}}}"#);
        assert_eq!(bench.sent(far), [passed]);
        bench.receive(far, &result("1", params));
        assert_eq!(bench.sent(near), [result(r#""x""#, params)]);

        bench.receive(near, &request("5", "work"));
        bench.sent(far);
        let object = r#"{"message":"no","more":1e400,"code":-32001,"data":{"requestId":1}}"#;
        bench.receive(far, &format!(r#"{{"error":{object},"id":2,"jsonrpc":"2.0"}}"#));
        assert_eq!(bench.sent(near), [format!(r#"{{"jsonrpc":"2.0","id":5,"error":{object}}}"#)]);
        assert_eq!(bench.in_flight(), [0; 4]);
    });
}

#[test]
fn g02_a_null_result_is_a_result() {
    between_all(|bench, near, far| {
        bench.receive(near, &request("1", "work"));
        bench.sent(far);
        bench.receive(far, &result("1", "null"));
        assert_eq!(bench.sent(near), [result("1", "null")]);
    });
}

#[test]
fn b26_the_same_id_both_ways_at_once_names_two_requests() {
    between_all(|bench, near, far| {
        bench.receive(near, &request("1", "from_near"));
        bench.receive(far, &request("1", "from_far"));
        assert_eq!(bench.sent(far), [request("1", "from_near")]);
        assert_eq!(bench.sent(near), [request("1", "from_far")]);
        bench.receive(far, &result("1", r#""far""#));
        assert_eq!(bench.sent(near), [result("1", r#""far""#)]);
        assert_eq!(bench.sent(far), [""; 0]);
        bench.receive(near, &result("1", r#""near""#));
        assert_eq!(bench.sent(far), [result("1", r#""near""#)]);
        assert_eq!(bench.in_flight(), [0; 4]);
    });
}

#[test]
fn notifications_keep_their_place_among_requests() {
    between_all(|bench, near, far| {
        bench.receive(near, &notification("open"));
        bench.receive(near, &request("1", "work"));
        bench.receive(near, &notification("$/unheard_of"));
        bench.receive(near, &request("2", "work"));
        bench.receive(near, &notification("exit"));
        let expected = [
            notification("open"),
            request("1", "work"),
            notification("$/unheard_of"),
            request("2", "work"),
            notification("exit"),
        ];
        assert_eq!(bench.sent(far), expected);

        bench.receive(far, &notification("progress"));
        bench.receive(far, &result("1", "1"));
        bench.receive(far, &notification("log"));
        let expected = [notification("progress"), result("1", "1"), notification("log")];
        assert_eq!(bench.sent(near), expected);
        assert_eq!(bench.events(), NOTHING);
    });
}

#[test]
fn b32_a_batch_passes_member_by_member_and_is_answered_as_one() {
    for far_dialect in [Dialect::ACP_V1, Dialect::LSP_3_17, Dialect::JSON_RPC] {
        for near in Side::BOTH {
            let configs = [Dialect::JSON_RPC, far_dialect.clone()].map(Config::client);
            let (mut bench, far) = (Bench::new(near, configs), near.other());
            let members = [request(r#""a""#, "x"), notification("y"), request("3", "z")];
            bench.receive(near, &format!("[{}]", members.join(",")));
            let passed = [request("1", "x"), notification("y"), request("2", "z")];
            assert_eq!(bench.sent(far), passed);
            bench.receive(far, &result("2", "2"));
            assert_eq!(bench.sent(near), [""; 0], "half a batch is no answer");
            bench.receive(far, &result("1", "1"));
            let answers = [result("3", "2"), result(r#""a""#, "1")].join(",");
            assert_eq!(bench.sent(near), [format!("[{answers}]")]);
            assert_eq!(bench.in_flight(), [0; 4]);
        }
    }
}

#[test]
fn g09_bad_messages_get_a_response_here_and_are_never_forwarded() {
    between_cancelling(|bench, near, far| {
        for (bad, answered) in [
            ("{", r#""id":null,"error":{"code":-32700"#),
            ("[]", r#""id":null,"error":{"code":-32600"#),
            ("17", r#""id":null,"error":{"code":-32600"#),
            (r#"{"jsonrpc":"1.0","id":4,"method":"m"}"#, r#""id":4,"error":{"code":-32600"#),
            (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, r#""id":null,"error":{"code":-32600"#),
            (r#"{"jsonrpc":"2.0","id":4,"method":7}"#, r#""id":4,"error":{"code":-32600"#),
            (
                r#"{"jsonrpc":"2.0","id":4,"method":"m","params":1}"#,
                r#""id":4,"error":{"code":-32600"#,
            ),
        ] {
            bench.receive(near, bad);
            let answers = bench.sent(near);
            if near == Side::Down && answered.contains("null") {
                assert_eq!(
                    answers, [""; 0],
                    "a client answers nothing that names no request (F61)"
                );
            } else {
                assert!(answers.len() == 1 && answers[0].contains(answered), "{bad}: {answers:?}");
            }
            assert_eq!(bench.events().len(), 1, "{bad}");
        }
        bench.receive(near, r#"{"jsonrpc":"1.0","method":"m"}"#);
        assert_eq!((bench.sent(near), bench.events().len()), (vec![], 1));
        assert_eq!((bench.sent(far), bench.in_flight()), (vec![], [0; 4]));
        bench.receive(near, &request("4", "m"));
        assert_eq!(bench.sent(far), [request("1", "m")], "the relay lives on");
    });
}

#[test]
fn b05_a_duplicate_is_refused_here_and_the_first_is_untouched() {
    between_all(|bench, near, far| {
        bench.receive(near, &request("4", "first"));
        bench.receive(near, &request("4", "second"));
        assert_eq!(bench.sent(far), [request("1", "first")]);
        let refused = bench.sent(near);
        assert!(refused[0].starts_with(r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32600"#));
        assert_eq!(
            bench.events(),
            [format!("{near}: id 4: a request has the id of one in flight")]
        );
        bench.receive(far, &result("1", "1"));
        assert_eq!(bench.sent(near), [result("4", "1")]);
    });
}

#[test]
fn b01_a_malformed_answer_is_an_internal_error_on_the_other_side() {
    between_all(|bench, near, far| {
        for (number, bad) in [
            r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#,
            r#"{"jsonrpc":"2.0","id":2,"error":{"code":"1","message":""}}"#,
            r#"{"id":3,"result":1}"#,
            r#"{"jsonrpc":"2.0","id":4}"#,
        ]
        .iter()
        .enumerate()
        {
            let id = format!("\"{number}\"");
            bench.receive(near, &request(&id, "work"));
            bench.sent(far);
            bench.receive(far, bad);
            let answer = error(&id, -32603, "the response of the next hop was malformed");
            assert_eq!(bench.sent(near), [answer], "{bad}");
            let events = bench.events();
            assert!(events.len() == 1 && events[0].starts_with(far.as_str()), "{events:?}");
        }
        assert_eq!((bench.sent(far), bench.in_flight()), (vec![], [0; 4]));
    });
}

#[test]
fn b31_stray_answers_are_reported_and_go_nowhere() {
    between_all(|bench, near, far| {
        bench.receive(near, &request("9", "work"));
        bench.sent(far);
        bench.receive(far, &result("9", "1"));
        bench.receive(far, &result("1", "1"));
        bench.receive(far, &result("1", "2"));
        assert_eq!(bench.sent(near), [result("9", "1")]);
        let expected = [
            format!("{far}: id 9: a response to no request of ours"),
            format!("{far}: id 1: a second response to one call"),
        ];
        assert_eq!(bench.events(), expected);
    });
}

#[test]
fn g11_how_bytes_are_split_changes_nothing() {
    for near in Side::BOTH {
        let configs = [Dialect::LSP_3_17, Dialect::ACP_V1].map(Config::client);
        let mut bench = Bench::new(near, configs);
        let mut bytes = Vec::new();
        for message in [request("7", "work"), cancel(&Dialect::LSP_3_17, "8"), notification("n")] {
            let framed = format!("Content-Length: {}\r\n\r\n{message}", message.len());
            bytes.extend_from_slice(framed.as_bytes());
        }
        let mut unread = protocol_core::InputBuffer::new();
        let mut seen = 0;
        for byte in bytes {
            unread.extend_from_slice(&[byte]);
            loop {
                let (consumed, message) = bench.receive_bytes(near, unread.unread());
                seen += usize::from(message.is_some());
                if consumed == 0 {
                    break;
                }
                unread.consume(consumed);
            }
        }
        assert_eq!(seen, 3, "each message is given back for traces");
        assert_eq!(bench.sent(near.other()), [request("1", "work"), notification("n")]);
    }
}

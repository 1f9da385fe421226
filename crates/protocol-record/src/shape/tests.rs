use protocol_core::Dialect;

use super::*;

/// Returns the parts of a message as a recording writes them.
fn shape(dialect: &Dialect, message: &str) -> String {
    serde_json::to_string(&Shape::of(dialect).parts(message)).unwrap()
}

#[test]
fn b03_only_the_length_of_a_payload_is_kept() {
    let cases = [
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"key":"secret"}}"#,
            r#"[{"kind":"request","id":1,"method":"m","payload":16}]"#,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"n","params":["secret"]}"#,
            r#"[{"kind":"notification","method":"n","payload":10}]"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":"a","result":"secret"}"#,
            r#"[{"kind":"result","id":"a","payload":8}]"#,
        ),
        (r#"{"jsonrpc":"2.0","id":7,"result":null}"#, r#"[{"kind":"result","id":7,"payload":4}]"#),
        (
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"secret","data":1}}"#,
            r#"[{"kind":"error","id":null,"code":-32700,"payload":43}]"#,
        ),
        (r#"{"jsonrpc":"2.0","id":1}"#, r#"[{"kind":"unreadable"}]"#),
        ("secret", r#"[{"kind":"unreadable"}]"#),
        ("[]", r#"[{"kind":"unreadable"}]"#),
    ];
    for (message, said) in cases {
        assert_eq!(shape(&Dialect::ACP_V1, message), said, "{message}");
    }
}

#[test]
fn a_batch_has_a_part_for_each_member_in_a_dialect_that_has_batches() {
    let batch = r#"[{"id":1,"method":"a"},{"id":2,"result":0},3]"#;
    let parts = r#"[{"kind":"request","id":1,"method":"a"},{"kind":"result","id":2,"payload":1},{"kind":"unreadable"}]"#;
    for (dialect, said) in [
        ("jsonrpc", parts),
        ("mcp-2025-03-26", parts),
        // One of its revisions has them.
        ("mcp", parts),
        ("mcp-2025-06-18", r#"[{"kind":"unreadable"}]"#),
        ("lsp", r#"[{"kind":"unreadable"}]"#),
        ("dap", r#"[{"kind":"unreadable"}]"#),
        ("abp", r#"[{"kind":"unreadable"}]"#),
    ] {
        let dialect = Dialect::named(dialect).unwrap();
        assert_eq!(shape(&dialect, batch), said, "{}", dialect.name);
        assert_eq!(shape(&dialect, "[]"), r#"[{"kind":"unreadable"}]"#, "{}", dialect.name);
    }
}

#[test]
fn g08_a_batch_of_many_members_is_one_part() {
    let parts = |members: usize| {
        let text = format!("[{}1]", "1,".repeat(members - 1));
        Shape::of(&Dialect::JSON_RPC).parts(&text).len()
    };
    assert_eq!((parts(1_000), parts(1_001), parts(1 << 20)), (1_000, 1, 1));
}

#[test]
fn b14_an_id_is_kept_as_its_sender_wrote_it() {
    for id in ["1", "\"1\"", "1.0", "9007199254740993", "null", "\"\\u0061\""] {
        let message = format!(r#"{{"id":{id},"method":"m"}}"#);
        let said = format!(r#"[{{"kind":"request","id":{id},"method":"m"}}]"#);
        assert_eq!(shape(&Dialect::ACP_V1, &message), said);
    }
}

#[test]
fn a_cancel_says_which_request_it_names_in_every_dialect() {
    for (dialect, method, member) in [
        (Dialect::ACP_V1, "$/cancel_request", "requestId"),
        (Dialect::LSP_3_17, "$/cancelRequest", "id"),
        (Dialect::named("mcp-2025-11-25").unwrap(), "notifications/cancelled", "requestId"),
        (Dialect::named("mcp").unwrap(), "notifications/cancelled", "requestId"),
    ] {
        let message = format!(r#"{{"method":"{method}","params":{{"{member}":3,"reason":"x"}}}}"#);
        let said = shape(&dialect, &message);
        assert!(said.contains(r#""kind":"cancel""#), "{said}");
        assert!(said.contains(r#""cancels":3"#), "{said}");
    }
}

#[test]
fn the_token_of_an_operation_is_never_kept() {
    let shape = Shape::of(&Dialect::named("erlmcp").unwrap());
    let cancel = r#"{"id":2,"method":"cancel","params":{"cancellationToken":"00"}}"#;
    let parts = serde_json::to_string(&shape.parts(cancel)).unwrap();
    assert_eq!(parts, r#"[{"kind":"cancel","id":2,"method":"cancel","payload":26}]"#);
    for message in [
        cancel,
        r#"{"id":1,"result":{"cancellationT\u006fken":"00"}}"#,
        r#"{"method":"notifications/cancelled","params":{"requestId":"00"}}"#,
        r#"{"id":1,"result":["09DB347E248E4236CDB2D5A836CDF9E0"]}"#,
    ] {
        assert!(shape.may_hold_token(message), "{message}");
    }
    assert!(!shape.may_hold_token(r#"{"id":2,"method":"echo"}"#));
    assert!(!Shape::of(&Dialect::ACP_V1).may_hold_token(cancel));
}

#[test]
fn capabilities_are_called_by_their_names() {
    let cases = [
        (
            r#"{"type":"capabilities/call","id":"m","payload":{"capability":"x","params":{},"options":{"callId":"7"}}}"#,
            r#"[{"kind":"request","id":"7","method":"x","payload":2}]"#,
        ),
        (
            r#"{"type":"capabilities/call-result","id":"m","payload":{"callId":"7","success":true,"data":1}}"#,
            r#"[{"kind":"result","id":"7","payload":38}]"#,
        ),
        (
            r#"{"type":"capabilities/call-result","id":"m","payload":{"callId":"7","success":false,"cancelled":true}}"#,
            r#"[{"kind":"error","id":"7","code":-32800,"payload":47}]"#,
        ),
        (
            r#"{"type":"capabilities/cancel-result","id":"n","payload":{"callId":"7","cancelled":true}}"#,
            r#"[{"kind":"result","id":"n","payload":31}]"#,
        ),
        (
            r#"{"type":"capabilities/cancel","id":"n","payload":{"callId":"7"}}"#,
            r#"[{"kind":"cancel","id":"n","method":"capabilities/cancel","cancels":"7","payload":14}]"#,
        ),
    ];
    for (message, said) in cases {
        assert_eq!(shape(&Dialect::ABP, message), said, "{message}");
    }
}

#[test]
fn w01_a_message_has_news_of_work_and_its_name_is_a_hash() {
    let cases = [
        (
            r#"{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
            r#""news":"request""#,
        ),
        (r#"{"method":"session/cancel","params":{"sessionId":"s"}}"#, r#""news":"stop""#),
        (
            r#"{"id":1,"method":"session/request_permission","params":{"sessionId":"s"}}"#,
            r#""news":"nested""#,
        ),
    ];
    for (message, news) in cases {
        let said = shape(&Dialect::ACP_V1, message);
        let work = format!(r#""work":{{"kind":"turn","name":"c9ce0040",{news}}}"#);
        assert!(said.contains(&work), "{said}");
        assert!(!said.contains("\"s\""), "{said}");
    }
    let stopped = shape(&Dialect::ACP_V1, r#"{"id":1,"result":{"stopReason":"cancelled"}}"#);
    assert!(stopped.contains(r#""work":{"kind":"turn","news":"stopped"}"#), "{stopped}");
    let ended = shape(&Dialect::ACP_V1, r#"{"id":1,"result":{"stopReason":"end_turn"}}"#);
    assert!(!ended.contains("work"), "{ended}");
}

#[test]
fn w01_work_that_outlives_its_request_begins_and_ends_by_news_of_its_own() {
    let lsp = |kind: &str| {
        let message = format!(
            r#"{{"method":"$/progress","params":{{"token":1,"value":{{"kind":"{kind}"}}}}}}"#
        );
        shape(&Dialect::LSP_3_17, &message)
    };
    assert!(lsp("begin").contains(r#""news":"began""#), "{}", lsp("begin"));
    assert!(!lsp("report").contains("work"), "{}", lsp("report"));
    assert!(lsp("end").contains(r#""news":"ended""#), "{}", lsp("end"));
    let task = Dialect::named("mcp").unwrap();
    let begun = shape(&task, r#"{"id":1,"result":{"task":{"taskId":"t","status":"working"}}}"#);
    assert!(begun.contains(r#""kind":"task""#) && begun.contains(r#""news":"began""#), "{begun}");
}

/// As docs/dialects.md says: what stands in the options counts, and `success` decides before anything else.
#[test]
fn a_call_of_abp_has_the_id_and_the_kind_that_the_core_reads() {
    let cases = [
        (
            r#"{"type":"capabilities/call","id":"1","payload":{"capability":"c","callId":"2","options":{"callId":"3"}}}"#,
            r#"[{"kind":"request","id":"3","method":"c"}]"#,
        ),
        (
            r#"{"type":"capabilities/call","id":"1","payload":{"capability":"c","callId":"2","options":{"callId":null}}}"#,
            r#"[{"kind":"request","id":"2","method":"c"}]"#,
        ),
        (
            r#"{"type":"capabilities/call-result","id":"1","payload":{"callId":"2","error":{"code":"X"}}}"#,
            r#"[{"kind":"error","id":"2","payload":35}]"#,
        ),
        (
            r#"{"type":"capabilities/call-result","id":"1","payload":{"success":true,"error":{}}}"#,
            r#"[{"kind":"result","id":"1","payload":27}]"#,
        ),
        (
            r#"{"type":"capabilities/call-result","id":"1","payload":{"callId":"2"}}"#,
            r#"[{"kind":"unreadable"}]"#,
        ),
        (
            r#"{"type":"initialize-result","id":"1","payload":{"success":false,"cancelled":true}}"#,
            r#"[{"kind":"error","id":"1","code":-32800,"payload":34}]"#,
        ),
        (
            r#"{"type":"initialize-result","id":"1","payload":{"error":{}}}"#,
            r#"[{"kind":"result","id":"1","payload":12}]"#,
        ),
    ];
    for (message, said) in cases {
        assert_eq!(shape(&Dialect::named("abp").unwrap(), message), said, "{message}");
    }
}

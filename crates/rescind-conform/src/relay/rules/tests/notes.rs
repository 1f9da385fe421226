//! Notifications, those about a request among them.

use super::*;

#[test]
fn each_notification_arrives_once_and_in_order() {
    holds(ACP, &["c> note 1; c> note 2; s< note 1; s< note 2; s> note 3; c< note 3"]);
    breaks(
        ACP,
        &[Rule::Notifications],
        &[
            "c> note 1",
            "s< note 1",
            "c> note 1; c> note 2; s< note 2; s< note 1",
            "c> note 1; s< note 1; s< note 1",
            "c> note 1; s< note 2",
        ],
    );
}

#[test]
fn progress_is_read_under_the_token_that_the_caller_gave() {
    let asked = |then: &str| format!("c> ask 7 1; s< ask 1 1 4; {then}");
    let of_server =
        "s> ask 7 1; c< ask 1 1 4; c> progress 4; s< progress 1; c> answer 1; s< answer 7";
    holds(MCP, &[&asked(&format!("s> progress 4; c< progress 1; {DONE}")), of_server]);
    breaks(
        MCP,
        &[Rule::Notifications],
        &[
            &asked(&format!("s> progress 4; c< progress 4; {DONE}")),
            &asked(&format!("s> progress 4; {DONE}")),
        ],
    );
    let cancelled = asked("c> cancel 7; s< cancel 1; s> progress 4");
    holds(MCP_2026, &[&cancelled]);
    breaks(MCP_2026, &[Rule::Silence], &[&format!("{cancelled}; c< progress 1")]);
    let without = r#"s< {"jsonrpc":"2.0","id":1,"method":"work","params":{"tag":1,"_meta":{}}}"#;
    breaks(MCP, &[Rule::RequestUnchanged], &[&format!("c> ask 7 1; {without}; {DONE}")]);
}

//! F61: output of a server that is no message is shown and counted, and never gets a response.

use crate::support::{self, Running, rescind};

const CALL_RUNTIMES: [&str; 3] = ["blocking", "tokio", "smol"];
const RELAY_RUNTIMES: [&str; 2] = ["tokio", "smol"];

/// Prints a banner and log lines, responds to two requests, and reports all messages that come after them.
const NOISY: &str = r#"
    echo 'Starting server, listening on stdio...'
    echo '{"level":30,"msg":"ready"}'
    printf '\377\n17\n'
    read line; echo "DEBUG got initialize"
    echo '{"jsonrpc":"2.0","id":1,"result":{}}'
    read line
    echo '{"jsonrpc":"2.0","id":2,"result":"done"}'
    while read line; do echo "told $line" >&2; done"#;

const NOISES: [&str; 5] = [
    "Starting server, listening on stdio... (not JSON, at byte 0)",
    r#"{"level":30,"msg":"ready"} (invalid request: jsonrpc is not "2.0")"#,
    "\u{fffd} (not UTF-8, at byte 0)",
    "17 (invalid request: the message is not an object)",
    "DEBUG got initialize (not JSON, at byte 0)",
];

#[test]
fn f61_a_call_shows_and_counts_what_is_no_message_and_answers_none_of_it() {
    for runtime in CALL_RUNTIMES {
        let arguments = ["call", "--runtime", runtime, "work", "--", "sh", "-c", NOISY];
        let said = rescind(arguments);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "\"done\"\n"), "{said:?}");
        for noise in NOISES {
            let line = format!("no message on the server's output: {noise}\n");
            assert!(said.stderr.contains(&line), "{noise:?} is not in {said:?}");
        }
        assert!(said.stderr.contains("the server's output: "), "{said:?}");
        assert!(said.stderr.contains(" lines were no messages\n"), "{said:?}");
        assert!(!said.stderr.contains("told "), "it was answered: {said:?}");
    }
}

#[test]
fn f61_a_relay_shows_and_counts_what_is_no_message_and_answers_none_of_it() {
    for runtime in RELAY_RUNTIMES {
        let relay = [support::RESCIND, "relay", "--runtime", runtime];
        let arguments = ["call", "work", "--"];
        let server = ["--", "sh", "-c", NOISY];
        let arguments = arguments.into_iter().chain(relay).chain(server);
        let said = Running::start(arguments, &[]).end();
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "\"done\"\n"), "{said:?}");
        for noise in NOISES {
            let line = format!("rescind relay: no message on the server's output: {noise}\n");
            assert!(said.stderr.contains(&line), "{noise:?} is not in {said:?}");
        }
        let total = "rescind relay: the server's output: 5 lines were no messages\n";
        assert!(said.stderr.contains(total), "{said:?}");
        assert!(!said.stderr.contains("told "), "it was answered: {said:?}");
    }
}

#[test]
fn f64_a_servers_last_words_and_its_exit_status_are_told() {
    let script = "printf 'no such config'; exit 3";
    for runtime in CALL_RUNTIMES {
        let said = rescind(["call", "--runtime", runtime, "work", "--", "sh", "-c", script]);
        assert_eq!(said.code, Some(5), "{said:?}");
        let noise = "no message on the server's output: no such config (not JSON, at byte 1)\n";
        assert!(said.stderr.contains(noise), "{said:?}");
        let end = "error: the connection was lost: the process ended: exit status: 3\n";
        assert!(said.stderr.ends_with(end), "{said:?}");
    }
}

#[test]
fn f64_what_breaks_the_framing_is_shown_and_cut() {
    let banner = "x".repeat(1_000);
    let script = format!("echo 'Starting {banner}'; echo; read line; sleep 100");
    let said = rescind(["call", "--dialect", "lsp", "m", "--", "sh", "-c", &script]);
    assert_eq!(said.code, Some(5), "{said:?}");
    let shown = "no message on the server's output: Starting xxx";
    let line = said.stderr.lines().find(|line| line.contains(shown)).expect("it is shown");
    assert!(line.contains("bytes more) (a header block has no usable Content-Length)"), "{line}");
    assert!(line.chars().count() < 400, "{line}");
}

//! The time before a call is bounded and reported (F63, F75), and Ctrl-C reports its effect (F66).

use std::io::Read;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{PATIENCE, Program, RESCIND, Running, rescind, signal, terminal};

const CALL_RUNTIMES: [&str; 3] = ["blocking", "tokio", "smol"];

/// A server that reports on standard error that it was asked something, and never responds.
const SILENT: [&str; 4] =
    ["--", "sh", "-c", "read line; echo there >&2; cat >/dev/null; sleep 1000"];

/// Returns the method of the first request.
fn first_question(dialect: &str) -> &'static str {
    if dialect == "mcp" { "server/discover" } else { "initialize" }
}

#[test]
fn f63_f75_a_timeout_covers_the_opening() {
    thread::scope(|scope| {
        for dialect in ["acp", "lsp", "mcp", "mcp-2025-11-25", "abp"] {
            for runtime in CALL_RUNTIMES {
                scope.spawn(move || {
                    let call = ["call", "--dialect", dialect, "--runtime", runtime];
                    let said = rescind([&call[..], &["--timeout", "1s", "m"], &SILENT].concat());
                    assert_eq!(said.code, Some(4), "{said:?}");
                    let line = said.stderr.lines().last().unwrap();
                    assert!(line.starts_with("timed out after "), "{said:?}");
                    let question = first_question(dialect);
                    assert!(line.ends_with(&format!("waiting for the answer to {question}")));
                });
            }
        }
    });
}

#[test]
fn f63_a_timeout_covers_the_handshake() {
    // It accepts, and says nothing.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let said = rescind(["call", "--connect", &url, "--timeout", "1s", "m"]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(4), 1), "{said:?}");
    assert!(said.stderr.ends_with(", waiting for the connection\n"), "{said:?}");
}

#[test]
fn f63_ctrl_c_gives_the_opening_up() {
    for runtime in CALL_RUNTIMES {
        let call = ["call", "--runtime", runtime, "m"];
        let mut running = Running::start(call.into_iter().chain(SILENT), &[]);
        running.says(&["there"]);
        signal(running.id(), Signal::INT);
        let said = running.end();
        assert_eq!(said.code, Some(3), "{said:?}");
        let end = "gave up, waiting for the answer to initialize\n";
        assert!(said.stderr.ends_with(end), "{said:?}");
    }
}

#[test]
fn f63_ctrl_c_ends_the_handshake() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    let mut running = Running::start(["call", "--connect", &url, "m"], &[]);
    let _connected = listener.accept().unwrap();
    signal(running.id(), Signal::INT);
    let said = running.end();
    assert_eq!((said.code, said.stderr.as_str()), (Some(3), "interrupted\n"), "{said:?}");
}

#[test]
fn f64_a_connection_that_is_refused_is_no_wrong_usage() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}", listener.local_addr().unwrap());
    drop(listener);
    let said = rescind(["call", "--connect", &url, "m"]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(6), 1), "{said:?}");
    let expected = format!("error: can't connect to {url}: Connection refused");
    assert!(said.stderr.starts_with(&expected), "{said:?}");
}

/// Returns a server that opens with `initialize` and responds to a ping. It runs this for `server/discover`.
fn older_mcp(otherwise: &str) -> String {
    format!(
        r#"echo started >&2
        while read -r line; do id=${{line#*'"id":'}}; id=${{id%%,*}}; case "$line" in
        *'"initialize"'*) result='{{"protocolVersion":"2025-11-25"}}';;
        *'"work"'*) result='"done"';;
        *'"ping"'*) result='{{}}';;
        *server/discover*) {otherwise}; continue;;
        *) continue;;
        esac; printf '{{"jsonrpc":"2.0","id":%s,"result":%s}}\n' "$id" "$result"; done"#
    )
}

#[test]
fn f75_a_server_that_does_not_know_how_to_answer_is_opened_the_older_way_and_started_once() {
    let answers = [
        r#"echo '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"no"}}'"#,
        r#"echo '{"jsonrpc":"2.0","error":{"code":-32601,"message":"no"}}'"#,
        r#"echo '{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}'"#,
        "true",
    ];
    for answer in answers {
        let server = older_mcp(answer);
        let call = ["call", "--trace", "--dialect", "mcp", "work", "--", "sh", "-c", &server];
        let said = rescind(call);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "\"done\"\n"), "{said:?}");
        assert_eq!(said.stderr.matches("started\n").count(), 1, "F66: {said:?}");
        let is_pinged = said.stderr.contains(r#""method":"ping""#);
        assert_eq!(is_pinged, answer == "true", "an answer needs no witness: {said:?}");
    }
}

#[test]
fn f75_a_server_that_takes_long_to_start_is_not_taken_for_an_older_one() {
    // It begins to serve when it was asked twice, which is as long as it likes.
    let server = r#"echo started >&2; read -r question; read -r ping
        { printf '%s\n' "$question" "$ping"; cat; } | "$0" serve --dialect mcp"#;
    let call = ["call", "--trace", "--dialect", "mcp", "echo", "[1]", "--", "sh", "-c", server];
    let said = rescind([&call[..], &[RESCIND]].concat());
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "[1]\n"), "{said:?}");
    assert!(said.stderr.contains(r#"--> {"jsonrpc":"2.0","id":2,"method":"ping""#), "{said:?}");
    assert!(said.stderr.contains("supportedVersions"), "{said:?}");
    assert!(!said.stderr.contains("initialize"), "{said:?}");
    assert_eq!(said.stderr.matches("started\n").count(), 1, "{said:?}");
}

#[test]
fn f75_silence_is_waited_for_and_what_else_can_be_done_is_said() {
    let call = ["call", "--dialect", "mcp", "--timeout", "8s", "m"];
    let said = rescind([&call[..], &SILENT].concat());
    assert_eq!(said.code, Some(4), "{said:?}");
    assert_eq!(said.stderr.matches("there").count(), 1, "it is started once: {said:?}");
    let hint = "still waiting for the answer to server/discover (--dialect mcp-2025-11-25 opens";
    assert!(said.stderr.contains(hint), "{said:?}");
    assert!(said.took >= Duration::from_secs(8), "{said:?}");
}

/// A server that starts an operation, and never reports what became of its cancel.
const DEAF: [&str; 4] = [
    "--",
    "sh",
    "-c",
    r#"read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'
    while read -r line; do case "$line" in
    *'"id":2,'*) echo '{"jsonrpc":"2.0","id":2,"result":{"cancellationToken":"00112233445566778899aabbccddeeff"}}';;
    esac; done"#,
];

#[test]
fn f63_a_timeout_and_a_grace_cover_the_wait_for_an_operation() {
    let call = ["call", "--trace", "--dialect", "erlmcp"];
    for (options, code, story) in [
        // The time is over before the cancel is due: it is sent all the same.
        (&["--cancel-after", "1h", "--timeout", "1s"][..], 4, "work timed out after "),
        (&["--cancel-after", "100ms", "--timeout", "2s"], 4, "; timed out without an answer, "),
        (
            &["--cancel-after", "100ms", "--grace", "200ms"],
            3,
            "; settled here, without an answer, ",
        ),
    ] {
        let said = rescind([&call[..], options, &["work", "{}"], &DEAF].concat());
        assert_eq!(said.code, Some(code), "{options:?}: {said:?}");
        assert!(said.stderr.contains(story), "{options:?}: {said:?}");
        let cancels = said.stderr.matches(r#""method":"cancel""#).count();
        assert_eq!(cancels, 1, "{options:?}: {said:?}");
    }
    let arguments = ["--cancel-after", "100ms", "--grace", "1h", "sleep", r#"{"ms":3600000}"#];
    let said = rescind([&call[..], &arguments].concat());
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("; acknowledged"), "{said:?}");
}

#[test]
fn params_that_an_opening_adds_to_are_sent_as_they_were_given() {
    let given = r#"{"b":12345678901234567890123,"a":1.10,"c":1e400}"#;
    let tool = format!(r#"{{"name":"x","arguments":{given}}}"#);
    let meta = format!(r#"{{"_meta":{{"z":1.10}},"name":"x","arguments":{given}}}"#);
    let session = format!(r#"{{"prompt":[],"more":{given}}}"#);
    for (dialect, method, params, sent) in [
        ("mcp", "tools/call", &tool, format!(r#"{{"name":"x","arguments":{given},"_meta":{{"io."#)),
        ("mcp", "tools/call", &meta, r#"{"_meta":{"z":1.10,"io."#.into()),
        ("mcp", "tools/call", &meta, format!(r#"{{}}}},"name":"x","arguments":{given}}}"#)),
        ("mcp", "tools/call", &"[1.10]".into(), r#""params":[1.10]}"#.into()),
        ("acp", "session/m", &session, format!(r#""more":{given},"sessionId":"session-1"}}"#)),
        ("acp", "session/m", &"{}".into(), r#"{"sessionId":"session-1"}"#.into()),
        ("erlmcp", "echo", &given.into(), format!(r#"{{"name":"echo","arguments":{given}}}"#)),
    ] {
        let said = rescind(["call", "--dialect", dialect, "--trace", method, params]);
        let is_sent = said.stderr.lines().any(|it| it.contains(" --> ") && it.contains(&sent));
        assert!(is_sent, "{sent} in {said:?}");
    }
}

/// Speaks an older revision, and goes on when its input ends, until it is killed.
const OLDER: [&str; 4] = [
    "--",
    "sh",
    "-c",
    r#"trap "" TERM; echo started >&2; read line
    echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}'
    cat >/dev/null; echo ending >&2; sleep 1000"#,
];

#[test]
fn f63_ctrl_c_and_a_timeout_are_not_forgotten_between_two_servers() {
    thread::scope(|scope| {
        for runtime in CALL_RUNTIMES {
            let call = ["call", "--dialect", "mcp-2025-11-25", "--runtime", runtime];
            scope.spawn(move || {
                let mut running = Running::start([&call[..], &["m"], &OLDER].concat(), &[]);
                running.says(&["ending"]);
                signal(running.id(), Signal::INT);
                let said = running.end();
                assert_eq!(said.code, Some(3), "{said:?}");
                assert_eq!(said.stderr.matches("started").count(), 1, "{said:?}");
                let end = "gave up, waiting for the answer to initialize\n";
                assert!(said.stderr.ends_with(end), "{said:?}");
            });
            scope.spawn(move || {
                // The first takes longer to end.
                let times = ["--exit-grace", "2s", "--timeout", "2s", "m"];
                let said = rescind([&call[..], &times, &OLDER].concat());
                assert_eq!(said.code, Some(4), "{said:?}");
                assert_eq!(said.stderr.matches("started").count(), 1, "{said:?}");
                let end = ", waiting for the answer to initialize\n";
                assert!(said.stderr.ends_with(end), "{said:?}");
            });
        }
    });
}

/// Runs a call on a terminal, and interrupts it each time that all of the next words are shown.
fn shown(arguments: &[&str], steps: &[&[&str]]) -> String {
    let (mut ours, theirs) = terminal();
    let mut command = Command::new(RESCIND);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(theirs);
    let mut program = Program::from(command.spawn().unwrap());
    // It holds the program's end.
    drop(command);
    let (send, receive) = channel();
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        // A terminal that everybody has left ends with an error.
        while let Ok(read @ 1..) = ours.read(&mut bytes) {
            let _ = send.send(String::from_utf8_lossy(&bytes[..read]).into_owned());
        }
    });
    let (mut all, mut from) = (String::new(), 0);
    for words in steps {
        while !words.iter().all(|word| all[from..].contains(word)) {
            let more = receive.recv_timeout(PATIENCE);
            all.push_str(&more.unwrap_or_else(|_| panic!("no {words:?} in {all:?}")));
        }
        from = all.len();
        signal(program.id(), Signal::INT);
    }
    program.wait();
    all.extend(receive.iter());
    all
}

#[test]
fn f66_the_spinner_says_what_is_waited_for_and_what_ctrl_c_does_now() {
    // It says when it has the call, which can't be withdrawn any more then.
    let server = r#"read line; echo '{"jsonrpc":"2.0","id":1,"result":{}}'
        read line; echo '{"jsonrpc":"2.0","method":"it/works"}'; cat >/dev/null"#;
    let call = ["call", "stubborn", "--", "sh", "-c", server];
    let works = ["stubborn (Ctrl-C cancels)", "it/works"];
    let all = shown(&call, &[&works, &["cancelling stubborn (Ctrl-C gives up)"]]);
    assert!(all.contains("given up without an answer"), "{all:?}");
    let opening = "opening: waiting for the answer to initialize (Ctrl-C gives up)";
    let all = shown(&[&["call", "m"], &SILENT[..]].concat(), &[&[opening]]);
    assert!(all.contains("gave up, waiting for the answer to initialize"), "{all:?}");
}

#[test]
fn f63_what_does_not_come_soon_is_said_without_a_terminal_too() {
    let mut running = Running::start(["call", "m"].into_iter().chain(SILENT), &[]);
    running.says(&["still waiting for the answer to initialize"]);
    signal(running.id(), Signal::INT);
    assert!(running.end().took > Duration::from_secs(1));
}

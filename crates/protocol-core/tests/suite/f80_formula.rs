//! F80: the formula of G8 holds while one message is read, and the defaults make a small sum.

use crate::support;

use std::fmt::Write;
use std::path::Path;

use heap::Heap;
use protocol_core::{CallOptions, Config, Connection, Dialect, Envelope, Limits, Role, Timestamp};

const NOW: Timestamp = Timestamp::ZERO;

fn formula(limits: &Limits) -> usize {
    Connection::<u64, u64>::memory(limits)
}

/// Returns limits that are small but for the message that is read.
fn limits(message_bytes: usize, id_bytes: usize) -> Limits {
    let mut limits = Limits::DEFAULT;
    (limits.message_bytes, limits.id_bytes) = (message_bytes, id_bytes);
    (limits.calls, limits.requests, limits.batch_members) = (2, 2, 4);
    (limits.abandoned_ids, limits.early_cancels, limits.works) = (2, 2, 2);
    (limits.unsent_bytes, limits.unsent_messages) = (4 << 10, 16);
    limits
}

/// Returns the most bytes that a connection holds while it reads a message in each role.
fn peak(dialect: &Dialect, limits: Limits, message: &str) -> usize {
    assert!(message.len() <= limits.message_bytes);
    let peaks = [Role::Client, Role::Server].map(|role| {
        let mut config = Config::client(dialect.clone());
        (config.role, config.limits, config.show_raw_cancels) = (role, limits, true);
        let params = r#"{"sessionId":"s","workDoneToken":"s","_meta":{"progressToken":"s"}}"#;
        let params = support::raw(params);
        let mut out = Vec::with_capacity(1 << 10);
        let heap = Heap::of_thread();
        let mut conn: Connection<u64, u64> = Connection::new(config);
        // A message may be progress of it.
        let options = CallOptions::default().idle_timeout(support::millis(1_000));
        conn.call("m", Some(params), 0, options, NOW).unwrap();
        let _ = conn.poll_transmit(&mut out);
        // A message may be a cancel of this one.
        if dialect.envelope == Envelope::JsonRpc {
            drop(conn.receive(br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#, NOW));
        }
        drop(conn.receive(message.as_bytes(), NOW));
        while conn.poll_event().is_some() {}
        heap.peak()
    });
    peaks.into_iter().max().unwrap()
}

/// A name for a message with a long text, the beginning of the message, and its end.
type Around = (&'static str, String, &'static str);

/// Returns the places of an envelope where a long text takes the most.
fn places(dialect: &Dialect) -> Vec<Around> {
    let progress = dialect.progress.first();
    let method = progress.map_or("m", |rule| &*rule.method);
    let token = progress.map_or("token", |rule| &*rule.token);
    let progress = format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"{token}":""#);
    let of_call = r#"{"type":"capabilities/call-result","id":"1","payload":{"callId":"1","#;
    let response = r#"{"seq":1,"type":"response","request_seq":1,"success":false,"#;
    match dialect.envelope {
        Envelope::JsonRpc => vec![
            ("a method", r#"{"jsonrpc":"2.0","method":""#.into(), r#""}"#),
            ("an id", r#"{"jsonrpc":"2.0","method":"m","id":""#.into(), r#""}"#),
            ("a name", r#"{"jsonrpc":"2.0","method":"m",""#.into(), r#"":1}"#),
            ("an error", r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":""#.into(), r#""}}"#),
            ("a token", progress, r#""}}"#),
            (
                "a reason",
                r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":""#
                    .into(),
                r#""}}"#,
            ),
            ("a batch with an id", r#"[{"id":""#.into(), r#""},1,{"id":""},2]"#),
            ("a batch with a notification", r#"[{"jsonrpc":"2.0","method":""#.into(), r#""}]"#),
        ],
        Envelope::Abp => vec![
            ("a type", r#"{"type":""#.into(), r#"","id":"1","payload":{}}"#),
            ("an id", r#"{"type":"a","id":""#.into(), r#"","payload":{}}"#),
            ("a name", r#"{"type":"a",""#.into(), r#"":1,"payload":{}}"#),
            ("an error", format!(r#"{of_call}"success":false,"error":{{"code":""#), r#""}}}"#),
            (
                "a capability",
                r#"{"type":"capabilities/call","id":"1","payload":{"capability":""#.into(),
                r#""}}"#,
            ),
        ],
        Envelope::Dap => vec![
            ("a type", r#"{"seq":1,"type":""#.into(), r#""}"#),
            ("a command", r#"{"seq":1,"type":"request","command":""#.into(), r#""}"#),
            ("a name", r#"{"seq":1,"type":"request","command":"m",""#.into(), r#"":1}"#),
            ("an event", r#"{"seq":1,"type":"event","event":""#.into(), r#""}"#),
            ("an error", format!(r#"{response}"message":""#), r#""}"#),
            ("a format", format!(r#"{response}"body":{{"error":{{"id":1,"format":""#), r#""}}}"#),
        ],
    }
}

/// Returns messages of that length that take as much memory as they can while they are read.
fn worst(dialect: &Dialect, len: usize) -> Vec<(&'static str, String)> {
    let mut messages = Vec::new();
    for (name, before, after) in places(dialect) {
        let rest = len - before.len() - after.len();
        // The last escape makes a buffer double that was just full.
        let text = format!("\\n{}\\n", "x".repeat(rest - 4));
        for text in [text, "\\n".repeat(rest / 2)] {
            messages.push((name, format!("{before}{text}{after}")));
        }
    }
    // One more than a buffer that doubles has had, and as many as there can be.
    for open in [(len / 2).next_power_of_two() + 1, len] {
        messages.push(("open brackets", "[".repeat(open.min(len))));
    }
    messages.push(("brackets", format!("{}{}", "[".repeat(len / 2), "]".repeat(len / 2))));
    messages
}

#[test]
fn f80_one_message_is_under_the_formula() {
    let dialects = [
        Dialect::JSON_RPC,
        Dialect::LSP_3_17,
        Dialect::MCP_2025_11_25,
        Dialect::ABP,
        Dialect::DAP,
        Dialect::ERLMCP,
    ];
    let mut most = (0.0, String::new());
    for (len, id_bytes) in [(512, 512), (1_000, 64), (4_097, 4_097), (66_000, 64)] {
        let limits = limits(len, id_bytes);
        let formula = formula(&limits);
        for dialect in &dialects {
            for (name, message) in worst(dialect, len) {
                let peak = peak(dialect, limits, &message);
                let case = format!("{}: {name} in {len} bytes", dialect.name);
                assert!(peak <= formula, "{case}: {peak} bytes, and the formula says {formula}");
                let share = peak as f64 / formula as f64;
                if share > most.0 {
                    most = (share, case);
                }
            }
        }
    }
    println!("{most:?}");
    assert!(most.0 > 0.5, "this proves nothing: {most:?}");
}

#[test]
fn f80_the_default_sum_is_small() {
    let limits = Limits::DEFAULT;
    let sum = formula(&limits);
    assert!(sum <= 512 << 20, "{sum} bytes");
    assert!(limits.message_bytes == 16 << 20 && limits.requests >= 16_384);
}

#[test]
fn f80_a_sum_that_no_machine_has_room_for_does_not_overflow() {
    let mut limits = Limits::DEFAULT;
    (limits.message_bytes, limits.id_bytes, limits.batch_members) =
        (usize::MAX, usize::MAX, usize::MAX);
    (limits.calls, limits.requests, limits.abandoned_ids) = (usize::MAX, usize::MAX, usize::MAX);
    (limits.unsent_bytes, limits.unsent_messages) = (usize::MAX, usize::MAX);
    limits.early_cancels = usize::MAX;
    assert_eq!(formula(&limits), usize::MAX);
}

type Limit = fn(&mut Limits) -> &mut usize;

/// The limits in the order in which the page adds them up, and what each pays for.
const SHARES: [(&str, Limit, &str); 10] = [
    (
        "unsent_bytes",
        |it| &mut it.unsent_bytes,
        "messages, an eighth more for the responses of batches, and half of them in two places while they move",
    ),
    ("unsent_messages", |it| &mut it.unsent_messages, "their rows"),
    (
        "message_bytes",
        |it| &mut it.message_bytes,
        "two messages beside what moves: texts with escapes are decoded, and members of a batch are copied",
    ),
    (
        "calls",
        |it| &mut it.calls,
        "rows, indexes, timers and progress tokens; a cancel, a stop and an outcome each",
    ),
    ("requests", |it| &mut it.requests, "the same, without their ids"),
    ("abandoned_ids", |it| &mut it.abandoned_ids, "four memories of so many, without the ids"),
    ("early_cancels", |it| &mut it.early_cancels, "one memory, without the ids"),
    ("works", |it| &mut it.works, "runs of work and their nested requests, without the names"),
    ("batch_members", |it| &mut it.batch_members, "two events each"),
    (
        "id_bytes",
        |it| &mut it.id_bytes,
        "an id as it is written and decoded: up to 6 times a request, and twice where it is remembered",
    ),
];

/// Returns the shares of the default sum as a table, in which each row adds a limit to those above it.
fn table() -> String {
    let (mut defaults, mut limits) = (Limits::DEFAULT, Limits::DEFAULT);
    for (_, limit, _) in SHARES {
        *limit(&mut limits) = 0;
    }
    let mut before = formula(&limits);
    let mut table = String::from("| limit | default | MiB | pays for |\n|---|---|---|---|\n");
    for (name, limit, pays) in SHARES {
        let default = *limit(&mut defaults);
        *limit(&mut limits) = default;
        let now = formula(&limits);
        let default = match default >> 20 {
            0 => default.to_string(),
            mib => format!("{mib} MiB"),
        };
        let share = mib(now - before);
        writeln!(table, "| `{name}` | {default} | {share:.1} | {pays} |").unwrap();
        before = now;
    }
    assert_eq!(limits, defaults);
    writeln!(table, "| all | | {:.1} | |", mib(before)).unwrap();
    table
}

fn mib(bytes: usize) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[test]
#[cfg(target_pointer_width = "64")]
fn f80_the_page_says_which_limit_has_which_share() {
    const BEGIN: &str =
        "<!-- shares: BLESS=1 cargo test -p rescind-core --test suite f80_formula -->\n";
    const END: &str = "<!-- end of shares -->";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/memory.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (written, after) = rest.split_once(END).unwrap();
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{}{END}{after}", table())).unwrap();
    } else {
        assert_eq!(written, table(), "BLESS=1 writes it anew");
    }
}

//! `rescind relay` passes everything that `rescind serve` passes, through any number of hops.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{self, RESCIND, at_once};

const RELAY_RUNTIMES: [&str; 2] = ["tokio", "smol"];
const SERVE_RUNTIMES: [&str; 4] = ["blocking", "single", "tokio", "smol"];
const DEPTHS: [usize; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

/// Returns the arguments that call a server through relays, each with arguments of its own.
fn arguments<'a>(call: &[&'a str], relays: &[&[&'a str]], serve: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = [&["call"], call, &["--"]].concat();
    for relay in relays {
        arguments.extend([RESCIND, "relay"].iter().chain(*relay).chain(&["--"]));
    }
    arguments.extend([RESCIND, "serve"].iter().chain(serve));
    arguments
}

fn call(call: &[&str], relays: &[&[&str]], serve: &[&str]) -> Output {
    Command::new(RESCIND).args(arguments(call, relays, serve)).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap().trim_end()
}

/// Returns everything that a person or a program can tell apart. It is standard output, the exit code, and the
/// line of standard error that reports how the call failed. On a busy machine relays may also report how they
/// were ended.
fn outcome(code: Option<i32>, stdout: &str, stderr: &str) -> (String, Option<i32>, String) {
    let says_how = |line: &&str| line.starts_with("error:") || line.starts_with("cancelled ");
    let told = stderr.lines().rfind(says_how).unwrap_or_default();
    let told = if code == Some(0) { "" } else { told };
    // How long it took differs each time.
    let is_time = |word: &&str| word.parse::<f64>().is_ok() && word.contains('.');
    let told: Vec<&str> = told.split(' ').filter(|word| !is_time(word)).collect();
    (stdout.trim_end().into(), code, told.join(" "))
}

fn called(arguments: &[&str], relays: &[&[&str]], serve: &[&str]) -> (String, Option<i32>, String) {
    let output = call(arguments, relays, serve);
    outcome(output.status.code(), text(&output.stdout), text(&output.stderr))
}

/// Calls as [`called`] does, and cancels once the trace shows a request `sleep` on its way. No delay would make
/// that certain.
#[cfg(unix)]
fn cancelled(
    method: &str,
    way: &str,
    relays: &[&[&str]],
    serve: &[&str],
) -> (String, Option<i32>, String) {
    let call = ["--trace", method, r#"{"ms":60000}"#];
    let mut running = support::Running::start(arguments(&call, relays, serve), &[]);
    running.says(&[way, r#""method":"sleep""#]);
    support::signal(running.id(), rustix::process::Signal::INT);
    let said = running.end();
    outcome(said.code, &said.stdout, &said.stderr)
}

/// Calls whose outcome does not depend on luck.
const CALLS: [&[&str]; 7] = [
    &["echo", r#"{"n":9007199254740993,"f":1.50}"#],
    &["echo"],
    &["sleep", r#"{"ms":1}"#],
    &["count", r#"{"to":3,"every_ms":1}"#],
    &["nested", r#"{"ms":1}"#],
    &["fail", r#"{"code":-32001,"message":"no \"such\" thing"}"#],
    &["no/such/method"],
];

/// Methods that last until they are cancelled, with the direction of the request `sleep` that shows their
/// progress. Either the call itself was sent, or the call that the server makes for it has come.
#[cfg(unix)]
const CANCELLED: [(&str, &str); 2] = [("sleep", "-->"), ("nested", "<--")];

/// Runs something through each number of relays, all of them at once.
fn through_relays(run: impl Fn(&[&[&str]]) + Sync) {
    thread::scope(|scope| {
        for (depth, runtime) in DEPTHS.iter().zip(RELAY_RUNTIMES.iter().cycle()) {
            let run = &run;
            scope.spawn(move || run(&vec![&["--runtime", *runtime][..]; *depth]));
        }
    });
}

#[test]
fn g06_b25_every_call_ends_through_any_number_of_hops_as_it_does_without() {
    for arguments in CALLS {
        let direct = called(arguments, &[], &[]);
        through_relays(|relays| {
            let relayed = called(arguments, relays, &[]);
            assert_eq!(relayed, direct, "{arguments:?} through {} relays", relays.len());
        });
    }
}

#[cfg(unix)]
#[test]
fn g06_b25_every_cancelled_call_ends_through_any_number_of_hops_as_it_does_without() {
    for (method, way) in CANCELLED {
        let direct = cancelled(method, way, &[], &[]);
        assert_eq!(direct.1, Some(3), "{direct:?}");
        through_relays(|relays| {
            let relayed = cancelled(method, way, relays, &[]);
            assert_eq!(relayed, direct, "{method} through {} relays", relays.len());
        });
    }
}

/// A cancel that is too soon withdraws the request at a hop that has not passed it on yet. So this one waits
/// until the server has the request.
#[cfg(unix)]
#[test]
fn f65_b23_a_result_wins_over_a_cancel_through_any_number_of_hops() {
    thread::scope(|scope| {
        for (depth, runtime) in DEPTHS.iter().zip(RELAY_RUNTIMES.iter().cycle()) {
            scope.spawn(move || {
                let relays = [RESCIND, "relay", "--runtime", runtime, "--"].repeat(*depth);
                let arguments = [&["call", "work", "--"], &relays[..], &support::STUBBORN].concat();
                let mut running = support::Running::start(arguments, &[]);
                running.says(&["working"]);
                support::signal(running.id(), rustix::process::Signal::INT);
                let said = running.end();
                assert_eq!((said.code, said.stdout.as_str()), (Some(0), "\"done\"\n"), "{said:?}");
                assert!(said.stderr.contains("answered with a result all the same"), "{said:?}");
            });
        }
    });
}

#[test]
fn b25_each_relay_runtime_passes_each_serve_runtime() {
    for relay in RELAY_RUNTIMES {
        thread::scope(|scope| {
            for serve in SERVE_RUNTIMES {
                scope.spawn(move || {
                    let (relays, serve) = ([&["--runtime", relay][..]], ["--runtime", serve]);
                    for arguments in CALLS {
                        let direct = called(arguments, &[], &serve);
                        let relayed = called(arguments, &relays, &serve);
                        assert_eq!(relayed, direct, "{relay} {serve:?} {arguments:?}");
                    }
                    #[cfg(unix)]
                    for (method, way) in CANCELLED {
                        let direct = cancelled(method, way, &[], &serve);
                        let relayed = cancelled(method, way, &relays, &serve);
                        assert_eq!(relayed, direct, "{relay} {serve:?} {method}");
                    }
                });
            }
        });
    }
}

#[cfg(unix)]
#[test]
fn g06_a_cancelled_count_answers_with_its_part_at_any_depth() {
    let count = ["count", r#"{"to":1000000,"every_ms":1}"#];
    for depth in DEPTHS {
        let mut running =
            support::Running::start(arguments(&count, &vec![&[][..]; depth], &[]), &[]);
        running.says(&["session/update"]);
        support::signal(running.id(), rustix::process::Signal::INT);
        let said = running.end();
        let part: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        assert!(part["counted"].as_u64().unwrap() < 1_000_000, "{part}");
    }
}

#[test]
fn g04_a_cancel_in_the_same_write_is_answered_by_the_first_hop() {
    for depth in DEPTHS {
        let output =
            call(&["sleep", r#"{"ms":60000}"#, "--cancel-after", "0"], &vec![&[][..]; depth], &[]);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    }
}

#[test]
fn b25_dialects_may_differ_on_the_two_sides() {
    // No dialect's own opening: the server may not know it.
    let nothing = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("nothing.jsonl");
    std::fs::write(&nothing, "").unwrap();
    let dialects = ["jsonrpc", "acp", "lsp"];
    for (up, down) in dialects.iter().flat_map(|up| dialects.map(|down| (*up, down))) {
        let ends = |arguments: &[&str], cancel_after: &[&str]| {
            let open = ["--dialect", up, "--open", nothing.to_str().unwrap()];
            let arguments = [&open, arguments, cancel_after].concat();
            let relay: &[&str] = &["--up", up, "--down", down];
            let output = call(&arguments, &[relay], &["--dialect", down]);
            (text(&output.stdout).to_owned(), output.status.code())
        };
        assert_eq!(ends(&["echo", "[1]"], &[]), ("[1]".into(), Some(0)), "{up} {down}");
        for method in ["sleep", "nested"] {
            let cancelled = ends(&[method, r#"{"ms":60000}"#], &["--cancel-after", "100ms"]);
            assert_eq!(cancelled, (String::new(), Some(3)), "{up} {down} {method}");
        }
    }
}

#[cfg(unix)]
#[test]
fn b25_the_cancel_on_the_far_side_names_the_far_id() {
    let relay: &[&str] = &["--up", "lsp", "--down", "acp", "--trace"];
    let call = ["--dialect", "lsp", "sleep", r#"{"ms":60000}"#];
    let relays = [relay, &["--dialect", "acp"]];
    let mut running =
        support::Running::start(arguments(&call, &relays, &["--dialect", "acp"]), &[]);
    // Before that the relay would withdraw it.
    running.says(&["down -->", r#""method":"sleep""#]);
    support::signal(running.id(), rustix::process::Signal::INT);
    let traced = running.end().stderr;
    let near = r#"up   <-- {"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":2}}"#;
    let far = r#"down --> {"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#;
    assert_eq!(traced.matches(near).count(), 1, "{traced}");
    assert_eq!(traced.matches(far).count(), 1, "{traced}");
    assert!(
        !traced.contains(r#"down --> {"jsonrpc":"2.0","method":"$/cancelRequest""#),
        "{traced}"
    );
}

/// A relay whose client is the test.
struct Hop {
    process: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Hop {
    fn spawn(runtime: &str, command: &[&str]) -> Self {
        Self::spawn_with(runtime, &[], command)
    }

    fn spawn_with(runtime: &str, options: &[&str], command: &[&str]) -> Self {
        let mut spawn = Command::new(RESCIND);
        spawn.args(["relay", "--runtime", runtime]).args(options).arg("--").args(command);
        spawn.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = spawn.spawn().unwrap();
        let input = process.stdin.take();
        let output = BufReader::new(process.stdout.take().unwrap());
        Self { process, input, output }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.input.as_ref().unwrap(), "{line}").unwrap();
    }

    fn read(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().into()
    }

    /// Waits for its end, which must not take longer than this.
    fn ended(mut self, within: Duration) -> (ExitStatus, String) {
        let patience = Instant::now() + within;
        let status = loop {
            if let Some(status) = self.process.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > patience {
                self.process.kill().unwrap();
                panic!("the relay did not end");
            }
            thread::sleep(Duration::from_millis(5));
        };
        let mut errors = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (status, errors)
    }
}

#[test]
fn g09_what_breaks_a_rule_is_answered_reported_and_not_passed_on() {
    for runtime in RELAY_RUNTIMES {
        let mut hop = Hop::spawn(runtime, &[RESCIND, "serve"]);
        hop.write(r#"{"jsonrpc":"2.0","id":3,"method":17}"#);
        let refused = hop.read();
        assert!(refused.starts_with(r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32600"#));
        hop.write(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#);
        hop.write(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{}}"#);
        hop.write(r#"{"jsonrpc":"2.0","id":"x","method":"echo","params":[true]}"#);
        assert_eq!(hop.read(), r#"{"jsonrpc":"2.0","id":"x","result":[true]}"#);
        drop(hop.input.take());
        let (status, errors) = hop.ended(Duration::from_secs(20));
        assert!(status.success(), "{errors}");
        let errors: Vec<&str> = errors.lines().collect();
        let expected = [
            "rescind relay: up: id 3: invalid request: method is not a string",
            "rescind relay: up: $/cancelRequest was not forwarded: it is no cancel of this dialect",
            "rescind relay: up: a cancel names no id",
        ];
        assert_eq!(errors, expected);
    }
}

#[test]
fn b17_a_client_that_hangs_up_cancels_its_requests_and_ends_the_server() {
    at_once(RELAY_RUNTIMES.len(), RELAY_RUNTIMES, |runtime| {
        let mut hop = Hop::spawn(runtime, &[RESCIND, "relay", "--", RESCIND, "serve"]);
        hop.write(r#"{"jsonrpc":"2.0","id":1,"method":"echo"}"#);
        hop.read();
        hop.write(r#"{"jsonrpc":"2.0","id":2,"method":"sleep","params":{"ms":60000}}"#);
        drop(hop.input.take());
        assert!(hop.read().starts_with(r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32800"#));
        let (status, errors) = hop.ended(Duration::from_secs(20));
        let told = "rescind relay: the client's input has ended; 1 request may still be answered for 5s\n\
            rescind relay: the client is gone; the server has 30s to answer 1 request, cancelled\n";
        assert_eq!(
            (status.success(), errors.as_str()),
            (true, told),
            "F76: it says what it waits for"
        );
    });
}

#[cfg(unix)]
#[test]
fn b16_a_server_that_dies_answers_its_clients_requests_and_is_reported() {
    for runtime in RELAY_RUNTIMES {
        let mut hop = Hop::spawn(runtime, &["sh", "-c", "read line; exit 7"]);
        hop.write(r#"{"jsonrpc":"2.0","id":"q","method":"work"}"#);
        let gone = r#"{"jsonrpc":"2.0","id":"q","error":{"code":-32603,"message":"the next hop is gone"}}"#;
        assert_eq!(hop.read(), gone);
        assert_eq!(hop.read(), "", "its client reads the end, though it has not hung up");
        let (status, errors) = hop.ended(Duration::from_secs(20));
        assert_eq!(status.code(), Some(1));
        assert_eq!(errors.trim_end(), "rescind relay: sh failed: exit status: 7");
    }
}

#[cfg(unix)]
#[test]
fn g07_a_server_that_does_not_end_is_terminated_after_a_grace() {
    for runtime in RELAY_RUNTIMES {
        let mut hop = Hop::spawn(runtime, &["sleep", "600"]);
        drop(hop.input.take());
        let (status, errors) = hop.ended(Duration::from_secs(30));
        assert_eq!(status.code(), Some(1));
        assert_eq!(
            errors.trim_end(),
            "rescind relay: sleep did not end, and was terminated: signal: 15 (SIGTERM)"
        );
    }
}

#[test]
fn f64_a_command_that_can_not_be_started_is_said_in_one_line_and_no_usage_error() {
    let output = Command::new(RESCIND).args(["relay", "--", "/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(6));
    assert!(text(&output.stderr).starts_with("error: can't start /no/such/program: "));
    assert_eq!(text(&output.stderr).lines().count(), 1);
}

#[test]
fn f76_a_client_that_has_said_all_it_has_to_say_gets_its_answers() {
    for runtime in RELAY_RUNTIMES {
        let mut hop = Hop::spawn(runtime, &[RESCIND, "serve"]);
        hop.write(r#"{"jsonrpc":"2.0","id":1,"method":"sleep","params":{"ms":200}}"#);
        // Without the end of its line.
        let last = r#"{"jsonrpc":"2.0","id":2,"method":"sleep","params":{"ms":300}}"#;
        write!(hop.input.as_ref().unwrap(), "{last}").unwrap();
        drop(hop.input.take());
        assert_eq!(hop.read(), r#"{"jsonrpc":"2.0","id":1,"result":{"slept_ms":200}}"#);
        assert_eq!(hop.read(), r#"{"jsonrpc":"2.0","id":2,"result":{"slept_ms":300}}"#);
        let (status, errors) = hop.ended(Duration::from_secs(20));
        let told = "rescind relay: the client's input has ended; 2 requests may still be answered for 5s\n";
        assert_eq!((status.success(), errors.as_str()), (true, told));
    }
}

#[cfg(unix)]
#[test]
fn f76_how_long_is_waited_for_a_client_and_for_a_server_is_set_and_said() {
    for runtime in RELAY_RUNTIMES {
        let options = ["--answer-after-end", "100ms", "--grace", "200ms"];
        let mut hop = Hop::spawn_with(runtime, &options, &["sh", "-c", "cat >/dev/null"]);
        hop.write(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
        drop(hop.input.take());
        assert!(hop.read().starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32"#));
        let (status, errors) = hop.ended(Duration::from_secs(20));
        let told = "rescind relay: the client's input has ended; 1 request may still be answered for 100ms\n\
             rescind relay: the client is gone; the server has 200ms to answer 1 request, cancelled\n";
        assert_eq!((status.success(), errors.as_str()), (true, told));
    }
}

#[cfg(unix)]
#[test]
fn f76_a_client_that_reads_no_more_is_not_waited_for() {
    for runtime in RELAY_RUNTIMES {
        let options = ["--answer-after-end", "1h"];
        let mut hop = Hop::spawn_with(runtime, &options, &[RESCIND, "serve"]);
        hop.write(r#"{"jsonrpc":"2.0","id":1,"method":"sleep","params":{"ms":3600000}}"#);
        hop.write(
            r#"{"jsonrpc":"2.0","id":2,"method":"count","params":{"to":1000,"every_ms":10}}"#,
        );
        assert!(hop.read().contains("session/update"));
        drop(hop.input.take());
        // What it is told next it does not take.
        hop.output = BufReader::new(
            Command::new("true").stdout(Stdio::piped()).spawn().unwrap().stdout.unwrap(),
        );
        let (status, errors) = hop.ended(Duration::from_secs(20));
        assert_eq!(status.code(), Some(7), "{errors}");
    }
}

#[cfg(unix)]
#[test]
fn f69_a_client_that_reads_slowly_is_not_cut_off() {
    const RESULT: usize = 999_999;
    let server = "read line; printf '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"%0999999d\"}\\n' 0";
    thread::scope(|scope| {
        for runtime in RELAY_RUNTIMES {
            scope.spawn(move || {
                let options = ["--grace", "100ms"];
                let mut hop = Hop::spawn_with(runtime, &options, &["sh", "-c", server]);
                hop.write(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
                let (begun, mut all) = (Instant::now(), Vec::new());
                let mut piece = vec![0; 64 << 10];
                loop {
                    match hop.output.get_mut().read(&mut piece).unwrap() {
                        0 => break,
                        read => all.extend_from_slice(&piece[..read]),
                    }
                    thread::sleep(Duration::from_millis(400));
                }
                assert_eq!(all.len(), RESULT + r#"{"jsonrpc":"2.0","id":1,"result":""}"#.len() + 1);
                assert!(begun.elapsed() > Duration::from_secs(5), "longer than any patience");
                let (status, errors) = hop.ended(Duration::from_secs(20));
                assert_eq!((status.code(), errors.as_str()), (Some(0), ""));
            });
        }
    });
}

#[cfg(unix)]
#[test]
fn f69_what_a_client_does_not_read_in_time_is_lost_with_an_error() {
    // More than a pipe holds.
    let server = "read line; printf '{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"%0999999d\"}\\n' 0";
    thread::scope(|scope| {
        for runtime in RELAY_RUNTIMES {
            scope.spawn(move || {
                let mut hop = Hop::spawn(runtime, &["sh", "-c", server]);
                hop.write(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
                let (status, errors) = hop.ended(Duration::from_secs(30));
                assert_eq!(status.code(), Some(7), "{errors}");
                let lost = "error: standard output can't be written: \
                    the client does not read, and what was left to say to it is lost\n";
                assert_eq!(errors, lost);
            });
        }
    });
}

/// A client that pauses while its server sends far more than the relay keeps.
#[cfg(unix)]
#[test]
fn f70_a_slow_client_slows_its_server_and_loses_nothing() {
    const FLOOD: usize = 80_000;
    let padding = "x".repeat(1_000);
    let script = format!(
        r#"read line
        seq -f '{{"jsonrpc":"2.0","method":"n","params":["%.0f","{padding}"]}}' {FLOOD}
        echo flooded >&2
        echo '{{"jsonrpc":"2.0","id":1,"result":"done"}}'
        cat >/dev/null"#
    );
    at_once(RELAY_RUNTIMES.len(), RELAY_RUNTIMES, |runtime| {
        let mut hop = Hop::spawn(runtime, &["sh", "-c", &script]);
        hop.write(r#"{"jsonrpc":"2.0","id":"q","method":"m"}"#);
        // As long as it takes the server to say it all, if the relay lets it.
        let mut errors = BufReader::new(hop.process.stderr.take().unwrap());
        let (send, flooded) = std::sync::mpsc::channel();
        let told = thread::spawn(move || {
            let mut all = String::new();
            while errors.read_line(&mut all).is_ok_and(|read| read > 0) {
                let _ = send.send(());
            }
            all
        });
        let _ = flooded.recv_timeout(Duration::from_secs(5));
        for _ in 0..FLOOD {
            let line = hop.read();
            assert!(line.contains("\"method\":\"n\""), "{runtime}: {line}");
        }
        assert_eq!(hop.read(), r#"{"jsonrpc":"2.0","id":"q","result":"done"}"#);
        drop(hop.input.take());
        assert!(hop.process.wait().unwrap().success());
        assert_eq!(told.join().unwrap(), "flooded\n", "nothing is missing");
    });
}

/// A client that reads nothing, and still cancels.
#[cfg(unix)]
#[test]
fn f70_cancels_pass_a_relay_whose_client_reads_nothing() {
    let padding = "x".repeat(1_000);
    let script = format!(
        r#"read line
        yes '{{"jsonrpc":"2.0","method":"n","params":["{padding}"]}}' | head -c 40000000 &
        while read line; do case "$line" in *cancel_request*) echo cancelled >&2; exit;; esac; done"#
    );
    for runtime in RELAY_RUNTIMES {
        let mut hop = Hop::spawn(runtime, &["sh", "-c", &script]);
        hop.write(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#);
        hop.read();
        hop.write(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#);
        // The end of the server cuts the flood within a line, which the relay reports.
        let mut said = BufReader::new(hop.process.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap() == "cancelled"));
        hop.process.kill().unwrap();
        hop.process.wait().unwrap();
    }
}

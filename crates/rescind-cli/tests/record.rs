//! `rescind view` of recordings that `--record` made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{self, PATIENCE, RESCIND, Running, Said, rescind};

/// Returns an empty directory of this test's own.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("record").join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Returns the requests of a recording, and its summary.
fn view(path: &Path, filter: &[&str]) -> (Vec<Value>, Value) {
    let said = rescind([&["view", "--json", text(path)], filter].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    let mut lines: Vec<Value> =
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = lines.pop().unwrap();
    (lines, summary["summary"].clone())
}

/// Returns the connection, direction, outcome and cause of each request of one method.
fn outcomes(path: &Path, method: &str) -> Vec<String> {
    let (rows, _) = view(path, &["~m", method]);
    let of = |row: &Value, member: &str| row[member].as_str().unwrap_or("-").to_owned();
    rows.iter()
        .map(|row| ["hop", "dir", "outcome", "cause"].map(|member| of(row, member)).join(" "))
        .collect()
}

#[cfg(unix)]
#[test]
fn a_session_is_recorded_on_every_hop() {
    // How long it lasts at least before it is cancelled. A machine that is busy may take much longer to get there, and
    // to end what was started.
    let pause = Duration::from_millis(50);
    let patience = format!("{}s", PATIENCE.as_secs());
    let directory = directory("hops");
    let [called, relayed, served] =
        ["call", "relay", "serve"].map(|name| directory.join(name).with_extension("jsonl"));
    for runtime in ["blocking", "single", "tokio", "smol"] {
        let [waits, record] = ["--exit-grace", "--record"];
        let call = ["call", "--trace", waits, &patience, record, text(&called)];
        let relay = [RESCIND, "relay", waits, &patience, record, text(&relayed), "--"];
        let serve = [RESCIND, "serve", "--runtime", runtime, record, text(&served)];
        let nested = ["nested", r#"{"ms":60000}"#, "--"];
        let mut running = Running::start([&call[..], &nested, &relay, &serve].concat(), &[]);
        running.says(&["<--", "sleep"]);
        std::thread::sleep(pause);
        interrupt(&running);
        let said = running.end();
        assert_eq!(said.code, Some(3), "{said:?}");
        assert_eq!(outcomes(&called, "nested"), ["server sent cancelled caller"]);
        assert_eq!(outcomes(&called, "sleep"), ["server received cancelled peer"]);
        let nested = ["up received cancelled -", "down sent cancelled -"];
        assert_eq!(outcomes(&relayed, "nested"), nested);
        assert_eq!(outcomes(&served, "nested"), ["client received cancelled peer"], "{runtime}");
        assert_eq!(outcomes(&served, "sleep"), ["client sent cancelled parent"], "{runtime}");
        for recorded in [&called, &relayed, &served] {
            let (rows, summary) = view(recorded, &["~cancel"]);
            assert_eq!(summary["requests"], rows.len());
            assert_eq!(summary["recording"]["is_cut"], false);
            for row in rows {
                let [start, took, cancelled, settling] =
                    ["start", "duration", "cancelled", "cancel_to_settle"]
                        .map(|member| row[member].as_u64().unwrap());
                assert_eq!(start + took, cancelled + settling, "{row}");
                assert!(u128::from(cancelled - start) >= pause.as_micros(), "{row}");
            }
        }
    }
}

/// Returns whether a recording was ended in good order.
fn is_whole(path: &Path) -> bool {
    let (_, summary) = view(path, &[]);
    summary["recording"]["is_cut"] == false
}

#[cfg(unix)]
#[test]
fn a_recording_is_whole_however_early_the_call_ends() {
    let path = directory("early").join("session.jsonl");
    let file = text(&path);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("ws://{}", nobody.local_addr().unwrap());
    drop(nobody);
    let silent = ["--timeout", "200ms", "echo", "--", "sh", "-c", "read line; read line"];
    for (arguments, code) in [
        (&["echo", "--", "/there/is/no/such/program"][..], 6),
        (&["--connect", &address, "echo"], 6),
        (&["--open", "/there/is/no/such/file", "echo"], 2),
        (&["echo", "--", "sh", "-c", "exit"], 5),
        (&silent, 4),
    ] {
        let said = rescind([&["call", "--record", file], arguments].concat());
        assert_eq!(said.code, Some(code), "{said:?}");
        assert!(is_whole(&path), "{said:?}");
    }
    let said = rescind(["relay", "--record", file, "--", "/there/is/no/such/program"]);
    assert_eq!(said.code, Some(6), "{said:?}");
    assert!(is_whole(&path), "{said:?}");
}

#[cfg(unix)]
#[test]
fn a_recording_is_whole_when_ctrl_c_ends_the_program() {
    let path = directory("interrupted").join("session.jsonl");
    // Somebody who takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("ws://{}", silent.local_addr().unwrap());
    let arguments = ["call", "--record", text(&path), "--connect", &address, "echo"];
    let mut running = Running::start(arguments, &[]);
    let _connection = silent.accept().unwrap();
    support::signal(running.id(), rustix::process::Signal::INT);
    running.says(&["interrupted"]);
    assert_eq!(running.end().code, Some(3));
    assert!(is_whole(&path));
}

#[cfg(unix)]
#[test]
fn f61_what_a_server_prints_that_is_no_message_is_recorded_and_breaks_no_rule() {
    let path = directory("noise").join("session.jsonl");
    let server = "echo starting; exec \"$0\" serve";
    let said =
        rescind(["call", "--record", text(&path), "echo", "--", "sh", "-c", server, RESCIND]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let (_, summary) = view(&path, &[]);
    assert_eq!(summary["recording"]["other_violations"], 0, "{summary}");
    assert!(fs::read_to_string(&path).unwrap().contains(r#""kind":"unreadable""#));
}

#[test]
fn b03_what_may_be_a_secret_is_recorded_only_if_that_is_asked_for() {
    let path = directory("payloads").join("session.jsonl");
    let secret = r#"{"key":"hunter2"}"#;
    let arguments: [&[&str]; 4] = [
        &["call", "--record", text(&path), "echo", secret],
        &["call", "--record", text(&path), "--payloads", "echo", secret],
        &[
            "call",
            "echo",
            secret,
            "--",
            RESCIND,
            "relay",
            "--record",
            text(&path),
            "--",
            RESCIND,
            "serve",
        ],
        &["call", "echo", secret, "--", RESCIND, "serve", "--record", text(&path)],
    ];
    for (number, arguments) in arguments.iter().enumerate() {
        assert_eq!(rescind(*arguments).code, Some(0));
        let recorded = fs::read_to_string(&path).unwrap();
        assert!(recorded.contains("\"method\":\"echo\""), "{recorded}");
        assert_eq!(recorded.contains("hunter2"), number == 1, "{recorded}");
    }
}

#[test]
fn a_recording_is_read_after_whoever_wrote_it_was_killed() {
    let path = directory("killed").join("session.jsonl");
    let mut running = Running::start(
        ["call", "--trace", "--record", text(&path), "sleep", r#"{"ms":60000}"#],
        &[],
    );
    running.says(&["-->", "sleep"]);
    let deadline = Instant::now() + PATIENCE;
    while !fs::read_to_string(&path).is_ok_and(|text| text.contains("\"method\":\"sleep\"")) {
        assert!(Instant::now() < deadline, "it is never written");
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(running);
    let (rows, summary) = view(&path, &["~open"]);
    assert_eq!((rows.len(), &rows[0]["method"]), (1, &"sleep".into()));
    assert_eq!(summary["recording"]["is_cut"], true);
    let said = rescind(["view", text(&path)]);
    assert!(said.stderr.contains("has no end"), "{said:?}");
}

#[cfg(unix)]
#[test]
fn every_connection_of_a_listener_is_recorded() {
    let path = directory("listen").join("session.jsonl");
    let socket = std::env::temp_dir().join(format!("rescind-record-{}", std::process::id()));
    for listen in ["ws://127.0.0.1:0", &format!("unix:{}", socket.display())] {
        let mut server =
            Running::start(["serve", "--listen", listen, "--record", text(&path)], &[]);
        let line = server.says(&["listening on"]);
        let address = line.trim().rsplit(' ').next().unwrap();
        for _ in 0..2 {
            assert_eq!(rescind(["call", "--connect", address, "echo", "[1]"]).code, Some(0));
        }
        interrupt(&server);
        assert_eq!(server.end().code, Some(0));
        let (rows, _) = view(&path, &["~m", "echo"]);
        assert_eq!(rows.len(), 2);
        assert_ne!(rows[0]["hop"], rows[1]["hop"]);
        assert_eq!(rows[0]["outcome"], "result");
    }
}

#[cfg(unix)]
fn interrupt(running: &Running) {
    let pid = rustix::process::Pid::from_raw(running.id().try_into().unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

#[test]
fn files_are_rotated_and_read_as_one() {
    let path = directory("rotated").join("session.jsonl");
    let count = r#"{"to":300,"every_ms":0}"#;
    let record = |files: &str| {
        let arguments =
            ["call", "--record", text(&path), "--record-size", "4KiB", "--record-files", files];
        let said = rescind([&arguments[..], &["count", count]].concat());
        assert_eq!(said.code, Some(0), "{said:?}");
    };
    record("1000");
    let (rows, summary) = view(&path, &[]);
    assert!(path.with_extension("jsonl.1").exists());
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[1]["outcome"], "result");
    assert_eq!(summary["recording"]["notifications"], 300);
    assert_eq!(summary["recording"]["files_gone"], 0);
}

fn written(name: &str, lines: &[&str]) -> PathBuf {
    let path = directory(name).join("session.jsonl");
    let header = r#"{"recording":{"version":1,"by":"x","start":"s","part":1,"payloads":"redacted","hops":[]}}"#;
    fs::write(&path, [&[header], lines, &[""]].concat().join("\n")).unwrap();
    path
}

#[test]
fn f68_what_a_peer_wrote_is_shown_and_not_obeyed() {
    let hostile = r#"{"message":{"t":1,"hop":"a\u001b","dir":"sent","bytes":1,"parts":[{"kind":"request","id":"\u009b2J","method":"\u001b]52;c;aGk=\u0007\n"}]}}"#;
    let refused = r#"{"verdict":{"t":2,"hop":"a\u001b","verdict":"\u001b[2J","id":"\u009b2J","why":"\u001b[2J"}}"#;
    let opened = r#"{"opened":{"t":0,"hop":"a\u001b","role":"client","dialect":"acp"}}"#;
    let path = written("hostile", &[opened, hostile, refused, "\u{1b}[2J"]);
    for arguments in [
        &["view", text(&path)][..],
        &["view", text(&path), "--chart"],
        &["view", text(&path), "--json"],
    ] {
        let Said { stdout, stderr, .. } = rescind(arguments);
        let obeyed = |it: char| it.is_control() && it != '\n';
        assert!(!stdout.contains(obeyed), "{stdout:?}");
        assert!(!stderr.contains(obeyed), "{stderr:?}");
    }
    assert!(rescind(["view", text(&path)]).stdout.contains(r"\u001b]52;c;aGk=\u0007\n"));
}

#[test]
fn a_chart_has_one_lane_for_all_connections_after_the_eighth() {
    let mut lines = Vec::new();
    for hop in ["a", "b", "c", "d", "e", "f", "g", "h", "ninth"] {
        lines.push(format!(
            r#"{{"opened":{{"t":0,"hop":"{hop}","role":"server","dialect":"acp"}}}}"#
        ));
    }
    for hop in ["h", "ninth", "unopened"] {
        lines.push(format!(r#"{{"message":{{"t":1,"hop":"{hop}","dir":"received","bytes":1,"parts":[{{"kind":"request","id":1,"method":"m"}}]}}}}"#));
    }
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let said = rescind(["view", text(&written("nine", &lines)), "--chart"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let drawn: Vec<&str> = said.stdout.lines().collect();
    assert!(drawn[0].ends_with("(others)") && !drawn[0].contains("ninth"), "{}", drawn[0]);
    assert!(drawn[1].contains("- request 1 m -") && drawn[1].contains(">|"), "{}", drawn[1]);
    assert!(drawn[2].contains("|<----"), "{}", drawn[2]);
    assert_eq!(drawn[2], drawn[3]);
}

#[test]
fn what_can_not_be_viewed_is_said_with_its_place() {
    let path = written("bad", &[]);
    let said = rescind(["view", text(&path), "~m a & ~x"]);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.ends_with("\n  ~m a & ~x\n         ^\n"), "{}", said.stderr);
    for (file, problem) in
        [("/dev/null", "this is no recording"), ("/no/such/file", "No such file")]
    {
        if cfg!(unix) {
            let said = rescind(["view", file]);
            assert_eq!(said.code, Some(2));
            assert!(said.stderr.contains(problem), "{}", said.stderr);
        }
    }
    #[cfg(unix)]
    {
        use std::io::Write;
        let (reader, mut writer) = std::io::pipe().unwrap();
        writer.write_all(&fs::read(&path).unwrap()).unwrap();
        drop(writer);
        let said =
            Command::new(RESCIND).args(["view", "/dev/stdin"]).stdin(reader).output().unwrap();
        assert_eq!(said.status.code(), Some(2));
        let said = String::from_utf8(said.stderr).unwrap();
        assert!(said.contains("a pipe can't be read: save it to a file first"), "{said}");
    }
    let said = rescind(["call", "--record", "/no/such/directory/file", "echo"]);
    assert_eq!(said.code, Some(2));
    assert!(
        said.stderr
            .contains("can't record into /no/such/directory/file: its directory is not there"),
        "{}",
        said.stderr
    );
}

#[cfg(unix)]
#[test]
fn what_is_recorded_into_a_pipe_is_for_whoever_reads_that() {
    let path = directory("pipe").join("session.jsonl");
    let _ = fs::remove_file(&path);
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || fs::read_to_string(path).unwrap())
    };
    let said = rescind(["relay", "--record", text(&path), "--", RESCIND, "serve"]);
    assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "it is not read again: {said:?}");
    assert!(reader.join().unwrap().contains(r#"{"end":"#));
}

#[test]
fn the_chart_has_a_lane_for_each_party() {
    let path = directory("chart").join("session.jsonl");
    let relay = [RESCIND, "relay", "--record", text(&path), "--", RESCIND, "serve"];
    let said = rescind([&["call", "echo", "[1]", "--"], &relay[..]].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    let chart = rescind(["view", text(&path), "--chart", "~m echo"]).stdout;
    let mut lines = chart.lines().map(|line| line.get(16..).unwrap_or_default());
    let expected = "\
client                              (recorded here)                     server
  |----- request 2 echo ------------->|                                   |
  |                                   |----- request 2 echo ------------->|
  |                                   |<---- result 2 --------------------|
  |<---- result 2 --------------------|                                   |";
    assert!(expected.lines().all(|line| lines.next() == Some(line)), "{chart}");
}

#[test]
fn the_chart_of_a_listener_has_a_lane_for_each_client_and_says_what_was_decided() {
    let lines = [
        r#"{"opened":{"t":1,"hop":"one","role":"server","dialect":"acp"}}"#,
        r#"{"opened":{"t":2,"hop":"two","role":"server","dialect":"acp"}}"#,
        r#"{"opened":{"t":3,"hop":"one","role":"server","dialect":"acp"}}"#,
        r#"{"message":{"t":4,"hop":"two","dir":"received","bytes":1,"parts":[{"kind":"request","id":1,"method":"m"}]}}"#,
        r#"{"message":{"t":5,"hop":"two","dir":"received","bytes":1,"parts":[{"kind":"cancel","cancels":1,"method":"c"}]}}"#,
        r#"{"verdict":{"t":5,"hop":"two","verdict":"violation","why":"late_response","id":1}}"#,
        r#"{"verdict":{"t":6,"hop":"two","verdict":"settled","id":1,"outcome":"result"}}"#,
    ];
    let chart = rescind(["view", text(&written("lanes", &lines)), "--chart"]).stdout;
    let lines: Vec<&str> = chart.lines().map(|line| line.get(16..).unwrap_or_default()).collect();
    let expected = "\
one                                 two                                 (recorded here)
  |                                   |----- request 1 m ---------------->|
  |                                   |----- cancel 1 ------------------->|
  |                                   |                                   |  violation 1 late_response";
    assert_eq!(lines, expected.lines().collect::<Vec<_>>(), "{chart}");
}

#[test]
fn what_is_wrong_in_recordings_is_counted_over_all_of_them() {
    let violation = |why: &str| {
        format!(r#"{{"verdict":{{"t":1,"hop":"a","verdict":"violation","why":"{why}"}}}}"#)
    };
    let message = |part: &str| {
        format!(r#"{{"message":{{"t":1,"hop":"a","dir":"sent","bytes":1,"parts":[{{{part}}}]}}}}"#)
    };
    // How often each is there, and what it is called.
    let wrong = [
        (2, "dropped", r#"{"dropped":{"t":1,"until":1,"lines":1,"bytes":1}}"#.to_owned(), "gap"),
        (3, "unreadable", "none of a recording".into(), "gap"),
        (4, "late_responses", violation("late_response"), "late"),
        (5, "duplicate_responses", violation("duplicate_response"), "violation"),
        (6, "unknown_responses", violation("unknown_response"), "violation"),
        (7, "other_violations", violation("not_json"), "violation"),
        (8, "cancels_of_nothing", message(r#""kind":"cancel","cancels":9"#), ""),
        (9, "notifications", message(r#""kind":"notification","method":"n""#), ""),
    ];
    let end = r#"{"end":{"t":9,"lines":1,"dropped":0}}"#.to_owned();
    let stats = |arguments: &[&str]| rescind([&["stats"], arguments].concat());
    for (_, name, line, finding) in &wrong {
        let path = written(&format!("wrong-{name}"), &[line, &end]);
        for what in ["late", "violation", "gap"] {
            let code = stats(&[text(&path), "--fail-on", what]).code;
            assert_eq!(code, Some(i32::from(what == *finding)), "{name}: {what}");
        }
    }
    let lines: Vec<&str> = wrong
        .iter()
        .flat_map(|(times, _, line, _)| std::iter::repeat_n(line.as_str(), *times))
        .chain([end.as_str()])
        .collect();
    let [one, other] = ["wrong", "wrong-too"].map(|name| written(name, &lines));
    let said: Value =
        serde_json::from_str(&stats(&["--json", text(&one), text(&other)]).stdout).unwrap();
    for (times, name, ..) in &wrong {
        assert_eq!(said["summary"]["recording"][name], 2 * times, "{name}");
    }
    let cut = written("cut", &[]);
    assert_eq!(stats(&[text(&cut), "--fail-on", "gap"]).code, Some(1), "it has no end");
    let gone = written("gone", &[&end]);
    let third = fs::read_to_string(&gone).unwrap().replace(r#""part":1"#, r#""part":3"#);
    fs::write(&gone, third).unwrap();
    assert_eq!(stats(&[text(&gone), "--fail-on", "gap"]).code, Some(1), "two files are gone");
    let most = format!(r#"{{"dropped":{{"t":1,"until":1,"lines":{},"bytes":1}}}}"#, u64::MAX);
    let most = written("most", &[&most, "none of a recording", &end]);
    assert_eq!(stats(&[text(&most), "--fail-on", "gap"]).code, Some(1), "more than can be counted");
}

#[cfg(target_os = "linux")]
#[test]
fn f69_output_that_is_lost_is_said() {
    use std::process::{Command, Stdio};

    let message = r#"{"message":{"t":1,"hop":"a","dir":"sent","bytes":1,"parts":[{"kind":"request","id":1,"method":"m"}]}}"#;
    let path = written("full", &vec![message; 20_000]);
    let mut view = Command::new(RESCIND);
    view.args(["view", text(&path)]).stderr(Stdio::piped());
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = view.stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(7));
    assert!(String::from_utf8(output.stderr).unwrap().contains("No space left"));

    // `view | head`: who has seen enough has lost nothing.
    let mut child = view.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !said.contains("error"), "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn f69_a_recording_that_breaks_off_is_said_at_once_and_its_lines_are_counted() {
    use std::io::Write;
    use std::process::Stdio;

    let path = directory("broken").join("recording.jsonl");
    let limited = r#"trap "" XFSZ; ulimit -f 8; exec "$@""#;
    let mut relay = Command::new("sh");
    relay.args(["-c", limited, "sh", RESCIND, "relay", "--record", text(&path)]);
    relay.args(["--", RESCIND, "serve"]).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut relay = relay.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = relay.stdin.take().unwrap();
    let said = support::lines(relay.stderr.take().unwrap());
    stdin.write_all("{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n".repeat(200).as_bytes()).unwrap();
    while !said.recv_timeout(PATIENCE).unwrap().contains("ended early: ") {}
    drop(stdin);
    let rest: Vec<_> = said.iter().collect();
    let rest = rest.join("\n");
    relay.wait().unwrap();
    assert!(!rest.contains("ended early"), "{rest}");
    let counts = rest.split(" lacks ").nth(1).unwrap().split(" of ");
    let [lacks, all]: [usize; 2] = counts
        .map(|count| count.split(' ').next().unwrap().parse().unwrap())
        .collect::<Vec<_>>()
        .try_into()
        .unwrap();
    let recorded = fs::read_to_string(&path).unwrap();
    let whole = recorded.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    let is_counted = |line: &&str| {
        ["message", "verdict", "input"].iter().any(|kind| line[2..].starts_with(kind))
    };
    let held = whole.filter(is_counted).count();
    assert!(held > 0 && lacks + held == all, "{held} are held: {rest}");
}

#[test]
fn stats_count_by_method_and_outcome() {
    let message = |t: u64, dir: &str, part: &str| {
        format!(
            r#"{{"message":{{"t":{t},"hop":"a","dir":"{dir}","bytes":1,"parts":[{{{part}}}]}}}}"#
        )
    };
    let mut lines = Vec::new();
    for id in 1..=100 {
        let request = format!(r#""kind":"request","id":{id},"method":"m""#);
        lines.push(message(id * 1_000_000, "sent", &request));
        let answer = format!(r#""kind":"result","id":{id}"#);
        lines.push(message(id * 1_000_000 + id * 1_000, "received", &answer));
    }
    lines.push(message(1, "sent", r#""kind":"request","id":102,"method":"exact""#));
    lines.push(message(200_210, "received", r#""kind":"result","id":102"#));
    lines.push(message(1, "sent", r#""kind":"request","id":101,"method":"stuck""#));
    lines.push(r#"{"end":{"t":9,"lines":1,"dropped":0}}"#.into());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let path = written("stats", &lines);

    let stats = |arguments: &[&str]| rescind([&["stats", text(&path)], arguments].concat());
    let said: Value = serde_json::from_str(&stats(&["--json"]).stdout).unwrap();
    let [exact, all, stuck] = [0, 1, 2].map(|at| &said["requests"][at]);
    assert_eq!(
        (&exact["duration"]["p50"], &exact["duration"]["max"]),
        (&200_209.into(), &200_209.into())
    );
    assert_eq!(
        (&all["method"], &all["outcome"], &all["count"]),
        (&"m".into(), &"result".into(), &100.into())
    );
    for (name, millis) in [("p50", 50), ("p90", 90), ("p99", 99), ("max", 100)] {
        let micros = all["duration"][name].as_u64().unwrap();
        assert!(micros.abs_diff(millis * 1000) <= millis, "{name} {micros}");
    }
    assert_eq!(
        (&stuck["outcome"], &stuck["duration"]["p50"]),
        (&"unanswered".into(), &Value::Null)
    );
    assert_eq!(said["summary"]["requests"], 102);

    let plain = stats(&[]).stdout;
    assert!(
        plain
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .eq(["method", "outcome", "count", "p50", "p90", "p99", "max"]),
        "{plain}"
    );
    assert!(plain.contains("102 requests: 0 cancelled, 0 late, 1 never answered"), "{plain}");

    for (what, code) in [("hung", 1), ("late,violation", 0), ("late,hung", 1), ("gap", 0)] {
        assert_eq!(stats(&["--fail-on", what]).code, Some(code), "{what}");
    }
    assert_eq!(rescind(["stats", text(&path), text(&path), "--fail-on", "late"]).code, Some(0));
    // A reader that has gone takes nothing back.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut unread = Command::new(RESCIND);
    let unread = unread.args(["stats", text(&path), "--fail-on", "hung"]).stdout(writer).output();
    assert_eq!(unread.unwrap().status.code(), Some(1));
    let twice = rescind(["stats", "--json", text(&path), text(&path)]).stdout;
    assert!(twice.contains(r#""count":200"#), "{twice}");
}

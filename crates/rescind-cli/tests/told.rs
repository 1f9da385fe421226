//! `rescind call`: its params from files and standard input, the directory of its server, and its report with
//! `--json`.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{RESCIND, Running, Said, rescind, signal};

const HOUR: &str = r#"{"ms":3600000}"#;

/// Makes a directory of this test's own.
fn directory(name: &str) -> std::path::PathBuf {
    let directory = std::env::temp_dir().join(format!("rescind-{name}-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn told(said: &Said) -> Value {
    assert_eq!(said.stdout.lines().count(), 1, "{said:?}");
    let told: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(told["exit_code"], json!(said.code), "{said:?}");
    assert!(told["total"].as_u64().unwrap() >= told["duration"].as_u64().unwrap_or(0));
    told
}

#[test]
fn params_come_from_a_file() {
    let directory = directory("params");
    let file = directory.join("params.json");
    // Over several lines, which no message of this dialect may have.
    fs::write(&file, "{\n  \"n\": 9007199254740993\n}\n").unwrap();
    let given = format!("@{}", file.display());
    let said = rescind(["call", "echo", &given]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains("9007199254740993"), "{said:?}");
    fs::write(&file, "{\n  \"n\": x\n}\n").unwrap();
    for (given, wrong) in [
        (given, format!("{}: not JSON at byte 9", file.display())),
        ("@/no/such/file".into(), "/no/such/file: No such file".into()),
    ] {
        let said = rescind(["call", "echo", &given]);
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{said:?}");
        assert!(said.stderr.contains(&wrong), "{wrong}: {said:?}");
    }
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn params_come_from_standard_input() {
    for (given, code, stdout) in [("[1, 2]\n", 0, "[1,2]\n"), ("7", 2, "")] {
        let mut command = Command::new(RESCIND);
        command.args(["call", "echo", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(given.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = String::from_utf8(output.stdout).unwrap().replace(' ', "");
        assert_eq!(said, stdout);
        if code == 2 {
            let said = String::from_utf8(output.stderr).unwrap();
            assert!(said.contains("standard input: params must be a JSON array"), "{said}");
        }
    }
}

#[test]
fn a_request_that_is_too_large_to_be_sent_is_no_lost_connection() {
    let directory = directory("large");
    let file = directory.join("params.json");
    let most = 64 << 20;
    fs::write(&file, format!("[\"{}\"]", "x".repeat(most - 4))).unwrap();
    let said = rescind(["call", "--json", "echo", &format!("@{}", file.display())]);
    let error = format!("error: more than {most} bytes can't wait to be sent\n");
    assert_eq!((said.code, &said.stdout[..], &said.stderr), (Some(2), "", &error), "{said:?}");
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn json_says_what_became_of_a_call() {
    let said = rescind(["call", "--json", "count", r#"{"to":3,"every_ms":0}"#]);
    let all = told(&said);
    assert_eq!((&all["method"], &all["outcome"]), (&json!("count"), &json!("result")), "{all}");
    assert_eq!(all["result"], json!({ "counted": 3, "of": 3 }));
    assert_eq!((&all["notifications"], &all["server"]), (&json!(3), &json!({ "code": 0 })));
    assert!(all.get("cancelled").is_none() && all.get("cause").is_none(), "{all}");

    let error = r#"{"code":-5,"message":"no luck"}"#;
    let all = told(&rescind(["call", "--json", "fail", error]));
    assert_eq!((&all["outcome"], &all["error"]["code"]), (&json!("error"), &json!(-5)), "{all}");

    let all = told(&rescind(["call", "--json", "--cancel-after", "50ms", "sleep", HOUR]));
    assert_eq!((&all["outcome"], &all["cause"]), (&json!("cancelled"), &json!("caller")));
    assert_eq!(all["error"]["code"], -32800, "{all}");
    assert!(all["cancelled"].as_u64().unwrap() >= 50_000, "microseconds: {all}");
    let sum = all["cancelled"].as_u64().unwrap() + all["cancel_to_settle"].as_u64().unwrap();
    assert!(sum.abs_diff(all["duration"].as_u64().unwrap()) <= 1, "{all}");

    let all = told(&rescind(["call", "--json", "--timeout", "300ms", "sleep", HOUR]));
    assert_eq!((&all["outcome"], &all["cause"]), (&json!("timed_out"), &json!("deadline")));
}

#[test]
fn json_says_how_a_server_failed() {
    let all = told(&rescind(["call", "--json", "m", "--", "/no/such/program"]));
    assert_eq!(all["outcome"], "unreachable", "{all}");
    assert!(all["why"].as_str().unwrap().contains("can't start /no/such/program"), "{all}");

    for (script, server) in
        [("read line; exit 9", json!({ "code": 9 })), ("kill -9 $$", json!({ "signal": 9 }))]
    {
        let all = told(&rescind(["call", "--json", "m", "--", "sh", "-c", script]));
        assert_eq!((&all["outcome"], &all["server"]), (&json!("connection_lost"), &server));
        assert_eq!(all["cause"], "peer_gone", "{all}");
    }

    let silent = ["m", "--", "sh", "-c", "read line; echo there >&2; cat >/dev/null"];
    let all = told(&rescind([&["call", "--json", "--timeout", "300ms"], &silent[..]].concat()));
    assert_eq!(all["outcome"], "timed_out", "{all}");
    assert_eq!(all["why"], "waiting for the answer to initialize", "{all}");
    let mut running = Running::start([&["call", "--json"], &silent[..]].concat(), &[]);
    running.says(&["there"]);
    signal(running.id(), Signal::INT);
    let all = told(&running.end());
    assert_eq!((&all["outcome"], &all["cause"]), (&json!("cancelled"), &json!("caller")));
}

#[test]
fn a_server_may_be_given_longer_to_end() {
    let directory = directory("grace");
    let ended = directory.join("ended");
    // Longer than either gives it by itself.
    let script = r#"read -r line; printf '{"jsonrpc":"2.0","id":1,"result":1}\n'; cat > "$0"; sleep 3; echo > "$0""#;
    let server = ["--", "sh", "-c", script, ended.to_str().unwrap()];
    let [waits, patience] = ["--exit-grace", "30s"];
    let call = ["call", "--dialect", "jsonrpc", waits, patience, "m", "--"];
    let relay = [RESCIND, "relay", "--dialect", "jsonrpc", waits, patience];
    let said = rescind([&call[..], &relay, &server].concat());
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(fs::read_to_string(&ended).unwrap(), "\n", "it was ended before it was done");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_server_runs_where_it_is_told_to() {
    let directory = directory("cwd");
    let place = directory.canonicalize().unwrap();
    let place = place.to_str().unwrap();
    let script = r#"read -r line
        printf '{"jsonrpc":"2.0","id":1,"result":["%s","%s","%s"]}\n' "$(pwd -P)" "$A" "$B""#;
    let process = ["--cwd", place, "--env", "A=1=2", "--env", "B="];
    let call = ["call", "--dialect", "jsonrpc"];
    let server = ["--", "sh", "-c", script];
    let said = rescind([&call[..], &process, &["m"], &server].concat());
    assert_eq!(said.stdout, format!("[\"{place}\",\"1=2\",\"\"]\n"), "{said:?}");
    let relay = ["m", "--", RESCIND, "relay", "--dialect", "jsonrpc"];
    let said = rescind([&call[..], &relay, &process, &server].concat());
    assert_eq!(said.stdout, format!("[\"{place}\",\"1=2\",\"\"]\n"), "{said:?}");
    fs::remove_dir_all(&directory).unwrap();
    for (option, wrong) in [
        (["--cwd", place], "No such file"),
        (["--cwd", RESCIND], "it is no directory"),
        (["--env", "=x"], "it is no NAME=VALUE"),
    ] {
        let said = rescind([&call[..], &option, &["m"]].concat());
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{said:?}");
        assert!(said.stderr.contains(wrong), "{said:?}");
    }
}

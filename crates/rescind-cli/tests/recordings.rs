//! Recordings of real sessions, through everything that takes one. tests/interop/record-sessions makes them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{self, Said, rescind};

/// Real clients in front of real servers, through `rescind relay --record`; and how many requests, cancelled ones,
/// and ones below another there are.
const SESSIONS: [(&str, usize, usize, usize); 4] = [
    ("acp", 181, 45, 76),
    ("clangd", 40, 34, 7),
    ("everything", 20, 4, 10),
    ("pyright", 46, 21, 23),
];

fn recording(name: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings").join(name);
    file.with_extension("jsonl")
}

fn run(args: &[&str], name: &str) -> Said {
    let path = recording(name);
    let said = rescind([args, &[path.to_str().unwrap()]].concat());
    assert_eq!(said.code, Some(0), "{args:?} {name}: {said:?}");
    said
}

/// Returns the objects of JSON lines.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn real_sessions_are_shown_and_counted() {
    for (name, requests, cancelled, below) in SESSIONS {
        let rows = lines(&run(&["view", "--json"], name).stdout);
        let (summary, rows) = rows.split_last().unwrap();
        let with = |member: &str| rows.iter().filter(|row| row[member].is_u64()).count();
        assert_eq!(
            (rows.len(), with("cancelled"), with("parent")),
            (requests, cancelled, below),
            "{name}"
        );
        let printed = run(&["view"], name).stdout;
        assert_eq!(printed.lines().count(), requests + 1, "{name}");
        assert!(run(&["view", "--chart"], name).stdout.lines().count() > requests, "{name}");
        let stats: Value = serde_json::from_str(&run(&["stats", "--json"], name).stdout).unwrap();
        assert_eq!(stats["summary"], summary["summary"], "{name}");
    }
}

#[test]
fn real_sessions_make_a_page_of_one_file() {
    for (name, requests, ..) in SESSIONS {
        let page = run(&["view", "--html", "-"], name).stdout;
        let (head, rest) = page.split_once("type=\"application/jsonl\">\n").unwrap();
        let (data, _) = rest.split_once("</script>").unwrap();
        let rows = lines(data.trim());
        let count = rows.iter().filter(|row| row["method"].is_string()).count();
        assert_eq!(count, requests, "{name}");
        assert!(rows[0]["recording"]["by"].is_string(), "{name}: the page names its recorder");
        assert!(head.contains("default-src 'none'"), "{name}");
    }
}

#[test]
fn real_sessions_are_exported() {
    for (name, requests, ..) in SESSIONS {
        let exported = lines(&run(&["export", "--format", "otlp"], name).stdout);
        let spans = |line: &Value| {
            let spans = &line["resourceSpans"][0]["scopeSpans"][0]["spans"];
            spans.as_array().unwrap().len()
        };
        assert_eq!(exported.iter().map(spans).sum::<usize>(), requests, "{name}");
    }
}

#[test]
fn silence_is_an_answer_where_the_dialect_has_it_so() {
    let rows = lines(&run(&["view", "--json"], "everything").stdout);
    let cancelled = rows.iter().filter(|row| row["cancelled"].is_u64());
    let outcomes: Vec<&Value> = cancelled.map(|row| &row["outcome"]).collect();
    assert_eq!(outcomes, ["cancelled"; 4], "MCP does not respond to a cancelled request");
    assert_eq!(rows.last().unwrap()["summary"]["unanswered"], 0);
    let stats: Value =
        serde_json::from_str(&run(&["stats", "--json"], "everything").stdout).unwrap();
    let counts = stats["requests"].as_array().unwrap().iter().map(|cell| &cell["cancelled"]);
    assert_eq!(counts.filter_map(Value::as_u64).sum::<u64>(), 4);
    let printed = run(&["view"], "everything").stdout;
    assert_eq!(printed.matches("  cancelled\n").count(), 4, "it is said once: {printed}");
}

#[test]
fn what_can_not_be_made_is_said_and_costs_nothing() {
    let path = recording("everything");
    let said = rescind(["export", "--format", "mcp-trace", path.to_str().unwrap()]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert_eq!(said.stdout, "");
    let why = "a trace of MCP needs whole messages: record it with --payloads";
    assert!(said.stderr.contains(why), "{said:?}");

    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings");
    fs::create_dir_all(&directory).unwrap();
    let page = directory.join("page.html");
    fs::write(&page, "as it was").unwrap();
    let no_recording = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let args = ["view", no_recording.to_str().unwrap(), "--html", page.to_str().unwrap()];
    assert_eq!(rescind(args).code, Some(2));
    assert_eq!(fs::read_to_string(&page).unwrap(), "as it was");
    let own = directory.join("own.jsonl");
    fs::copy(&path, &own).unwrap();
    let said = rescind(["view", own.to_str().unwrap(), "--html", own.to_str().unwrap()]);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(fs::read(&own).unwrap() == fs::read(&path).unwrap(), "the recording is still there");
    let nowhere = directory.join("nowhere/page.html");
    let said = rescind(["view", path.to_str().unwrap(), "--html", nowhere.to_str().unwrap()]);
    assert_eq!(said.code, Some(7), "{said:?}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let made = directory.join("made.html");
        let _ = fs::remove_file(&made);
        for is_there in [false, true] {
            if is_there {
                fs::set_permissions(&made, fs::Permissions::from_mode(0o644)).unwrap();
            }
            let said = rescind(["view", path.to_str().unwrap(), "--html", made.to_str().unwrap()]);
            assert_eq!(said.code, Some(0), "{said:?}");
            let mode = fs::metadata(&made).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "it is as secret as the recording");
        }
    }
}

/// The commands of the guide on recordings, in an empty directory. Those that need Node are run by tests/interop.
#[cfg(unix)]
#[test]
fn the_commands_of_the_guide_work() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_to_string(root.join("docs/guide/viewing.md")).unwrap();
    let (_, section) = guide.split_once("## See what happened").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let blocks = section.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let commands: String = blocks.filter(|block| !block.contains("node ")).collect();
    assert!(commands.lines().count() >= 6, "{commands}");

    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("recordings/readme");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let folder = Path::new(support::RESCIND).parent().unwrap().display();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    for command in commands.lines() {
        // It is said from the root of the repository, but must leave nothing there.
        let command = command.replace("cp crates/", &format!("cp {}/crates/", root.display()));
        let output = std::process::Command::new("sh")
            .args(["-c", &command])
            .env("PATH", &path)
            .current_dir(&directory)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{command}: {said}");
    }
    for made in ["session.html", "session.pftrace"] {
        assert!(fs::metadata(directory.join(made)).unwrap().len() > 1_000, "{made}");
    }
}

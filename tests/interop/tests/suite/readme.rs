//! The guide on recordings, with the client and the server that it names: every command, as it stands there.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use rescind_interop::peers::{node, rescind};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The commands of the section, but those that install peers, or take another recording in their place.
fn commands() -> String {
    let guide =
        fs::read_to_string(Path::new(ROOT).join("docs/guide/viewing.md")).expect("it can be read");
    let (_, section) = guide.split_once("## See what happened").expect("the section is there");
    let (section, _) = section.split_once("\n## ").expect("another follows");
    let blocks = section.split("```sh\n").skip(1).filter_map(|block| block.split("```").next());
    let is_run = |line: &&str| *line != "tests/interop/install" && !line.starts_with("cp ");
    let lines = blocks.flat_map(str::lines).filter(is_run);
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn g10_a_session_of_vscode_jsonrpc_with_pyright_is_recorded_shown_and_replayed() {
    if node("pyright_client.mjs").is_none() {
        return;
    }
    let commands = commands();
    for command in ["node ", "view ", "view --html", "stats ", "replay ", "export "] {
        let words: Vec<&str> = command.split(' ').collect();
        let is_said = |line: &str| words.iter().all(|word| line.contains(word));
        assert!(commands.lines().any(is_said), "{command} in {commands}");
    }
    // They are said from the root of the repository, but must leave nothing there.
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).expect("it can be made");
    let tests = Path::new(ROOT).join("tests").canonicalize().expect("it is there");
    std::os::unix::fs::symlink(tests, directory.join("tests")).expect("it can be linked");
    let folder = Path::new(rescind()).parent().expect("it is in a directory").display();
    let path = format!("{folder}:{}", env::var("PATH").expect("there is one"));
    let output = Command::new("sh")
        .args(["-ec", &commands])
        .env("PATH", path)
        .current_dir(&directory)
        .output()
        .expect("a shell runs");
    let [printed, said] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    assert!(output.status.success(), "{commands}\n{printed}\n{said}");
    assert!(
        printed.contains("messages sent, ") && printed.contains(": the same, byte for byte\n"),
        "{printed}"
    );
    assert!(printed.contains("textDocument/hover"), "{printed}");
    for made in ["session.html", "session.pftrace"] {
        let length = fs::metadata(directory.join(made)).expect("it is made").len();
        assert!(length > 1_000, "{made}");
    }
}

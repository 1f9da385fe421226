//! A recording that is longer than the memory that its reader may have, and how far the reading is.

use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use crate::support::{RESCIND, terminal};

/// So many KiB of data a reader may have; the recording is twice as long.
const MEMORY: usize = 12 << 10;

fn recording() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("long.jsonl");
    let mut out = BufWriter::new(File::create(&path).unwrap());
    let head = r#"{"recording":{"version":1,"by":"x","start":"2026-01-01T00:00:00Z","part":1,"payloads":"kept","hops":[]}}"#;
    writeln!(out, "{head}").unwrap();
    let text = "x".repeat(256 << 10);
    for id in 0..2 * MEMORY / 512 {
        for (dir, part) in [
            ("sent", format!(r#"{{"kind":"request","id":{id},"method":"m"}}"#)),
            ("received", format!(r#"{{"kind":"result","id":{id}}}"#)),
        ] {
            let place = format!(r#""t":{id},"hop":"a","dir":"{dir}","bytes":{}"#, text.len());
            writeln!(out, r#"{{"message":{{{place},"parts":[{part}],"text":"{text}"}}}}"#).unwrap();
        }
    }
    writeln!(out, r#"{{"end":{{"t":99,"lines":96,"dropped":0}}}}"#).unwrap();
    path
}

#[test]
fn g08_a_recording_is_read_in_bounded_memory_and_says_how_far_it_is() {
    let path = recording();
    assert!(fs::metadata(&path).unwrap().len() > 2 * (MEMORY << 10) as u64);
    for command in ["stats", "view"] {
        let (mut ours, theirs) = terminal();
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!(r#"ulimit -d {MEMORY}; exec "$0" "$@""#), RESCIND, command]);
        limited.arg(&path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(theirs);
        let child = limited.spawn().unwrap();
        // So that reading ends: it holds the program's end.
        drop(limited);
        let shown = thread::spawn(move || {
            let mut shown = Vec::new();
            // A terminal that everybody has left ends with an error.
            let _ = ours.read_to_end(&mut shown);
            String::from_utf8_lossy(&shown).into_owned()
        });
        let output = child.wait_with_output().unwrap();
        let shown = shown.join().unwrap();
        assert!(output.status.success(), "{command}: {shown}");
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.contains("48 requests: 0 cancelled"), "{command}: {printed}");
        assert!(shown.contains("reading ") && shown.contains(" %"), "{command}: {shown}");
    }
    fs::remove_file(path).unwrap();
}

//! The content of a recording, and its costs for the connection that is recorded.

use std::fs;
use std::path::{Path, PathBuf};

use protocol_async::Way;
use protocol_core::{Config, Dialect, Violation, WireId};
use protocol_record::line::{Header, Payloads};
use protocol_record::{HopRecorder, Line, Reader, Recorded, Recording, Settings, Unread, part};

/// Returns an empty directory of this test's own.
fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory
}

fn open(recording: &Recording, dialect: &str) -> HopRecorder {
    recording.recorder().hop("peer", &Config::client(Dialect::named(dialect).unwrap()))
}

/// Records what `record` does to one connection.
fn record(settings: Settings, dialect: &str, record: impl FnOnce(&HopRecorder)) -> Recorded {
    let recording = Recording::start(settings).unwrap();
    let hop = open(&recording, dialect);
    record(&hop);
    recording.finish()
}

/// Returns the lines of a file, without the times and without the first.
fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    let mut reader = Reader::new(text.as_bytes());
    assert!(matches!(reader.line(), Ok(Some(Line::Recording(_)))));
    let mut lines = Vec::new();
    while let Some(mut line) = reader.line().unwrap() {
        match &mut line {
            Line::Opened(opened) => opened.t = 0,
            Line::Message(message) => message.t = 0,
            Line::Verdict(verdict) => verdict.t = 0,
            Line::Dropped(dropped) => (dropped.t, dropped.until) = (0, 0),
            Line::End(end) => end.t = 0,
            _ => {}
        }
        lines.push(serde_json::to_string(&line).unwrap());
    }
    lines
}

fn header(path: &Path) -> Header<'static> {
    let text = fs::read_to_string(path).unwrap().leak();
    let Ok(Line::Recording(header)) = serde_json::from_str(text.lines().next().unwrap()) else {
        panic!("{text}")
    };
    header
}

const REQUEST: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"m","params":["secret"]}"#;

#[test]
fn b03_a_recording_holds_no_payload_unless_it_is_asked_for() {
    let directory = directory("payloads");
    for payloads in [Payloads::Redacted, Payloads::Kept] {
        let path = directory.join("session.jsonl");
        let mut settings = Settings::new(&path);
        settings.payloads = payloads;
        settings.program = Some("server".into());
        let recorded = record(settings, "acp", |hop| {
            hop.message(Way::Sent, REQUEST);
            hop.message(Way::Received, b"\xffsecret");
        });
        assert_eq!((recorded.lines, recorded.dropped), (2, 0));
        let request = r#"{"message":{"t":0,"hop":"peer","dir":"sent","bytes":57,"parts":[{"kind":"request","id":1,"method":"m","payload":10}]"#;
        let bad = r#"{"message":{"t":0,"hop":"peer","dir":"received","bytes":7,"parts":[{"kind":"unreadable"}]"#;
        let (text, base64) = match payloads {
            Payloads::Redacted => (String::new(), ""),
            Payloads::Kept => {
                let text = serde_json::to_string(std::str::from_utf8(REQUEST).unwrap()).unwrap();
                (format!(r#","text":{text}"#), r#","base64":"/3NlY3JldA==""#)
            }
        };
        assert_eq!(
            lines(&path),
            [
                r#"{"opened":{"t":0,"hop":"peer","role":"client","dialect":"acp"}}"#.to_owned(),
                format!("{request}{text}}}}}"),
                format!("{bad}{base64}}}}}"),
                r#"{"end":{"t":0,"lines":2,"dropped":0}}"#.to_owned(),
            ]
        );
        let header = header(&path);
        assert_eq!((header.version, header.part, header.payloads), (1, 1, payloads));
        assert_eq!(header.program.as_deref(), Some("server"));
        assert!(humantime::parse_rfc3339(&header.start).is_ok(), "{}", header.start);
        assert_eq!(
            fs::read_to_string(&path).unwrap().contains("secret"),
            payloads == Payloads::Kept
        );
    }
}

#[test]
fn the_token_of_an_operation_is_never_kept() {
    let path = directory("tokens").join("session.jsonl");
    let mut settings = Settings::new(&path);
    settings.payloads = Payloads::Kept;
    let _ = record(settings, "erlmcp", |hop| {
        hop.message(Way::Sent, br#"{"jsonrpc":"2.0","id":1,"method":"tool/call"}"#);
        hop.message(Way::Received, br#"{"id":1,"result":{"cancellationToken":"C0FFEE"}}"#);
    });
    let lines = lines(&path);
    assert!(lines[1].contains(r#""text":"#), "{}", lines[1]);
    assert!(lines[2].ends_with(r#""withheld":"operation_token"}}"#), "{}", lines[2]);
    assert!(!lines.concat().contains("C0FFEE"));
}

#[test]
fn b31_a_verdict_names_the_rule_and_the_id() {
    let path = directory("verdicts").join("session.jsonl");
    let _ = record(Settings::new(&path), "acp", |hop| {
        let id = WireId::from_json("\"a\"").unwrap();
        let violation = Violation::LateResponse;
        hop.verdict(&protocol_async::Verdict::Violation { violation, id: Some(id.clone()) });
    });
    let verdict =
        r#"{"verdict":{"t":0,"hop":"peer","verdict":"violation","id":"a","why":"late_response"}}"#;
    assert_eq!(lines(&path)[1], verdict);
}

#[test]
fn g08_files_are_rotated_by_size_and_only_so_many_are_kept() {
    let path = directory("rotation").join("session.jsonl");
    let mut settings = Settings::new(&path);
    settings.file_bytes = 10_000;
    settings.files = 3;
    let recording = Recording::start(settings).unwrap();
    let hop = open(&recording, "acp");
    let oldest = part(&path, 2);
    // Whether the writer writes one line at a time or many is its own affair.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !oldest.exists() || header(&oldest).part < 2 {
        assert!(std::time::Instant::now() < deadline, "the third file is never begun");
        for _ in 0..100 {
            hop.message(Way::Sent, REQUEST);
        }
        // It gets its turn.
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let recorded = recording.finish();
    assert_eq!((recorded.dropped, recorded.error.is_none()), (0, true));
    assert!(!part(&path, 3).exists());
    let parts = [2, 1, 0].map(|age| header(&part(&path, age)).part);
    assert_eq!([parts[0] + 1, parts[0] + 2], parts[1..]);
    for age in [2, 1, 0] {
        let header = header(&part(&path, age));
        let hops: Vec<_> = header.hops.iter().map(|hop| &*hop.hop).collect();
        assert_eq!(hops, if header.part == 1 { vec![] } else { vec!["peer"] });
    }
    // What a file holds is at most one line too much.
    let longest = [1, 2].map(|age| fs::metadata(part(&path, age)).unwrap().len()).into_iter().max();
    assert!(longest.unwrap() < 10_000 + 1_000, "{longest:?}");
}

#[test]
fn a_recording_that_is_full_at_its_end_keeps_its_lines() {
    for files in [1, 2] {
        let path = directory("full").join("session.jsonl");
        let mut settings = Settings::new(&path);
        (settings.file_bytes, settings.files) = (1, files);
        let recording = Recording::start(settings).unwrap();
        let hop = open(&recording, "acp");
        hop.message(Way::Sent, REQUEST);
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !fs::read_to_string(&path).unwrap().contains(r#"{"message":"#) {
            assert!(std::time::Instant::now() < until, "{files} files");
        }
        drop(hop);
        let recorded = recording.finish();
        assert!(recorded.error.is_none(), "{recorded:?}");
        let lines = lines(&path);
        assert!(lines[lines.len() - 2].starts_with(r#"{"message":"#), "{files} files: {lines:?}");
        assert_eq!(lines.last().unwrap(), r#"{"end":{"t":0,"lines":1,"dropped":0}}"#);
    }
}

#[test]
fn a_recording_that_is_there_already_is_kept() {
    for files in [2, usize::MAX] {
        let path = directory("again").join("session.jsonl");
        for _ in 0..2 {
            let mut settings = Settings::new(&path);
            settings.files = files;
            let _ = record(settings, "acp", |hop| hop.message(Way::Sent, REQUEST));
        }
        assert_eq!(lines(&path), lines(&part(&path, 1)));
    }
}

#[cfg(unix)]
#[test]
fn nobody_else_may_read_it() {
    use std::os::unix::fs::PermissionsExt;

    let path = directory("private").join("session.jsonl");
    let _ = record(Settings::new(&path), "acp", |_| {});
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
}

/// Makes a pipe that nobody reads yet. Its writer stops when it is full.
#[cfg(unix)]
fn pipe(name: &str) -> (PathBuf, fs::File) {
    let path = directory(name).join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    // For reading and writing: that waits for nobody.
    let reader = fs::File::options().read(true).write(true).open(&path).unwrap();
    (path, reader)
}

#[cfg(unix)]
#[test]
fn f67_whoever_is_recorded_never_waits_and_the_gap_is_said() {
    use std::io::Read;

    let (path, mut reader) = pipe("slow");
    let mut settings = Settings::new(&path);
    settings.buffer_bytes = 1 << 20;
    settings.patience = std::time::Duration::from_secs(30);
    let recording = Recording::start(settings).unwrap();
    let hop = open(&recording, "acp");
    const MESSAGES: u64 = 50_000;
    // If one of them waited, this would never end.
    for _ in 0..MESSAGES {
        hop.message(Way::Sent, REQUEST);
    }
    let read = std::thread::spawn(move || {
        let mut text = Vec::new();
        while !text.ends_with(b"}}\n") || !text.windows(7).any(|it| it == b"{\"end\":") {
            let mut chunk = [0; 1 << 16];
            let read = reader.read(&mut chunk).unwrap();
            text.extend_from_slice(&chunk[..read]);
        }
        text
    });
    let recorded = recording.finish();
    assert!(recorded.error.is_none(), "{:?}", recorded.error);
    assert!(recorded.dropped > 0);
    assert_eq!(recorded.lines + recorded.dropped, MESSAGES);
    let text = read.join().unwrap();
    let mut reader = Reader::new(&*text);
    let (mut sent, mut dropped) = (0, 0);
    while let Some(line) = reader.line().unwrap() {
        match line {
            Line::Message(message) => sent += message.parts.len() as u64,
            Line::Dropped(gap) => {
                assert!(gap.until >= gap.t);
                assert_eq!(gap.bytes, gap.lines * REQUEST.len() as u64);
                dropped += gap.lines;
            }
            Line::End(end) => assert_eq!((end.lines, end.dropped), (sent, dropped)),
            _ => {}
        }
    }
    assert_eq!((sent, dropped), (recorded.lines, recorded.dropped));
}

#[cfg(unix)]
#[test]
fn f67_the_end_waits_no_longer_than_its_patience() {
    use std::io::{BufRead, BufReader};

    let (path, reader) = pipe("stuck");
    let mut settings = Settings::new(&path);
    settings.patience = std::time::Duration::from_millis(50);
    let mut reader = BufReader::new(reader).lines();
    let recorded = record(settings, "acp", |hop| {
        // Once the second one can be read, the first one is counted.
        for _ in 0..2 {
            hop.message(Way::Sent, REQUEST);
            assert!(reader.any(|line| line.unwrap().starts_with(r#"{"message":"#)));
        }
        (2..5_000).for_each(|_| hop.message(Way::Sent, REQUEST));
    });
    assert!(recorded.lines > 0 && recorded.dropped > 0, "{recorded:?}");
    assert_eq!(recorded.lines + recorded.dropped, 5_000);
    assert_eq!(recorded.error.unwrap().kind(), std::io::ErrorKind::TimedOut);
}

#[cfg(target_os = "linux")]
#[test]
fn f69_a_full_disk_is_said_and_everything_is_counted() {
    let error = Recording::start(Settings::new("/dev/full")).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
}

#[cfg(unix)]
#[test]
fn f69_what_could_not_be_written_is_counted() {
    let (path, reader) = pipe("closed");
    let recorded = record(Settings::new(path), "acp", |hop| {
        drop(reader);
        (0..100).for_each(|_| hop.message(Way::Sent, REQUEST));
    });
    assert_eq!((recorded.lines, recorded.dropped), (0, 100));
    assert_eq!(recorded.error.unwrap().kind(), std::io::ErrorKind::BrokenPipe);
}

#[cfg(unix)]
#[test]
fn f108_two_recorders_of_one_file_do_not_destroy_each_other() {
    let path = directory("two").join("recording.jsonl");
    let first = Recording::start(Settings::new(&path)).unwrap();
    open(&first, "lsp").message(Way::Sent, REQUEST);
    let refused = Recording::start(Settings::new(&path)).unwrap_err();
    assert_eq!(refused.to_string(), "another program records into it");
    first.finish();
    assert!(fs::read_to_string(&path).unwrap().contains(r#"{"end":"#));
    // One that has ended is kept as an older one.
    Recording::start(Settings::new(&path)).unwrap().finish();
    assert!(fs::read_to_string(part(&path, 1)).unwrap().contains(r#""kind":"request""#));
}

#[cfg(unix)]
#[test]
fn f108_a_recorder_that_rotates_keeps_its_name() {
    let path = directory("rotates").join("recording.jsonl");
    let settings = || {
        let mut settings = Settings::new(&path);
        settings.file_bytes = 1;
        settings
    };
    let first = Recording::start(settings()).unwrap();
    let hop = open(&first, "lsp");
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !part(&path, 3).exists() {
        assert!(std::time::Instant::now() < until);
        hop.message(Way::Sent, REQUEST);
        assert!(Recording::start(settings()).is_err());
    }
    let recorded = first.finish();
    assert!(recorded.error.is_none(), "{recorded:?}");
}

#[cfg(unix)]
#[test]
fn f108_a_file_that_others_can_read_is_refused_with_the_command_that_mends_it() {
    use std::os::unix::fs::PermissionsExt;

    let path = directory("readable").join("it's.jsonl");
    fs::write(&path, "somebody's").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = Recording::start(Settings::new(&path)).unwrap_err().to_string();
    let command = refused.split_once("chmod ").unwrap().1.rsplit_once(" keeps").unwrap().0;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(fs::read_to_string(&path).unwrap(), "somebody's");
    let mended =
        std::process::Command::new("sh").args(["-c", &format!("chmod {command}")]).status();
    assert!(mended.unwrap().success());
    Recording::start(Settings::new(&path)).unwrap().finish();
    assert_eq!(fs::read_to_string(part(&path, 1)).unwrap(), "somebody's");
}

#[cfg(unix)]
#[test]
fn f108_a_link_that_leads_nowhere_is_refused() {
    let path = directory("link").join("r.jsonl");
    std::os::unix::fs::symlink("nowhere", &path).unwrap();
    let refused = Recording::start(Settings::new(&path)).unwrap_err();
    assert_eq!(refused.to_string(), "it is a link that leads nowhere");
    assert!(path.is_symlink() && !path.exists());
}

#[cfg(unix)]
#[test]
fn f108_a_pipe_that_nobody_reads_is_not_waited_for() {
    let path = directory("fifo").join("fifo");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let refused = Recording::start(Settings::new(&path)).unwrap_err();
    assert_eq!(refused.to_string(), "nobody reads it");
}

const SECRET: &str = "0123456789abcdef0123456789ABCDEF";

#[test]
fn f108_an_id_that_no_protocol_allows_is_not_kept() {
    let path = directory("ids").join("recording.jsonl");
    record(Settings::new(&path), "lsp", |hop| {
        let long = format!("\"{}\"", SECRET.repeat(9));
        for id in [&*format!(r#"{{"secret":"{SECRET}"}}"#), &format!(r#"["{SECRET}"]"#), &long] {
            let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
            hop.message(Way::Received, request.as_bytes());
        }
        hop.message(Way::Received, br#"{"jsonrpc":"2.0","id":"kept","method":"m"}"#);
    });
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains(SECRET) && text.contains(r#""id":"kept""#), "{text}");
}

#[test]
fn f108_a_token_is_in_no_id_and_in_no_verdict() {
    for payloads in [Payloads::Redacted, Payloads::Kept] {
        let path = directory("token").join(format!("{payloads:?}.jsonl"));
        let mut settings = Settings::new(&path);
        settings.payloads = payloads;
        record(settings, "erlmcp", |hop| {
            let request = format!(r#"{{"jsonrpc":"2.0","id":"{SECRET}","method":"m"}}"#);
            hop.message(Way::Received, request.as_bytes());
            let id = WireId::from_json(&format!("\"{SECRET}\""));
            hop.verdict(&protocol_async::Verdict::Violation {
                violation: Violation::UnknownResponse,
                id,
            });
        });
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(SECRET), "{text}");
    }
}

/// A source without end, that counts what is read of it.
struct Endless(u8, std::rc::Rc<std::cell::Cell<usize>>);

impl std::io::Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        buffer.fill(self.0);
        self.1.set(self.1.get() + buffer.len());
        Ok(buffer.len())
    }
}

#[test]
fn f109_a_first_line_without_end_is_no_recording() {
    let read = std::rc::Rc::new(std::cell::Cell::new(0));
    let mut reader = Reader::new(std::io::BufReader::new(Endless(0, read.clone())));
    assert!(matches!(reader.line(), Err(Unread::NoRecording)));
    assert!(read.get() <= 17 << 20, "{} bytes", read.get());
}

#[test]
fn f109_a_line_that_is_too_long_is_skipped_and_the_next_one_is_read() {
    let path = directory("long").join("recording.jsonl");
    record(Settings::new(&path), "lsp", |_| ());
    let whole = fs::read_to_string(&path).unwrap();
    let (header, rest) = whole.split_once('\n').unwrap();
    let long = std::io::Read::take(Endless(b'x', Default::default()), 200 << 20);
    let input = std::io::Read::chain(std::io::Cursor::new(format!("{header}\n")), long);
    let input = std::io::Read::chain(input, std::io::Cursor::new(format!("\n{rest}")));
    let mut reader = Reader::new(std::io::BufReader::new(input));
    assert!(matches!(reader.line(), Ok(Some(Line::Recording(_)))));
    let Err(Unread::Line { line: 2, problem }) = reader.line() else { panic!("it is too long") };
    assert_eq!(problem, "it is longer than 128 MiB");
    assert!(matches!(reader.line(), Ok(Some(Line::Opened(_)))));
}

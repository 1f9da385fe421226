//! The promises of a recording to its readers and to the recorded peers, each with a witness in the file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use protocol_async::{Options, Way, relay};
use protocol_core::{
    CallOptions, CancelRefusal, Cause, CloseReason, Config, Connection, Dialect, Event, Outcome,
    Refusal, Timestamp, Violation, WireId,
};
use protocol_record::line::{Kind, Payloads, Verdict};
use protocol_record::{HopRecorder, Line, Reader, Recording, Settings, Shape, Unread};
use protocol_relay::{RelayEvent, Side};

const REQUEST: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;

/// Returns the path of a recording, in an empty directory of this test's own.
fn path(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("promises-{name}"));
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    directory.join("session.jsonl")
}

fn open(recording: &Recording, name: &str) -> HopRecorder {
    recording.recorder().hop(name, &Config::client(Dialect::ACP_V1))
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Waits until the file holds this so many times. A recording that never does so hangs the test.
fn until(path: &Path, word: &str, times: usize) {
    while text(path).matches(word).count() < times {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn f67_what_is_recorded_is_in_the_file_before_the_recording_ends() {
    let path = path("early");
    let recording = Recording::start(Settings::new(&path)).unwrap();
    let hop = open(&recording, "peer");
    for times in 1..=5 {
        hop.message(Way::Sent, REQUEST);
        until(&path, r#"{"message":"#, times);
    }
    // The writer has nothing to do any more and sleeps. It is woken for the end.
    thread::sleep(Duration::from_millis(50));
    let recorded = recording.finish();
    assert!(recorded.error.is_none(), "{recorded:?}");
    assert_eq!((recorded.lines, recorded.dropped), (5, 0));
}

#[test]
fn g08_the_room_of_what_was_written_is_there_again() {
    let path = path("room");
    let mut settings = Settings::new(&path);
    settings.buffer_bytes = 4_000;
    let recording = Recording::start(settings).unwrap();
    let hop = open(&recording, "peer");
    let long = [b'1'; 2_000];
    for times in 1..=4 {
        hop.message(Way::Sent, &long);
        until(&path, r#"{"message":"#, times);
        // The writer counts its batch until it asks for the next one.
        thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(recording.finish().dropped, 0);
}

#[test]
fn g08_a_gap_is_told_once_and_recording_goes_on_after_it() {
    let path = path("gap");
    let mut settings = Settings::new(&path);
    settings.buffer_bytes = 4_000;
    let recording = Recording::start(settings).unwrap();
    let hop = open(&recording, "peer");
    until(&path, r#"{"opened":"#, 1);
    hop.message(Way::Sent, &[b'1'; 5_000]);
    until(&path, r#"{"dropped":"#, 1);
    // A connection that finds no room is mute, and is counted beside.
    let mute = open(&recording, &"x".repeat(5_000));
    until(&path, r#"{"dropped":"#, 2);
    for times in 1..=3 {
        hop.message(Way::Sent, REQUEST);
        until(&path, r#"{"message":"#, times);
    }
    drop(mute);
    let recorded = recording.finish();
    assert_eq!((recorded.lines, recorded.dropped), (3, 2), "{}", text(&path));
    assert_eq!(text(&path).matches(r#"{"dropped":"#).count(), 2, "{}", text(&path));
}

#[test]
fn a_recording_that_is_dropped_has_an_end() {
    let path = path("dropped");
    let recording = Recording::start(Settings::new(&path)).unwrap();
    open(&recording, "peer").message(Way::Sent, REQUEST);
    drop(recording);
    assert!(text(&path).lines().last().unwrap().starts_with(r#"{"end":"#), "{}", text(&path));
}

#[test]
fn a_connection_that_is_gone_is_not_in_the_header_of_the_next_file() {
    let path = path("gone");
    let mut settings = Settings::new(&path);
    settings.file_bytes = 2_000;
    let recording = Recording::start(settings).unwrap();
    drop(open(&recording, "gone"));
    let hop = open(&recording, "here");
    let next = protocol_record::part(&path, 1);
    while !next.exists() {
        hop.message(Way::Sent, REQUEST);
        thread::sleep(Duration::from_millis(1));
    }
    let _ = recording.finish();
    let header = text(&path).lines().next().unwrap().to_owned();
    assert!(header.contains(r#""hop":"here""#) && !header.contains("gone"), "{header}");
}

#[test]
fn whoever_saw_the_messages_of_a_connection_still_sees_them() {
    let path = path("beside");
    let recording = Recording::start(Settings::new(&path)).unwrap();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = || {
        let seen = seen.clone();
        move || _ = seen.fetch_add(1, Ordering::Relaxed)
    };
    let (traced, observed) = (count(), count());
    let mut options = Options::new(Config::client(Dialect::ACP_V1));
    options.trace = Some(Box::new(move |_, _| traced()));
    options.observer = Some(Box::new(move |_| observed()));
    let mut options = recording.recorder().connection("peer", options);
    (options.trace.as_mut().unwrap())(Way::Sent, REQUEST);
    let reason = protocol_core::CloseReason::PeerGone;
    (options.observer.as_mut().unwrap())(&protocol_async::Verdict::Closed { reason });
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    drop(options);
    assert_eq!(recording.finish().lines, 2);
}

/// Returns the options of a relay that is recorded, and the number of calls of its own callbacks.
fn relay_options(recording: &Recording, dialect: Dialect) -> (relay::Options, Arc<AtomicUsize>) {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = || {
        let seen = seen.clone();
        move || _ = seen.fetch_add(1, Ordering::Relaxed)
    };
    let (traced, given, observed) = (count(), count(), count());
    let mut options = relay::Options::new(Config::server(dialect.clone()), Config::client(dialect));
    options.trace = Some(Box::new(move |_, _, _| traced()));
    options.inputs = Some(Box::new(move |_, _| given()));
    options.observer = Some(Box::new(move |_, _| observed()));
    (recording.recorder().relay(options), seen)
}

#[test]
fn what_a_relay_receives_is_recorded_once_and_each_decision_under_its_side() {
    let path = path("relay");
    let recording = Recording::start(Settings::new(&path)).unwrap();
    let (mut options, seen) = relay_options(&recording, Dialect::ACP_V1);
    (options.inputs.as_mut().unwrap())(relay::Input::Message(Side::Up, REQUEST), Timestamp::ZERO);
    (options.trace.as_mut().unwrap())(Side::Up, Way::Received, REQUEST);
    (options.trace.as_mut().unwrap())(Side::Down, Way::Sent, REQUEST);
    let id = WireId::from_json("1").unwrap();
    (options.observer.as_mut().unwrap())(Side::Down, RelayEvent::ResponseDropped { id });
    (options.inputs.as_mut().unwrap())(relay::Input::Time, Timestamp::ZERO);
    assert_eq!(seen.load(Ordering::Relaxed), 5);
    drop(options);
    let _ = recording.finish();
    let text = text(&path);
    assert_eq!(text.matches(r#"{"message":"#).count(), 2, "{text}");
    assert!(text.contains(r#""hop":"down","verdict":"response_dropped""#), "{text}");
    let time = text.lines().find(|line| line.contains(r#""input":"time""#)).unwrap();
    assert!(!time.contains("hop"), "{time}");
}

#[test]
fn what_is_unread_at_the_end_is_kept_only_where_it_can_hold_no_token() {
    let erlmcp = Dialect::named("erlmcp").unwrap();
    let (mut acp, mut broken) = (0, 0);
    for dialect in [erlmcp, Dialect::ACP_V1] {
        let path = path("unread");
        let mut settings = Settings::new(&path);
        settings.payloads = Payloads::Kept;
        let recording = Recording::start(settings).unwrap();
        let (mut options, _) = relay_options(&recording, dialect);
        let input = relay::Input::Broken(Side::Up, b"C0FFEE");
        (options.inputs.as_mut().unwrap())(input, Timestamp::ZERO);
        drop(options);
        let _ = recording.finish();
        (acp, broken) = (broken, usize::from(text(&path).contains("base64")));
    }
    assert_eq!((acp, broken), (0, 1), "the first may hold one, the second not");
}

#[test]
fn each_envelope_tells_a_cancelled_call_from_one_that_failed() {
    let kind = |dialect: Dialect, text: &str| {
        let parts = Shape::of(&dialect).parts(text);
        (parts[0].kind, parts[0].code)
    };
    let dap = |message: &str| {
        let text = format!(
            r#"{{"seq":2,"type":"response","request_seq":1,"success":false,"command":"c","message":"{message}"}}"#
        );
        kind(Dialect::DAP, &text)
    };
    assert_eq!(dap("cancelled"), (Kind::Error, Some(-32800)));
    assert_eq!(dap("failed"), (Kind::Error, None));
    let abp = Dialect::named("abp").unwrap();
    let result = |says: &str| {
        let text = format!(
            r#"{{"type":"capabilities/call-result","id":"1","payload":{{"callId":"1",{says}}}}}"#
        );
        kind(abp.clone(), &text)
    };
    assert_eq!(result(r#""success":false,"cancelled":true"#), (Kind::Error, Some(-32800)));
    assert_eq!(result(r#""success":true,"cancelled":true"#), (Kind::Result, None));
    let progress = r#"{"type":"capabilities/progress","id":"1","payload":{}}"#;
    assert_eq!(kind(abp, progress), (Kind::Notification, None));
}

#[test]
fn a_recording_of_an_older_version_is_refused_by_its_number() {
    let path = path("older");
    Recording::start(Settings::new(&path)).unwrap().finish();
    let older = text(&path).replacen(r#""version":1"#, r#""version":0"#, 1);
    assert_ne!(older, text(&path));
    let mut reader = Reader::new(older.as_bytes());
    assert!(matches!(reader.line(), Err(Unread::Version(0))));
}

#[test]
fn a_decision_without_a_reason_has_none() {
    let id = WireId::from_json("1").unwrap();
    assert_eq!(Verdict::of_relay(&RelayEvent::CancelIgnored { id }).why, None);
}

#[test]
fn every_event_of_a_relay_has_a_verdict_of_its_own() {
    let id = WireId::from_json("7").unwrap();
    let (method, reason) = (|| "m".to_owned(), Refusal::OutboxFull);
    let events = [
        RelayEvent::Violation { violation: Violation::LateResponse, id: None },
        RelayEvent::CancelDropped { method: method() },
        RelayEvent::CancelIgnored { id: id.clone() },
        RelayEvent::CancelRefused { id: id.clone(), reason: CancelRefusal::BeforeExchange },
        RelayEvent::NotificationDropped { method: method(), reason },
        RelayEvent::RequestRefused { id: id.clone(), reason },
        RelayEvent::ResponseReplaced { id: id.clone(), reason },
        RelayEvent::ResponseDropped { id: id.clone() },
        RelayEvent::WorkStopped { id: id.clone() },
        RelayEvent::TimedOut { id, cause: Cause::Deadline },
        RelayEvent::Closed { reason: CloseReason::PeerGone },
    ];
    // The enum may grow, and no match here would notice.
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocol-relay/src/event.rs");
    let source = text(&source);
    let body =
        source.split_once("pub enum RelayEvent {\n").unwrap().1.split_once("\n}\n").unwrap().0;
    let variants = body.lines().filter_map(|line| line.strip_prefix("    ")?.strip_suffix(" {"));
    let names =
        events.iter().map(|event| format!("{event:?}").split(' ').next().unwrap().to_owned());
    assert_eq!(variants.collect::<Vec<_>>(), names.collect::<Vec<_>>());

    let verdicts = events.iter().map(Verdict::of_relay);
    let verdicts: BTreeMap<_, _> = verdicts.map(|it| (it.verdict.into_owned(), it.id)).collect();
    assert_eq!(verdicts.len(), events.len(), "{verdicts:?}");
    assert!(!verdicts.contains_key("other"), "{verdicts:?}");
    assert_eq!(verdicts["stopped"].as_ref().unwrap().as_json(), "7");
}

#[test]
fn the_setup_of_a_recording_is_one_line_however_it_is_written() {
    let path = path("setup");
    let mut settings = Settings::new(&path);
    let setup = "{\r\n  \"a\": \"\\n\"\n}".to_owned();
    settings.setup = Some(serde_json::value::RawValue::from_string(setup).unwrap());
    let _ = Recording::start(settings).unwrap().finish();
    let text = text(&path);
    let mut reader = Reader::new(text.as_bytes());
    let Ok(Some(Line::Recording(header))) = reader.line() else { panic!("{text}") };
    assert_eq!(header.setup.unwrap().get(), r#"{    "a": "\n" }"#);
    assert!(matches!(reader.line(), Ok(Some(Line::End(_)))), "{text}");
}

#[test]
fn a_header_with_the_files_of_two_dialects_can_be_read() {
    let path = path("two-dialects");
    let mut settings = Settings::new(&path);
    let file = format!("\"{}\"", "x".repeat(4 << 20));
    let setup = format!("[{file},{file}]");
    settings.setup = Some(serde_json::value::RawValue::from_string(setup).unwrap());
    let _ = Recording::start(settings).unwrap().finish();
    let text = text(&path);
    assert!(matches!(Reader::new(text.as_bytes()).line(), Ok(Some(Line::Recording(_)))));
}

#[test]
fn a_token_is_withheld_on_both_sides_of_a_relay_whichever_of_them_has_operations() {
    for dialects in [["mcp-2025-06-18", "erlmcp"], ["erlmcp", "acp"]] {
        let path = path("token");
        let mut settings = Settings::new(&path);
        settings.payloads = Payloads::Kept;
        let recording = Recording::start(settings).unwrap();
        let [up, down] = dialects.map(|name| Dialect::named(name).unwrap());
        let options = relay::Options::new(Config::server(up), Config::client(down));
        let mut options = recording.recorder().relay(options);
        let result = br#"{"jsonrpc":"2.0","id":1,"result":{"cancellationToken":"C0FFEE"}}"#;
        let id = r#""0123456789abcdef0123456789ABCDEF""#;
        for side in Side::BOTH {
            let inputs = options.inputs.as_mut().unwrap();
            inputs(relay::Input::Message(side, result), Timestamp::ZERO);
            inputs(relay::Input::Broken(side, b"C0FFEE"), Timestamp::ZERO);
            (options.trace.as_mut().unwrap())(side, Way::Sent, result);
            let id = WireId::from_json(id).unwrap();
            (options.observer.as_mut().unwrap())(side, RelayEvent::ResponseDropped { id });
        }
        drop(options);
        let _ = recording.finish();
        let text = text(&path);
        assert_eq!(text.matches(r#""withheld":"operation_token""#).count(), 4, "{text}");
        assert!(!text.contains("C0FFEE") && !text.contains("base64"), "{dialects:?}: {text}");
        assert!(!text.contains(id), "{dialects:?}: {text}");
    }
}

#[test]
fn a_message_is_of_the_kind_that_the_core_reads() {
    let dap = |says: &str| format!(r#"{{"seq":9,"type":{says}}}"#);
    let abp = |says: &str| {
        format!(r#"{{"type":"capabilities/call-result","id":"1","payload":{{{says}}}}}"#)
    };
    let rpc = |says: &str| format!(r#"{{"jsonrpc":"2.0",{says}}}"#);
    let failed = r#""code":1,"message":"m""#;
    let cases = [
        ("jsonrpc", rpc(r#""id":1,"method":"m""#), Kind::Request),
        ("jsonrpc", rpc(r#""id":1,"id":2,"method":"m""#), Kind::Unreadable),
        ("jsonrpc", rpc(r#""method":"m","params":null"#), Kind::Notification),
        ("jsonrpc", rpc(r#""id":1,"method":null,"result":1"#), Kind::Result),
        ("jsonrpc", r#"[[1,"m",{"a":1},null,null]]"#.into(), Kind::Unreadable),
        ("jsonrpc", rpc(r#""id":1,"result":null"#), Kind::Result),
        ("jsonrpc", rpc(&format!(r#""id":1,"error":{{{failed}}}"#)), Kind::Error),
        ("jsonrpc", rpc(&format!(r#""id":1,"result":1,"error":{{{failed}}}"#)), Kind::Unreadable),
        ("jsonrpc", rpc(r#""id":1,"result":1,"error":null"#), Kind::Result),
        ("jsonrpc", rpc(&format!(r#""id":1,"result":null,"error":{{{failed}}}"#)), Kind::Error),
        ("jsonrpc", rpc(r#""id":1,"error":[1,"m"]"#), Kind::Unreadable),
        ("jsonrpc", rpc(r#""id":1,"error":{"code":1}"#), Kind::Unreadable),
        ("lsp", rpc(r#""id":1,"method":"$/cancelRequest","params":{"id":1}"#), Kind::Request),
        ("lsp", r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#.into(), Kind::Unreadable),
        ("dap", dap(r#""request","command":"initialize","event":1,"arguments":{}"#), Kind::Request),
        ("dap", r#"{"type":"request","command":"c"}"#.into(), Kind::Unreadable),
        ("dap", dap(r#""event","event":"e","command":"x""#), Kind::Notification),
        ("dap", dap(r#""event","command":"x""#), Kind::Unreadable),
        ("dap", dap(r#""response","request_seq":1,"command":"m","success":true"#), Kind::Result),
        ("dap", dap(r#""response","request_seq":1,"command":"m","success":1"#), Kind::Unreadable),
        ("abp", r#"{"type":"initialize","id":"1","payload":{}}"#.into(), Kind::Request),
        ("abp", abp(r#""success":true,"error":{}"#), Kind::Result),
        ("abp", abp(r#""error":{"code":"X"}"#), Kind::Error),
        ("abp", abp(r#""error":{}"#), Kind::Unreadable),
        ("abp", abp(r#""success":true,"success":true"#), Kind::Unreadable),
    ];
    for (dialect, message, kind) in cases {
        let dialect = Dialect::named(dialect).unwrap();
        assert_eq!(Shape::of(&dialect).parts(&message)[0].kind, kind, "recorder: {message}");
        assert_eq!(kind_in_core(dialect, &message), kind, "core: {message}");
    }
}

/// Returns the kind that the core takes a message for, with a call of `m` in flight. Its id is 1.
fn kind_in_core(dialect: Dialect, message: &str) -> Kind {
    let mut connection = Connection::<(), ()>::new(Config::server(dialect));
    connection.call("m", None, (), CallOptions::default(), Timestamp::ZERO).unwrap();
    let sent = connection.poll_transmit(&mut Vec::new());
    assert!(sent.is_some());
    match connection.receive(message.as_bytes(), Timestamp::ZERO) {
        Some(Event::Request { .. }) => Kind::Request,
        Some(Event::Notification { .. }) => Kind::Notification,
        Some(Event::Settled { outcome: Outcome::Result(_), .. }) => Kind::Result,
        Some(Event::Settled { outcome: Outcome::Error(_), .. }) => Kind::Error,
        Some(Event::Violation { .. }) => Kind::Unreadable,
        event => panic!("{message}: {event:?}"),
    }
}

#[test]
fn a_cancel_that_names_two_requests_cancels_the_last_one_as_in_the_core() {
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1,"id":2}}"#;
    let shape = Shape::of(&Dialect::LSP_3_17);
    assert_eq!(shape.parts(cancel)[0].cancels.as_ref().unwrap().as_json(), "2");
    let mut connection = Connection::<(), ()>::new(Config::server(Dialect::LSP_3_17));
    let requests = [1, 2].map(|id| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#);
        match connection.receive(text.as_bytes(), Timestamp::ZERO) {
            Some(Event::Request { request, .. }) => request,
            event => panic!("{event:?}"),
        }
    });
    let event = connection.receive(cancel.as_bytes(), Timestamp::ZERO);
    assert!(matches!(event, Some(Event::Cancelled { request, .. }) if request == requests[1]));
}

#[cfg(unix)]
#[test]
fn a_file_that_takes_the_place_of_another_has_its_header_before() {
    let path = path("header");
    let mut settings = Settings::new(&path);
    (settings.file_bytes, settings.files) = (1, 1);
    let recording = Recording::start(settings).unwrap();
    let hop = open(&recording, "peer");
    hop.message(Way::Sent, REQUEST);
    until(&path, r#"{"message":"#, 1);
    // No file can take the place of a folder, so the next one stays where it was made.
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    hop.message(Way::Sent, REQUEST);
    assert!(recording.finish().error.is_some());
    let next = text(&path.with_file_name(".session.jsonl.rescind-next"));
    assert!(matches!(Reader::new(next.as_bytes()).line(), Ok(Some(Line::Recording(_)))), "{next}");
}

#[test]
fn a_recorder_removes_only_files_of_its_own() {
    let path = path("next");
    let theirs = path.with_file_name("session.jsonl.next");
    fs::write(&theirs, "theirs").unwrap();
    // A recorder that was killed may have left this.
    let left = path.with_file_name(".session.jsonl.rescind-next");
    fs::write(&left, "half a line").unwrap();
    for _ in 0..2 {
        let recorded = Recording::start(Settings::new(&path)).unwrap().finish();
        assert!(recorded.error.is_none(), "{recorded:?}");
    }
    assert_eq!(text(&theirs), "theirs");
    assert!(!left.exists());
    assert!(text(&path).starts_with(r#"{"recording":"#));
}

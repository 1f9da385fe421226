//! The promises of a recording to its readers and to the recorded peers, each with a witness in the file.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use protocol_async::{Options, Way, relay};
use protocol_core::{Config, Dialect, Timestamp, WireId};
use protocol_record::line::{Kind, Payloads, Verdict};
use protocol_record::{HopRecorder, Reader, Recording, Settings, Shape, Unread};
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

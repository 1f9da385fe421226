//! The content of the screen, without a terminal.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::draw::draw;
use super::state::Live;
use crate::view::files::Flaws;

const HEADER: &str = r#"{"recording":{"version":1,"by":"x","program":"clangd","start":"2026-01-01T00:00:00Z","part":1,"payloads":"kept","hops":[{"t":0,"hop":"down","role":"client","dialect":"lsp"}]}}"#;

/// A state machine, and all that happens to it.
struct Screen(Live);

impl Screen {
    fn new(most: usize) -> Self {
        let mut screen = Self(Live::new(most, None, String::new()));
        screen.line(HEADER);
        screen
    }

    fn line(&mut self, line: &str) {
        self.0.line(&serde_json::from_str(line).unwrap());
    }

    /// Sends a request at that microsecond.
    fn asks(&mut self, t: u64, id: u64, method: &str) {
        self.message(t, "sent", &format!(r#"{{"kind":"request","id":{id},"method":{method:?}}}"#));
    }

    fn answers(&mut self, t: u64, id: u64) {
        self.message(t, "received", &format!(r#"{{"kind":"result","id":{id}}}"#));
    }

    fn message(&mut self, t: u64, dir: &str, part: &str) {
        self.line(&format!(
            r#"{{"message":{{"t":{t},"hop":"down","dir":"{dir}","bytes":9,"parts":[{part}],"text":"text of {t}"}}}}"#
        ));
    }

    /// Moves the time to so many milliseconds after the recording began.
    fn tick(&mut self, millis: u64) {
        let start = humantime::parse_rfc3339("2026-01-01T00:00:00Z").unwrap();
        self.0.tick(start + Duration::from_millis(millis));
        self.0.refresh();
    }

    fn key(&mut self, code: KeyCode) {
        self.0.key(KeyEvent::new(code, KeyModifiers::NONE));
        self.0.refresh();
    }

    fn types(&mut self, text: &str) {
        text.chars().for_each(|c| self.key(KeyCode::Char(c)));
    }

    fn seen(&self) -> String {
        self.seen_at(110, 16)
    }

    fn seen_at(&self, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(&self.0, frame)).unwrap();
        terminal.backend().to_string()
    }

    /// Returns the one line of the screen that has this in it, with single spaces.
    #[track_caller]
    fn row(&self, part: &str) -> String {
        let seen = self.seen();
        let rows: Vec<&str> = seen.lines().filter(|line| line.contains(part)).collect();
        assert_eq!(rows.len(), 1, "{part} in\n{seen}");
        let words: Vec<&str> = rows[0].trim_matches('"').split_whitespace().collect();
        words.join(" ")
    }

    #[track_caller]
    fn shows(&self, parts: &[&str], not: &[&str]) {
        let seen = self.seen();
        assert!(parts.iter().all(|part| seen.contains(part)), "{parts:?} in\n{seen}");
        assert!(!not.iter().any(|part| seen.contains(part)), "none of {not:?} in\n{seen}");
    }
}

#[test]
fn a_request_in_flight_grows_in_place_until_it_is_answered() {
    let mut screen = Screen::new(100);
    screen.asks(1_000, 1, "slow");
    screen.asks(2_000, 2, "quick");
    screen.answers(5_000, 2);
    screen.tick(11);
    assert_eq!(screen.row("slow"), "1.000 ms down --> slow 10.000 ms in flight");
    assert_eq!(screen.row("quick"), "2.000 ms down --> quick 3.000 ms result");
    screen.tick(21);
    assert_eq!(screen.row("slow"), "1.000 ms down --> slow 20.000 ms in flight");
    screen.message(22_000, "sent", r#"{"kind":"cancel","cancels":1}"#);
    screen.tick(24);
    assert_eq!(screen.row("slow"), "1.000 ms down --> slow 23.000 ms cancelling 2.000 ms");
    screen.message(25_000, "received", r#"{"kind":"error","id":1,"code":-32800}"#);
    screen.tick(99);
    assert_eq!(screen.row("slow"), "1.000 ms down --> slow 24.000 ms cancelled 3.000 ms");
    assert!(
        screen.row("2 requests").starts_with("2 requests: 0 in flight, 1 cancelled, 0 late; p50")
    );
}

#[test]
fn warnings_have_names() {
    let mut screen = Screen::new(100);
    for (id, method) in [(1, "stuck"), (2, "ignored"), (3, "tardy"), (4, "fine")] {
        screen.asks(id, id, method);
    }
    screen.message(10, "sent", r#"{"kind":"cancel","cancels":2}"#);
    screen.line(r#"{"verdict":{"t":20,"hop":"down","verdict":"settled","id":3,"outcome":"timed_out","cause":"deadline"}}"#);
    screen.answers(30, 3);
    screen.line(
        r#"{"verdict":{"t":30,"hop":"down","verdict":"violation","id":3,"why":"late_response"}}"#,
    );
    screen.answers(40, 4);
    screen.tick(10_001);
    assert!(screen.row(" stuck ").ends_with("in flight stuck"));
    assert!(screen.row(" ignored  ").ends_with("ignored cancel"));
    assert!(screen.row(" tardy ").ends_with("timed_out deadline late"));
    assert!(screen.row(" fine ").ends_with("result"));

    // The server asks for something on behalf of a request, and answers that first.
    let mut screen = Screen::new(100);
    screen.asks(1, 1, "asked");
    screen.message(2, "received", r#"{"kind":"request","id":1,"method":"left behind"}"#);
    screen.answers(3, 1);
    screen.tick(1);
    assert!(screen.row("left behind").ends_with("in flight orphan"));
}

#[test]
fn the_newest_stays_selected_while_it_is_followed() {
    let mut screen = Screen::new(100);
    for id in 0..40 {
        screen.asks(id, id, &format!("method-{id}."));
    }
    screen.tick(1);
    screen.shows(&["method-39.", "following"], &["method-20."]);
    screen.key(KeyCode::Home);
    screen.shows(&["method-0."], &["method-39.", "following"]);
    screen.asks(50, 50, "method-50.");
    screen.tick(2);
    screen.shows(&["method-0."], &["method-50."]);
    screen.types("jjj");
    screen.key(KeyCode::PageDown);
    assert_eq!(screen.0.place(), 13);
    screen.key(KeyCode::Up);
    assert_eq!(screen.0.place(), 12);
    screen.types("f");
    screen.shows(&["method-50.", "following"], &[]);
    screen.key(KeyCode::Up);
    screen.asks(51, 51, "method-51.");
    screen.tick(3);
    assert_eq!(screen.0.selected().unwrap().method, "method-39.");
    screen.key(KeyCode::End);
    screen.asks(52, 52, "method-52.");
    screen.tick(4);
    assert_eq!(screen.0.selected().unwrap().method, "method-52.");
}

#[test]
fn a_filter_is_typed_and_what_is_wrong_with_it_is_said() {
    let mut screen = Screen::new(100);
    screen.asks(1, 1, "tools/call");
    screen.asks(2, 2, "ping");
    screen.tick(1);
    // Letters are letters here, also those of keys.
    screen.types("/~m tools/* & ~lat");
    screen.key(KeyCode::Enter);
    screen.shows(&["there is no operator ~lat", "             ^", "ping", "tools/call"], &[]);
    for _ in 0..7 {
        screen.key(KeyCode::Backspace);
    }
    screen.key(KeyCode::Enter);
    screen.shows(&["tools/call", "/~m tools/*  Enter", "the filter shows 1"], &["ping", "~lat"]);
    screen.asks(3, 3, "tools/list");
    screen.tick(2);
    screen.shows(&["tools/call", "tools/list"], &["ping"]);
    screen.types("/nothing");
    screen.key(KeyCode::Esc);
    screen.shows(&["tools/call", "/~m tools/*"], &["ping", "nothing"]);
    screen.types("/ | ping");
    screen.key(KeyCode::Enter);
    screen.shows(&["tools/call", "ping"], &[]);
}

#[test]
fn the_selected_request_stands_out_and_no_other() {
    use ratatui::style::Modifier;

    let mut screen = Screen::new(100);
    for (id, method) in [(1, "first"), (2, "second"), (3, "third")] {
        screen.asks(id, id, method);
    }
    screen.tick(1);
    screen.key(KeyCode::Up);
    let mut terminal = Terminal::new(TestBackend::new(110, 16)).unwrap();
    terminal.draw(|frame| draw(&screen.0, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| -> String { (0..110).map(|x| buffer[(x, y)].symbol()).collect() };
    let stands_out = |y: &u16| buffer[(0, *y)].modifier.contains(Modifier::REVERSED);
    let lines: Vec<String> = (0..16).filter(stands_out).map(line).collect();
    assert!(lines.len() == 1 && lines[0].contains("second"), "{lines:?}");
}

#[test]
fn the_time_is_that_of_the_last_message_at_least() {
    let mut screen = Screen::new(100);
    screen.asks(1_000, 1, "m");
    screen.answers(2_500_000, 1);
    screen.shows(&["2500.000 ms"], &[]);
}

#[test]
fn g08_what_is_typed_is_bounded() {
    let mut screen = Screen::new(100);
    screen.tick(1);
    screen.types("/");
    screen.types(&"ü".repeat(1_001));
    assert_eq!(screen.seen_at(1_100, 16).matches('ü').count(), 1_000);
}

#[test]
fn a_request_is_opened_with_its_messages_and_those_of_what_was_made_for_it() {
    let mut screen = Screen::new(100);
    screen.asks(1_000, 1, "other");
    screen.answers(1_500, 1);
    screen.asks(2_000, 2, "asked");
    screen.message(3_000, "received", r#"{"kind":"request","id":7,"method":"nested"}"#);
    screen.answers(4_000, 2);
    screen.tick(5);
    screen.key(KeyCode::Up);
    screen.key(KeyCode::Enter);
    screen.shows(
        &[
            "asked 2  result",
            "(recorded here)",
            "request 2 asked --",
            "request 7 nested --",
            "text of 4000",
        ],
        &["other", "text of 1000"],
    );
    screen.key(KeyCode::End);
    screen.shows(&["text of 4000"], &["request 2 asked"]);
    screen.key(KeyCode::Up);
    screen.shows(&["result 2 --"], &[]);
    screen.key(KeyCode::Esc);
    screen.shows(&["other", "duration"], &["text of"]);
}

#[test]
fn while_it_is_paused_its_clock_stands_still() {
    let mut screen = Screen::new(100);
    screen.asks(0, 1, "m");
    screen.tick(5);
    screen.types("p");
    screen.tick(500);
    assert!(screen.0.is_paused);
    screen.shows(&["5.000 ms", "paused"], &["500.000 ms", "following"]);
    screen.types("p");
    screen.tick(501);
    screen.shows(&["501.000 ms", "following"], &["paused"]);
}

#[test]
fn what_has_ended_stands_still_and_another_recording_begins_anew() {
    let mut screen = Screen::new(100);
    screen.types("/m");
    screen.key(KeyCode::Enter);
    screen.asks(0, 1, "m-never");
    screen.line(r#"{"end":{"t":9000,"lines":1,"dropped":0}}"#);
    screen.tick(500);
    screen.shows(&["9.000 ms", "ended", "unanswered", "1 never answered"], &["500.000 ms"]);
    screen.line(&HEADER.replace("2026-01-01", "2026-01-02").replace("clangd", "pyright"));
    screen.tick(501);
    screen.shows(&["pyright", "0 requests", "/m  "], &["clangd", "m-never", "ended"]);
    // A later file of the same recording is no other one.
    screen.asks(0, 1, "m-again");
    screen.line(&HEADER.replace("2026-01-01", "2026-01-02").replace(r#""part":1"#, r#""part":2"#));
    screen.tick(502);
    screen.shows(&["m-again"], &[]);
}

#[test]
fn g08_only_so_many_requests_that_are_done_are_kept() {
    let mut screen = Screen::new(100);
    screen.asks(0, 0, "open");
    for id in 1..=10_000 {
        screen.asks(id, id, "m");
        screen.answers(id, id);
        assert!(screen.0.pairing.rows().len() <= 126);
    }
    screen.tick(100);
    let first = screen.0.texts.of(1).len();
    let last = screen.0.texts.of(10_000).len();
    assert_eq!((first, last), (0, 2), "messages are forgotten with their request");
    screen.key(KeyCode::Home);
    screen.shows(&["open", "10001 requests: 1 in flight"], &[]);
}

#[test]
fn f68_what_a_peer_wrote_is_shown_and_not_obeyed() {
    let mut screen = Screen::new(100);
    let hostile = r"a\u001b]52;c;aGk=\u0007\u009b2J\u202e";
    screen.message(
        1,
        "sent",
        &format!(r#"{{"kind":"request","id":"{hostile}","method":"{hostile}"}}"#),
    );
    screen.line(&format!(r#"{{"message":{{"t":2,"hop":"down","dir":"received","bytes":9,"parts":[{{"kind":"result","id":"{hostile}"}}],"text":"{hostile}"}}}}"#));
    screen.tick(1);
    let table = screen.seen_at(200, 20);
    screen.key(KeyCode::Enter);
    let messages = screen.seen_at(200, 20);
    for seen in [table, messages] {
        assert!(seen.contains(r"a\u001b]52;c;aGk=\u0007\u009b2J\u202e"), "{seen}");
        assert!(!seen.contains(|c: char| c != '\n' && c.is_control() || c == '\u{202e}'), "{seen}");
    }
    screen.key(KeyCode::Esc);
    screen.line(r#"{"opened":{"t":3,"hop":"a\u001b","role":"client","dialect":"lsp"}}"#);
    screen.line(r#"{"message":{"t":4,"hop":"a\u001b","dir":"sent","bytes":9,"parts":[{"kind":"request","id":1,"method":"m"}]}}"#);
    screen.tick(1);
    screen.key(KeyCode::End);
    screen.key(KeyCode::Enter);
    let seen = screen.seen_at(200, 20);
    assert!(seen.contains(r"a\u001b") && seen.contains("|----- request 1 m ---"), "{seen}");
}

#[test]
fn what_is_wrong_with_the_recording_is_said() {
    let mut screen = Screen::new(100);
    screen.line(r#"{"dropped":{"t":1,"until":2,"lines":7,"bytes":9}}"#);
    let flaws =
        Flaws { unreadable: 1, first: Some("line 2: bad".into()), gone: 3, ..Flaws::default() };
    screen.0.flaws(&flaws);
    screen.tick(1);
    screen.shows(&["files before these are gone: 3; lines that were not recorded"], &[]);
    assert!(screen.seen_at(250, 9).contains("none of a recording: 1 (line 2: bad)"));
}

#[test]
fn keys_are_listed_and_quit_from_everywhere() {
    for before in ["", "?", "p", "?x"] {
        let mut screen = Screen::new(100);
        screen.types(before);
        screen.types("q");
        assert!(screen.0.is_over, "{before}");
    }
    let mut screen = Screen::new(100);
    screen.types("?");
    assert!(screen.seen_at(110, 24).contains("it has been in flight for more than 10 s"));
    screen.types("x/q");
    assert!(!screen.0.is_over, "it is a letter of a filter");
    screen.0.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(screen.0.is_over);
}

#[test]
fn a_screen_of_any_size_is_drawn() {
    let mut screen = Screen::new(100);
    screen.asks(1, 1, "日本語\u{1f642}");
    screen.tick(1);
    for code in [KeyCode::Home, KeyCode::Enter, KeyCode::End, KeyCode::Char('?')] {
        screen.key(code);
        for (width, height) in [(1, 1), (2, 3), (300, 1), (1, 100), (79, 5)] {
            screen.seen_at(width, height);
        }
    }
}

/// Panics on a terminal; the test below starts it there.
#[cfg(target_os = "linux")]
#[test]
fn panics_on_a_terminal() {
    if std::env::var_os("PANICS_ON_A_TERMINAL").is_none() {
        return;
    }
    let _ = super::on_terminal(|_| panic!("on purpose"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_panic_restores_the_terminal_and_is_seen() {
    use std::io::Read;
    use std::process::Command;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};

    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
    let theirs = std::fs::File::options().read(true).write(true).open(name).unwrap();
    let mut command = Command::new("setsid");
    command.arg("--ctty").arg(std::env::current_exe().unwrap());
    command.args(["--exact", "view::live::tests::panics_on_a_terminal", "--nocapture"]);
    command.env("PANICS_ON_A_TERMINAL", "1");
    command.stdin(theirs.try_clone().unwrap()).stdout(theirs.try_clone().unwrap());
    command.stderr(theirs.try_clone().unwrap());
    let mut child = command.spawn().unwrap();
    drop(command);
    let reader = std::thread::spawn({
        let mut ours = std::fs::File::from(ours);
        move || {
            let mut seen = Vec::new();
            // A terminal that everybody has left ends with an error.
            let _ = ours.read_to_end(&mut seen);
            String::from_utf8_lossy(&seen).into_owned()
        }
    });
    assert!(!child.wait().unwrap().success());
    let modes = tcgetattr(&theirs).unwrap().local_modes;
    assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "lines are read again");
    drop(theirs);
    let seen = reader.join().unwrap();
    let entered = seen.find("\u{1b}[?1049h").unwrap();
    let left = seen.find("\u{1b}[?1049l").unwrap();
    let said = seen.find("on purpose").unwrap();
    assert!(entered < left && left < said, "{seen:?}");
}

//! `rescind serve --listen` on an open network: its end, and the clients that may connect (F47, F49).

use std::io::{BufRead, BufReader, Read, Write};
use std::iter;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket};

use crate::support::listening::{HOUR, LOCAL, Listening, UPGRADE, receive, send};
use crate::support::{self, PATIENCE, Running, rescind};

const ANYWHERE: &str = "ws://0.0.0.0:0";

/// Returns every response up to the goodbye, and the code of the goodbye.
fn rest(socket: &mut WebSocket<TcpStream>) -> (Vec<Value>, Option<CloseCode>) {
    let mut answers = Vec::new();
    loop {
        match socket.read().unwrap() {
            Message::Text(text) => answers.push(serde_json::from_str(&text).unwrap()),
            Message::Close(frame) => {
                while socket.read().is_ok() {}
                return (answers, frame.map(|frame| frame.code));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Waits until everything that was sent before has been taken.
fn settle(socket: &mut WebSocket<TcpStream>) {
    drop(settled(socket));
}

/// Does the same, and returns the responses that came before.
fn settled(socket: &mut WebSocket<TcpStream>) -> Vec<Value> {
    send(socket, 0, "echo", "[]");
    iter::from_fn(|| Some(receive(socket)).filter(|answer| answer["id"] != 0)).collect()
}

#[test]
fn f47_sigterm_lets_what_is_in_flight_finish_and_says_goodbye() {
    let server = Listening::start(&[LOCAL, "--grace", "30s"]);
    let mut socket = server.open();
    (1..=1_000).for_each(|id| send(&mut socket, id, "sleep", r#"{"ms":1000}"#));
    // On a busy machine some are done already.
    let early = settled(&mut socket);
    server.signal(Signal::TERM);
    let (answers, code) = rest(&mut socket);
    let finished =
        early.iter().chain(&answers).filter(|answer| answer["result"]["slept_ms"] == 1_000).count();
    assert_eq!((finished, code), (1_000, Some(CloseCode::Away)));
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn f47_sigterm_cancels_and_answers_what_is_not_finished_in_time() {
    let server = Listening::start(&[LOCAL, "--grace", "100ms"]);
    let mut socket = server.open();
    (1..=1_000).for_each(|id| send(&mut socket, id, "sleep", HOUR));
    settle(&mut socket);
    server.signal(Signal::TERM);
    let (answers, code) = rest(&mut socket);
    let cancelled = answers.iter().filter(|answer| answer["error"]["code"] == -32800).count();
    assert_eq!((cancelled, code), (1_000, Some(CloseCode::Away)));
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn f47_a_draining_server_takes_nobody_and_a_second_signal_ends_it() {
    let server = Listening::start(&[LOCAL, "--grace", "1h"]);
    let mut socket = server.open();
    send(&mut socket, 1, "stubborn", HOUR);
    settle(&mut socket);
    server.signal(Signal::TERM);
    // It refuses what is new as soon as it has seen the signal.
    loop {
        send(&mut socket, 2, "echo", "[]");
        if receive(&mut socket).get("error").is_some() {
            break;
        }
    }
    assert!(TcpStream::connect(server.authority()).is_err());
    server.signal(Signal::TERM);
    let said = server.end();
    assert!(said.took < PATIENCE, "{said:?}");
}

/// Writes a file with this in it, and returns its path.
fn file(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("rescind-listen-{}-{name}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    // Nobody else reads a secret.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn f47_other_machines_have_to_know_a_secret_or_everybody_may_call() {
    let said = rescind(["serve", "--listen", ANYWHERE]);
    assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{said:?}");
    assert!(said.stderr.contains("--token-file") && said.stderr.contains("--allow-anyone"));

    let mut server = Running::start(["serve", "--listen", ANYWHERE, "--allow-anyone"], &[]);
    server.says(&["warning", "--allow-anyone"]);
    server.says(&["listening on ws://0.0.0.0:"]);

    let (secret, other) = (file("secret", "correct-horse\n"), file("other", "battery-staple"));
    let server = Listening::start(&[ANYWHERE, "--token-file", secret.to_str().unwrap()]);
    let bearer = |secret: &str| format!("{UPGRADE}Authorization: Bearer {secret}\r\n");
    assert_eq!(server.status("/", UPGRADE), "HTTP/1.1 401 Unauthorized");
    assert_eq!(server.status("/", &bearer("battery-staple")), "HTTP/1.1 401 Unauthorized");
    assert_eq!(server.status("/", &bearer("correct-horse")), "HTTP/1.1 101 Switching Protocols");

    let url = server.url.clone();
    let call =
        |more: &[&str]| rescind([&["call", "--connect", &url, "echo", "[1]"], more].concat());
    assert_eq!(call(&["--token-file", secret.to_str().unwrap()]).stdout, "[1]\n");
    for more in [&[][..], &["--token-file", other.to_str().unwrap()]] {
        let said = call(more);
        assert_eq!(said.code, Some(6), "{said:?}");
        assert!(said.stderr.contains("401"), "{said:?}");
    }
    let empty = file("empty", "\n");
    let said = call(&["--token-file", empty.to_str().unwrap()]);
    assert!(said.code == Some(2) && said.stderr.contains("one line"), "{said:?}");
    [secret, other, empty].iter().for_each(|path| std::fs::remove_file(path).unwrap());
}

#[test]
fn a_unix_socket_is_served_to_its_owner_and_goes_with_the_server() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("rescind-{}.sock", std::process::id()));
    let url = format!("unix:{}", path.display());
    let mut server = Running::start(["serve", "--listen", &url], &[]);
    server.says(&["listening on unix:"]);
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let said = rescind(["call", "--connect", &url, "echo", "[1]"]);
    assert_eq!((said.code, said.stdout.as_str()), (Some(0), "[1]\n"), "{said:?}");
    let said = rescind(["call", "--connect", &url, "--cancel-after", "50ms", "sleep", HOUR]);
    assert_eq!(said.code, Some(3), "{said:?}");
    let said = rescind(["call", "--connect", &url, "--ca", "/none", "echo", "[1]"]);
    assert!(said.code == Some(2) && said.stderr.contains("--ca is for wss://"), "{said:?}");
    let taken = rescind(["serve", "--listen", &url]);
    assert!(taken.code == Some(2) && taken.stderr.contains("can't listen on unix:"), "{taken:?}");
    assert!(path.exists(), "a server that could not listen removes nothing");
    kill_process(Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap(), Signal::TERM)
        .unwrap();
    assert_eq!(server.end().code, Some(0));
    assert!(!path.exists());

    // What a server that was killed has left behind keeps nobody from listening there.
    let mut killed = Running::start(["serve", "--listen", &url], &[]);
    killed.says(&["listening on unix:"]);
    support::signal(killed.id(), Signal::KILL);
    killed.end();
    assert!(path.exists());
    let mut server = Running::start(["serve", "--listen", &url], &[]);
    server.says(&["listening on unix:"]);
    support::signal(server.id(), Signal::TERM);
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn f47_a_client_has_so_many_connections_and_no_more() {
    let server = Listening::start(&[LOCAL, "--connections-per-address", "64"]);
    let mut there: Vec<_> = (0..64).map(|_| server.open()).collect();
    assert_eq!(server.status("/", UPGRADE), "HTTP/1.1 429 Too Many Requests");
    // Those who are there are served.
    for socket in &mut there {
        settle(socket);
    }
    there.clear();
    // A place is free once the server has seen that somebody left.
    let begun = Instant::now();
    while server.status("/", UPGRADE) != "HTTP/1.1 101 Switching Protocols" {
        assert!(begun.elapsed() < PATIENCE, "no place is free");
    }
}

#[test]
fn f47_how_many_may_connect_can_be_said() {
    const TOO_MANY: &str = "HTTP/1.1 429 Too Many Requests";
    for (options, refused) in [
        (["--connections-per-address", "2"], TOO_MANY),
        (["--connections", "2"], "HTTP/1.1 503 Service Unavailable"),
    ] {
        let server = Listening::start(&[&[LOCAL][..], &options].concat());
        let _there = [server.open(), server.open()];
        assert_eq!(server.status("/", UPGRADE), refused);
    }
    let server = Listening::start(&[LOCAL, "--connections-per-address", "70"]);
    let _there: Vec<_> = (0..70).map(|_| server.open()).collect();
    assert_eq!(server.status("/", UPGRADE), TOO_MANY);
}

#[test]
fn f47_a_gone_clients_work_is_cancelled_and_its_socket_freed() {
    let server = Listening::start(&[LOCAL]);
    let mut socket = server.open();
    send(&mut socket, 1, "stubborn", HOUR);
    settle(&mut socket);
    socket.get_ref().shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(socket.get_mut().read(&mut [0; 64]).unwrap(), 0, "it is closed");
}

#[test]
#[cfg(target_os = "linux")]
fn f47_a_server_without_room_for_one_more_socket_serves_those_it_has() {
    use rustix::process::{Resource, Rlimit, prlimit};
    const TRIPS: usize = 200;
    let mut server = Listening::start(&[LOCAL]);
    let mut there = server.open();
    settle(&mut there);
    let id = server.running.id();
    let open = std::fs::read_dir(format!("/proc/{id}/fd")).unwrap();
    let open = open.map(|file| file.unwrap().file_name().to_str().unwrap().parse::<u64>().unwrap());
    let open: Vec<u64> = open.collect();
    // All below the first that is free are taken, the client's socket among them.
    let most = (0..).find(|free| !open.contains(free));
    let limit = Rlimit { current: most, maximum: most };
    prlimit(Pid::from_raw(i32::try_from(id).unwrap()), Resource::Nofile, limit).unwrap();
    let mut waiting = server.stream();
    server.running.says(&["Too many open files"]);
    for _ in 0..TRIPS {
        settle(&mut there);
    }
    drop(there);
    // Its place is free now.
    write!(waiting, "GET / HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n").unwrap();
    let mut line = String::new();
    BufReader::new(waiting).read_line(&mut line).unwrap();
    assert_eq!(line.trim_end(), "HTTP/1.1 101 Switching Protocols");
    server.signal(Signal::TERM);
    let said = server.end();
    // "(the same line 7 times more)"
    let more = said.stderr.split_once("the same line ").map_or("0", |(_, more)| more);
    let paused: usize = more.split(' ').next().unwrap().parse().unwrap();
    // Each round trip would have waited for some of these pauses.
    assert!(paused < TRIPS / 4 && said.code == Some(0), "{paused} pauses: {said:?}");
}

#[test]
fn f49_who_asks_for_something_else_is_told() {
    let server = Listening::start(&[LOCAL]);
    assert_eq!(server.status("/", ""), "HTTP/1.1 426 Upgrade Required");
    let page = format!("{UPGRADE}Origin: http://evil.com/.localhost\r\n");
    assert_eq!(server.status("/", &page), "HTTP/1.1 403 Forbidden");
}

#[test]
#[cfg(target_os = "linux")]
fn f45_a_client_that_reads_no_pongs_costs_a_server_little() {
    let server = Listening::start(&[LOCAL]);
    let mut flood = server.open();
    settle(&mut flood);
    let before = resident(&server);
    // 100,000 pings, each of which would have left a pong of 127 bytes behind.
    let ping = [&[0x89, 0x80 | 125, 0, 0, 0, 0][..], &[b'x'; 125]].concat().repeat(1_000);
    // It is sent away in the midst of them, with a goodbye if there is room for one behind the pongs. What it
    // still sends is read and thrown away.
    thread::scope(|scope| {
        let mut sending = flood.get_ref().try_clone().unwrap();
        scope.spawn(move || (0..100).all(|_| sending.write_all(&ping).is_ok()));
        while let Ok(message) = flood.read() {
            assert!(message.is_pong() || message.is_close(), "{message:?}");
        }
    });
    let mut honest = server.open();
    settle(&mut honest);
    let more = resident(&server).saturating_sub(before);
    assert!(more < 4 << 20, "{more} bytes more");
}

/// Returns the memory that a server has had at most.
#[cfg(target_os = "linux")]
fn resident(server: &Listening) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.running.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn f47_a_flood_of_one_client_does_not_keep_another_waiting() {
    let server = Listening::start(&[LOCAL]);
    let mut honest = server.open();
    let mut flood = server.open();
    send(&mut flood, 1_000, "echo", "[]");
    let answer = flood.read().unwrap().len() + 2;
    let frames: Vec<u8> = (1_000..2_000)
        .flat_map(|id| {
            let request =
                json!({ "jsonrpc": "2.0", "id": id, "method": "echo", "params": [] }).to_string();
            [&[0x81, 0x80 | u8::try_from(request.len()).unwrap(), 0, 0, 0, 0], request.as_bytes()]
                .concat()
        })
        .collect();

    // One thread asks without end, another counts the answers.
    let (mut asking, mut reading) = (flood.get_ref().try_clone().unwrap(), flood.get_ref());
    let served = AtomicUsize::new(0);
    let waited = thread::scope(|scope| {
        scope.spawn(move || while asking.write_all(&frames).is_ok() {});
        scope.spawn(|| {
            let mut room = [0; 4_096];
            while let Ok(read @ 1..) = reading.read(&mut room) {
                served.fetch_add(read, Relaxed);
            }
        });
        let begun = Instant::now();
        while served.load(Relaxed) < 1_000 * answer && begun.elapsed() < PATIENCE {
            thread::yield_now();
        }
        let is_served = served.load(Relaxed) >= 1_000 * answer;
        // How many of its requests are served in a round trip of the other's: the machine may be slow,
        // so no clock is asked.
        let mut waited: Vec<usize> = (0..if is_served { 100 } else { 0 })
            .map(|_| {
                let before = served.load(Relaxed);
                settle(&mut honest);
                (served.load(Relaxed) - before) / answer
            })
            .collect();
        flood.get_ref().shutdown(std::net::Shutdown::Both).unwrap();
        waited.sort_unstable();
        waited
    });
    println!("{waited:?}");
    assert_eq!(waited.len(), 100, "the flood was never served");
    assert!(waited[50] <= 64, "behind so many requests of a flood: {waited:?}");
}

#[test]
fn f100_clients_that_reconnect_and_break_rules_write_little_of_the_log() {
    const FLOOD: Duration = Duration::from_secs(5);
    let server = Listening::start(&[LOCAL]);
    let until = Instant::now() + FLOOD;
    let sent = AtomicUsize::new(0);
    thread::scope(|scope| {
        for client in 0..8 {
            let (url, authority, sent) = (&*server.url, server.authority(), &sent);
            scope.spawn(move || {
                // As long as an id may be: without one all lines were the same.
                let long = "z".repeat(200);
                while Instant::now() < until {
                    // A refusal is one more line, and so is a hang-up.
                    let stream = TcpStream::connect(authority).unwrap();
                    stream.set_read_timeout(Some(PATIENCE)).unwrap();
                    let Ok((mut socket, _)) = tungstenite::client(url, stream) else { continue };
                    for number in 0..100 {
                        let id = format!("{client} {number} {long}");
                        let broken = json!({ "jsonrpc": "2.0", "id": id, "method": 7 });
                        if socket.send(Message::text(broken.to_string())).is_err() {
                            break;
                        }
                        sent.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    server.signal(Signal::INT);
    let said = server.end();
    let (sent, bytes) = (sent.load(Relaxed), said.stderr.len());
    println!("{sent} broken requests, {bytes} bytes of log");
    assert!(sent > 1_000, "{sent} broken requests");
    assert!(bytes <= 1_000_000, "{bytes} bytes of log for {sent} broken requests");
    // Every line is there, or is counted.
    let missing = said.stderr.lines().filter_map(|line| {
        line.strip_prefix('(')?
            .split_once(" more lines like this are missing")?
            .0
            .parse::<usize>()
            .ok()
    });
    assert!(missing.sum::<usize>() > sent / 2, "{}", said.stderr.len());
}

#[test]
fn f105_one_neighbour_does_not_shut_the_others_of_this_machine_out() {
    let server = Listening::start(&[LOCAL]);
    let _neighbour: Vec<_> = (0..100).map(|_| server.open()).collect();
    let mut other = server.open();
    send(&mut other, 1, "echo", "[1]");
    assert_eq!(receive(&mut other)["result"], json!([1]));
}

#[test]
fn f105_a_limit_that_is_named_holds_for_this_machine_too() {
    let server = Listening::start(&[LOCAL, "--connections-per-address", "2"]);
    let _two = [server.open(), server.open()];
    assert!(server.status("/", UPGRADE).contains("429"));
}

#[test]
fn f110_a_token_file_that_everybody_can_read_is_refused() {
    let secret = file("everybody", "secret");
    let path = secret.to_str().unwrap();
    for (mode, command) in [
        (0o644, &["serve", "--listen", LOCAL, "--token-file", path][..]),
        (0o622, &["serve", "--listen", LOCAL, "--token-file", path]),
        (0o644, &["call", "--connect", "ws://127.0.0.1:1", "--token-file", path, "m"]),
    ] {
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(mode)).unwrap();
        let said = rescind(command);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(said.stderr.contains(&format!("chmod o= '{path}'")), "{said:?}");
    }
    std::fs::remove_file(secret).unwrap();
}

#[test]
fn f110_guesses_are_slowed() {
    let secret = file("guessed", "secret");
    let server = Listening::start(&[LOCAL, "--token-file", secret.to_str().unwrap()]);
    let guess = || server.status("/", &format!("{UPGRADE}Authorization: Bearer wrong\r\n"));
    assert!(guess().contains("401"));
    let begun = Instant::now();
    assert!(guess().contains("401"));
    assert!(begun.elapsed() > Duration::from_millis(500), "{:?}", begun.elapsed());
    std::fs::remove_file(secret).unwrap();
}

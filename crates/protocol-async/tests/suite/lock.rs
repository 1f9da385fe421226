//! A command waits for at most one read: a connection is locked no longer.

use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use protocol_async::hub::Hub;
use protocol_async::{Options, Peer, Way};
use protocol_core::{Config, Dialect, InputBuffer, StreamConnection, Timestamp};

/// Returns a message that is slow to check, for it has many small values.
fn message() -> Vec<u8> {
    let values = r#"{"a":[1,2,3,{"b":"c"}],"d":null},"#.repeat(20_000);
    format!(r#"{{"jsonrpc":"2.0","method":"n","params":[{values}0]}}"#).into_bytes()
}

/// Returns the time that the core alone takes to read the message.
fn reading_alone(message: &[u8]) -> Duration {
    let mut stream: StreamConnection<()> = StreamConnection::new(Config::client(Dialect::ACP_V1));
    let mut line = message.to_vec();
    line.push(b'\n');
    let begun = Instant::now();
    assert!(stream.receive(&line, Timestamp::ZERO).event.is_some());
    begun.elapsed()
}

/// Returns a hub that reports when it has locked itself to read the first of two messages. The first is short,
/// and is traced before the hub looks at the second.
fn hub(locked: Sender<()>) -> (Hub, Peer, protocol_async::Incoming) {
    let mut options = Options::new(Config::client(Dialect::ACP_V1));
    options.trace = Some(Box::new(move |way, _| {
        if way == Way::Received {
            let _ = locked.send(());
        }
    }));
    Hub::new(options, || Timestamp::ZERO)
}

/// 15 MiB once held the lock for 69 ms. The bound is the time in which one message of `Limits::message_bytes`
/// is checked. Nothing else of weight is done under the lock.
#[test]
fn f39_a_command_waits_for_one_message_at_most() {
    let message = message();
    let mut rounds = Vec::new();
    // The best of some rounds: other programs run, too.
    for _ in 0..10 {
        let alone = reading_alone(&message);
        let (locked, is_locked) = channel();
        let (hub, peer, _incoming) = hub(locked);
        let mut input = InputBuffer::new();
        input.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"method\":\"first\"}\n");
        input.extend_from_slice(&message);
        input.extend_from_slice(b"\n");
        let waiting = thread::spawn(move || {
            is_locked.recv().unwrap();
            let begun = Instant::now();
            peer.try_notify("command", ()).unwrap();
            begun.elapsed()
        });
        let _ = hub.receive(&mut input);
        let waited = waiting.join().unwrap();
        rounds.push((waited, alone));
        if waited < 2 * alone + Duration::from_millis(2) {
            return;
        }
    }
    panic!("waited, and the core alone: {rounds:?}");
}

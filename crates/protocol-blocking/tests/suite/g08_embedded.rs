//! A host on one thread fits in 64 KiB (G8). Its heap at its worst stays under the formula, and the formula
//! under the 64 KiB. docs/memory.md has the same limits.

use std::io;
use std::time::Duration;

use heap::Heap;
use protocol_async::Options;
use protocol_blocking::single::{Host, Readiness, Ready, Transport, memory};
use protocol_blocking::{Answer, Request, Responder};
use protocol_core::{CloseReason, Config, Dialect};
use serde_json::value::to_raw_value;

/// Returns the options of a device that serves short messages, two requests at once, and makes no calls.
fn device() -> Options {
    let mut config = Config::server(Dialect::ACP_V1);
    config.limits.message_bytes = 512;
    config.limits.header_bytes = 0;
    config.limits.id_bytes = 32;
    config.limits.calls = 0;
    config.limits.requests = 2;
    config.limits.unsent_bytes = 512;
    config.limits.unsent_messages = 4;
    config.limits.batch_members = 0;
    config.limits.abandoned_ids = 0;
    config.limits.early_cancels = 0;
    config.limits.works = 0;
    let mut options = Options::new(config);
    options.inbox_bytes = 512;
    options.response_bytes = 512;
    options.result_bytes = 0;
    options.pipe_bytes = 256;
    options
}

/// The peer's end of the line. The peer sends its bytes as fast as they are read. It reads at every other turn,
/// or never.
struct Line {
    said: &'static [u8],
    left: usize,
    is_reading: bool,
    ever_reads: bool,
}

impl Transport for Line {
    fn readiness(&self) -> Readiness {
        Readiness::Told
    }

    fn wait(&mut self, interest: Ready, _: Option<Duration>) -> io::Result<Ready> {
        self.is_reading = self.ever_reads && !self.is_reading;
        Ok(Ready { read: interest.read, write: interest.write && self.is_reading })
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let at = self.said.len() - self.left;
        let read = room.len().min(self.left);
        room[..read].copy_from_slice(&self.said[at..at + read]);
        self.left -= read;
        Ok(read)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len().min(64))
    }
}

/// Returns messages of each kind that a peer can send too many of.
fn flood() -> &'static [u8] {
    let mut flood = String::new();
    for id in 0..200 {
        let (long, name) = ("x".repeat(100 + id), "m".repeat(id));
        for message in [
            format!(
                r#"{{"jsonrpc":"2.0","id":"{id}{}","method":"{name}","params":["{long}"]}}"#,
                "0".repeat(28)
            ),
            format!(r#"{{"jsonrpc":"2.0","method":"{name}","params":["{long}"]}}"#),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":7}}"#),
            format!(
                r#"{{"jsonrpc":"2.0","method":"$/cancel_request","params":{{"requestId":{id}}}}}"#
            ),
            "[".repeat(600),
        ] {
            flood.push_str(&message);
            flood.push('\n');
        }
    }
    flood.leak().as_bytes()
}

/// Responds with the params of the request, after a few checkpoints.
fn serve(request: &Request, responder: &mut dyn Responder) -> Answer {
    for _ in 0..4 {
        responder.checkpoint()?;
    }
    Ok(to_raw_value(&request.params)?)
}

#[test]
fn g08_a_device_of_64_kib() {
    let memory = memory(&device());
    assert!(memory.total() <= 64 << 10, "{memory}");

    let said = flood();
    let heap = Heap::of_thread();
    let line = Line { said, left: said.len(), is_reading: false, ever_reads: true };
    let mut host = Host::new(line, device());
    let ended = host.run(&serve);
    let peak = heap.peak();
    println!("{memory}\nat most held: {peak}");
    assert!(matches!(ended, Ok(CloseReason::PeerGone)), "{ended:?}");
    assert!(peak <= memory.total(), "{peak} bytes were held\n{memory}");
    assert!(peak > 4 << 10, "{peak}: nothing is driven");
}

#[test]
fn g08_what_is_refused_is_not_kept_for_a_peer_that_reads_nothing() {
    let mut options = device();
    options.config.limits.message_bytes = 32 << 10;
    options.config.limits.requests = 64;
    options.patience = Duration::ZERO;
    let memory = memory(&options);
    let long = "x".repeat(31 << 10);
    let requests = (0..64).map(|id| {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m","params":["{long}"]}}"#) + "\n"
    });
    let said = requests.collect::<String>().leak().as_bytes();
    assert!(memory.total() < said.len() / 2, "all of it would be too much\n{memory}");

    let heap = Heap::of_thread();
    let line = Line { said, left: said.len(), is_reading: false, ever_reads: false };
    let mut host = Host::new(line, options);
    let done = |_: &Request, _: &mut dyn Responder| -> Answer { Ok(to_raw_value(&())?) };
    let ended = host.run(&done);
    let peak = heap.peak();
    assert!(matches!(ended, Ok(CloseReason::PeerGone)), "{ended:?}");
    assert!(peak <= memory.total(), "{peak} bytes were held\n{memory}");
}

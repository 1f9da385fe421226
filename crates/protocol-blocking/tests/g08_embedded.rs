//! A host on one thread in 64 KiB: what it holds at its worst stays under the formula, and that under the
//! 64 KiB (G8). docs/memory.md has the same limits.
#![allow(unsafe_code, reason = "the counting allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io;
use std::time::Duration;

use protocol_async::Options;
use protocol_blocking::single::{Host, Readiness, Ready, Transport, memory};
use protocol_blocking::{Answer, Request, Responder};
use protocol_core::{CloseReason, Config, Dialect};
use serde_json::value::to_raw_value;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: everything is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.set(LIVE.get().wrapping_add(layout.size()));
        PEAK.set(PEAK.get().max(LIVE.get()));
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().wrapping_sub(layout.size()));
        // SAFETY: the caller keeps the promises that this asks for.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// A device that serves: short messages, two requests at once, no calls of its own.
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
    let mut options = Options::new(config);
    options.inbox_bytes = 512;
    options.pipe_bytes = 256;
    options
}

/// What the peer says, as often as it is read; it reads at every other turn.
struct Line {
    said: &'static [u8],
    left: usize,
    is_reading: bool,
}

impl Transport for Line {
    fn readiness(&self) -> Readiness {
        Readiness::Told
    }

    fn wait(&mut self, interest: Ready, _: Option<Duration>) -> io::Result<Ready> {
        self.is_reading = !self.is_reading;
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

/// Everything that a peer can send too much of.
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

/// Answers with as much as it is asked, in steps.
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
    let before = LIVE.get();
    PEAK.set(before);
    let line = Line { said, left: said.len(), is_reading: false };
    let mut host = Host::new(line, device());
    let ended = host.run(&serve);
    let peak = PEAK.get() - before;
    println!("{memory}\nat most held: {peak}");
    assert!(matches!(ended, Ok(CloseReason::PeerGone)), "{ended:?}");
    assert!(peak <= memory.total(), "{peak} bytes were held\n{memory}");
    assert!(peak > 4 << 10, "{peak}: nothing is driven");
}

//! A host on one thread over streams that are to be tried again, fail, or are gone.
#![cfg(unix)]

use crate::support;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use protocol_async::{CallError, Options, SharedOperations};
use protocol_blocking::single::{FdTransport, Host, PlainTransport, Readiness, Ready, Transport};
use protocol_blocking::{Answer, Request, Responder};
use protocol_core::{CallOptions, Cause, CloseReason, Config, Dialect, Shutdown, Timestamp};
use serde_json::{Value, json};
use support::{Wire, acp, cancel, raw, request};

fn echo(request: &Request, _: &mut dyn Responder) -> Answer {
    Ok(request.params.clone().unwrap_or_else(|| raw(&Value::Null)))
}

/// A transport on which each try ends as the test says. After those it has ended, and takes everything.
#[derive(Default)]
struct Told {
    reads: VecDeque<io::Result<String>>,
    writes: VecDeque<io::Result<usize>>,
    written: Rc<RefCell<Vec<u8>>>,
    /// The number of waits that were interested in input.
    reading: Rc<Cell<usize>>,
}

impl Transport for Told {
    fn readiness(&self) -> Readiness {
        Readiness::Told
    }

    fn wait(&mut self, interest: Ready, timeout: Option<Duration>) -> io::Result<Ready> {
        let ends = interest != Ready::default() || timeout.is_some();
        assert!(ends, "nothing would ever end this waiting");
        self.reading.set(self.reading.get() + usize::from(interest.read));
        Ok(interest)
    }

    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let text = self.reads.pop_front().unwrap_or_else(|| Ok(String::new()))?;
        room[..text.len()].copy_from_slice(text.as_bytes());
        Ok(text.len())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(written) = self.writes.pop_front() {
            return written;
        }
        self.written.borrow_mut().extend(bytes);
        Ok(bytes.len())
    }
}

/// Another process reads the same terminal, for example, or a signal came.
#[test]
fn f34_a_stream_that_is_to_be_tried_again_has_neither_ended_nor_failed() {
    use io::ErrorKind::{Interrupted, WouldBlock};
    let asked = request(1, "echo", &json!([1])) + "\n";
    let reads = [Err(Interrupted.into()), Err(WouldBlock.into()), Ok(asked)];
    let writes = [Err(WouldBlock.into()), Err(Interrupted.into())].into();
    let transport = Told { reads: reads.into(), writes, ..Told::default() };
    let written = transport.written.clone();
    let mut host = Host::new(transport, acp());
    assert_eq!(host.run(&echo).unwrap(), CloseReason::PeerGone);
    assert!(host.error().is_none(), "{:?}", host.error());
    let answer: Value = serde_json::from_slice(&written.borrow()).unwrap();
    assert_eq!(answer["result"], json!([1]));
}

#[test]
fn f34_a_stream_that_takes_nothing_has_failed() {
    let reads = [Ok(request(1, "echo", &json!([1])) + "\n")].into();
    let mut host = Host::new(Told { reads, writes: [Ok(0)].into(), ..Told::default() }, acp());
    assert_eq!(host.run(&echo).unwrap(), CloseReason::PeerGone);
    assert_eq!(host.error().unwrap().kind(), io::ErrorKind::WriteZero);
}

/// They are more than the outbox holds, and nobody will ever read them.
#[test]
fn f34_answers_for_a_peer_that_is_gone_hold_up_nobody() {
    let mut config = acp();
    config.limits.unsent_bytes = 1_000;
    let asked: String = (0..100).map(|id| request(id, "echo", &json!([1])) + "\n").collect();
    let writes = [Err(io::ErrorKind::BrokenPipe.into())].into();
    let mut host = Host::new(Told { reads: [Ok(asked)].into(), writes, ..Told::default() }, config);
    assert_eq!(host.run(&echo).unwrap(), CloseReason::PeerGone);
    assert_eq!(host.error().unwrap().kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn f34_a_read_error_ends_the_connection_and_is_told() {
    let reads = [Err(io::ErrorKind::ConnectionReset.into())];
    let mut host = Host::new(Told { reads: reads.into(), ..Told::default() }, acp());
    let lost = host.call("never answered", None, CallOptions::default()).unwrap_err();
    let CallError::ConnectionLost { cause: Cause::PeerGone, how } = lost else { panic!("{lost}") };
    assert_eq!(host.error().unwrap().kind(), io::ErrorKind::ConnectionReset);
    assert_eq!(how.map(String::from), host.error().map(ToString::to_string));
    assert_eq!(host.run(&echo).unwrap(), CloseReason::PeerGone);
}

/// More has arrived than one read takes, and the cancel comes last.
#[test]
fn g03_one_checkpoint_takes_all_that_has_arrived() {
    let reads = [
        request(1, "work", &json!([])),
        support::notification("n", &json!([])),
        support::notification("n", &json!([])),
        cancel(1),
    ];
    let reads = reads.map(|message| Ok(message + "\n")).into();
    let mut host = Host::new(Told { reads, ..Told::default() }, acp());
    let told = RefCell::new(None);
    let work = |_: &Request, responder: &mut dyn Responder| -> Answer {
        *told.borrow_mut() = responder.checkpoint().err().map(|cancelled| cancelled.cause);
        Ok(raw(&Value::Null))
    };
    host.run(&work).unwrap();
    assert_eq!(told.into_inner(), Some(Cause::Peer));
}

#[test]
fn g07_nothing_is_read_after_the_close() {
    let transport = Told::default();
    let reading = transport.reading.clone();
    let mut host = Host::new(transport, acp());
    host.notify("last", None).unwrap();
    host.shutdown(Shutdown::CancelAll);
    let reason = loop {
        if let Some(reason) = host.tick(&echo).unwrap() {
            break reason;
        }
    };
    assert_eq!((reason, reading.get()), (CloseReason::Shutdown, 0));
}

/// The reader's hang-up would end each wait at once.
#[test]
fn g07_a_reader_that_has_hung_up_does_not_end_a_wait_for_room() {
    let (reader, gone) = UnixStream::pair().unwrap();
    let (writer, _full) = UnixStream::pair().unwrap();
    drop(gone);
    writer.set_nonblocking(true).unwrap();
    while (&writer).write(&[0; 4096]).is_ok() {}
    let mut transport = FdTransport::new(&reader, &writer);
    let (begun, timeout) = (Instant::now(), Duration::from_millis(50));
    let ready = transport.wait(Ready { read: false, write: true }, Some(timeout)).unwrap();
    assert_eq!(ready, Ready::default());
    assert!(begun.elapsed() >= timeout, "it ended after {:?}", begun.elapsed());
}

#[test]
fn a_writer_with_a_buffer_is_flushed() {
    let (mut wire, stream) = Wire::pair();
    let reader = stream.try_clone().unwrap();
    let serving = thread::spawn(move || {
        Host::new(PlainTransport::new(reader, BufWriter::new(stream)), acp()).run(&echo).unwrap()
    });
    wire.request(1, "echo", &json!([1]));
    assert_eq!(wire.receive()["result"], json!([1]));
    wire.hang_up();
    assert_eq!(serving.join().unwrap(), CloseReason::PeerGone);
}

/// A writer that keeps what it takes, and at first can't flush it.
#[derive(Default)]
struct Slow {
    taken: Vec<u8>,
    has_waited: bool,
}

impl Write for &mut Slow {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.taken.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let has_waited = std::mem::replace(&mut self.has_waited, true);
        if has_waited { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }
}

#[test]
fn f34_bytes_that_are_to_be_flushed_again_are_not_written_again() {
    let mut slow = Slow::default();
    let mut transport = PlainTransport::new(io::empty(), &mut slow);
    assert_eq!(transport.write(b"one").unwrap_err().kind(), io::ErrorKind::WouldBlock);
    assert_eq!(transport.write(b"one two").unwrap(), 3);
    assert_eq!(transport.write(b" two").unwrap(), 4);
    assert_eq!(slow.taken, b"one two");
}

#[test]
fn g07_an_operation_ends_with_the_host_that_was_to_serve_it() {
    let operations = SharedOperations::new(|| Timestamp::ZERO);
    let asked = json!({"jsonrpc": "2.0", "id": 7, "method": "tool/call"});
    let answered = json!({"jsonrpc": "2.0", "id": 1, "result": null});
    let reads = [Ok(format!("{asked}\n{answered}\n"))].into();
    let transport = Told { reads, ..Told::default() };
    let mut options = Options::new(Config::server(Dialect::ERLMCP));
    options.operations = Some(operations.clone());
    let count = || {
        let mut count = 0;
        operations.for_each(|_| count += 1);
        count
    };
    let mut host = Host::new(transport, options);
    host.call("ask", None, CallOptions::default()).unwrap();
    assert_eq!(count(), 1, "requests that arrive meanwhile stay queued");
    drop(host);
    assert_eq!(count(), 0);
}

//! A relay that does everything right, but for one planted fault. It is the core's own relay, and its input and
//! output are tampered with.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Instant;

use protocol_core::{Config, Dialect, Framing, InputBuffer, Timestamp};
use protocol_relay::{Relay, Side};

use super::dap;
use super::tamper::{BEAT, Fault, Route, Tamper};

/// The header of the content type, and the beginning of that of the length.
const TYPED: &str = "Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: ";

/// Relays between a client and a server until both have hung up.
pub(crate) fn relay(fault: Fault, [up, down]: [Dialect; 2], near: TcpStream, far: TcpStream) {
    let (said, heard) = channel();
    let streams = [near, far];
    for (side, stream) in Side::BOTH.into_iter().zip(&streams) {
        let (stream, said) = (stream.try_clone().expect("it has a second handle"), said.clone());
        thread::spawn(move || read(side, stream, &said));
    }
    let framings = [up.framing, down.framing];
    let core = Relay::new(Config::server(up), Config::client(down));
    let tamper = Tamper::new(fault);
    let inputs = [InputBuffer::new(), InputBuffer::new()];
    let lines = [Vec::new(), Vec::new()];
    let mut hop = Hop {
        core,
        tamper,
        inputs,
        lines,
        framings,
        streams,
        ended: [false; 2],
        begun: Instant::now(),
    };
    while hop.ended != [true; 2] {
        let due = hop.core.poll_timeout().map(|(due, _)| due.since(hop.now()));
        let goes_on = match heard.recv_timeout(due.unwrap_or(BEAT).min(BEAT)) {
            Ok((side, Some(chunk))) => hop.take(side, &chunk),
            Ok((side, None)) => hop.end(side),
            Err(RecvTimeoutError::Timeout) => {
                hop.core.handle_timeout(hop.now());
                hop.beat()
            }
            Err(RecvTimeoutError::Disconnected) => None,
        };
        if goes_on.is_none() {
            break;
        }
        hop.flush();
    }
    while hop.tamper.beats() && hop.beat().is_some() {
        thread::sleep(BEAT);
    }
    for stream in &hop.streams {
        // Its reader has a handle too; the other side may be gone.
        let _ = stream.shutdown(Shutdown::Both);
    }
}

fn read(side: Side, mut stream: TcpStream, said: &Sender<(Side, Option<Vec<u8>>)>) {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let chunk = match stream.read(&mut buffer) {
            Ok(0) | Err(_) => None,
            Ok(len) => Some(buffer[..len].to_vec()),
        };
        let is_over = chunk.is_none();
        if said.send((side, chunk)).is_err() || is_over {
            return;
        }
    }
}

struct Hop {
    core: Relay,
    tamper: Tamper,
    inputs: [InputBuffer; 2],
    /// By side, the beginning of a line.
    lines: [Vec<u8>; 2],
    framings: [Framing; 2],
    streams: [TcpStream; 2],
    ended: [bool; 2],
    begun: Instant,
}

impl Hop {
    fn now(&self) -> Timestamp {
        let millis = self.begun.elapsed().as_millis();
        Timestamp::from_millis(u64::try_from(millis).expect("a test is short"))
    }

    /// Takes bytes from a side. Returns `None` if the fault ends it all.
    fn take(&mut self, side: Side, chunk: &[u8]) -> Option<()> {
        let chunk = self.tamper.chunk(side, chunk)?;
        if self.framings[side as usize] == Framing::ContentLength {
            self.feed(side, &chunk);
            return Some(());
        }
        for part in chunk.split_inclusive(|&byte| byte == b'\n') {
            let line = &mut self.lines[side as usize];
            line.extend_from_slice(part);
            if line.last() == Some(&b'\n') {
                let mut line = std::mem::take(line);
                line.pop();
                let tampered = self.tamper.incoming(side, line)?;
                self.carry_out(side, tampered);
            }
        }
        Some(())
    }

    fn carry_out(&mut self, from: Side, tampered: Vec<(Route, Vec<u8>)>) {
        for (route, message) in tampered {
            match route {
                Route::Relay => self.feed(from, &[&message[..], b"\n"].concat()),
                Route::To(side) => self.write(side, &[&message[..], b"\n"].concat()),
            }
        }
    }

    fn feed(&mut self, side: Side, bytes: &[u8]) {
        let now = self.now();
        self.inputs[side as usize].extend_from_slice(bytes);
        loop {
            let consumed =
                self.core.receive(side, self.inputs[side as usize].unread(), now).consumed;
            self.inputs[side as usize].consume(consumed);
            self.flush();
            if consumed == 0 {
                return;
            }
        }
    }

    fn end(&mut self, side: Side) -> Option<()> {
        self.ended[side as usize] = true;
        if !self.tamper.passes_end(side)? {
            return Some(());
        }
        let now = self.now();
        let unread = self.inputs[side as usize].unread().to_vec();
        self.core.handle_eof(side, &unread, now);
        self.flush();
        // The other side may be gone already.
        let _ = self.streams[side.other() as usize].shutdown(Shutdown::Write);
        Some(())
    }

    fn flush(&mut self) {
        for side in Side::BOTH {
            let mut out = Vec::new();
            while self.core.poll_transmit(side, &mut out).is_some() {
                let message = std::mem::take(&mut out);
                match self.framings[side as usize] {
                    Framing::ContentLength => self.write_with_header(side, &message),
                    _ => {
                        let line = message.strip_suffix(b"\n").unwrap_or(&message).to_vec();
                        for (to, message) in self.tamper.outgoing(side, line) {
                            self.write(to, &[&message[..], b"\n"].concat());
                        }
                    }
                }
            }
        }
        while self.core.poll_event().is_some() {}
    }

    /// Writes a message behind a header. Only messages with numbers are tampered with there.
    fn write_with_header(&mut self, side: Side, message: &[u8]) {
        let body = message.windows(4).position(|bytes| bytes == b"\r\n\r\n").map(|at| at + 4);
        let value = serde_json::from_slice(&message[body.unwrap_or(0)..]);
        match value {
            Ok(value) if self.tamper.fault != Fault::Nothing => {
                if let Some(value) = dap::outgoing(self.tamper.fault, side, value) {
                    let text = value.to_string();
                    let header = match self.tamper.fault {
                        Fault::WritesContentType => TYPED,
                        Fault::WritesSmallHeaders => "content-length: ",
                        _ => "Content-Length: ",
                    };
                    let framed = format!("{header}{}\r\n\r\n{text}", text.len());
                    self.write(side, framed.as_bytes());
                }
            }
            _ => self.write(side, message),
        }
    }

    /// Tells both sides that the relay is alive, if it does that. Returns `None` if nobody listens any more.
    fn beat(&mut self) -> Option<()> {
        let beat = b"{\"jsonrpc\":\"2.0\",\"method\":\"alive\"}\n";
        let hears = self.streams.iter_mut().filter_map(|stream| stream.write_all(beat).ok());
        if self.tamper.beats() { hears.last() } else { Some(()) }
    }

    fn write(&mut self, side: Side, bytes: &[u8]) {
        // Whoever is gone is seen by the end of what it says.
        let _ = self.streams[side as usize].write_all(bytes);
    }
}

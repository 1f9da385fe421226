//! The single-threaded host has no second thread: not even a test runner's, so this is a program of
//! its own.

#[cfg(target_os = "linux")]
fn main() {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use protocol_blocking::single::{FdTransport, Host};
    use protocol_blocking::{Answer, Request, Responder};
    use protocol_core::{Config, Dialect};
    use serde_json::value::to_raw_value;

    fn threads() -> usize {
        std::fs::read_dir("/proc/self/task").expect("Linux has it").count()
    }

    fn handler(_: &Request, responder: &mut dyn Responder) -> Answer {
        let before = threads();
        // The cancel is in the socket's buffer: the first checkpoint that may read sees it.
        let cancelled = responder.checkpoint().is_err();
        Ok(to_raw_value(&(before, threads(), cancelled))?)
    }

    let (mut near, far) = UnixStream::pair().expect("a socket pair");
    let request = br#"{"jsonrpc":"2.0","id":1,"method":"work"}"#;
    let cancel = br#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    // Longer than one read, so that the cancel is not read together with its request.
    let blank = [b'\n'; 80 << 10];
    for part in [&request[..], &blank, cancel, b"\n"] {
        near.write_all(part).expect("the buffer takes it");
    }
    near.shutdown(std::net::Shutdown::Write).expect("it is open");
    let transport = FdTransport::new(far.try_clone().expect("a descriptor"), far);
    let mut host = Host::new(transport, Config::server(Dialect::ACP_V1));
    host.run(&handler).expect("poll works");
    drop(host);
    let answer = std::io::read_to_string(near).expect("an answer");
    assert_eq!(answer, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":[1,1,true]}\n");
    println!("g03: one thread, and a cancel seen at work");
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("SKIPPED: only Linux lists the threads of a process in a file system");
}

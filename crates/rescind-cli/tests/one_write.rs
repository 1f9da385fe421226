//! `--cancel-after 0` puts the request and its cancel into one write.
//!
//! This program is the test and the server that it has spawned: a test runner would write to the
//! standard output that the protocol needs.

use std::io::{self, Read, Write};
use std::process::{Command, ExitCode};

const RESCIND: &str = env!("CARGO_BIN_EXE_rescind");

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve().map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    let server = std::env::current_exe().expect("a test has a path");
    for _ in 0..5 {
        // `initialize` is the opening, so nothing goes before it.
        let mut call = Command::new(RESCIND);
        call.args(["call", "--cancel-after", "0", "initialize", "[]", "--"]).arg(&server);
        let output = call.arg("serve").output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains("answered with -32800 \"both in one read\""), "{said}");
    }
    println!("g04: request and cancel are in one write");
    ExitCode::SUCCESS
}

/// Reads once, and responds with the content of that read.
fn serve() -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    let read = io::stdin().read(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes[..read]);
    let lines: Vec<&str> = text.lines().collect();
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":[]}"#;
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    let message = if lines == [request, cancel] { "both in one read" } else { "something else" };
    let error = format!("{{\"code\":-32800,\"message\":\"{message}\"}}");
    let mut output = io::stdout();
    writeln!(output, "{{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{error}}}")?;
    output.flush()
}

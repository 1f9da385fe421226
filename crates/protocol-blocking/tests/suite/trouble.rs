//! Trouble that no handler sees is on standard error. The test runs itself once more, as the host.
#![cfg(unix)]

use std::io::{Error, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::{env, str};

use protocol_blocking::single::{FdTransport, Host};
use protocol_blocking::{Answer, Request, Responder};
use protocol_core::{Config, Dialect};
use serde_json::value::to_raw_value;

/// The failures of the host: more than it writes.
const FAILURES: usize = 120;

fn serve(request: &Request, _: &mut dyn Responder) -> Answer {
    let (n,): (usize,) = request.params()?;
    match &*request.method {
        "fails" => Err(Error::other(format!("no disk {n}")).into()),
        _ => Ok(to_raw_value(&n)?),
    }
}

fn host() {
    let (mut peer, ours) = UnixStream::pair().unwrap();
    let mut send = |id: usize, method: &str, params: &str| {
        let head = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":"#);
        peer.write_all(format!("{head}{params}}}\n").as_bytes()).unwrap();
    };
    send(0, "echo", "[true]");
    send(1, "echo", "true");
    for id in 2..FAILURES {
        send(id, "fails", &format!("[{id}]"));
    }
    peer.shutdown(Shutdown::Write).unwrap();
    let transport = FdTransport::new(&ours, &ours);
    Host::new(transport, Config::server(Dialect::ACP_V1)).run(&serve).unwrap();
}

#[test]
fn f42_trouble_that_no_handler_sees_is_on_standard_error() {
    const HOST: &str = "RESCIND_TROUBLED_HOST";
    if env::var_os(HOST).is_some() {
        return host();
    }
    let mut again = Command::new(env::current_exe().unwrap());
    again.args(["--exact", "trouble::f42_trouble_that_no_handler_sees_is_on_standard_error"]);
    let written = again.env(HOST, "1").output().unwrap().stderr;
    let lines: Vec<&str> = str::from_utf8(&written).unwrap().lines().collect();
    assert_eq!(lines.len(), 101, "{lines:#?}");
    let has = |line: &str| assert!(lines.contains(&line), "{lines:#?}");
    has(r#"rescind: invalid params of "echo", at line 1 column 5"#);
    has("rescind: id 1: invalid request: params is neither an array nor an object");
    has(r#"rescind: the handler of "fails" failed: no disk 2"#);
    assert_eq!(lines[100], "rescind: more trouble is not told (the methods of Handler)");
}

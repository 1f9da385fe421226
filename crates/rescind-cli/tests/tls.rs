//! `wss://`: TLS under a WebSocket, by both sides of the program.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::support::listening::HOUR;
use crate::support::{self, PATIENCE, Running, Said, rescind};

/// A certificate that signs itself, for these names, and its key, in files.
pub(crate) struct Identity {
    directory: PathBuf,
}

impl Identity {
    pub(crate) fn new(name: &str, of: &[&str]) -> Self {
        let directory =
            std::env::temp_dir().join(format!("rescind-tls-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let names: Vec<String> = of.iter().map(|name| (*name).to_owned()).collect();
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(directory.join("certificate"), made.cert.pem()).unwrap();
        std::fs::write(directory.join("key"), made.signing_key.serialize_pem()).unwrap();
        Self { directory }
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.directory.join(name).to_str().unwrap().into()
    }

    fn serve(&self, more: &[&str]) -> (Running, String) {
        let (certificate, key) = (self.file("certificate"), self.file("key"));
        let serve = [
            "serve",
            "--listen",
            "wss://127.0.0.1:0",
            "--certificate",
            &certificate,
            "--key",
            &key,
        ];
        let mut server = Running::start([&serve[..], more].concat(), &[]);
        let line = server.says(&["listening on wss://127.0.0.1:"]);
        (server, line.trim().rsplit_once(':').unwrap().1.into())
    }

    fn call(&self, host: &str, port: &str, arguments: &[&str]) -> Said {
        let (url, ca) = (format!("wss://{host}:{port}"), self.file("certificate"));
        rescind([&["call", "--connect", &url, "--ca", &ca], arguments].concat())
    }
}

impl Drop for Identity {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(Path::new(&self.directory));
    }
}

#[test]
fn f47_tls_is_spoken_by_both_sides_and_requests_are_cancelled_over_it() {
    let identity = Identity::new("tls", &["127.0.0.1", "localhost"]);
    let (mut server, port) = identity.serve(&["--dialect", "acp"]);
    for host in ["127.0.0.1", "localhost"] {
        let said = identity.call(host, &port, &["--dialect", "acp", "echo", "[1]"]);
        assert_eq!((said.code, said.stdout.as_str()), (Some(0), "[1]\n"), "{said:?}");
    }
    let sleep = ["--dialect", "acp", "--cancel-after", "50ms", "sleep", HOUR];
    let said = identity.call("localhost", &port, &sleep);
    assert_eq!(said.code, Some(3), "{said:?}");
    support::signal(server.id(), Signal::TERM);
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn f47_a_client_takes_no_certificate_that_is_another_name_s_or_that_nobody_it_trusts_has_signed() {
    let (identity, other) =
        (Identity::new("name", &["example.com"]), Identity::new("other", &["127.0.0.1"]));
    let (_server, port) = identity.serve(&[]);
    let refused = |said: Said| {
        assert_eq!(said.code, Some(6), "{said:?}");
        assert!(said.stderr.contains("certificate"), "{said:?}");
    };
    refused(identity.call("127.0.0.1", &port, &["echo", "[1]"]));
    refused(other.call("127.0.0.1", &port, &["echo", "[1]"]));
    let url = format!("wss://127.0.0.1:{port}");
    refused(rescind(["call", "--connect", &url, "echo", "[1]"]));
}

#[test]
fn f47_who_speaks_no_tls_is_sent_away_and_keeps_nobody_out() {
    let identity = Identity::new("plain", &["127.0.0.1"]);
    let (mut server, port) = identity.serve(&["--connections", "1"]);
    let mut plain = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    // An alert of TLS, or a reset.
    let _ = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP"));
    server.says(&["no TLS"]);
    let said = identity.call("127.0.0.1", &port, &["echo", "[1]"]);
    assert_eq!(said.code, Some(0), "{said:?}");
}

#[test]
fn f47_a_client_that_begins_no_tls_has_its_time() {
    let identity = Identity::new("silent", &["127.0.0.1"]);
    let (mut server, port) = identity.serve(&["--connections", "1"]);
    let mut silent = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(silent.read(&mut [0]).unwrap(), 0, "it is closed");
    server.says(&["no TLS", "timed out"]);
}

#[test]
fn f47_a_client_that_begins_no_tls_does_not_hold_up_the_end() {
    let identity = Identity::new("end", &["127.0.0.1"]);
    let (mut server, port) = identity.serve(&["--grace", "1h"]);
    let _silent = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    // Who came before has been taken in by the time this is answered.
    let said = identity.call("127.0.0.1", &port, &["echo", "[1]"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    support::signal(server.id(), Signal::TERM);
    server.says(&["no TLS", "the server ends"]);
    assert_eq!(server.end().code, Some(0));
}

#[test]
fn f47_a_certificate_that_can_t_be_read_is_said() {
    let identity = Identity::new("broken", &["127.0.0.1"]);
    let (certificate, key) = (identity.file("certificate"), identity.file("key"));
    for (certificate, key) in [(&key, &key), (&certificate, &certificate)] {
        let said = rescind([
            "serve",
            "--listen",
            "wss://127.0.0.1:0",
            "--certificate",
            certificate,
            "--key",
            key,
        ]);
        assert_eq!((said.code, said.stderr.lines().count()), (Some(2), 1), "{said:?}");
        assert!(said.stderr.contains(certificate) || said.stderr.contains(key), "{said:?}");
    }
}

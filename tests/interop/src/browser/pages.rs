//! The files of `browser/` over HTTP, and what the pages report.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// A page's report of one check.
#[derive(Clone, Debug)]
pub struct Report {
    /// The name of the check.
    pub name: String,
    /// The reason that it failed, if it did.
    pub problem: Option<String>,
}

/// Serves the pages on this machine, until the process ends.
#[derive(Debug)]
pub struct Pages {
    address: SocketAddr,
    /// In the order they came.
    pub reports: UnboundedReceiver<Report>,
}

impl Pages {
    /// Serves them on a port that the system chooses.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn serve() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = listener.local_addr().expect("it has an address");
        let (report, reports) = unbounded_channel();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let report = report.clone();
                // A browser that has what it wants hangs up.
                thread::spawn(move || drop(answer(&stream, &report)));
            }
        });
        Self { address, reports }
    }

    /// The origin of the pages.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Another origin that serves the same.
    #[must_use]
    pub fn other_origin(&self) -> String {
        format!("http://localhost:{}", self.address.port())
    }

    /// Returns the address of a page, with the parameters that it gets. Nothing of them may need
    /// escaping.
    #[must_use]
    pub fn url(&self, page: &str, told: &[(&str, &str)]) -> String {
        let told: Vec<_> = told.iter().map(|(name, value)| format!("{name}={value}")).collect();
        format!("{}/{page}?{}", self.origin(), told.join("&"))
    }
}

/// Answers one request.
fn answer(stream: &TcpStream, reports: &UnboundedSender<Report>) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut length = 0;
    loop {
        let mut header = String::new();
        if reader.read_line(&mut header)? == 0 || header == "\r\n" {
            break;
        }
        let (name, value) = header.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let mut words = first.split(['?', ' ']);
    match (words.next(), words.next()) {
        (Some("POST"), Some("/report")) => {
            let said: Value = serde_json::from_slice(&body)?;
            let name = said["name"].as_str().unwrap_or_default().into();
            let problem = said["problem"].as_str().map(Into::into);
            // Nobody may be waiting any more.
            let _ = reports.send(Report { name, problem });
            respond(stream, "200 OK", "text/plain", b"")
        }
        (Some("GET"), Some(path)) => match file(path) {
            Some((kind, bytes)) => respond(stream, "200 OK", kind, &bytes),
            None => respond(stream, "404 Not Found", "text/plain", b""),
        },
        _ => respond(stream, "400 Bad Request", "text/plain", b""),
    }
}

/// One of the files, and its type.
fn file(path: &str) -> Option<(&'static str, Vec<u8>)> {
    let name = path.strip_prefix('/').filter(|name| !name.contains(['/', '\\']))?;
    let kind = match Path::new(name).extension()?.to_str()? {
        "html" => "text/html",
        "mjs" => "text/javascript",
        _ => return None,
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("browser");
    Some((kind, fs::read(folder.join(name)).ok()?))
}

fn respond(mut stream: &TcpStream, status: &str, kind: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n"
    )?;
    stream.write_all(body)
}

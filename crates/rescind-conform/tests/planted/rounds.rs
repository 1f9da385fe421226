//! Rounds show whether a language server honours a cancel. Nobody can ask it to take its time, so a cancel may
//! come too late for any one request.

use std::io::ErrorKind::{TimedOut, WouldBlock};
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};
use protocol_core::Dialect;
use rescind_conform::{InProcess, Options, run};
use serde_json::{Value, json};

/// The time without a message after which the server has done its work.
const WORK: Duration = Duration::from_millis(80);
/// The same of hovers. A quarter of what a slow request is asked to take is enough.
const HOVER: Duration = Duration::from_millis(400);

/// The effect of a cancel on a request that the server works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// The server stops every fifth request.
    StopsSome,
    /// The server works on.
    WorksOn,
    /// The server has done the request just then, each time.
    IsDone,
    /// The server works on, and does only hovers.
    Hovers,
}

fn read(input: &mut impl BufRead) -> io::Result<Value> {
    let (mut line, mut length) = (String::new(), 0);
    while input.read_line(&mut line)? > 0 && line != "\r\n" {
        if let Some(said) = line.trim().strip_prefix("Content-Length: ") {
            length = said.parse().map_err(io::Error::other)?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    serde_json::from_slice(&body).map_err(io::Error::other)
}

fn serve(stream: TcpStream, does: Does) {
    let mut output = stream.try_clone().expect("a socket can be cloned");
    let takes = if does == Does::Hovers { HOVER } else { WORK };
    stream.set_read_timeout(Some(takes)).expect("it is no time of zero");
    let mut input = BufReader::new(stream);
    let mut answer = |id: &Value, member: &str, value: Value| {
        let text = json!({ "jsonrpc": "2.0", "id": id, member: value }).to_string();
        // The client may be gone.
        let _ = write!(output, "Content-Length: {}\r\n\r\n{text}", text.len());
    };
    let symbols = || json!(["a symbol", "another", "and one more"]);
    let (mut at_work, mut cancels) = (Vec::<Value>::new(), 0);
    let is_slow = match does {
        Does::Hovers => "textDocument/hover",
        _ => "textDocument/documentSymbol",
    };
    loop {
        // Messages that are there are read first, however late the machine is.
        let message = match input.fill_buf() {
            Ok([]) => return,
            Ok(_) => match read(&mut input) {
                Ok(message) => message,
                Err(_) => return,
            },
            Err(error) if !matches!(error.kind(), WouldBlock | TimedOut) => return,
            Err(_) => {
                at_work.drain(..).for_each(|id| answer(&id, "result", symbols()));
                continue;
            }
        };
        match message["method"].as_str() {
            Some("initialize") => {
                let offers = json!({ "capabilities": { "documentSymbolProvider": true, "hoverProvider": {} } });
                answer(&message["id"], "result", offers);
            }
            Some(method) if method == is_slow => at_work.push(message["id"].clone()),
            Some("textDocument/documentSymbol") => answer(&message["id"], "result", symbols()),
            Some("$/cancelRequest") if !matches!(does, Does::WorksOn | Does::Hovers) => {
                cancels += 1;
                let id = &message["params"]["id"];
                let Some(at) = at_work.iter().position(|working| working == id) else { continue };
                match does {
                    Does::StopsSome if cancels % 5 != 0 => {}
                    Does::StopsSome => {
                        let cancelled = json!({ "code": -32800, "message": "cancelled" });
                        answer(&at_work.remove(at), "error", cancelled);
                    }
                    _ => at_work.drain(..).for_each(|id| answer(&id, "result", symbols())),
                }
            }
            Some(_) if message.get("id").is_some() => {
                let unknown = json!({ "code": -32601, "message": "unknown" });
                answer(&message["id"], "error", unknown);
            }
            _ => {}
        }
    }
}

/// Returns the verdict on the request that is cancelled at work, and its reason.
fn verdict(does: Does) -> (&'static str, String) {
    let mut options = Options::new(Dialect::LSP_3_17);
    options.suite.only = vec!["honour/running".into()];
    let report = run(&InProcess(move |stream| serve(stream, does)), &options, |_| {})
        .expect("a session is opened");
    let [outcome] = &report.outcomes[..] else { panic!("{} checks", report.outcomes.len()) };
    (outcome.verdict.as_str(), outcome.verdict.why().unwrap_or_default().into())
}

fn is_verdict(does: Does, word: &str, end: &str) -> Result<(), Failed> {
    match verdict(does) {
        (found, why) if found == word && why.ends_with(end) => Ok(()),
        other => Err(format!("expected {word}: {end}, found {other:?}").into()),
    }
}

pub(crate) fn trials() -> Vec<Trial> {
    const WHOLE: &str = "a result, all of it, and so is each that was tried";
    const DONE: &str = "the request was done before its cancel was read";
    [
        (Does::Hovers, "another_request_is_slow_where_the_costliest_takes_no_time", "fail", WHOLE),
        (Does::WorksOn, "it_is_not_honoured_if_none_is_stopped", "fail", WHOLE),
        (Does::StopsSome, "one_request_that_is_stopped_is_enough", "pass", ""),
        (Does::IsDone, "what_was_done_before_its_cancel_was_read_says_nothing", "unclear", DONE),
    ]
    .map(|(does, name, word, why)| {
        Trial::test(name, move || is_verdict(does, word, why)).with_kind("rounds")
    })
    .into()
}

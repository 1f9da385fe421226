//! Typing in an editor: each key changes the document and asks for completions, and every second
//! question is cancelled by the next key.

use std::time::Instant;

use users_driver::{Framing, Input, Latencies, Ledger, Server, least, run, stop_reading};

const URI: &str = "file:///document.txt";
/// The keys of a round.
const KEYS: usize = 2_000;

fn open(server: &mut Server) -> Ledger {
    let mut ledger = Ledger::default();
    server.input().request(ledger.open(), "initialize", r#"{"capabilities":{}}"#);
    server.input().write();
    ledger.settle(&server.receive());
    let document = format!(
        r#"{{"textDocument":{{"uri":"{URI}","languageId":"text","version":0,"text":""}}}}"#
    );
    server.input().notify("initialized", "{}");
    server.input().notify("textDocument/didOpen", &document);
    server.input().write();
    ledger
}

/// One key, as an editor sends it. Returns the id of its question.
fn key(input: &mut Input, ledger: &mut Ledger, length: usize) -> u64 {
    let change = format!(
        r#"{{"textDocument":{{"uri":"{URI}","version":{length}}},"contentChanges":[{{"range":{{"start":{{"line":0,"character":{length}}},"end":{{"line":0,"character":{length}}}}},"text":"a"}}]}}"#
    );
    input.notify("textDocument/didChange", &change);
    let id = ledger.open();
    let at = length + 1;
    let place =
        format!(r#"{{"textDocument":{{"uri":"{URI}"}},"position":{{"line":0,"character":{at}}}}}"#);
    input.request(id, "textDocument/completion", &place);
    id
}

/// Two keys: the question of the first takes long, and is cancelled by the second.
fn two_keys(server: &mut Server, ledger: &mut Ledger, latencies: &mut Latencies, length: usize) {
    let slow = key(server.input(), ledger, length);
    server.input().write();
    let input = server.input();
    input.notify("$/cancelRequest", &format!(r#"{{"id":{slow}}}"#));
    key(input, ledger, length + 1);
    let written = Instant::now();
    server.input().write();
    ledger.cancel(slow);
    // The order of these two is free.
    for _ in 0..2 {
        let message = server.receive();
        if ledger.settle(&message).0 == slow {
            latencies.since(written);
            continue;
        }
        let (result, length) = (message.result.expect("a result").get(), length + 2);
        let first = format!(r#"[{{"label":"word0after{length}""#);
        assert!(result.starts_with(&first), "not of {length} letters: {result}");
    }
}

fn speed(server: &mut Server) {
    let mut ledger = open(server);
    let (mut latencies, mut length) = (Latencies::default(), 0);
    least("cpu_us", 5, || {
        let before = server.cpu();
        for _ in 0..KEYS / 2 {
            two_keys(server, &mut ledger, &mut latencies, length);
            length += 2;
        }
        (server.cpu() - before, KEYS)
    });
    latencies.print();
}

fn memory(server: &mut Server) {
    let mut ledger = open(server);
    let mut length = 0;
    stop_reading(server, &mut ledger, |input, ledger| {
        let slow = key(input, ledger, length);
        input.notify("$/cancelRequest", &format!(r#"{{"id":{slow}}}"#));
        ledger.cancel(slow);
        key(input, ledger, length + 1);
        length += 2;
    });
}

fn main() {
    run(Framing::ContentLength, speed, memory);
}

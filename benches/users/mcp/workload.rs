//! Tools of an MCP server: called one after another, with 64 in flight, and cancelled among 64 others.

use std::time::Instant;

use users_driver::{Framing, Input, Latencies, Ledger, Server, least, run, stop_reading};

const TOGETHER: usize = 64;
/// The calls of a round.
const CALLS: usize = 64 * 100;
const CANCELS: usize = 200;

fn open(server: &mut Server) -> Ledger {
    let mut ledger = Ledger::default();
    let params = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"editor","version":"1"}}"#;
    server.input().request(ledger.open(), "initialize", params);
    server.input().write();
    ledger.settle(&server.receive());
    server.input().notify("notifications/initialized", "{}");
    server.input().write();
    ledger
}

fn call(input: &mut Input, ledger: &mut Ledger, tool: &str) -> u64 {
    let id = ledger.open();
    let params = format!(r#"{{"name":"{tool}","arguments":{{"text":"hello {id}"}}}}"#);
    input.request(id, "tools/call", &params);
    id
}

/// Reads one message. Returns true if a tool reports that it has stopped, and checks a result.
fn receive(server: &mut Server, ledger: &mut Ledger) -> bool {
    let message = server.receive();
    if message.method == Some("stopped") {
        return true;
    }
    let (id, _) = ledger.settle(&message);
    let result = message.result.expect("a result").get();
    assert!(result.contains(&format!(r#""text":"hello {id}""#)), "not of {id}: {result}");
    false
}

/// Calls a tool so often, with so many calls in flight, and reads every result.
fn calls(server: &mut Server, ledger: &mut Ledger, together: usize, times: usize) {
    let mut called = 0;
    while called < times || ledger.unanswered() > 0 {
        while called < times && ledger.unanswered() < together {
            call(server.input(), ledger, "echo");
            called += 1;
        }
        server.input().write();
        assert!(!receive(server, ledger), "nothing was cancelled");
        while server.has_more() {
            assert!(!receive(server, ledger), "nothing was cancelled");
        }
    }
}

/// Cancels a call among others. It may have no response, so its tool writes a line when it stops.
fn cancel(server: &mut Server, ledger: &mut Ledger, latencies: &mut Latencies) {
    let waiting = call(server.input(), ledger, "wait");
    ledger.silence(waiting);
    // The tool runs when these have their results.
    calls(server, ledger, TOGETHER, TOGETHER);
    for others in 0..TOGETHER {
        if others == TOGETHER / 2 {
            let params = format!(r#"{{"requestId":{waiting}}}"#);
            server.input().notify("notifications/cancelled", &params);
        }
        call(server.input(), ledger, "echo");
    }
    let written = Instant::now();
    server.input().write();
    let mut stopped = 0;
    while ledger.unanswered() > 0 || stopped == 0 {
        if receive(server, ledger) {
            latencies.since(written);
            stopped += 1;
        }
    }
    assert_eq!(stopped, 1);
}

fn speed(server: &mut Server) {
    let mut ledger = open(server);
    for (metric, together) in [("cpu_1_us", 1), ("cpu_64_us", TOGETHER)] {
        least(metric, 5, || {
            let before = server.cpu();
            calls(server, &mut ledger, together, CALLS);
            (server.cpu() - before, CALLS)
        });
    }
    let mut latencies = Latencies::default();
    for _ in 0..CANCELS {
        cancel(server, &mut ledger, &mut latencies);
    }
    latencies.print();
}

fn memory(server: &mut Server) {
    let mut ledger = open(server);
    stop_reading(server, &mut ledger, |input, ledger| {
        call(input, ledger, "echo");
    });
}

fn main() {
    run(Framing::Lines, speed, memory);
}

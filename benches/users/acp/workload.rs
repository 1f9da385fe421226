//! A prompt in an editor: the agent streams 10,000 updates, and is cancelled while it does.

use std::thread;
use std::time::Instant;

use users_driver::{Framing, Latencies, Ledger, STOPPED, Server, Settled, figure, least, run};

/// The updates of a prompt that is not cancelled.
const UPDATES: usize = 10_000;
const CANCELS: usize = 50;

/// The turn of a prompt, from its request to its response.
struct Turn<'a> {
    server: &'a mut Server,
    ledger: &'a mut Ledger,
    id: u64,
    updates: usize,
}

impl<'a> Turn<'a> {
    fn begin(server: &'a mut Server, ledger: &'a mut Ledger, updates: usize) -> Self {
        let id = ledger.open();
        let params =
            format!(r#"{{"sessionId":"s1","prompt":[{{"type":"text","text":"{updates}"}}]}}"#);
        server.input().request(id, "session/prompt", &params);
        server.input().write();
        Self { server, ledger, id, updates: 0 }
    }

    /// Reads updates until the turn has had so many. Returns the outcome if the response comes first.
    fn read(&mut self, updates: usize) -> Option<Settled> {
        while self.updates < updates {
            let message = self.server.receive();
            if message.method != Some("session/update") {
                return Some(self.ledger.settle(&message).1);
            }
            let params = message.params.expect("an update has params").get();
            let number = format!(r#""text":"{} "#, self.updates);
            assert!(params.contains(&number), "not the update {}: {params}", self.updates);
            self.updates += 1;
        }
        None
    }

    fn cancel(&mut self) -> Instant {
        let params = format!(r#"{{"requestId":{}}}"#, self.id);
        self.server.input().notify("$/cancel_request", &params);
        let written = Instant::now();
        self.server.input().write();
        self.ledger.try_cancel(self.id);
        written
    }
}

fn open(server: &mut Server) -> Ledger {
    let mut ledger = Ledger::default();
    let params = [
        ("initialize", r#"{"protocolVersion":1,"clientCapabilities":{}}"#),
        ("session/new", r#"{"cwd":"/","mcpServers":[]}"#),
    ];
    for (method, params) in params {
        server.input().request(ledger.open(), method, params);
        server.input().write();
        ledger.settle(&server.receive());
    }
    ledger
}

fn speed(server: &mut Server) {
    let mut ledger = open(server);
    least("cpu_us", 5, || {
        let before = server.cpu();
        let mut turn = Turn::begin(server, &mut ledger, UPDATES);
        assert_eq!(turn.read(usize::MAX), Some(Settled::Result));
        assert_eq!(turn.updates, UPDATES);
        (server.cpu() - before, UPDATES)
    });
    let (mut latencies, mut late, mut after) = (Latencies::default(), 0, 0);
    for cancel in 0..CANCELS {
        let mut turn = Turn::begin(server, &mut ledger, UPDATES);
        let read = 500 + cancel * 137 % 4_000;
        assert_eq!(turn.read(read), None, "the stream goes on");
        let written = turn.cancel();
        // Too late if the agent has ended its turn, though its updates are still to be read.
        late += usize::from(turn.read(usize::MAX) == Some(Settled::Result));
        latencies.since(written);
        after += turn.updates - read;
    }
    latencies.print();
    figure("late", late as f64 / CANCELS as f64);
    figure("after_cancel", after as f64 / CANCELS as f64);
}

/// The agent streams until it is cancelled, and nobody reads.
fn memory(server: &mut Server) {
    let mut ledger = open(server);
    let mut turn = Turn::begin(server, &mut ledger, usize::MAX);
    assert_eq!(turn.read(100), None, "the stream goes on");
    thread::sleep(STOPPED);
    turn.cancel();
    assert_eq!(turn.read(usize::MAX), Some(Settled::Cancelled));
}

fn main() {
    run(Framing::Lines, speed, memory);
}

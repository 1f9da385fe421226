//! Bugs planted in a server on a real connection, each found with its shortest history; and the
//! same server without them, in which nothing is found.

use std::hash::{Hash, Hasher};

use protocol_core::{
    Cause, Config, Connection, Dialect, Event, Reply, RequestHandle, Role, Timestamp,
};
use protocol_testkit::explore::{Failure, Handler, Handling, Scenario, search};
use protocol_testkit::{Answering, Asked, Guarantee, Operation};
use serde_json::value::RawValue;

/// What is wrong with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Bug {
    None,
    /// Liveness: the work of a cancelled request is stopped, and nobody answers.
    Swallows,
    /// The answer to a cancelled request is written a second time.
    Repeats,
    /// Liveness: the answer to the request of this number is never written.
    Forgets(u64),
}

/// Serves every request by working on it, on a real connection.
#[derive(Clone, Debug)]
struct Server {
    connection: Connection<()>,
    running: Vec<RequestHandle>,
    bug: Bug,
}

impl Server {
    fn new(dialect: Dialect, bug: Bug) -> Self {
        let connection = Connection::new(Config::server(dialect));
        Self { connection, running: Vec::new(), bug }
    }

    fn write(&mut self, times: usize, out: &mut Vec<Vec<u8>>) {
        let mut message = Vec::new();
        while self.connection.poll_transmit(&mut message).is_some() {
            out.extend(std::iter::repeat_n(std::mem::take(&mut message), times));
        }
    }
}

impl Hash for Server {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Whatever it writes has left: nothing else tells states apart.
        (self.connection.machine(), &self.running).hash(state);
    }
}

impl Handler for Server {
    fn receive(&mut self, message: &[u8], out: &mut Vec<Vec<u8>>) {
        let mut next = self.connection.receive(message, Timestamp::ZERO);
        while let Some(event) = next {
            match event {
                Event::Request { request, .. } => self.running.push(request),
                Event::Cancelled { request, .. } if self.bug == Bug::Swallows => {
                    self.running.retain(|running| *running != request);
                }
                _ => {}
            }
            next = self.connection.poll_event();
        }
        self.write(1, out);
    }

    fn work(&self) -> Vec<String> {
        self.running.iter().map(|request| format!("answers {}", request.number())).collect()
    }

    fn go_on(&mut self, work: usize, out: &mut Vec<Vec<u8>>) {
        let request = self.running.remove(work);
        let phase = self.connection.machine().request_phase(request);
        let is_cancelled = phase == Some(protocol_core::RequestPhase::Cancelled);
        let result: Box<RawValue> = serde_json::from_str("1").expect("it is JSON");
        self.connection.respond(request, Reply::Result(&result)).expect("it is unanswered");
        let times = match self.bug {
            Bug::Repeats if is_cancelled => 2,
            Bug::Forgets(number) if number == request.number() => 0,
            _ => 1,
        };
        self.write(times, out);
    }
}

const CALLS: Scenario = Scenario {
    name: "two calls, each cancelled or not",
    budget: &[
        (Operation::Call { at: Role::Client, asked: Asked::work(1) }, 2),
        (Operation::Cancel { at: Role::Client, call: 0, cause: Cause::Caller }, 1),
        (Operation::Cancel { at: Role::Client, call: 1, cause: Cause::Dropped }, 1),
    ],
    answers: &[Answering::Result],
    timers: false,
};

fn found(bug: Bug) -> Failure {
    let dialect = Dialect::ACP_V1;
    let start = Handling::new(Config::client(dialect.clone()), CALLS, Server::new(dialect, bug));
    search(&start, 1_000_000).failure.expect("the bug is there")
}

#[test]
fn a_planted_liveness_bug_is_found_with_its_shortest_history() {
    let failure = found(Bug::Swallows);
    assert_eq!(failure.broken.guarantee, Guarantee::G2, "{failure}");
    assert_eq!(
        failure.line(),
        "client call Work 1; client drain 1; handler read 0; client cancel 0 caller; \
         client drain 1; handler read 0"
    );
}

#[test]
fn a_planted_double_answer_is_found_with_its_shortest_history() {
    let failure = found(Bug::Repeats);
    assert_eq!(failure.broken.guarantee, Guarantee::G2, "{failure}");
    assert_eq!(
        failure.line(),
        "client call Work 1; client drain 1; handler read 0; client cancel 0 caller; \
         client drain 1; handler read 0; handler answers 1"
    );
}

#[test]
fn an_answer_that_is_never_written_is_found_with_its_shortest_history() {
    let failure = found(Bug::Forgets(2));
    assert_eq!(failure.broken.guarantee, Guarantee::G2, "{failure}");
    assert_eq!(failure.history.last().map(String::as_str), Some("handler answers 2"), "{failure}");
}

#[test]
fn nothing_is_found_in_the_same_server_without_a_bug() {
    for dialect in Dialect::PRESETS.iter().cloned() {
        let start = Handling::new(
            Config::client(dialect.clone()),
            CALLS,
            Server::new(dialect.clone(), Bug::None),
        );
        let report = search(&start, 1_000_000);
        assert!(report.exhausted, "{}", dialect.name);
        assert!(report.failure.is_none(), "{}: {}", dialect.name, report.failure.expect("some"));
    }
}

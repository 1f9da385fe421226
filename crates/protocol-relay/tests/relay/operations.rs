//! F2: an operation, named by a token, is cancelled over any number of hops.

use protocol_core::{CancelRule, Config, Dialect, Timestamp};
use protocol_relay::{Relay, RelayEvent, Side};

use crate::bench::{Bench, error, request, result};

const TOKEN: &str = r#""0123456789ABCDEF0123456789ABCDEF""#;
const CANCELLED: &str = r#"{"status":"cancelled"}"#;

/// Returns a client's request that cancels the operation with this token.
fn cancel(id: &str, token: &str) -> String {
    let params = format!(r#"{{"cancellationToken":{token}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"cancel","params":{params}}}"#)
}

/// Returns the response that begins an operation.
fn begun(id: &str) -> String {
    result(id, &format!(r#"{{"cancellationToken":{TOKEN}}}"#))
}

/// Returns the notification that an operation was cancelled.
fn told() -> String {
    let params = format!(r#"{{"requestId":{TOKEN},"reason":"client_requested"}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#)
}

fn between(up: Dialect, down: Dialect) -> Bench {
    Bench::new(Side::Up, [up, down].map(Config::client))
}

/// Relays in a row, and what reaches the client in front and the server behind them.
struct Row {
    relays: Vec<Relay>,
    events: Vec<(Side, RelayEvent)>,
    at_client: Vec<String>,
    at_server: Vec<String>,
}

impl Row {
    fn new(hops: usize) -> Self {
        let config = || Config::client(Dialect::ERLMCP);
        let relays = (0..hops).map(|_| Relay::new(config(), config())).collect();
        Self { relays, events: Vec::new(), at_client: Vec::new(), at_server: Vec::new() }
    }

    fn client_writes(&mut self, message: &str) {
        self.write(0, Side::Up, message);
    }

    fn server_writes(&mut self, message: &str) {
        self.write(self.relays.len() - 1, Side::Down, message);
    }

    /// Writes a message to one relay, and carries everything that follows from it to the ends of the row.
    fn write(&mut self, at: usize, side: Side, message: &str) {
        let mut line = format!("{message}\n").into_bytes();
        let last = self.relays.len() - 1;
        let received = self.relays[at].receive(side, &line, Timestamp::ZERO);
        assert_eq!(received.consumed, line.len());
        self.events.extend(received.event);
        for to in Side::BOTH {
            line.clear();
            while let Some(transmit) = self.relays[at].poll_transmit(to, &mut line) {
                let message = String::from_utf8(transmit.message(&line).to_vec()).expect("UTF-8");
                match to {
                    Side::Up if at == 0 => self.at_client.push(message),
                    Side::Down if at == last => self.at_server.push(message),
                    Side::Up => self.write(at - 1, Side::Down, &message),
                    Side::Down => self.write(at + 1, Side::Up, &message),
                }
                line.clear();
            }
        }
    }

    fn read_by_client(&mut self) -> Vec<String> {
        std::mem::take(&mut self.at_client)
    }

    fn read_by_server(&mut self) -> Vec<String> {
        std::mem::take(&mut self.at_server)
    }

    /// Asserts that nothing is in flight anywhere, and that no relay has anything to report.
    fn assert_at_rest(&mut self) {
        assert_eq!(self.events, []);
        for relay in &mut self.relays {
            assert_eq!(relay.poll_event(), None);
            for side in Side::BOTH {
                let machine = relay.connection(side).machine();
                assert_eq!((machine.calls_in_flight(), machine.requests_in_flight()), (0, 0));
            }
        }
    }
}

fn over_any_number_of_hops(test: impl Fn(&mut Row)) {
    for hops in [1, 2, 8] {
        let mut row = Row::new(hops);
        row.client_writes(&request(r#""start""#, "tool/call"));
        assert_eq!(row.read_by_server(), [request("1", "tool/call")], "{hops} hops");
        row.server_writes(&begun("1"));
        assert_eq!(row.read_by_client(), [begun(r#""start""#)], "{hops} hops");
        // The request is settled on every hop: nothing but the token names the operation.
        row.assert_at_rest();
        test(&mut row);
        row.assert_at_rest();
    }
}

#[test]
fn f02_an_operation_is_cancelled_over_any_number_of_hops() {
    over_any_number_of_hops(|row| {
        row.client_writes(&cancel(r#""stop""#, TOKEN));
        assert_eq!(row.read_by_server(), [cancel("2", TOKEN)]);
        assert_eq!(row.read_by_client(), [""; 0], "the server acknowledges it");
        row.server_writes(&told());
        row.server_writes(&result("2", CANCELLED));
        assert_eq!(row.read_by_client(), [told(), result(r#""stop""#, CANCELLED)]);
    });
}

#[test]
fn f02_the_far_server_says_that_it_knows_no_operation_of_that_token() {
    over_any_number_of_hops(|row| {
        // Nobody but the server knows what its tokens look like.
        for (number, token) in [r#""AB""#, "7", "{}", TOKEN].into_iter().enumerate() {
            let number = (number + 2).to_string();
            row.client_writes(&cancel("9", token));
            assert_eq!(row.read_by_server(), [cancel(&number, token)]);
            row.server_writes(&error(&number, -32001, "Operation not found"));
            assert_eq!(row.read_by_client(), [error("9", -32001, "Operation not found")]);
        }
    });
}

#[test]
fn f02_each_cancel_of_one_operation_is_acknowledged_by_itself() {
    over_any_number_of_hops(|row| {
        row.client_writes(&cancel("7", TOKEN));
        row.client_writes(&cancel("8", TOKEN));
        assert_eq!(row.read_by_server(), [cancel("2", TOKEN), cancel("3", TOKEN)]);
        row.server_writes(&error("3", -32001, "Operation not found"));
        row.server_writes(&result("2", CANCELLED));
        let answers = [error("8", -32001, "Operation not found"), result("7", CANCELLED)];
        assert_eq!(row.read_by_client(), answers);
    });
}

#[test]
fn f02_a_cancel_that_names_nothing_is_answered_by_the_first_hop() {
    let mut row = Row::new(2);
    row.client_writes(&request("7", "cancel"));
    let answer = error("7", -32602, "Invalid params: the cancel names nothing");
    assert_eq!((row.read_by_client(), row.read_by_server()), (vec![answer], vec![]));
}

#[test]
fn f02_the_cancel_of_an_operation_is_a_request_like_any_other() {
    let mut bench = between(Dialect::ERLMCP, Dialect::ERLMCP);
    bench.receive(Side::Up, &cancel("7", TOKEN));
    bench.receive(Side::Up, &cancel("7", TOKEN));
    assert_eq!(bench.sent(Side::Down), [cancel("1", TOKEN)], "the second has the id of the first");
    assert!(bench.sent(Side::Up)[0].contains("-32600"));
    bench.hang_up(Side::Down);
    assert_eq!(bench.sent(Side::Up), [error("7", -32603, "the next hop is gone")]);
    assert_eq!(bench.in_flight(), [0; 4]);
}

#[test]
fn f02_a_server_may_not_cancel_the_operations_of_its_client() {
    let mut bench = between(Dialect::ERLMCP, Dialect::ERLMCP);
    for token in [TOKEN, r#""AB""#] {
        bench.receive(Side::Down, &cancel("7", token));
        assert_eq!(bench.sent(Side::Down), [error("7", -32001, "Operation not found")]);
        assert_eq!(bench.sent(Side::Up), [""; 0]);
    }
}

/// In another dialect the message would mean nothing, or something else.
#[test]
fn f02_between_dialects_that_cancel_operations_otherwise_the_token_is_unknown() {
    let mut other = Dialect::ERLMCP;
    if let CancelRule::Operation { token, .. } = &mut other.cancel {
        *token = "operation".into();
    }
    for down in [other, Dialect::ACP_V1, Dialect::LSP_3_17, Dialect::MCP_2025_06_18, Dialect::ABP] {
        let mut bench = between(Dialect::ERLMCP, down);
        bench.receive(Side::Up, &cancel("7", TOKEN));
        assert_eq!(bench.sent(Side::Up), [error("7", -32001, "Operation not found")]);
        assert_eq!((bench.sent(Side::Down), bench.in_flight()), (vec![], [0; 4]));
    }
}

//! F79: a response is withheld for a cancel of the peer's, and for no cancel of our own.

use crate::support::{Host, result};
use protocol_core::{Cause, Config, Dialect, RequestPhase, Shutdown};

const CANCELLED: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;

fn server(dialect: Dialect) -> Host {
    Host::new(Config::server(dialect))
}

#[test]
fn f79_only_a_cancel_of_the_peers_is_followed_by_silence() {
    for dialect in [Dialect::MCP, Dialect::MCP_2025_11_25, Dialect::MCP_2025_06_18_HTTP] {
        for ends in [
            |it: &mut Host| it.conn.shutdown(Shutdown::CancelAll, it.now),
            |it: &mut Host| {
                let (request, now) = (it.request(1), it.now);
                it.conn.cancel_request(request, Cause::Internal, now);
            },
            |it: &mut Host| {
                it.conn.handle_eof(it.now);
                it.conn.shutdown(Shutdown::CancelAll, it.now);
            },
        ] {
            let mut server = server(dialect.clone());
            let request = server.peer_requests("1");
            ends(&mut server);
            let phase = server.conn.machine().request_phase(request);
            assert_eq!(phase, Some(RequestPhase::Cancelled));
            server.respond_ok(request);
            assert_eq!(server.sent(), [result("1", "null")], "{}", dialect.name);
        }
    }
}

/// A cancel of the peer's that finds the request cancelled by us asks for silence all the same.
#[test]
fn f79_a_peer_that_cancels_what_we_had_cancelled_gets_the_silence_it_asks_for() {
    let mut server = server(Dialect::MCP);
    let request = server.peer_requests("1");
    server.conn.cancel_request(request, Cause::Internal, server.now);
    assert_eq!(server.events(), ["cancelled r1 internal"]);
    assert_eq!(server.receive(CANCELLED), [""; 0], "it is cancelled once");
    server.respond_ok(request);
    assert_eq!(server.sent(), [""; 0]);
}

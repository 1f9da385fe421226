//! One whole message of any bytes, to a connection in any of many states.

use protocol_core::{
    CallOptions, Cause, Config, Connection, Dialect, Envelope, Event, Response, Role, Shutdown,
    Timestamp, TransmitKind,
};
use protocol_testkit::{Hostile, small};
use serde_json::value::RawValue;

use crate::answers::judge;
use crate::bytes::Bytes;

const NOW: Timestamp = Timestamp::ZERO;

/// The first byte chooses the dialect, the second what went before; the rest is one message.
/// Whatever it is, nothing panics, each answer is one of the envelope that echoes nothing but the
/// id (G9), the connection lives, and at the end each call has settled once (G1) and each request
/// can be answered once (G2).
pub fn messages(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let mut config = small(bytes.dialect());
    let before = bytes.byte();
    if before & 1 != 0 {
        config.role = Role::Server;
    }
    if before & 2 != 0 {
        config.show_raw_cancels = true;
    }
    let (mut conn, mut calls) = prepared(config.clone(), before >> 2);
    let message = bytes.rest();

    calls -= settled(&taken(&mut conn, message));
    let mut out = Vec::new();
    while let Some(transmit) = conn.poll_transmit(&mut out) {
        let written = transmit.message(&out);
        let json: Result<&RawValue, _> = serde_json::from_slice(written);
        json.unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(written)));
        if matches!(transmit.kind, TransmitKind::Response | TransmitKind::Acknowledgement) {
            judge(written, message, config.dialect.envelope);
        }
    }
    conclude(conn, calls);
}

/// The connection in one of 64 states with nothing unsent but a call, and its calls in flight.
fn prepared(config: Config, before: u8) -> (Connection<u8>, usize) {
    let mut conn = Connection::new(config.clone());
    let dialect = config.dialect;
    let (mut calls, mut over) = (0, 0);
    let mut call = |conn: &mut Connection<u8>, method| {
        let made = conn.call(method, None, 0, CallOptions::default(), NOW).ok();
        calls += usize::from(made.is_some());
        made
    };
    if before & 1 == 0 {
        open(&mut conn, &dialect);
    }
    let first = call(&mut conn, "tool/call");
    call(&mut conn, "subscriptions/listen");
    discard(&mut conn);
    if before & 2 != 0 {
        for id in ["7", "\"a\""] {
            over += settled(&taken(&mut conn, request(id, dialect.envelope).as_bytes()));
        }
        over += settled(&taken(&mut conn, &Hostile::Batch.message("8", &dialect)));
        // Erlmcp: the first one goes on as an operation.
        let first = conn.requests().next().map(|(request, ())| request);
        if let Some(first) = first.filter(|_| before & 4 != 0) {
            let _ = conn.begin_operation(first, [7; 16]);
        }
    }
    if let Some(first) = first.filter(|_| before & 8 != 0) {
        conn.cancel(first, Cause::Caller, NOW);
    }
    discard(&mut conn);
    if before & 16 != 0 {
        conn.shutdown(Shutdown::Drain, NOW);
    } else if before & 32 != 0 {
        call(&mut conn, "work");
    }
    over += settled(&waiting(&mut conn));
    (conn, calls - over)
}

fn request(id: &str, envelope: Envelope) -> String {
    match envelope {
        Envelope::JsonRpc => format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tool/call"}}"#),
        Envelope::Abp => {
            format!(r#"{{"type":"capabilities/call","id":{id},"payload":{{"capability":"work"}}}}"#)
        }
        Envelope::Dap => format!(r#"{{"seq":{id},"type":"request","command":"tool/call"}}"#),
    }
}

/// Opens the session, where there is one, by a request of the peer's.
fn open(conn: &mut Connection<u8>, dialect: &Dialect) {
    let Some(by) = &dialect.session else { return };
    let message = match dialect.envelope {
        Envelope::Dap => format!(r#"{{"seq":1,"type":"request","command":"{by}"}}"#),
        Envelope::JsonRpc | Envelope::Abp => {
            format!(r#"{{"type":"{by}","id":"0","payload":{{}}}}"#)
        }
    };
    // There are no calls yet.
    taken(conn, message.as_bytes());
    answer_all(conn);
    discard(conn);
}

fn discard(conn: &mut Connection<u8>) {
    while conn.poll_transmit(&mut Vec::new()).is_some() {}
}

/// What a message makes happen.
fn taken<'m>(conn: &mut Connection<u8>, message: &'m [u8]) -> Vec<Event<'m, u8>> {
    conn.receive(message, NOW).into_iter().chain(waiting(conn)).collect()
}

/// What has happened and was not told.
fn waiting(conn: &mut Connection<u8>) -> Vec<Event<'static, u8>> {
    std::iter::from_fn(|| conn.poll_event()).collect()
}

fn settled(events: &[Event<'_, u8>]) -> usize {
    events.iter().filter(|event| matches!(event, Event::Settled { .. })).count()
}

fn answer_all(conn: &mut Connection<u8>) {
    let requests: Vec<_> = conn.requests().map(|(request, ())| request).collect();
    for request in requests {
        let result: &RawValue = serde_json::from_str("{}").expect("it is JSON");
        assert!(conn.respond(request, Response::Result(result)).is_ok(), "G2: it is unanswered");
        assert!(conn.respond(request, Response::Result(result)).is_err(), "G2: it is answered");
    }
}

fn conclude(mut conn: Connection<u8>, mut calls: usize) {
    calls -= settled(&waiting(&mut conn));
    if !conn.machine().is_closed() {
        let alive = match conn.config().dialect.envelope {
            Envelope::JsonRpc => r#"{"jsonrpc":"2.0","method":"alive"}"#,
            Envelope::Abp => r#"{"type":"alive"}"#,
            Envelope::Dap => r#"{"seq":1,"type":"event","event":"alive"}"#,
        };
        let events = taken(&mut conn, alive.as_bytes());
        let lives = events.iter().any(|event| matches!(event, Event::Notification { .. }));
        assert!(lives, "G9: it lives");
    }
    conn.handle_eof(NOW);
    calls -= settled(&waiting(&mut conn));
    assert_eq!(calls, 0, "G1: so many calls never settled");
    answer_all(&mut conn);
    discard(&mut conn);
    assert_eq!(conn.unsent_bytes(), 0);
}

//! The registry beside the core's connection: both report a cancellation in the same way.

use protocol_core::{Cause, Config, Connection, Dialect, Event, Timestamp};
use protocol_operations::{CancelReason, Cleanup, OperationToken, Operations, Step, Urgency};

const NOW: Timestamp = Timestamp::ZERO;

fn sent(conn: &mut Connection<(), ()>) -> Vec<String> {
    std::iter::from_fn(|| {
        let mut out = Vec::new();
        conn.poll_transmit(&mut out)?;
        Some(String::from_utf8(out).unwrap())
    })
    .collect()
}

#[test]
fn g05_the_reason_on_the_wire_is_the_reason_in_the_registry() {
    let mut operations: Operations<()> = Operations::default();
    operations.declare("tool/call", Cleanup::NotNeeded).unwrap();
    let mut conn: Connection<(), ()> = Connection::new(Config::server(Dialect::ERLMCP));
    for (number, &cause) in Cause::ALL.iter().enumerate() {
        let message = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"tool/call"}}"#);
        let event = conn.receive(message.as_bytes(), NOW);
        let Some(Event::Request { request, method, .. }) = event else { panic!("{event:?}") };
        let entropy = [0xa0 | number as u8; 16];
        let operation = operations.register(&method, entropy, (), NOW).unwrap();
        conn.begin_operation(request, entropy).unwrap();
        let token = operations.token(operation).unwrap();
        assert_eq!(conn.operation(request).map(OperationToken::from_bytes), Some(token));
        assert_eq!(operations.find(token), Some(operation));
        let written = token.to_string();
        for digits in [written.to_lowercase(), written] {
            assert_eq!(OperationToken::from_digits(&digits), Some(token));
        }
        assert!(sent(&mut conn)[0].contains(&format!("\"{token}\"")));

        conn.cancel_request(request, cause, NOW);
        assert!(matches!(conn.poll_event(), Some(Event::Cancelled { .. })));
        let step = operations.cancel(operation, cause.into(), Urgency::Forced, NOW);
        assert_eq!(step, Ok(Step::NotifyAndStop));
        let reason = CancelReason::from(cause);
        let [notification] = sent(&mut conn).try_into().unwrap();
        let written = format!(r#""reason":"{reason}""#);
        assert!(notification.contains(&written), "{reason} in {notification}");
        assert_eq!(operations.info(operation, NOW).unwrap().reason, Some(&reason));
    }
    let requested = operations.metrics().cancelled_for(&CancelReason::ClientRequested);
    assert_eq!((requested, operations.metrics().cancelled()), (3, 11));
}

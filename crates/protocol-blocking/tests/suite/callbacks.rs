//! Callbacks of the host's that run on the threads of a connection.
#![cfg(unix)]

use std::sync::{Arc, OnceLock};

use crate::support::{Wire, acp, raw};
use protocol_blocking::threaded::{Options, Peer, Server, Way};
use protocol_blocking::{Request, Responder};
use serde_json::{Value, json};

/// Writing shows the callback more messages, so the thread that runs it must not write.
#[test]
fn f85_a_trace_may_send() {
    let (mut wire, stream) = Wire::pair();
    let peer = Arc::new(OnceLock::<Peer>::new());
    let mut options = Options::new(acp());
    let sender = peer.clone();
    options.trace = Some(Box::new(move |way, _| {
        if way == Way::Received {
            sender.get().unwrap().try_notify_raw("seen", None).unwrap();
        }
    }));
    let handler = |_: &Request, _: &mut dyn Responder| Ok(raw(&Value::Null));
    let served = Server::new(options).unix(stream, Arc::new(handler)).unwrap();
    peer.set(served.peer().clone()).unwrap();
    for id in 0..50 {
        wire.request(id, "work", &json!([]));
        let mut both = [wire.receive(), wire.receive()];
        both.sort_by_key(|message| message["method"].is_null());
        assert_eq!((&both[0]["method"], &both[1]["id"]), (&json!("seen"), &json!(id)));
    }
    wire.hang_up();
    assert!(served.wait().error.is_none());
}

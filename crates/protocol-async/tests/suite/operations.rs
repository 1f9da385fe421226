//! The registry of operations and the requests that start them.

use std::cell::RefCell;

use protocol_async::hub::Hub;
use protocol_async::{Incoming, Options, SharedOperations};
use protocol_core::{Config, Dialect, Timestamp};

thread_local! {
    /// It is dropped while an operation is registered.
    static SERVING: RefCell<Option<Incoming>> = const { RefCell::new(None) };
}

#[test]
fn an_operation_whose_request_is_refused_meanwhile_is_not_listed() {
    for unsent_messages in [8, 1] {
        let operations = SharedOperations::new(|| Timestamp::ZERO);
        let mut options = Options::new(Config::server(Dialect::ERLMCP));
        options.config.limits.unsent_messages = unsent_messages;
        options.operations = Some(operations.clone());
        options.entropy = || {
            SERVING.take();
            Some([7; 16])
        };
        let (hub, peer, incoming) = Hub::new(options, || Timestamp::ZERO);
        // With one place, the refusal waits for room.
        peer.try_notify("n", ()).unwrap();
        SERVING.set(Some(incoming));
        hub.receive_message(br#"{"jsonrpc":"2.0","id":1,"method":"tool/call"}"#);
        let mut listed = 0;
        operations.for_each(|_| listed += 1);
        assert_eq!(listed, 0, "nobody would ever end it");
    }
}

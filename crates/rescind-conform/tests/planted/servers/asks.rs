//! The requests of the server to its client.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

use super::{Fault, Protocol, Server};

impl Server {
    /// Asks the client for something, and waits for it.
    pub(super) fn ask(self: &Arc<Self>, id: &str) {
        let (stop, stopped) = channel::<()>();
        let mut table = self.lock();
        let own = match self.fault {
            Fault::ReusesItsIds => "700".to_owned(),
            _ => (700 + table.own.len()).to_string(),
        };
        table.own.insert(own.clone(), id.into());
        table.at_work.insert(id.into(), stop);
        let asks = table.own.len();
        drop(table);
        if self.fault == Fault::ReadsNoMoreWhileItAsks && asks > 4 {
            loop {
                thread::park();
            }
        }
        self.say(format!(
            r#"{{"jsonrpc":"2.0","id":{own},"method":"conformance/ask","params":{{}}}}"#
        ));
        let (server, id) = (self.clone(), id.to_owned());
        thread::spawn(move || {
            let _ = stopped.recv();
            match server.fault {
                Fault::ForgetsItsOwn => {}
                Fault::CancelsByOurId => server.cancel_own(&id),
                _ => server.cancel_own(&own),
            }
            if server.protocol != Protocol::Mcp {
                server.error(&id, -32800);
            }
        });
    }

    /// Returns whether it has cancelled its request with this id.
    pub(super) fn has_withdrawn(&self, own: &str) -> bool {
        let table = self.lock();
        table.own.get(own).is_some_and(|id| !table.at_work.contains_key(id))
    }

    pub(super) fn cancel_own(&self, own: &str) {
        self.say(format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":{{"{}":{own}}}}}"#,
            self.cancel_method(),
            self.cancel_member()
        ));
    }

    pub(super) fn cancel_member(&self) -> &'static str {
        if matches!(self.protocol, Protocol::Draft | Protocol::Lsp) { "id" } else { "requestId" }
    }
}

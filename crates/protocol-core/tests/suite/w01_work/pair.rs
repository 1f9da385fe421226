//! A client and a server in one thread, and the words of what happens.

use protocol_core::{Config, Connection, Dialect, Event, RequestHandle, Timestamp};
use serde_json::value::RawValue;

pub(crate) const NOW: Timestamp = Timestamp::ZERO;

/// Two connections, and all messages that have passed between them.
pub(crate) struct Pair {
    pub(crate) client: Connection<&'static str>,
    pub(crate) server: Connection<&'static str>,
}

impl Pair {
    pub(crate) fn new(dialect: Dialect) -> Self {
        let mut client = Config::client(dialect.clone());
        let mut server = Config::server(dialect);
        (client.show_work, server.show_work) = (true, true);
        server.connection = 1;
        Self { client: Connection::new(client), server: Connection::new(server) }
    }

    /// Passes everything that waits on, and returns the messages.
    fn pass(from: &mut Connection<&'static str>, to: &mut Connection<&'static str>) -> Vec<String> {
        let mut passed = Vec::new();
        let mut wire = Vec::new();
        while let Some(transmit) = from.poll_transmit(&mut wire) {
            let message = transmit.message(&wire).to_vec();
            let event = to.receive(&message, NOW).map(Event::into_owned);
            passed.push(String::from_utf8(message).expect("it is UTF-8"));
            if let Some(event) = event {
                EVENTS.with_borrow_mut(|events| events.push(event));
            }
            wire.clear();
            EVENTS.with_borrow_mut(|events| events.extend(to.drain_events()));
        }
        passed
    }

    pub(crate) fn up(&mut self) -> (Vec<String>, Vec<Event<'static, &'static str>>) {
        let passed = Self::pass(&mut self.client, &mut self.server);
        (passed, EVENTS.take())
    }

    pub(crate) fn down(&mut self) -> (Vec<String>, Vec<Event<'static, &'static str>>) {
        let passed = Self::pass(&mut self.server, &mut self.client);
        (passed, EVENTS.take())
    }
}

thread_local! {
    static EVENTS: std::cell::RefCell<Vec<Event<'static, &'static str>>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

pub(crate) fn raw(text: &str) -> Box<RawValue> {
    serde_json::from_str(text).expect("it is JSON")
}

pub(crate) fn words(events: &[Event<'_, &'static str>]) -> Vec<String> {
    events
        .iter()
        .map(|event| match event {
            Event::Request { method, .. } => format!("request {method}"),
            Event::Notification { method, .. } => format!("notification {method}"),
            Event::Cancelled { cause, .. } => format!("cancelled {cause}"),
            Event::Settled { outcome, data, .. } => {
                format!("settled {data} {}", outcome.settlement())
            }
            Event::WorkBegan { kind, name, runs_here, .. } => {
                format!("began {kind} {name} {}", if *runs_here { "here" } else { "there" })
            }
            Event::WorkStopped { cause, .. } => format!("stopped {cause}"),
            Event::WorkEnded { outcome, .. } => format!("ended {outcome}"),
            other => format!("{other:?}"),
        })
        .collect()
}

pub(crate) fn request_in(events: &[Event<'_, &'static str>]) -> RequestHandle {
    let found = events.iter().find_map(|event| match event {
        Event::Request { request, .. } => Some(*request),
        _ => None,
    });
    found.expect("a request")
}

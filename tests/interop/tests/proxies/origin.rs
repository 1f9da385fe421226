//! Our server, and its own record of each request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol_async::{Options, Verdict};
use protocol_core::{Cause, Config};
use protocol_http::server::{Server, ServerOptions};
use protocol_router::Router;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::client::{Accepts, Client, Version};

/// An entry in the server's record of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    /// The handler works.
    Began,
    /// The request was cancelled, when the clock had seen so many comments.
    Cancelled { cause: Cause, tick: u64, at: Instant },
    /// The handler finished without a cancel.
    Finished,
}

type Entries = BTreeMap<String, Vec<Entry>>;

/// A server on a port of its own. Its one method `wait` works until it is cancelled or released.
pub(crate) struct Origin {
    server: Server,
    pub(crate) address: SocketAddr,
    record: watch::Sender<Entries>,
    /// The comments that the clock has seen.
    ticks: watch::Sender<u64>,
    released: watch::Sender<bool>,
}

impl Origin {
    pub(crate) async fn new() -> Self {
        let (record, ticks) = (watch::Sender::new(Entries::new()), watch::Sender::new(0));
        let released = watch::Sender::new(false);
        let (began, release) = (record.clone(), released.clone());
        let router = Router::new().request("wait", move |params: Value, cx| {
            let (record, mut released) = (began.clone(), release.subscribe());
            async move {
                let name = params["name"].as_str().unwrap_or_default().to_owned();
                note(&record, &name, Entry::Began);
                let released = released.wait_for(|released| *released);
                _ = cx.cancellation().unless_cancelled(released).await?;
                cx.cancellation().checkpoint()?;
                note(&record, &name, Entry::Finished);
                Ok("released")
            }
        });
        let mut options = ServerOptions::default();
        let (told, seen) = (record.clone(), ticks.clone());
        options.endpoint = Arc::new(move |dialect| {
            let mut endpoint = Options::new(Config::server(dialect));
            let (told, seen) = (told.clone(), seen.clone());
            endpoint.observer = Some(Box::new(move |verdict| {
                if let Verdict::Cancelled { id: Some(id), cause } = verdict {
                    let (tick, at) = (*seen.borrow(), Instant::now());
                    let entry = Entry::Cancelled { cause: *cause, tick, at };
                    note(&told, id.as_json().trim_matches('"'), entry);
                }
            }));
            endpoint
        });
        let server = Server::new(options, move |_peer, incoming| {
            let router = router.clone();
            async move { _ = router.serve(&incoming).await }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let serving = server.clone();
        tokio::spawn(async move { serving.serve(listener).await.expect("the listener stays") });
        Self { server, address, record, ticks, released }
    }

    /// Starts the clock of this test: a client without a proxy that counts comments. A machine that is too busy to send them
    /// is given more time.
    pub(crate) async fn start_clock(&self) -> JoinHandle<()> {
        let ticks = self.ticks.clone();
        let mut client = Client::new(self.address, Version::Http1, Accepts::Events, "clock").await;
        tokio::spawn(async move {
            while client.comment().await {
                ticks.send_modify(|ticks| *ticks += 1);
            }
        })
    }

    /// Returns the number of comments that the clock has seen.
    pub(crate) fn tick(&self) -> u64 {
        *self.ticks.borrow()
    }

    /// Waits for an entry of a request.
    pub(crate) async fn entry(&self, name: &str, is_wanted: impl Fn(&Entry) -> bool) -> Entry {
        let find = |entries: &Entries| entries.get(name)?.iter().copied().find(|it| is_wanted(it));
        let mut record = self.record.subscribe();
        let entries = record.wait_for(|entries| find(entries).is_some()).await;
        find(&entries.expect("the record stays")).expect("it was there")
    }

    /// Waits until the clock has seen so many more comments.
    pub(crate) async fn after(&self, ticks: u64) {
        let mut seen = self.ticks.subscribe();
        let until = *seen.borrow() + ticks;
        seen.wait_for(|seen| *seen >= until).await.expect("the clock stays");
    }

    /// Lets every handler finish.
    pub(crate) fn release(&self) {
        self.released.send_replace(true);
    }

    /// Ends the server, and waits until nothing is left of it.
    pub(crate) async fn end(self) {
        self.server.drain(Duration::from_secs(10), Duration::from_secs(1)).await;
    }
}

fn note(record: &watch::Sender<Entries>, name: &str, entry: Entry) {
    record.send_modify(|entries| entries.entry(name.to_owned()).or_default().push(entry));
}

//! Our HTTP server behind released proxies: whether it notices that a client has gone.
//!
//! Each cell is one request of MCP 2026-07-28, where a closed stream is the cancel. All cells run at the same time. The
//! table of the guide has the expected outcome of each.
#![cfg(unix)]

mod client;
mod fleet;
mod guide;
mod origin;

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use protocol_core::Cause;
use tokio::time::timeout;

use client::{Accepts, Client, End, Version};
use fleet::Fleet;
use guide::Guide;
use origin::{Entry, Origin};

/// The intervals between comments within which a cancel has to be recorded.
const WITHIN: u64 = 4;
/// The comments after which a client that was not noticed counts as hidden.
const HIDDEN_FOR: u64 = 8;
/// Longer than anything else takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A row of the guide, as it begins, and the name of its configuration.
const ROWS: [(&str, &str, &str); 8] = [
    ("none", "none", "none"),
    ("nginx", "default", "nginx/default"),
    ("nginx", "as below", "nginx/guide"),
    ("nginx", "`proxy_ignore_client_abort on`", "nginx/ignoring"),
    ("HAProxy", "default", "haproxy/default"),
    ("HAProxy", "as below", "haproxy/guide"),
    ("Caddy", "default, as below", "caddy/default"),
    ("Caddy", "`flush_interval -1`", "caddy/flushing"),
];

/// One request, and the end of its client.
#[derive(Clone, Copy, Debug)]
struct Cell {
    place: &'static str,
    version: Version,
    accepts: Accepts,
    end: End,
}

/// The state of a cell before the handlers were released.
enum Seen {
    /// The server recorded the cancel.
    Noticed { ticks: u64, time: Duration },
    /// The server recorded nothing. The client is here if it still reads.
    Hidden(Option<Client>),
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_has_gone_is_noticed_behind_proxies_as_the_guide_says() {
    let origin = Arc::new(Origin::new().await);
    let Some(fleet) = Fleet::new(origin.address) else { return };
    let clock = origin.start_clock().await;
    let mut running = Vec::new();
    for cell in cells() {
        let address = fleet.address(cell.place, cell.version).unwrap_or(origin.address);
        let origin = origin.clone();
        running.push((cell, tokio::spawn(async move { cell.run(&origin, address).await })));
    }
    let mut seen = Vec::new();
    for (cell, run) in running {
        seen.push((cell, run.await.expect("the cell does not panic")));
    }
    // Here every cell has its verdict but for those that are hidden. Their handlers finish, which is the witness.
    origin.release();
    let guide = Guide::read(&ROWS);
    let mut wrong = Vec::new();
    for (cell, seen) in seen {
        let expected = guide.expects(cell.place, cell.version, cell.accepts);
        let is_noticed = matches!(seen, Seen::Noticed { .. });
        let said = match seen {
            Seen::Noticed { ticks, time } => {
                // Two streams are not in step, so one more comment may come on the other.
                if ticks > WITHIN + 1 {
                    wrong.push(format!("{cell:?}: noticed {ticks} comments late"));
                }
                format!("noticed after {} ms", time.as_millis())
            }
            Seen::Hidden(client) => cell.finish(&origin, client, expected.reads_on).await,
        };
        println!("{cell:?}: {said}");
        if is_noticed != expected.notices(cell.end) {
            wrong.push(format!("{cell:?}: {said}, but the guide says {expected:?}"));
        }
    }
    clock.abort();
    drop(fleet);
    Arc::into_inner(origin).expect("no cell is left").end().await;
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for (_, _, place) in ROWS {
        for version in [Version::Http1, Version::Http2] {
            for accepts in [Accepts::Events, Accepts::Json] {
                for end in [End::Close, End::Reset, End::HalfClose, End::ResetStream] {
                    if end != End::ResetStream || version == Version::Http2 {
                        cells.push(Cell { place, version, accepts, end });
                    }
                }
            }
        }
    }
    cells
}

impl Cell {
    fn name(self) -> String {
        format!("{} {:?} {:?} {:?}", self.place, self.version, self.accepts, self.end)
    }

    /// Sends the request, ends the client once the server works, and waits for the server's record of the cancel.
    async fn run(self, origin: &Origin, address: std::net::SocketAddr) -> Seen {
        let name = self.name();
        let mut client = Client::new(address, self.version, self.accepts, &name).await;
        self.within(origin.entry(&name, |it| matches!(it, Entry::Began))).await;
        if self.accepts == Accepts::Events {
            assert!(self.within(client.comment()).await, "{name}: no events come");
        }
        let (tick, begun) = (origin.tick(), Instant::now());
        let client = client.end(self.end).await;
        let cancelled = origin.entry(&name, |it| matches!(it, Entry::Cancelled { .. }));
        let entry = tokio::select! {
            entry = cancelled => entry,
            () = self.within(origin.after(HIDDEN_FOR)) => return Seen::Hidden(client),
        };
        let Entry::Cancelled { cause, tick: noticed, at } = entry else { unreachable!() };
        assert_eq!(cause, Cause::Peer, "{name}");
        Seen::Noticed { ticks: noticed - tick, time: at - begun }
    }

    /// Waits until the handler that noticed nothing has finished. A client that reads on has its response.
    async fn finish(self, origin: &Origin, client: Option<Client>, reads_on: bool) -> String {
        let entry = self.within(origin.entry(&self.name(), |it| !matches!(it, Entry::Began))).await;
        assert!(matches!(entry, Entry::Finished), "{self:?}: {entry:?} after it was hidden");
        if let Some(mut client) = client.filter(|_| reads_on && self.end == End::HalfClose) {
            assert!(self.within(client.read_until("released")).await, "{self:?}: no response");
            return "not noticed, and its client has the response".into();
        }
        "not noticed".into()
    }

    async fn within<T>(self, future: impl Future<Output = T>) -> T {
        timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{self:?}: nothing happens"))
    }
}

//! A relay has a budget for messages that cost its peer next to nothing and that nobody behind it sees (G8).

use std::future::{Future, Pending, pending};
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use futures_io::{AsyncRead, AsyncWrite};
use protocol_async::relay::{Options, relay};
use protocol_async::{Budget, Budgets, Cheap, OverBudget, Timer};
use protocol_core::{Config, Dialect, Timestamp};

/// A clock that stands still.
#[derive(Clone)]
struct Still;

impl Timer for Still {
    type Sleep = Pending<()>;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO
    }

    fn sleep_until(&self, _: Timestamp) -> Self::Sleep {
        pending()
    }
}

/// A peer that sends these bytes, and then nothing more.
struct Says(Vec<u8>);

impl AsyncRead for Says {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = self.0.len().min(room.len());
        if read == 0 {
            return Poll::Pending;
        }
        room[..read].copy_from_slice(&self.0[..read]);
        self.0.drain(..read);
        Poll::Ready(Ok(read))
    }
}

/// A peer that keeps all bytes that were written to it.
#[derive(Clone, Default)]
struct Hears(Arc<Mutex<Vec<u8>>>);

impl Hears {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl AsyncWrite for Hears {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

const BURST: u32 = 10;
const REQUEST: &str = r#"{"jsonrpc":"2.0","id":1,"method":"slow"}"#;

/// Relays a client that sends a request and then these lines so many times, and a server that sends nothing.
/// Returns what the client overspent, and what the server received.
fn relayed(lines: &[&str], times: u32) -> (Option<OverBudget>, String) {
    let budget = Budget::Limited { per_second: 1, burst: BURST };
    let mut options =
        Options::new(Config::server(Dialect::ACP_V1), Config::client(Dialect::ACP_V1));
    options.budgets = Budgets::UNLIMITED;
    options.budgets.violations = budget;
    options.budgets.vain_cancels = budget;
    let all = [REQUEST].into_iter().chain((0..times).flat_map(|_| lines.iter().copied()));
    let said: String = all.flat_map(|line| [line, "\n"]).collect();
    let (to_client, to_server) = (Hears::default(), Hears::default());
    let up = (Says(said.into_bytes()), to_client);
    let down = (Says(Vec::new()), to_server.clone());
    let mut relay = pin!(relay(up, down, Still, options));
    let mut cx = Context::from_waker(Waker::noop());
    // Each poll has its turns.
    for _ in 0..100 {
        match relay.as_mut().poll(&mut cx) {
            Poll::Ready(Ok(())) => panic!("nobody has hung up"),
            Poll::Ready(Err(error)) => {
                let over = error.get_ref().and_then(|error| error.downcast_ref()).copied();
                return (Some(over.expect("that is why")), to_server.text());
            }
            Poll::Pending => {}
        }
    }
    (None, to_server.text())
}

/// Returns the budget that these lines overspend once they are sent once more than it allows. Asserts that they
/// cost nothing up to then.
fn overspent(lines: &[&str]) -> Option<Cheap> {
    let (over, told) = relayed(lines, BURST);
    assert_eq!(over, None);
    assert_eq!(told.lines().count() % 2, 1, "the request, and lines that pass in pairs: {told}");
    let (over, told) = relayed(lines, BURST + 1);
    assert_eq!(over.is_some(), told.is_empty(), "a gone client's request is withdrawn: {told}");
    over.map(|over| over.what)
}

#[test]
fn g08_a_client_that_breaks_rules_too_often_is_gone_for_a_relay() {
    assert_eq!(overspent(&[r#"{"jsonrpc":"2.0","id":2,"method":7}"#]), Some(Cheap::Violation));
}

#[test]
fn g08_a_client_that_cancels_nothing_too_often_is_gone_for_a_relay() {
    let vain = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":9}}"#;
    assert_eq!(overspent(&[vain]), Some(Cheap::VainCancel));
}

#[test]
fn g08_what_a_relay_passes_on_is_free_there() {
    let notification = r#"{"jsonrpc":"2.0","method":"n"}"#;
    assert_eq!(overspent(&[notification, notification]), None);
}

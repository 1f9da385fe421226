//! Promises of a hub to the tasks and threads that drive it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Wake;
use std::time::Duration;

use futures_util::FutureExt;
use protocol_async::hub::{Hub, Messages, Output};
use protocol_async::{Budget, Incoming, Options, Peer};
use protocol_core::{CallOptions, CloseReason, Config, Dialect, InputBuffer, Shutdown, Timestamp};

fn connection() -> (Hub, Peer, Incoming) {
    Hub::new(Options::new(Config::client(Dialect::ACP_V1)), || Timestamp::ZERO)
}

/// A task that counts how often it was woken.
#[derive(Default)]
struct Task(AtomicUsize);

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[test]
fn g05_a_timer_wakes_the_task_that_drives_and_not_one_that_did() {
    let (hub, peer, _incoming) = connection();
    let [before, now] = [(); 2].map(|()| Arc::<Task>::default());
    let mut out = Messages::default();
    peer.try_notify("n", ()).unwrap();
    assert_eq!(hub.poll_output(&before.clone().into(), &mut out), Output::Write);
    // Its write waits.
    assert_eq!(hub.poll_timers(&before.clone().into()), None);
    out.clear();
    assert_eq!(hub.poll(&now.clone().into(), &mut out), (None, Output::Idle));
    // The cork holds the call back, so only its timer is there.
    let _cork = peer.cork();
    let options = CallOptions::default().timeout(Duration::from_secs(7));
    peer.call_with::<()>("slow", (), options).detach();
    assert_eq!((before.0.load(SeqCst), now.0.load(SeqCst)), (0, 1));
}

/// The budget ended it, so the peer that hangs up then is not the reason.
#[test]
fn the_reason_of_a_close_stays_when_the_input_ends_after_it() {
    let mut options = Options::new(Config::server(Dialect::ACP_V1));
    options.budgets.violations = Budget::Limited { per_second: 1, burst: 1 };
    let (hub, peer, _incoming) = Hub::new(options, || Timestamp::ZERO);
    hub.receive_message(b"{");
    hub.receive_message(b"{");
    let closed = || peer.closed().now_or_never().unwrap();
    let first = closed().error.unwrap().to_string();
    hub.finish(&InputBuffer::new(), Some(&io::Error::other("reset by peer")));
    assert_eq!(closed().error.unwrap().to_string(), first);
}

#[test]
fn a_connection_that_we_shut_down_has_no_error_when_its_streams_fail_later() {
    let fail: [fn(&Hub, &io::Error); 2] =
        [|hub, error| hub.finish(&InputBuffer::new(), Some(error)), Hub::fail];
    for fail in fail {
        let (hub, peer, _incoming) = connection();
        peer.shutdown(Shutdown::CancelAll);
        assert_eq!(peer.closed().now_or_never().unwrap().reason, CloseReason::Shutdown);
        fail(&hub, &io::Error::other("reset by peer"));
        assert!(peer.closed().now_or_never().unwrap().error.is_none());
    }
}

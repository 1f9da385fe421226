//! The end of a connection that the other side, or anything in between, has ended.

use std::io::ErrorKind;

use protocol_async::CallError;
use protocol_core::{Cause, CloseReason, Refusal};

use super::{
    acp, against_far, is_pending, notification, notification_line, request, request_line,
    result_line, run,
};
use crate::pipe::ENDLESS;

#[test]
fn f34_a_write_error_closes_the_connection_and_is_told() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<()>("slow", ());
        far.expect(&request_line(1, "slow")).await;
        far.send(&[&request_line(9, "theirs")]).await;
        let (_, responder) = request(&incoming).await;
        assert!(is_pending(&mut peer.closed()).await && !peer.is_closed());
        far.stop_reading();
        peer.try_notify("nobody reads it", ()).unwrap();
        let closed = peer.closed().await;
        assert_eq!(closed.reason, CloseReason::PeerGone);
        assert_eq!(closed.error.as_ref().unwrap().kind(), ErrorKind::BrokenPipe);
        assert_eq!(closed.to_string(), "peer_gone: broken pipe");
        assert!(peer.is_closed());
        assert!(matches!(
            sent.await,
            Err(CallError::ConnectionLost { cause: Cause::PeerGone, .. })
        ));
        assert_eq!(responder.cancellation().cancelled().await, Cause::PeerGone);
        assert_eq!(peer.try_notify("late", ()), Err(Refusal::Closed));
        let refused = peer.call::<()>("late", ()).await;
        assert!(matches!(refused, Err(CallError::Refused(Refusal::Closed))));
        peer.flushed().await;
        assert_eq!(incoming.receive().await.unwrap_err(), CloseReason::PeerGone);
    });
}

/// The input is more than one read takes: the part that is left when writing fails is read before
/// the end.
#[test]
fn f34_what_the_peer_said_before_a_write_error_is_read() {
    const NOTIFICATIONS: usize = 5_000;
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let sent = peer.call::<u8>("slow", ());
        far.expect(&request_line(1, "slow")).await;
        let cork = peer.cork();
        peer.try_notify("nobody reads it", ()).unwrap();
        let line = notification_line("before");
        let mut said = vec![line.as_str(); NOTIFICATIONS];
        let result = result_line(1, "5");
        said.push(&result);
        far.send(&said).await;
        far.stop_reading();
        drop(cork);
        assert_eq!(sent.await.unwrap(), 5);
        for _ in 0..NOTIFICATIONS {
            notification(&incoming, "before").await;
        }
        assert_eq!(incoming.receive().await.unwrap_err(), CloseReason::PeerGone);
    });
}

#[test]
fn f34_a_read_error_is_told() {
    run(async {
        let (peer, incoming, mut far) = against_far(acp(), ENDLESS);
        far.fail(ErrorKind::ConnectionReset);
        let closed = peer.closed().await;
        assert_eq!(closed.error.unwrap().kind(), ErrorKind::ConnectionReset);
        assert_eq!(incoming.receive().await.unwrap_err(), CloseReason::PeerGone);
    });
}

#[test]
fn f34_the_end_of_input_is_no_error() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        far.close();
        let closed = peer.closed().await;
        assert!(closed.error.is_none());
        assert_eq!(closed.to_string(), "peer_gone");
    });
}

//! Keep-alives are sent on time, wait for room, and end a silent connection.

use protocol_async::{Arrival, CallError, KeepAlive, Options, Unanswered};
use protocol_core::{CloseReason, Config, Dialect};

use super::{TICK, acp, against_far, request_line, result_line, run, sleep};
use crate::pipe::ENDLESS;

/// Asks every two ticks, and waits for one.
fn mcp() -> Options {
    let dialect = Dialect::MCP_2025_06_18;
    let keep_alive = KeepAlive::every(2 * TICK, &dialect).unwrap().patience(TICK);
    let mut options = Options::from(Config::client(dialect));
    options.keep_alive = Some(keep_alive);
    options
}

/// Asks every two ticks, and waits for as long as any machine may be busy.
fn patient() -> Options {
    let mut options = mcp();
    options.keep_alive = options.keep_alive.take().map(|how| how.patience(1_000 * TICK));
    options
}

#[test]
fn g07_an_unanswered_keep_alive_ends_the_connection_and_says_so() {
    run(async {
        let (peer, incoming, mut far) = against_far(mcp(), ENDLESS);
        let sent = peer.call::<()>("slow", ());
        far.expect(&request_line(1, "slow")).await;
        far.send(&[&request_line(7, "ours")]).await;
        let Ok(Arrival::Request(_, responder)) = incoming.receive().await else { panic!() };
        far.expect(&request_line(2, "ping")).await;
        let closed = peer.closed().await;
        assert_eq!(closed.reason, CloseReason::PeerGone);
        let error = closed.error.unwrap();
        let why: &Unanswered = error.get_ref().unwrap().downcast_ref().unwrap();
        assert_eq!((why.method.as_str(), why.patience), ("ping", TICK));
        assert!(responder.is_cancelled());
        let Err(CallError::ConnectionLost { how: Some(how), .. }) = sent.await else { panic!() };
        assert!(how.starts_with("the keep-alive \"ping\" was not answered within "), "{how}");
    });
}

/// A handler that takes its time is no reason to end: its peer answers all that it is asked meanwhile.
#[test]
fn g07_a_peer_that_answers_keep_alives_is_there_whatever_else_it_does() {
    run(async {
        let (peer, _incoming, mut far) = against_far(patient(), ENDLESS);
        let slow = peer.call::<()>("slow", ());
        far.line().await;
        // An error is an answer too.
        for id in 2..6 {
            far.expect(&request_line(id, "ping")).await;
            let error =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":""}}}}"#);
            let answer = if id == 4 { error } else { result_line(id, "{}") };
            far.send(&[&answer]).await;
        }
        assert!(!peer.is_closed());
        far.send(&[&result_line(1, "null")]).await;
        slow.await.unwrap();
    });
}

/// It can't even be asked.
#[test]
fn g07_a_peer_that_reads_nothing_does_not_answer() {
    run(async {
        let mut options = mcp();
        options.config.limits.unsent_messages = 1;
        let (peer, _incoming, far) = against_far(options, 10);
        while peer.try_notify("n", ()).is_ok() {
            sleep(TICK / 10).await;
        }
        let error = peer.closed().await.error.unwrap();
        assert!(error.to_string().contains("keep-alive"), "{error}");
        drop(far);
    });
}

/// A keep-alive that had no room is sent when there is some.
#[test]
fn g07_a_keep_alive_waits_for_room() {
    run(async {
        let mut options = patient();
        options.config.limits.unsent_messages = 1;
        let (peer, _incoming, mut far) = against_far(options, 10);
        while peer.try_notify("n", ()).is_ok() {
            sleep(TICK / 10).await;
        }
        sleep(3 * TICK).await;
        // Nothing else is let in before it, for nobody tries.
        let ping = loop {
            let line = far.line().await.unwrap();
            if line.contains("ping") {
                break line;
            }
        };
        assert_eq!(ping, request_line(1, "ping"));
        far.send(&[&result_line(1, "{}")]).await;
        assert_eq!(far.line().await.unwrap(), request_line(2, "ping"));
        assert!(!peer.is_closed());
    });
}

#[test]
fn a_protocol_without_such_a_request_has_no_keep_alive() {
    for dialect in [Dialect::ACP_V1, Dialect::LSP_3_17, Dialect::ABP, Dialect::MCP_2026_07_28] {
        assert!(KeepAlive::every(TICK, &dialect).is_err(), "{}", dialect.name);
    }
}

/// As long as the revision is not agreed on, the newest is spoken, which has none.
#[test]
fn f72_the_keep_alive_is_that_of_the_revision_that_is_agreed_on() {
    run(async {
        let mut options = Options::from(Config::client(Dialect::MCP));
        options.keep_alive = Some(KeepAlive::every(TICK, &Dialect::MCP).unwrap());
        let (peer, _incoming, mut far) = against_far(options, ENDLESS);
        sleep(3 * TICK).await;
        let opened = peer.call::<serde_json::Value>("initialize", ());
        assert!(far.line().await.unwrap().contains("initialize"), "nothing was asked before");
        far.send(&[&result_line(1, r#"{"protocolVersion":"2025-11-25"}"#)]).await;
        opened.await.unwrap();
        far.expect(&request_line(2, "ping")).await;
    });
}

#[test]
fn a_protocol_of_ones_own_says_what_to_ask() {
    run(async {
        let mut options = Options::from(acp());
        options.keep_alive = Some(KeepAlive::by("_are_you_there", TICK));
        let (peer, _incoming, mut far) = against_far(options, ENDLESS);
        far.expect(&request_line(1, "_are_you_there")).await;
        assert!(!peer.is_closed());
    });
}

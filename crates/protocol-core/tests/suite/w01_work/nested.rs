//! Requests within work that was stopped, and messages that stop both.

use protocol_core::{
    CallOptions, Carrier, Cause, Config, Connection, Dialect, Event, News, Response, Shutdown, Sign,
};

use super::pair::{NOW, Pair, raw, request_in, words};
use super::{SESSION, ms, prompt, stop};

#[test]
fn w09_a_question_of_stopped_work_is_a_child_of_its_request_although_it_never_leaves() {
    let mut pair = Pair::new(Dialect::ACP_V2);
    let (call, request) = prompt(&mut pair);
    stop(&mut pair, call);
    pair.up();
    let options = CallOptions::default().parent(request);
    let asked =
        pair.server.call("session/request_permission", Some(&raw(SESSION)), "ask", options, NOW);
    assert!(asked.is_ok());
    let is_settled = |event: &Event<'_, _>| matches!(event, Event::TreeSettled { .. });
    assert!(!pair.server.drain_events().any(|event| is_settled(&event)), "it has no response yet");
    pair.server.respond(request, Response::Cancelled).unwrap();
    pair.down();
    assert!(pair.server.drain_events().any(|event| is_settled(&event)));
}

#[test]
fn w17_a_cancel_of_a_request_and_its_progress_is_reported_for_both() {
    let mut config = Config::server(Dialect::DAP);
    config.show_work = true;
    let mut adapter = Connection::<&'static str>::new(config);
    let initialize = br#"{"seq":1,"type":"request","command":"initialize","arguments":{}}"#;
    let opened = adapter.receive(initialize, NOW).map(Event::into_owned);
    adapter
        .respond(
            request_in(&[opened.unwrap()]),
            Response::Result(&raw(r#"{"supportsCancelRequest":true}"#)),
        )
        .unwrap();
    adapter.notify("progressStart", Some(&raw(r#"{"progressId":"p"}"#))).unwrap();
    let launch = br#"{"seq":2,"type":"request","command":"launch"}"#;
    let cancel = br#"{"seq":3,"type":"request","command":"cancel","arguments":{"requestId":2,"progressId":"p"}}"#;
    let _ = adapter.receive(launch, NOW);
    let _ = adapter.receive(cancel, NOW);
    let events: Vec<_> = adapter.drain_events().collect();
    let words = words(&events);
    for told in ["stopped peer", "cancelled peer"] {
        assert!(words.iter().any(|word| word == told), "{told}: {words:?}");
    }
}

#[test]
fn g07_a_stop_that_ends_a_draining_connection_is_an_event_before_the_end() {
    let mut pair = Pair::new(Dialect::ACP_V2);
    let (call, request) = prompt(&mut pair);
    pair.server.respond(request, Response::Result(&raw("{}"))).unwrap();
    pair.down();
    let params = raw(SESSION);
    let options = Default::default();
    pair.server.call("session/request_permission", Some(&params), "ask", options, NOW).unwrap();
    pair.server.shutdown(Shutdown::Drain, NOW);
    stop(&mut pair, call);
    let (_, events) = pair.up();
    let words = words(&events);
    assert!(words.contains(&"notification session/cancel".to_owned()), "{words:?}");
    assert!(words.last().is_some_and(|last| last.starts_with("Closed")), "{words:?}");
}

#[test]
fn w21_a_turn_whose_call_is_withdrawn_at_once_neither_begins_nor_ends() {
    let mut pair = Pair::new(Dialect::ACP_V1);
    let read = br#"{"jsonrpc":"2.0","id":7,"method":"fs/read"}"#;
    let event = pair.client.receive(read, NOW).map(Event::into_owned).expect("a request");
    let request = request_in(&[event]);
    pair.client.cancel_request(request, Cause::Internal, NOW);
    let _cancelled = pair.client.drain_events().count();
    let options = CallOptions::default().parent(request);
    pair.client.call("session/prompt", Some(&raw(SESSION)), "prompt", options, NOW).unwrap();
    let events = words(&pair.client.drain_events().collect::<Vec<_>>());
    assert_eq!(events, ["settled prompt cancelled"], "nothing of the turn was ever told");
    assert_eq!(pair.client.machine().works().count(), 0);
    // A turn whose begin was reported has its end reported.
    let call =
        pair.client.call("session/prompt", Some(&raw(SESSION)), "b", Default::default(), NOW);
    pair.client.cancel(call.unwrap(), Cause::Caller, NOW);
    let events = words(&pair.client.drain_events().collect::<Vec<_>>());
    assert_eq!(events, ["began turn \"s\" there", "settled b cancelled", "ended stopped"]);
}

#[test]
fn w21_a_turn_that_a_late_result_begins_and_ends_neither_begins_nor_ends() {
    let mut dialect = Dialect::ACP_V2;
    let ended = Sign {
        carrier: Carrier::Result,
        method: "".into(),
        name: vec!["sessionId".into()].into(),
        state: None,
        news: News::Ended,
        stopped: None,
    };
    dialect.work.to_mut()[0].signs.to_mut().push(ended);
    let mut pair = Pair::new(dialect);
    let options = CallOptions::default().timeout(ms(1));
    pair.client.call("session/prompt", Some(&raw(SESSION)), "prompt", options, NOW).unwrap();
    let (_, events) = pair.up();
    pair.client.handle_timeout(NOW + ms(1));
    let _silent = pair.client.drain_events().count();
    pair.server.respond(request_in(&events), Response::Result(&raw(SESSION))).unwrap();
    let told = words(&pair.down().1);
    assert!(!told.iter().any(|it| it.contains("ended") || it.contains("began")), "{told:?}");
}

//! Histories in which the reference model found the core wrong, each the shortest there is. That model judges
//! everything that happens in them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use protocol_core::{
    Cause, Config, Dialect, Event, Grace, Response, Role, Shutdown, StreamConnection, Timestamp,
};
use protocol_testkit::{Answering, Asked, Hostile, Method, Operation, World, both_roles, small};
use serde_json::value::RawValue;

use Role::{Client, Server};

/// Does all of it in a world of that configuration.
#[track_caller]
fn judge(config: Config, operations: &[Operation]) {
    let mut world = World::new(both_roles(config));
    for (place, operation) in operations.iter().enumerate() {
        let judged = world.apply(operation);
        assert!(judged.is_ok(), "{place}: {operation}: {}", judged.expect_err("it is broken"));
    }
    let judged = world.finish();
    assert!(judged.is_ok(), "at the end: {}", judged.expect_err("it is broken"));
}

const fn call(asked: Asked) -> Operation {
    Operation::Call { at: Client, asked }
}

const FIVE_MILLIS: Option<Grace> = Some(Grace::Settle(Duration::from_millis(5)));

const fn tool() -> Asked {
    Asked { method: Method::Tool, ..Asked::work(1) }
}

const fn cancel(call: u8, cause: Cause) -> Operation {
    Operation::Cancel { at: Client, call, cause }
}

const fn drain(at: Role) -> Operation {
    Operation::Drain { at, messages: 1 }
}

const fn read(at: Role) -> Operation {
    Operation::Arrive { at, place: 0, piece: 0 }
}

const fn begin(request: u8) -> Operation {
    Operation::Begin { at: Server, request }
}

const fn hostile(message: Hostile, id: u8) -> Operation {
    Operation::Hostile { to: Client, message, id }
}

#[test]
fn f03_who_waits_for_room_is_told_when_all_is_given_up() {
    let mut config = small(Dialect::ACP_V1);
    config.limits.unsent_messages = 1;
    let notify = Operation::Notify { at: Client, long: false };
    let abandon = Operation::Shutdown { at: Client, how: Shutdown::Abandon };
    judge(config, &[notify, notify, abandon]);
}

#[test]
fn g05_the_next_timer_is_the_one_that_is_due_next() {
    let timed = Asked { deadline: 20, idle: 4, ..Asked::work(1) };
    let progress = [Operation::Progress { at: Server, token: 1 }, drain(Server), read(Client)];
    let wait = [Operation::Wait { millis: 3 }, Operation::Wait { millis: 1 }];
    let asked = [call(timed), call(Asked { deadline: 1, ..timed }), drain(Client), read(Server)];
    judge(small(Dialect::ACP_V1), &[&asked[..], &wait, &progress, &wait, &wait].concat());
}

#[test]
fn f11_a_second_cancel_says_that_the_token_is_awaited() {
    let mut config = small(Dialect::ERLMCP);
    config.abandoned_grace = Duration::ZERO;
    let cancels = [cancel(0, Cause::Caller), cancel(0, Cause::Dropped)];
    judge(config, &[call(tool()), drain(Client), cancels[0], cancels[1]]);
}

#[test]
fn g09_what_has_the_number_of_an_unsent_cancel_is_no_response() {
    let its_token_comes = [call(tool()), drain(Client), read(Server), begin(0), drain(Server)];
    let rest = [cancel(0, Cause::Caller), read(Client), hostile(Hostile::Empty, 1), read(Client)];
    judge(small(Dialect::ERLMCP), &[&its_token_comes[..], &rest].concat());
}

#[test]
fn g12_a_second_answer_behind_the_token_is_a_duplicate() {
    let patient = Asked { grace: FIVE_MILLIS, ..tool() };
    let its_token_comes = [call(patient), drain(Client), read(Server), begin(0), drain(Server)];
    let it_settles = [cancel(0, Cause::Caller), read(Client), Operation::Wait { millis: 5 }];
    let second = [hostile(Hostile::Result, 0), read(Client)];
    judge(small(Dialect::ERLMCP), &[&its_token_comes[..], &it_settles, &second].concat());
}

#[test]
fn g12_an_acknowledged_cancel_takes_no_place_in_the_memory() {
    let mut config = small(Dialect::ERLMCP);
    config.limits.abandoned_ids = 1;
    let timed = Asked { deadline: 5, ..Asked::work(1) };
    let one_is_abandoned = [call(timed), drain(Client), Operation::Wait { millis: 5 }];
    let another_is_cancelled = [
        call(tool()),
        drain(Client),
        read(Server),
        read(Server),
        begin(1),
        drain(Server),
        cancel(1, Cause::Caller),
        read(Client),
        drain(Client),
        read(Server),
        drain(Server),
        drain(Server),
        read(Client),
        read(Client),
    ];
    let late = [hostile(Hostile::Result, 0), read(Client)];
    judge(config, &[&one_is_abandoned[..], &another_is_cancelled, &late].concat());
}

/// Returns the family of MCP, in which one revision waits for the responses to cancelled calls.
fn family() -> Dialect {
    let mut family = Dialect::MCP;
    family.revisions.to_mut()[0].1.grace = Grace::Settle(Duration::from_millis(20));
    family.grace = Grace::Settle(Duration::from_millis(5));
    family
}

const INITIALIZE: Asked = Asked { method: Method::Initialize, ..Asked::work(1) };

const fn answer_with_revision(place: u8) -> Operation {
    Operation::Respond { at: Server, request: 0, answer: Answering::Revision(place) }
}

#[test]
fn g12_a_grace_that_was_asked_for_stays_when_the_revision_changes() {
    let as_the_family_has_it = Asked { grace: FIVE_MILLIS, ..Asked::work(1) };
    let made_before = [call(INITIALIZE), call(as_the_family_has_it), drain(Client), drain(Client)];
    let rest = [read(Server), answer_with_revision(0), drain(Server), read(Client)];
    judge(small(family()), &[&made_before[..], &rest, &[cancel(1, Cause::Caller)]].concat());
}

#[test]
fn f73_no_cancel_overtakes_the_answer_that_settles_the_revision() {
    let agree = [call(INITIALIZE), drain(Client), read(Server)];
    let beside = [Operation::Call { at: Server, asked: Asked::work(1) }, drain(Server)];
    let cancel = Operation::Cancel { at: Server, call: 0, cause: Cause::Caller };
    let rest = [answer_with_revision(1), cancel, drain(Server), drain(Server)];
    judge(small(Dialect::MCP), &[&agree[..], &beside, &rest].concat());
}

#[test]
fn f06_a_fingerprint_tells_which_revision_is_spoken() {
    let agreed_on = |version: &str| {
        let mut server: StreamConnection<()> =
            StreamConnection::new(Config::server(Dialect::MCP_HTTP));
        let initialize = br#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
        let event = server.receive(initialize, Timestamp::ZERO).event;
        let Some(Event::Request { request, .. }) = event else { panic!("{event:?}") };
        let result = format!(r#"{{"protocolVersion":"{version}"}}"#);
        let result: Box<RawValue> = serde_json::from_str(&result).expect("it is JSON");
        let connection = server.connection_mut();
        connection.respond(request, Response::Result(&result)).expect("it is unanswered");
        let mut state = DefaultHasher::new();
        connection.machine().hash(&mut state);
        state.finish()
    };
    assert_eq!(agreed_on("2025-06-18"), agreed_on("2025-06-18"));
    assert_ne!(agreed_on("2025-06-18"), agreed_on("2025-03-26"));
}

/// Here the model was wrong. The request over the limit ends the connection, and then the batch waits for
/// nothing. The responses that it had kept back are queued behind one for which there was no room.
#[test]
fn b32_a_batch_leaves_at_the_end_though_the_answer_before_it_found_no_room() {
    let mut config = small(Dialect::MCP_2025_03_26);
    config.limits.requests = 1;
    config.limits.unsent_messages = 1;
    config.close_over_limit = true;
    let batch = Operation::Hostile { to: Server, message: Hostile::Batch, id: 222 };
    let notify = Operation::Notify { at: Server, long: false };
    let over = [call(Asked::work(1)), drain(Client), read(Server)];
    judge(config, &[&[batch, read(Server), notify][..], &over].concat());
}

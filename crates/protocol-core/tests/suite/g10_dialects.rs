//! G1, G2, G4, G7, G10 and G11 in dialects that nobody speaks. They combine everything that a dialect can be
//! made of, also as no preset does.

use core::ops::RangeInclusive;
use core::time::Duration;
use std::borrow::Cow::{self, Borrowed};
use std::thread;

use crate::support::world::{self, Random, limited};
use protocol_core::{
    BeforeStart, CancelRule, Cancellers, CapabilityRule, Cause, Config, Dialect, Envelope, Framing,
    Grace, IdRule, MessageOrder, ResponseRule, Uncancellable,
};

type Texts = Cow<'static, [Cow<'static, str>]>;

const STOP: CancelRule =
    CancelRule::Notification { method: Borrowed("$/stop"), id: Borrowed("id"), reason: None };
const CANCELS: [CancelRule; 7] = [
    CancelRule::Local,
    CancelRule::ClosedStream,
    STOP,
    STOP,
    CancelRule::Notification {
        method: Borrowed("stop"),
        id: Borrowed("ref"),
        reason: Some(Borrowed("why")),
    },
    CancelRule::Request {
        method: Borrowed("stop"),
        id: Borrowed("ref"),
        reason: Some(Borrowed("why")),
    },
    CancelRule::Operation {
        method: Borrowed("work/stop"),
        token: Borrowed("token"),
        started_by: Borrowed(&[Borrowed("m")]),
        notification: Borrowed("work/stopped"),
        reason: None,
    },
];
const METHODS: [Texts; 3] =
    [Borrowed(&[]), Borrowed(&[Borrowed("initialize")]), Borrowed(&[Borrowed("m")])];
const PARAMS: [Texts; 2] = [Borrowed(&[]), Borrowed(&[Borrowed("task")])];
const CANCELLERS: [Cancellers; 4] = [
    Cancellers::Both,
    Cancellers::Both,
    Cancellers::Client { server_may_end: Borrowed(&[]) },
    Cancellers::Client { server_may_end: Borrowed(&[Borrowed("subscriptions/listen")]) },
];
const BATCHES: [Option<Texts>; 3] =
    [None, Some(Borrowed(&[])), Some(Borrowed(&[Borrowed("initialize")]))];
const IDS: [IdRule; 4] = [
    IdRule::NumberOrString,
    IdRule::IntegerOrString,
    IdRule::IntegerStringOrNull,
    IdRule::Int32OrString,
];
const GRACES: [Grace; 3] =
    [Grace::Await, Grace::Settle(Duration::ZERO), Grace::Settle(Duration::from_millis(12))];
const ANSWERS: [ResponseRule; 3] =
    [ResponseRule::Required, ResponseRule::Silent, ResponseRule::SilentWithProgress];
const CLOSED: [Option<Cause>; 3] = [Some(Cause::PeerGone), Some(Cause::Peer), None];

fn any<T: Clone>(random: &mut Random, from: &[T]) -> T {
    random.pick(from).expect("there are some")
}

/// Returns an envelope that has a place for these cancels. That of ABP has none for notifications and
/// operations.
fn envelope(random: &mut Random, cancel: &CancelRule) -> Envelope {
    let has_place = match cancel {
        CancelRule::Local | CancelRule::ClosedStream => true,
        CancelRule::Request { id: member, .. } => member == "callId",
        _ => false,
    };
    if has_place { any(random, &[Envelope::JsonRpc, Envelope::Abp]) } else { Envelope::JsonRpc }
}

/// Returns the configurations of two hosts that speak any dialect there could be.
fn generated(random: &mut Random) -> [Config; 2] {
    let mut dialect = Dialect::JSON_RPC;
    dialect.name = Borrowed("generated");
    dialect.framing = any(random, &[Framing::Newline, Framing::ContentLength]);
    dialect.ids = any(random, &IDS);
    dialect.cancel = any(random, &[&CANCELS[..], &[Dialect::ABP.cancel]].concat());
    dialect.envelope = envelope(random, &dialect.cancel);
    dialect.response = any(random, &ANSWERS);
    dialect.cancelled_message = any(random, &["Cancelled", ""]).into();
    dialect.grace = any(random, &GRACES);
    dialect.partial_results = any(random, &[true, false]);
    dialect.batches = any(random, &BATCHES);
    dialect.progress =
        any(random, &[Borrowed(&[]), Dialect::LSP_3_17.progress, Dialect::MCP.progress]);
    dialect.overload_code = any(random, &[-32603, -32800]);
    dialect.uncancellable =
        Uncancellable { methods: any(random, &METHODS), params: any(random, &PARAMS) };
    dialect.cancellers = any(random, &CANCELLERS);
    let rules = [CapabilityRule::NotNeeded, Dialect::ACP_DRAFT.capability];
    dialect.capability = any(random, &rules);
    dialect.session = any(random, &[None, None, None, Some(Borrowed("initialize"))]);
    dialect.before_start = any(random, &[BeforeStart::Delivered, BeforeStart::Skipped]);
    dialect.order = any(random, &[MessageOrder::Kept, MessageOrder::MayChange]);
    dialect.closed_stream = any(random, &CLOSED);
    let mut config = limited(Config::client(dialect));
    config.close_over_limit = any(random, &[false, false, true]);
    world::both_roles(config)
}

#[test]
fn g10_every_dialect_that_could_be_keeps_the_guarantees() {
    let tries = |seeds: RangeInclusive<u64>| {
        for seed in seeds {
            world::assert_determined(seed, generated);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| tries(1..=750));
        tries(751..=1_500);
    });
}

#[test]
fn the_random_dialects_meet_everything() {
    let all = [
        "Refused(BeforeExchange)",
        "Refused(Undeclared)",
        "Refused(Method)",
        "Refused(Params)",
        "Refused(NotOurs)",
        "Withdrawn",
        "AlreadySent",
        "Sent",
        "Settled",
        "withheld",
        "ended",
        "cancelled peer",
        "cancelled r1 peer",
        "peer_gone",
        "\"why\":",
        "violation late_response",
        "violation batch_refused",
        "sent [{",
        "closed over_limit",
        "begun",
        "cancel follows",
        r#""result":{"status":"cancelled"}"#,
        r#""method":"work/stopped","params":{"requestId":"#,
        "-32001",
        r#"{"ref":1,"cancelled":true}"#,
        r#""cancelled":false,"reason":"Operation not found""#,
        r#""cancelled":false,"reason":"Operation already completed""#,
        r#""cancelled":false,"reason":"Operation can't be cancelled""#,
        r#""type":"capabilities/cancel-result""#,
        r#""success":false,"cancelled":true"#,
        "NOT_INITIALIZED",
        "violation not_initialized",
        "violation malformed_cancel",
        "violation duplicate_response",
    ];
    world::assert_met(1_500, generated, &all);
}

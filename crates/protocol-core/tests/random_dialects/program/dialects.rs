//! Random configurations: each preset, and mixtures of their fields that nobody speaks.

use core::time::Duration;
use std::borrow::Cow::Borrowed;
use std::{format, vec};

use protocol_core::{
    Cancellers, CapabilityRule, Carrier, Config, Dialect, Grace, Limits, News, Sign, StopMark,
    WorkRule,
};

use super::random::Random;

pub(super) const GRACES: [Grace; 3] =
    [Grace::Await, Grace::Settle(Duration::ZERO), Grace::Settle(Duration::from_millis(3))];

/// Returns the configuration of either side, mostly with limits that a short program never reaches.
pub(super) fn config(random: &mut Random) -> Config {
    let dialect = dialect(random);
    let mut config =
        if random.once_in(2) { Config::client(dialect) } else { Config::server(dialect) };
    config.abandoned_grace = Duration::from_millis(random.one_of(&[0, 5, 1_000, 1_000]));
    config.close_over_limit = random.once_in(6);
    config.show_raw_cancels = random.once_in(2);
    config.show_work = random.once_in(2);
    config.deliver_unknown_operations = random.once_in(2);
    if random.once_in(3) {
        config.limits = limits(random);
    }
    if config.close_over_limit {
        config.limits.requests = 1 + random.below(3);
    }
    config
}

/// Returns limits, of which some are so low that a short program reaches them.
fn limits(random: &mut Random) -> Limits {
    let mut limits = Limits::DEFAULT;
    for _ in 0..4 {
        let few = random.below(4);
        match random.below(11) {
            10 => limits.works = few,
            0 => limits.calls = few,
            1 => limits.requests = few,
            2 => limits.unsent_bytes = random.one_of(&[0, 100, 300, 1_000]),
            3 => limits.unsent_messages = few,
            4 => limits.abandoned_ids = few,
            5 => limits.early_cancels = few,
            6 => limits.batch_members = few,
            7 => limits.id_bytes = random.one_of(&[0, 3, 40]),
            8 => limits.depth = few,
            _ => limits.message_bytes = random.one_of(&[0, 60, 1_000]),
        }
    }
    limits
}

fn dialect(random: &mut Random) -> Dialect {
    let mut dialect = mixture(random);
    if random.once_in(4) {
        // A peer may settle on rules that have little in common with those before.
        let revisions = (0..3).map(|name| (format!("r{name}").into(), mixture(random)));
        dialect.revisions = revisions.collect();
        dialect.exchanges = vec![
            (Borrowed("initialize"), Borrowed("protocolVersion")),
            (Borrowed("server/discover"), Borrowed("supportedVersions")),
        ]
        .into();
    }
    dialect
}

/// The presets that are unlike all others, and so begin half of the mixtures.
static PECULIAR: [Dialect; 7] = [
    Dialect::ERLMCP,
    Dialect::ERLMCP,
    Dialect::ERLMCP,
    Dialect::ABP,
    Dialect::DAP,
    Dialect::MCP_2025_03_26,
    Dialect::MCP_2026_07_28,
];

/// Returns a preset, mostly with some fields of others.
fn mixture(random: &mut Random) -> Dialect {
    let any = |random: &mut Random| {
        let is_peculiar = random.once_in(2);
        random.one_of(if is_peculiar { &PECULIAR } else { Dialect::PRESETS })
    };
    let mut dialect = any(random);
    for _ in 0..random.below(6) {
        let other = any(random);
        match random.below(16) {
            0 => dialect.envelope = other.envelope,
            1 => dialect.ids = other.ids,
            2 => dialect.cancel = other.cancel,
            3 | 4 => dialect.response = other.response,
            5 => dialect.grace = random.one_of(&GRACES),
            6 => dialect.partial_results = other.partial_results,
            7 => dialect.batches = other.batches,
            8 => dialect.progress = other.progress,
            9 => dialect.uncancellable = other.uncancellable,
            10 => dialect.cancellers = other.cancellers,
            11 => dialect.capability = other.capability,
            12 => dialect.session = other.session,
            13 => dialect.order = other.order,
            14 => dialect.closed_stream = other.closed_stream,
            _ => {
                dialect.exchanges = other.exchanges;
                dialect.revisions = other.revisions;
            }
        }
    }
    // Few servers may end calls, and a handshake comes before everything else.
    if random.once_in(2) {
        if let Cancellers::Client { server_may_end } = &mut dialect.cancellers {
            *server_may_end = vec![Borrowed("m"), Borrowed("tool/call")].into();
        }
    }
    if random.once_in(4) {
        dialect.work = vec![work(random)].into();
    }
    if random.once_in(2) {
        (dialect.session, dialect.capability) = (None, CapabilityRule::NotNeeded);
    }
    dialect
}

/// Returns work whose runs all have one name, so that a stop hits each.
fn work(random: &mut Random) -> WorkRule {
    let nested = News::Nested { is_cancelled: random.once_in(2) };
    let mut sign = |carrier, method, news| {
        let text = Borrowed("cancelled");
        let mark = StopMark { path: vec![Borrowed("stopReason")].into(), text };
        let stopped = random.once_in(2).then_some(mark);
        let (method, name) = (Borrowed(method), vec![].into());
        Sign { carrier, method, name, state: None, news, stopped }
    };
    let mut signs = vec![
        sign(Carrier::Request, "m", News::Begun),
        sign(Carrier::Request, "a/b", nested),
        sign(Carrier::Notification, "a/b", News::Stop),
    ];
    if random.once_in(2) {
        signs.push(sign_of_end());
    }
    WorkRule { kind: Borrowed("work"), signs: signs.into() }
}

fn sign_of_end() -> Sign {
    let (carrier, method, news) = (Carrier::Notification, Borrowed("m"), News::Ended);
    Sign { carrier, method, name: vec![].into(), state: None, news, stopped: None }
}

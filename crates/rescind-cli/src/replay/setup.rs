//! The setup of the relay that made a recording, so that the same one can be set up again.

use std::time::Duration;

use protocol_async::relay::Options;
use protocol_core::{CallOptions, Role};
use protocol_relay::Guard;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::dialect::{Described, Spoken};

/// The member `setup` of a recording's header. docs/recording.md describes it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Setup {
    /// `rescind relay` made it.
    Relay(RelaySetup),
}

/// The options of a relay that its core knows.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RelaySetup {
    up: Described,
    down: Described,
    /// Nanoseconds that either side has to answer what was given up.
    grace_ns: u64,
    /// The first that fits a request counts.
    guard: Vec<Rule>,
}

/// Limits on the time that requests of some methods may take, in nanoseconds.
#[derive(Debug, Serialize, Deserialize)]
struct Rule {
    /// A method, or with a `*` at the end all that begin so.
    method: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idle_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cap_ns: Option<u64>,
}

impl RelaySetup {
    /// That of a relay between these dialects. The guard's rules have the pattern first.
    pub(crate) fn new(
        [up, down]: [&Spoken; 2],
        grace: Duration,
        guard: impl IntoIterator<Item = (String, CallOptions)>,
    ) -> Result<Self, String> {
        let guard = guard.into_iter().map(|(method, options)| Rule {
            method,
            deadline_ns: options.timeout.map(nanoseconds),
            idle_ns: options.idle_timeout.map(nanoseconds),
            cap_ns: options.hard_cap.map(nanoseconds),
        });
        let (guard, grace_ns) = (guard.collect(), nanoseconds(grace));
        Ok(Self { up: up.described()?, down: down.described()?, grace_ns, guard })
    }

    /// The options of the same relay.
    pub(crate) fn options(&self) -> Result<Options, String> {
        let (up, down) = (Spoken::of(&self.up)?, Spoken::of(&self.down)?);
        let guard = self.guard.iter().fold(Guard::default(), |guard, rule| {
            let [deadline, idle, cap] = [rule.deadline_ns, rule.idle_ns, rule.cap_ns]
                .map(|limit| limit.map(Duration::from_nanos));
            let options = CallOptions::default().timeout(deadline).idle_timeout(idle).hard_cap(cap);
            guard.method(&*rule.method, options)
        });
        Ok(relay_options([&up, &down], Duration::from_nanos(self.grace_ns), guard))
    }
}

/// Returns the options of a relay between these dialects.
pub(crate) fn relay_options([up, down]: [&Spoken; 2], grace: Duration, guard: Guard) -> Options {
    let (mut up, mut down) = (up.on_stdio(Role::Server), down.on_stdio(Role::Client));
    (up.abandoned_grace, down.abandoned_grace) = (grace, grace);
    let mut options = Options::new(up, down);
    options.guard = guard;
    options
}

impl Setup {
    /// As it stands in a header.
    pub(crate) fn raw(&self) -> Box<RawValue> {
        serde_json::value::to_raw_value(self).expect("it has no key that is no text")
    }
}

/// The reason that a recording can't be replayed.
pub(super) const NOT_KEPT: &str = "nothing but methods and ids was recorded: only a recording made with --payloads can be replayed";

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

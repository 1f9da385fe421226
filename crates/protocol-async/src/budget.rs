//! How often a peer may do what costs it next to nothing, and us more.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use protocol_core::{CancelRule, Cause, Config, Event, Timestamp, Violation, WireId};

use crate::noise::is_noise;

/// What costs a peer next to nothing. It takes no memory, which other limits bound, but it takes time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cheap {
    /// The peer cancelled a request of its own before it was answered: work was begun for nothing.
    CancelledRequest,
    /// The peer cancelled what can't be: a request that is answered, was cancelled before, or never came.
    /// Only where cancels are notifications. A batch counts once.
    VainCancel,
    /// The peer broke a rule. Not counted is what it can't know (a request over a limit or during a shutdown,
    /// an answer that our cancel or deadline has overtaken), nor what a server prints beside its messages. A
    /// second answer is not counted either: an overtaken one looks the same once its call is forgotten
    /// ([`Limits::abandoned_ids`](protocol_core::Limits::abandoned_ids)).
    Violation,
    /// A ping or a pong came, over a WebSocket: each costs us an answer, or a look.
    ControlFrame,
}

/// How often something may happen: a bucket of tokens, one for each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Budget {
    /// As often as the peer likes.
    Unlimited,
    /// At most as often as these two allow.
    Limited {
        /// In a second, in the long run; at least 1.
        per_second: u32,
        /// At once, after a long enough rest.
        burst: u32,
    },
}

/// A budget for everything that is [`Cheap`], of one connection. One that is overspent ends the connection
/// as if the peer had gone, and [`Closed::error`](crate::Closed::error) is [`OverBudget`].
///
/// ```
/// use protocol_async::{Budget, Budgets, Options};
/// use protocol_core::{Config, Dialect};
///
/// let mut options = Options::new(Config::server(Dialect::LSP_3_17));
/// options.budgets.violations = Budget::Limited { per_second: 1, burst: 100 };
/// // Or none at all, for a peer that is trusted.
/// options.budgets = Budgets::UNLIMITED;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Budgets {
    /// For each [`Cheap::CancelledRequest`]; 1,000 a second and 65,536 at once, which is more than may be
    /// in flight ([`Limits::requests`](protocol_core::Limits::requests)).
    pub cancelled_requests: Budget,
    /// For each [`Cheap::VainCancel`]; the same, since any cancel may cross its answer.
    pub vain_cancels: Budget,
    /// For each [`Cheap::Violation`]; 100 a second and 10,000 at once.
    pub violations: Budget,
    /// For each [`Cheap::ControlFrame`]; 1,000 a second and as many at once. Byte streams have none.
    pub control_frames: Budget,
}

/// A budget was overspent: why a connection ended. It is what the [`io::Error`] of
/// [`Closed::error`](crate::Closed::error) holds, whose kind is
/// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OverBudget {
    /// What the peer did too often.
    pub what: Cheap,
    /// How often it might have.
    pub budget: Budget,
}

impl Budgets {
    /// No budget for anything.
    pub const UNLIMITED: Self = Self {
        cancelled_requests: Budget::Unlimited,
        vain_cancels: Budget::Unlimited,
        violations: Budget::Unlimited,
        control_frames: Budget::Unlimited,
    };

    /// That for one thing.
    #[must_use]
    pub const fn of(&self, what: Cheap) -> Budget {
        match what {
            Cheap::CancelledRequest => self.cancelled_requests,
            Cheap::VainCancel => self.vain_cancels,
            Cheap::Violation => self.violations,
            Cheap::ControlFrame => self.control_frames,
        }
    }
}

impl Default for Budgets {
    fn default() -> Self {
        let cancels = Budget::Limited { per_second: 1_000, burst: 65_536 };
        Self {
            cancelled_requests: cancels,
            vain_cancels: cancels,
            violations: Budget::Limited { per_second: 100, burst: 10_000 },
            control_frames: Budget::Limited { per_second: 1_000, burst: 1_000 },
        }
    }
}

/// What is left of one [`Budget`].
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    /// The time in which one token is earned.
    each: Duration,
    /// The time in which all are.
    all: Duration,
    /// When the bucket is full again.
    full: Timestamp,
    /// The latest time there was: for the bucket, time does not run backwards.
    latest: Timestamp,
}

impl Bucket {
    /// A full one.
    #[must_use]
    pub fn new(budget: Budget) -> Self {
        let (each, all) = match budget {
            // Tokens that take no time are never spent.
            Budget::Unlimited => (Duration::ZERO, Duration::ZERO),
            Budget::Limited { per_second, burst } => {
                let each = Duration::from_secs(1) / per_second.max(1);
                (each, each.saturating_mul(burst))
            }
        };
        Self { each, all, full: Timestamp::ZERO, latest: Timestamp::ZERO }
    }

    /// Takes a token; `false` if there is none.
    #[must_use]
    pub fn take(&mut self, now: Timestamp) -> bool {
        self.latest = self.latest.max(now);
        let full = self.full.max(self.latest) + self.each;
        let is_there = full.since(self.latest) <= self.all;
        if is_there {
            self.full = full;
        }
        is_there
    }
}

/// What is left of the budgets of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Buckets {
    budgets: Budgets,
    cancelled_requests: Bucket,
    vain_cancels: Bucket,
    violations: Bucket,
    control_frames: Bucket,
}

impl Buckets {
    /// Returns full buckets: nothing of any budget is spent.
    #[must_use]
    pub fn new(budgets: Budgets) -> Self {
        Self {
            budgets,
            cancelled_requests: Bucket::new(budgets.cancelled_requests),
            vain_cancels: Bucket::new(budgets.vain_cancels),
            violations: Bucket::new(budgets.violations),
            control_frames: Bucket::new(budgets.control_frames),
        }
    }

    /// Pays for what the peer did; what to end the connection with, if it can't.
    pub fn pay(&mut self, what: Cheap, now: Timestamp) -> Option<OverBudget> {
        let bucket = match what {
            Cheap::CancelledRequest => &mut self.cancelled_requests,
            Cheap::VainCancel => &mut self.vain_cancels,
            Cheap::Violation => &mut self.violations,
            Cheap::ControlFrame => &mut self.control_frames,
        };
        let is_there = bucket.take(now);
        (!is_there).then(|| OverBudget { what, budget: self.budgets.of(what) })
    }
}

impl Cheap {
    /// What the peer has to pay for, in what a message of its made happen, if that is anything.
    #[inline]
    #[must_use]
    pub fn of<O>(event: Option<&Event<'_, O>>, config: &Config) -> Option<Self> {
        match event {
            Some(Event::Cancelled { cause: Cause::Peer, .. }) => Some(Self::CancelledRequest),
            Some(Event::Violation { violation, id }) => {
                is_counted(config, *violation, id.as_ref()).then_some(Self::Violation)
            }
            Some(_) => None,
            // Nothing else does nothing, but acknowledgements of our own cancels, where cancels are requests.
            None => matches!(config.dialect.cancel, CancelRule::Notification { .. })
                .then_some(Self::VainCancel),
        }
    }

    /// The name in `snake_case`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CancelledRequest => "cancelled_request",
            Self::VainCancel => "vain_cancel",
            Self::Violation => "violation",
            Self::ControlFrame => "control_frame",
        }
    }
}

/// Whether a violation counts: see [`Cheap::Violation`].
pub(crate) fn is_counted(config: &Config, violation: Violation, id: Option<&WireId>) -> bool {
    use Violation::{
        DuplicateResponse, LateResponse, RequestAfterShutdown, ResponseDropped, TooManyRequests,
    };
    match violation {
        LateResponse | DuplicateResponse | TooManyRequests | RequestAfterShutdown => false,
        // What was to be answered counts itself.
        ResponseDropped => false,
        _ => !is_noise(config, violation, id),
    }
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.what {
            Cheap::CancelledRequest => "the peer cancels requests too often",
            Cheap::VainCancel => "the peer cancels too often what is no request in flight",
            Cheap::Violation => "the peer breaks rules too often",
            Cheap::ControlFrame => "the peer sends pings and pongs too often",
        })?;
        match self.budget {
            Budget::Unlimited => Ok(()),
            Budget::Limited { per_second, burst } => {
                write!(f, " (more than {per_second} times a second, after {burst})")
            }
        }
    }
}

impl Error for OverBudget {}

impl From<OverBudget> for io::Error {
    fn from(over: OverBudget) -> Self {
        Self::new(io::ErrorKind::QuotaExceeded, over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let mut bucket = Bucket::new(Budget::Limited { per_second: 10, burst: 3 });
        let mut taken = |millis| bucket.take(Timestamp::from_millis(millis));
        assert_eq!([0; 4].map(&mut taken), [true, true, true, false]);
        assert_eq!([99, 100, 100].map(&mut taken), [false, true, false]);
        // A step back of the clock costs nothing, and earns nothing.
        assert_eq!([60_000, 0, 0, 0].map(&mut taken), [true, true, true, false]);
        // A long rest earns no more than the burst.
        assert_eq!([120_000; 4].map(&mut taken), [true, true, true, false]);
    }

    #[test]
    fn a_bucket_may_be_bottomless_or_empty() {
        let mut bottomless = Bucket::new(Budget::Unlimited);
        assert!((0..100_000).all(|_| bottomless.take(Timestamp::ZERO)));
        let back = [2_000, 1_000].map(Timestamp::from_millis);
        assert!(back.into_iter().all(|now| bottomless.take(now)), "nor does a step back empty it");
        let mut empty = Bucket::new(Budget::Limited { per_second: 0, burst: 0 });
        assert!(!empty.take(Timestamp::from_millis(1 << 40)));
    }

    #[test]
    fn a_log_says_what_was_cheap() {
        use Cheap::{CancelledRequest, ControlFrame, VainCancel, Violation};
        let names = [CancelledRequest, VainCancel, Violation, ControlFrame].map(Cheap::as_str);
        assert_eq!(names, ["cancelled_request", "vain_cancel", "violation", "control_frame"]);
    }
}

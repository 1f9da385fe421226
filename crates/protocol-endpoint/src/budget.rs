//! Budgets for acts that cost a peer next to nothing, and us more.

use core::error::Error;
use core::fmt;
use core::time::Duration;

use protocol_core::{
    CancelRule, Cause, Config, EnvelopeProblem, Event, Role, Timestamp, Violation, WireId,
};

#[cfg(feature = "std")]
use std::io;

/// An act of the peer that costs it next to nothing, and us some time. Other limits bound our memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Cheap {
    /// The peer cancelled a request of its own before its response, or stopped before it the work that the
    /// request began. So that was begun for nothing.
    CancelledRequest,
    /// The peer sent a cancel for a request that had its response, was cancelled before, or never came.
    ///
    /// It is counted only if the dialect cancels by notification. A batch counts once. With
    /// [`Config::show_raw_cancels`](protocol_core::Config::show_raw_cancels) it is a notification like any
    /// other, which is not counted.
    VainCancel,
    /// The peer broke a rule.
    ///
    /// Violations that the peer can't foresee are not counted. These are a request over a limit or during a
    /// shutdown, and a response that our cancellation or deadline has overtaken. A second response is not
    /// counted either, because an overtaken one looks the same once its call is forgotten
    /// ([`Limits::abandoned_ids`](protocol_core::Limits::abandoned_ids)). The noise that a server prints
    /// beside its messages is not counted ([`is_noise`](crate::is_noise)).
    Violation,
    /// The peer sent a WebSocket ping or pong. Each costs us a response, or at least a look.
    ControlFrame,
}

/// The rate at which something may happen: a bucket of tokens, one for each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Budget {
    /// There is no limit.
    Unlimited,
    /// Both of these limits apply.
    Limited {
        /// The number of times a second, in the long run; 0 counts as 1.
        per_second: u32,
        /// The number of times at once, after a long enough rest.
        burst: u32,
    },
}

/// The budgets of one connection, one for each kind of [`Cheap`] act.
///
/// A budget that is overspent ends the connection as if the peer had gone.
/// [`Endpoint::end_reason`](crate::Endpoint::end_reason) then returns
/// [`EndReason::OverBudget`](crate::EndReason::OverBudget).
///
/// ```
/// use protocol_endpoint::{Budget, Budgets, Options};
/// use protocol_core::{Config, Dialect};
///
/// let mut options = Options::new(Config::server(Dialect::LSP_3_17));
/// options.budgets.violations = Budget::Limited { per_second: 1, burst: 100 };
/// // A peer that is trusted needs no budgets.
/// options.budgets = Budgets::UNLIMITED;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Budgets {
    /// The budget for [`Cheap::CancelledRequest`]; 1,000 a second and 65,536 at once. That is more than may
    /// be in flight ([`Limits::requests`](protocol_core::Limits::requests)).
    pub cancelled_requests: Budget,
    /// The budget for [`Cheap::VainCancel`]; the same, since any cancel may cross the response.
    pub vain_cancels: Budget,
    /// The budget for [`Cheap::Violation`]; 100 a second and 10,000 at once.
    pub violations: Budget,
    /// The budget for [`Cheap::ControlFrame`]; 1,000 a second and as many at once. Byte streams have no
    /// control frames.
    pub control_frames: Budget,
}

/// The error of a connection that ended because the peer overspent a budget.
///
/// With the feature `std` it converts into an `io::Error` of the kind `QuotaExceeded`, as in
/// `protocol_async::Closed::error`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct OverBudget {
    /// The act that the peer did too often.
    pub what: Cheap,
    /// The budget that it overspent.
    pub budget: Budget,
}

impl Budgets {
    /// Budgets without any limit.
    pub const UNLIMITED: Self = Self {
        cancelled_requests: Budget::Unlimited,
        vain_cancels: Budget::Unlimited,
        violations: Budget::Unlimited,
        control_frames: Budget::Unlimited,
    };

    /// Returns the budget for one kind of act.
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

/// The rest of one [`Budget`].
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    budget: Budget,
    /// The time at which the bucket is full again.
    full: Timestamp,
    /// The latest time so far: for the bucket, time does not run backwards.
    latest: Timestamp,
}

impl Bucket {
    /// Returns a full bucket.
    #[must_use]
    pub const fn new(budget: Budget) -> Self {
        Self { budget, full: Timestamp::ZERO, latest: Timestamp::ZERO }
    }

    /// Takes a token. Returns `false` if there is none.
    #[must_use]
    pub fn take(&mut self, now: Timestamp) -> bool {
        let Budget::Limited { per_second, burst } = self.budget else { return true };
        // One token is earned in this time.
        let each = Duration::from_secs(1) / per_second.max(1);
        self.latest = self.latest.max(now);
        let full = self.full.max(self.latest) + each;
        let is_there = full.since(self.latest) <= each.saturating_mul(burst);
        if is_there {
            self.full = full;
        }
        is_there
    }
}

/// The rest of the [`Budgets`] of one connection: a bucket for each kind of [`Cheap`] act.
#[derive(Clone, Copy, Debug)]
pub struct Buckets([Bucket; 4]);

impl Buckets {
    /// Returns full buckets: nothing of any budget is spent.
    #[must_use]
    pub fn new(budgets: Budgets) -> Self {
        Self(Cheap::ALL.map(|what| Bucket::new(budgets.of(what))))
    }

    /// Takes a token for an act of the peer. Returns the error to end the connection with, if there is no
    /// token.
    pub fn pay(&mut self, what: Cheap, now: Timestamp) -> Option<OverBudget> {
        let bucket = &mut self.0[what as usize];
        (!bucket.take(now)).then_some(OverBudget { what, budget: bucket.budget })
    }
}

impl Cheap {
    /// Every act, in the order of declaration.
    const ALL: [Self; 4] =
        [Self::CancelledRequest, Self::VainCancel, Self::Violation, Self::ControlFrame];

    /// Returns the act to charge the peer for, given the event that its message caused.
    ///
    /// `None` stands for a message that caused no event. A request that was stopped before its response
    /// counts as if its sender had stopped it. A later stop of its work counts for nothing.
    #[inline]
    #[must_use]
    pub fn of<O>(event: Option<&Event<'_, O>>, config: &Config) -> Option<Self> {
        match event {
            Some(Event::Cancelled { cause: Cause::Peer | Cause::Stopped, .. }) => {
                Some(Self::CancelledRequest)
            }
            Some(Event::Violation { violation, id }) => {
                is_counted(config, *violation, id.as_ref()).then_some(Self::Violation)
            }
            Some(_) => None,
            // Mostly a vain cancel. The response to a stop or a cancel of ours causes no event either. The
            // peer pays for one to a stop, of which we send few. Where cancels are requests, it pays for none.
            None => matches!(config.dialect.cancel, CancelRule::Notification { .. })
                .then_some(Self::VainCancel),
        }
    }

    /// Returns the name in `snake_case`.
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

/// Returns whether the peer is charged for a violation, as [`Cheap::Violation`] documents.
pub fn is_counted(config: &Config, violation: Violation, id: Option<&WireId>) -> bool {
    use Violation::{
        DuplicateResponse, LateResponse, RequestAfterShutdown, ResponseDropped, TooManyRequests,
    };
    match violation {
        LateResponse | DuplicateResponse | TooManyRequests | RequestAfterShutdown => false,
        // The message that the response was for is counted by itself.
        ResponseDropped => false,
        _ => !is_noise(config, violation, id),
    }
}

/// Returns whether a violation is noise, and not a faulty message.
///
/// Only a client sees noise. A server responds to bytes that it can't read.
#[must_use]
pub fn is_noise(config: &Config, violation: Violation, id: Option<&WireId>) -> bool {
    let may_be_noise = match violation {
        Violation::InvalidRequest { problem } => problem != EnvelopeProblem::TooLarge,
        Violation::Parse { .. } | Violation::InvalidUtf8 { .. } => true,
        violation => matches!(violation, Violation::InvalidHeader | Violation::HeaderTooLong),
    };
    may_be_noise && config.role == Role::Client && id.is_none()
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

#[cfg(feature = "std")]
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
        let names = Cheap::ALL.map(Cheap::as_str);
        assert_eq!(names, ["cancelled_request", "vain_cancel", "violation", "control_frame"]);
    }
}

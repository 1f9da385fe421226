//! Counts of the operations of a registry, and the text in which Prometheus reads them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::reason::CancelReason;

/// The upper bounds in milliseconds of the buckets for the time from registration to cancellation.
pub const DURATION_BUCKETS_MS: &[u64] =
    &[1, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000, 600_000];

/// The counts of one registry since it was created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// The declared kinds. Invariant: none is ever removed, so that their indices stay.
    pub(crate) kinds: Vec<Kind>,
    /// The requests for a cancellation, in the order of `CancelReason::NAMES`.
    requests: [u64; CancelReason::COUNT],
    /// The cancelled operations, in the same order.
    cancelled: [u64; CancelReason::COUNT],
    /// The cancelled operations by duration. The last bucket, which has no bound, is not counted.
    durations: [u64; DURATION_BUCKETS_MS.len()],
    durations_sum: Duration,
    partial_results: u64,
}

/// A kind of operations with its counts.
///
/// Each operation is counted once in `registered`, and once in `active`, `cancelled`, `completed`
/// or `lost`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kind {
    /// The name that the host chose, such as `tool/call`.
    pub name: Box<str>,
    /// Whether its cancelled operations are cleaned up after.
    pub cleanup: Cleanup,
    /// The number of operations that were ever registered.
    pub registered: u64,
    /// The number of operations that are at work.
    pub active: u64,
    /// The number of operations that were cancelled, whether they have ended or not.
    pub cancelled: u64,
    /// The number of operations that ended by themselves, with a result or an error.
    pub completed: u64,
    /// The number of operations that lost their worker before they were cancelled.
    pub lost: u64,
}

/// The need of a kind for cleaning up after its cancelled operations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cleanup {
    /// The operations leave nothing behind.
    #[default]
    NotNeeded,
    /// The host cleans up when [`Ended::cleanup`](crate::Ended::cleanup) asks for it, which happens
    /// once for each cancelled operation.
    Wanted,
}

impl Metrics {
    /// Returns every declared kind, in the order of declaration.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Returns the number of operations that are at work.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.active).sum()
    }

    /// Returns the number of operations that were cancelled, whether they have ended or not.
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.cancelled.iter().sum()
    }

    /// Returns the number of operations that were cancelled for this reason. All errors count as
    /// one reason.
    #[must_use]
    pub const fn cancelled_for(&self, reason: &CancelReason) -> u64 {
        self.cancelled[reason.index()]
    }

    /// Returns the number of cancellations that were requested for this reason. All errors count as
    /// one reason.
    ///
    /// Requests count that changed nothing, because the operation was already cancelled or was not
    /// found.
    #[must_use]
    pub const fn requests_for(&self, reason: &CancelReason) -> u64 {
        self.requests[reason.index()]
    }

    /// Returns the sum of the times from registration to cancellation.
    #[must_use]
    pub const fn durations_sum(&self) -> Duration {
        self.durations_sum
    }

    /// Returns the number of operations that were cut short and left a partial result.
    #[must_use]
    pub const fn partial_results(&self) -> u64 {
        self.partial_results
    }

    /// Formats the counts in the text format of Prometheus.
    ///
    /// `write!(page, "{}", metrics.prometheus())` writes the text into a page without a copy.
    pub fn prometheus(&self) -> impl fmt::Display + '_ {
        Prometheus(self)
    }

    pub(crate) const fn count_request(&mut self, reason: &CancelReason) {
        self.requests[reason.index()] += 1;
    }

    pub(crate) fn count_cancel(&mut self, kind: usize, reason: &CancelReason, ran: Duration) {
        let kind = &mut self.kinds[kind];
        kind.active -= 1;
        kind.cancelled += 1;
        self.cancelled[reason.index()] += 1;
        self.durations_sum = self.durations_sum.saturating_add(ran);
        let bucket = DURATION_BUCKETS_MS.iter().position(|&ms| ran <= Duration::from_millis(ms));
        if let Some(bucket) = bucket {
            self.durations[bucket] += 1;
        }
    }

    pub(crate) const fn count_partial_result(&mut self) {
        self.partial_results += 1;
    }
}

impl Kind {
    pub(crate) fn new(name: &str, cleanup: Cleanup) -> Self {
        Self {
            name: name.into(),
            cleanup,
            registered: 0,
            active: 0,
            cancelled: 0,
            completed: 0,
            lost: 0,
        }
    }
}

struct Prometheus<'a>(&'a Metrics);

/// A metric with one count for each kind: its name, its type, its help, and the count.
type ByKind = (&'static str, &'static str, &'static str, fn(&Kind) -> u64);

const BY_KIND: [ByKind; 5] = [
    ("rescind_operations_active", "gauge", "Operations at work.", |kind| kind.active),
    ("rescind_operations_registered_total", "counter", "Operations ever registered.", |kind| {
        kind.registered
    }),
    (
        "rescind_operations_completed_total",
        "counter",
        "Operations that ended by themselves.",
        |kind| kind.completed,
    ),
    (
        "rescind_operations_cancelled_by_type_total",
        "counter",
        "Operations that were cancelled, by type.",
        |kind| kind.cancelled,
    ),
    ("rescind_operations_lost_total", "counter", "Operations that lost their worker.", |kind| {
        kind.lost
    }),
];

impl fmt::Display for Prometheus<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let metrics = self.0;
        for (name, kind, help, count) in BY_KIND {
            family(f, name, kind, help)?;
            for kind in &metrics.kinds {
                writeln!(f, "{name}{{type=\"{}\"}} {}", Label(&kind.name), count(kind))?;
            }
        }
        let by_reason = [
            (
                "rescind_operation_cancels_requested_total",
                "Cancellations that were requested.",
                &metrics.requests,
            ),
            (
                "rescind_operations_cancelled_total",
                "Operations that were cancelled, by reason.",
                &metrics.cancelled,
            ),
        ];
        for (name, help, counts) in by_reason {
            family(f, name, "counter", help)?;
            for (reason, count) in CancelReason::NAMES.iter().zip(counts) {
                writeln!(f, "{name}{{reason=\"{reason}\"}} {count}")?;
            }
        }
        let name = "rescind_operations_partial_results_total";
        family(f, name, "counter", "Operations that left a partial result.")?;
        writeln!(f, "{name} {}", metrics.partial_results)?;
        histogram(f, metrics)
    }
}

fn histogram(f: &mut fmt::Formatter<'_>, metrics: &Metrics) -> fmt::Result {
    let name = "rescind_operation_duration_before_cancel_seconds";
    family(f, name, "histogram", "Time from registration to cancellation.")?;
    let mut below = 0;
    for (bound, count) in DURATION_BUCKETS_MS.iter().zip(metrics.durations) {
        below += count;
        let (seconds, millis) = (bound / 1_000, bound % 1_000);
        writeln!(f, "{name}_bucket{{le=\"{seconds}.{millis:03}\"}} {below}")?;
    }
    writeln!(f, "{name}_bucket{{le=\"+Inf\"}} {}", metrics.cancelled())?;
    writeln!(f, "{name}_sum {}", metrics.durations_sum.as_secs_f64())?;
    writeln!(f, "{name}_count {}", metrics.cancelled())
}

fn family(f: &mut fmt::Formatter<'_>, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(f, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

/// The value of a label, escaped as the text format of Prometheus requires.
struct Label<'a>(&'a str);

impl fmt::Display for Label<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '\\' => f.write_str("\\\\")?,
                '"' => f.write_str("\\\"")?,
                '\n' => f.write_str("\\n")?,
                other => fmt::Write::write_char(f, other)?,
            }
        }
        Ok(())
    }
}

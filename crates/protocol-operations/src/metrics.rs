use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::CancelReason;

/// The upper bounds of the buckets that durations before a cancel are counted in, in milliseconds.
pub const DURATION_BUCKETS_MS: &[u64] =
    &[1, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000, 600_000];

/// Counts of one registry since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    pub(crate) kinds: Vec<Kind>,
    /// How often somebody asked for a cancel, by reason; in the order of `CancelReason::NAMES`.
    requests: [u64; CancelReason::COUNT],
    /// How often that cancelled an operation, by reason.
    cancelled: [u64; CancelReason::COUNT],
    /// How many cancelled operations had run for so long; those of the last bucket, which has no
    /// bound, are not counted here.
    durations: [u64; DURATION_BUCKETS_MS.len()],
    durations_sum: Duration,
    partial_results: u64,
}

/// An operation type, and the counts of its operations.
///
/// Each operation is counted once under `registered`, and once under `active`, `cancelled`,
/// `completed` or `lost`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kind {
    /// Its name, such as `tool/call`.
    pub name: Box<str>,
    /// Whether the host cleans up after its cancelled operations.
    pub cleanup: Cleanup,
    /// Operations ever registered.
    pub registered: u64,
    /// Operations at work.
    pub active: u64,
    /// Operations that were cancelled.
    pub cancelled: u64,
    /// Operations that ended by themselves, with a result or an error.
    pub completed: u64,
    /// Operations whose worker was gone before they were cancelled.
    pub lost: u64,
}

/// Whether the host cleans up after the cancelled operations of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Cleanup {
    /// They leave nothing behind.
    #[default]
    NotNeeded,
    /// [`Ended::cleanup`](crate::Ended::cleanup) says so, once for each cancelled operation.
    Wanted,
}

impl Metrics {
    /// Every operation type that was declared, and the counts of each.
    #[must_use]
    pub fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Operations at work.
    #[must_use]
    pub fn active(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.active).sum()
    }

    /// Operations that were cancelled.
    #[must_use]
    pub fn cancelled(&self) -> u64 {
        self.cancelled.iter().sum()
    }

    /// Operations that were cancelled for this reason; all errors count as one.
    #[must_use]
    pub const fn cancelled_for(&self, reason: &CancelReason) -> u64 {
        self.cancelled[reason.index()]
    }

    /// How often somebody asked for a cancel for this reason, also of an operation that was
    /// cancelled before or was not found; all errors count as one.
    #[must_use]
    pub const fn requests_for(&self, reason: &CancelReason) -> u64 {
        self.requests[reason.index()]
    }

    /// How long the cancelled operations had run, summed up.
    #[must_use]
    pub const fn durations_sum(&self) -> Duration {
        self.durations_sum
    }

    /// Operations that were cut short and left a partial result.
    #[must_use]
    pub const fn partial_results(&self) -> u64 {
        self.partial_results
    }

    /// The text that Prometheus reads.
    ///
    /// It is written where it is wanted, without a copy: `write!(page, "{}", metrics.prometheus())`.
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
        let fits = |&bound: &u64| ran <= Duration::from_millis(bound);
        if let Some(bucket) = DURATION_BUCKETS_MS.iter().position(fits) {
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

/// A count of each kind: the name of the metric, its type, its help, and the count.
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
    ("rescind_operations_lost_total", "counter", "Operations whose worker was gone.", |kind| {
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
            ("rescind_operation_cancels_requested_total", "Cancels asked for.", &metrics.requests),
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
    family(f, name, "histogram", "How long cancelled operations had run.")?;
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

/// A label's value, escaped as Prometheus asks.
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

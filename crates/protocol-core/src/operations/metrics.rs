use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use super::{CancelReason, KindId};

/// The upper bounds of the buckets that durations before a cancel are counted in, in milliseconds.
pub const DURATION_BUCKETS_MS: [u64; 10] =
    [1, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000, 600_000];

/// The reasons, as metrics count them.
const REASONS: [&str; 4] = ["client_requested", "timeout", "server_shutdown", "error"];

/// Counts of one registry since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    kinds: Vec<KindMetrics>,
    /// Cancelled operations by reason, in the order of `REASONS`.
    cancelled: [u64; REASONS.len()],
    durations: [u64; DURATION_BUCKETS_MS.len()],
    durations_sum: Duration,
}

/// Counts of one operation type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindMetrics {
    /// The name of the type.
    pub kind: String,
    /// Operations at work.
    pub active: u64,
    /// Operations ever registered.
    pub registered: u64,
    /// Operations that were cancelled.
    pub cancelled: u64,
}

impl Metrics {
    /// The counts of each operation type.
    #[must_use]
    pub fn kinds(&self) -> &[KindMetrics] {
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

    /// Operations that were cancelled for a reason; errors count together.
    #[must_use]
    pub fn cancelled_for(&self, reason: &CancelReason) -> u64 {
        self.cancelled[index(reason)]
    }

    /// How long cancelled operations had run, summed up.
    #[must_use]
    pub const fn durations_sum(&self) -> Duration {
        self.durations_sum
    }

    pub(super) fn add_kind(&mut self, name: &str) {
        let kind = name.to_string();
        self.kinds.push(KindMetrics { kind, active: 0, registered: 0, cancelled: 0 });
    }

    pub(super) fn registered(&mut self, kind: KindId) {
        let kind = &mut self.kinds[usize::from(kind.0)];
        kind.registered += 1;
        kind.active += 1;
    }

    pub(super) fn finished(&mut self, kind: KindId) {
        self.kinds[usize::from(kind.0)].active -= 1;
    }

    pub(super) fn count_cancel(&mut self, kind: KindId, reason: &CancelReason, ran: Duration) {
        let kind = &mut self.kinds[usize::from(kind.0)];
        kind.active -= 1;
        kind.cancelled += 1;
        self.cancelled[index(reason)] += 1;
        self.durations_sum += ran;
        let fits = |&bound: &u64| ran <= Duration::from_millis(bound);
        if let Some(bucket) = DURATION_BUCKETS_MS.iter().position(fits) {
            self.durations[bucket] += 1;
        }
    }

    /// Writes the metrics as Prometheus reads them.
    pub(super) fn write_prometheus(&self, out: &mut impl fmt::Write) -> fmt::Result {
        let family = |out: &mut dyn fmt::Write, name: &str, kind: &str, help: &str| {
            writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}")
        };
        let name = "rescind_operations_active";
        family(out, name, "gauge", "Operations at work.")?;
        for kind in &self.kinds {
            writeln!(out, "{name}{{type=\"{}\"}} {}", Label(&kind.kind), kind.active)?;
        }
        let name = "rescind_operations_registered_total";
        family(out, name, "counter", "Operations ever registered.")?;
        for kind in &self.kinds {
            writeln!(out, "{name}{{type=\"{}\"}} {}", Label(&kind.kind), kind.registered)?;
        }
        let name = "rescind_operations_cancelled_total";
        family(out, name, "counter", "Operations that were cancelled.")?;
        for (reason, count) in REASONS.iter().zip(self.cancelled) {
            writeln!(out, "{name}{{reason=\"{reason}\"}} {count}")?;
        }
        let name = "rescind_operation_duration_before_cancel_seconds";
        family(out, name, "histogram", "How long cancelled operations had run.")?;
        let mut below = 0;
        for (bound, count) in DURATION_BUCKETS_MS.iter().zip(self.durations) {
            below += count;
            let (seconds, millis) = (bound / 1_000, bound % 1_000);
            writeln!(out, "{name}_bucket{{le=\"{seconds}.{millis:03}\"}} {below}")?;
        }
        writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {}", self.cancelled())?;
        writeln!(out, "{name}_sum {}", self.durations_sum.as_secs_f64())?;
        writeln!(out, "{name}_count {}", self.cancelled())
    }
}

fn index(reason: &CancelReason) -> usize {
    match reason {
        CancelReason::ClientRequested => 0,
        CancelReason::Timeout => 1,
        CancelReason::ServerShutdown => 2,
        CancelReason::Error(_) => 3,
    }
}

/// A label value, escaped as Prometheus asks.
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

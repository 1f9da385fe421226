//! The number of lines and bytes that one kind of line may take of a log in a second.
//!
//! A kind is a place in this program: whatever id, peer or port a line names, it is of the kind of all lines
//! that are printed there. So nobody who is logged can have more of the log by naming more things.

use std::collections::BTreeMap;
use std::mem;
use std::panic::Location;
use std::time::{Duration, Instant};

/// The time after which a kind has its whole budget again, and its missing lines are counted out.
pub(super) const EVERY: Duration = Duration::from_secs(1);
/// Characters of the first missing line that are shown with the count.
const SAMPLE: usize = 100;

/// A kind of line, and its budget for a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    place: &'static Location<'static>,
    lines: u64,
    bytes: usize,
}

impl Kind {
    /// The lines about one thing that happens: 100 and 16 KiB a second.
    pub(crate) const fn event(place: &'static Location<'static>) -> Self {
        Self { place, lines: 100, bytes: 16 << 10 }
    }

    /// The lines that a server writes for whoever started it: 10,000 and 1 MiB a second.
    pub(crate) const fn server(place: &'static Location<'static>) -> Self {
        Self { place, lines: 10_000, bytes: 1 << 20 }
    }
}

/// The budgets of all kinds.
#[derive(Debug, Default)]
pub(super) struct Budgets(BTreeMap<&'static Location<'static>, Spent>);

#[derive(Debug)]
struct Spent {
    since: Instant,
    lines: u64,
    bytes: usize,
    /// Lines that are missing, and the beginning of the first one.
    missing: u64,
    sample: String,
}

impl Budgets {
    /// Takes a line out of the budget of its kind. Returns whether it may be printed.
    pub(super) fn take(&mut self, kind: Kind, line: &str, now: Instant) -> bool {
        let fresh = || Spent { since: now, lines: 0, bytes: 0, missing: 0, sample: String::new() };
        let spent = self.0.entry(kind.place).or_insert_with(fresh);
        if spent.missing == 0 && now.saturating_duration_since(spent.since) >= EVERY {
            *spent = fresh();
        }
        // Once a line is missing, no later one is printed before the count.
        let fits = spent.lines < kind.lines && spent.bytes + line.len() <= kind.bytes;
        if fits && spent.missing == 0 {
            spent.lines += 1;
            spent.bytes += line.len();
            return true;
        }
        if spent.missing == 0 {
            let plain = anstream::adapter::strip_str(line.trim_end()).to_string();
            spent.sample = plain.chars().take(SAMPLE).collect();
        }
        spent.missing += 1;
        false
    }

    /// Returns the time until missing lines are to be counted out, if any are.
    pub(super) fn due_in(&self, now: Instant) -> Option<Duration> {
        let over = self.0.values().filter(|spent| spent.missing > 0);
        over.map(|spent| EVERY.saturating_sub(now.saturating_duration_since(spent.since))).min()
    }

    /// Returns the count of missing lines, as a line, for each kind whose second is over.
    pub(super) fn counted(&mut self, now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        let is_over = |spent: &Spent| now.saturating_duration_since(spent.since) >= EVERY;
        for spent in self.0.values_mut().filter(|spent| spent.missing > 0 && is_over(spent)) {
            let (missing, sample) = (mem::take(&mut spent.missing), mem::take(&mut spent.sample));
            lines.push(format!("({missing} more lines like this are missing: {sample})\n"));
            (spent.lines, spent.bytes, spent.since) = (0, 0, now);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn kind() -> Kind {
        Kind::event(Location::caller())
    }

    #[test]
    fn f100_a_kind_has_so_many_lines_a_second_whatever_they_name() {
        let (mut budgets, now, kind) = (Budgets::default(), Instant::now(), kind());
        let printed = (0..1_000).filter(|id| budgets.take(kind, &format!("id {id}: x\n"), now));
        assert_eq!(printed.count(), 100);
        assert_eq!(budgets.due_in(now), Some(EVERY));
        assert_eq!(budgets.counted(now), Vec::<String>::new());
        let later = now + EVERY;
        let told = "(900 more lines like this are missing: id 100: x)\n";
        assert_eq!(budgets.counted(later), [told]);
        assert_eq!(budgets.due_in(later), None);
        assert!(budgets.take(kind, "id 1: x\n", later));
    }

    #[test]
    fn f100_a_kind_has_so_many_bytes_a_second() {
        let (mut budgets, now, kind) = (Budgets::default(), Instant::now(), kind());
        let line = "x".repeat(4_000);
        let printed = (0..10).filter(|_| budgets.take(kind, &line, now)).count();
        assert_eq!(printed, (16 << 10) / 4_000);
        let told = &budgets.counted(now + EVERY)[0];
        assert!(told.starts_with("(6 more lines") && told.len() < 200, "{told}");
    }

    #[test]
    fn f100_a_flood_of_one_kind_takes_nothing_from_another() {
        let (mut budgets, now) = (Budgets::default(), Instant::now());
        let (flood, other) = (kind(), kind());
        assert!(!(0..1_000).all(|_| budgets.take(flood, "flood\n", now)));
        assert!(budgets.take(other, "other\n", now));
    }

    #[test]
    fn f100_a_kind_has_its_budget_again_after_a_second() {
        let (mut budgets, mut now, kind) = (Budgets::default(), Instant::now(), kind());
        for _ in 0..10 {
            assert!((0..100).all(|_| budgets.take(kind, "line\n", now)));
            now += EVERY;
        }
    }
}

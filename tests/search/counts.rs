//! The number of states of each search, as recorded.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// The size of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) states: usize,
    pub(crate) transitions: usize,
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} states, {} transitions", self.states, self.transitions)
    }
}

/// By preset and scenario.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts(BTreeMap<(String, String), Count>);

impl Counts {
    fn path() -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("search/counts.txt")
    }

    /// Reads the recorded counts: a line a search, `preset | scenario | states | transitions`.
    pub(crate) fn read() -> Self {
        let text = std::fs::read_to_string(Self::path()).unwrap_or_default();
        let line = |line: &str| {
            let mut parts = line.split(" | ");
            let name = (parts.next()?.to_owned(), parts.next()?.to_owned());
            let states = parts.next()?.parse().ok()?;
            Some((name, Count { states, transitions: parts.next()?.parse().ok()? }))
        };
        Self(text.lines().filter_map(line).collect())
    }

    pub(crate) fn of(&self, preset: &str, scenario: &str) -> Option<Count> {
        self.0.get(&(preset.to_owned(), scenario.to_owned())).copied()
    }

    /// Returns the place of a search among those with more states than `size`, if it is one of them.
    pub(crate) fn place(&self, preset: &str, scenario: &str, size: usize) -> Option<usize> {
        let mut large = self.0.iter().filter(|(_, count)| count.states > size);
        large.position(|((of, name), _)| of == preset && name == scenario)
    }

    pub(crate) fn insert(&mut self, preset: &str, scenario: &str, count: Count) {
        self.0.insert((preset.to_owned(), scenario.to_owned()), count);
    }

    /// Returns these counts, and the others that were recorded before.
    pub(crate) fn merged_into(&self, before: &Self) -> Self {
        let mut all = before.0.clone();
        all.extend(self.0.clone());
        Self(all)
    }

    pub(crate) fn write(&self) {
        let line = |((preset, scenario), count): (&(String, String), &Count)| {
            format!("{preset} | {scenario} | {} | {}\n", count.states, count.transitions)
        };
        let text: String = self.0.iter().map(line).collect();
        std::fs::write(Self::path(), text).expect("the checkout can be written to");
    }
}

/// The sums, by preset and of all.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut presets = BTreeMap::<&str, Count>::new();
        let mut all = Count { states: 0, transitions: 0 };
        for ((preset, _), count) in &self.0 {
            let sum = presets.entry(preset).or_insert(Count { states: 0, transitions: 0 });
            for sum in [sum, &mut all] {
                sum.states += count.states;
                sum.transitions += count.transitions;
            }
        }
        for (preset, sum) in presets {
            writeln!(f, "{preset:<20} {sum}")?;
        }
        write!(f, "{:<20} {all}", "all")
    }
}

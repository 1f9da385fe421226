//! All choices of a run are decided here.

use std::collections::VecDeque;
use std::fmt;

use crate::random::Random;

/// The environment variable of the one schedule that is to be run.
pub(super) const SCHEDULE: &str = "SIM_SCHEDULE";
/// The beginning of a schedule with weather.
const WEATHER: &str = "weather";

/// The source of decisions. It is asked two kinds of questions: which event comes next, and which weather the
/// network has. A search asks the first in every way, and has no weather. 0 is always the usual choice, and the
/// calmest weather.
#[derive(Clone, Debug, Default)]
pub(super) struct Choices {
    /// The choices that are decided already, in their order.
    given: Vec<u64>,
    /// The choices that were taken, each with the number of possible ones.
    taken: Vec<(u64, u64)>,
    beyond: Beyond,
    /// Whether the weather is calm.
    is_search: bool,
    /// Whether nothing more is asked: whatever is usual happens.
    is_over: bool,
    /// Whether a question was left out because of `is_over`.
    is_cut: bool,
}

/// The choices beyond those that are given.
#[derive(Clone, Debug, Default)]
enum Beyond {
    #[default]
    Usual,
    Drawn(Random),
    /// The bytes of a fuzzer. When there are no more, nothing unusual happens.
    Bytes(VecDeque<u8>),
}

impl Choices {
    /// Choices with weather, after which nothing unusual happens.
    pub(super) fn of(given: Vec<u64>) -> Self {
        Self { given, ..Self::default() }
    }

    pub(super) fn seed(seed: u64) -> Self {
        Self { beyond: Beyond::Drawn(Random::new(seed)), ..Self::default() }
    }

    pub(super) fn bytes(bytes: &[u8]) -> Self {
        Self { beyond: Beyond::Bytes(bytes.iter().copied().collect()), ..Self::default() }
    }

    /// The choices of a search that begin so.
    pub(super) fn search(given: Vec<u64>) -> Self {
        Self { is_search: true, ..Self::of(given) }
    }

    /// Exactly these choices of a search.
    pub(super) fn only(given: Vec<u64>) -> Self {
        Self { is_over: true, ..Self::search(given) }
    }

    /// One way through a search that a seed draws.
    pub(super) fn probe(seed: u64) -> Self {
        Self { is_search: true, ..Self::seed(seed) }
    }

    /// Reads a schedule, as it is written.
    ///
    /// # Panics
    ///
    /// Panics if the text is no schedule.
    pub(super) fn read(words: &str) -> Self {
        let numbers = words.strip_prefix(WEATHER).unwrap_or(words);
        let read = |word: &str| {
            word.parse()
                .unwrap_or_else(|_| panic!("{SCHEDULE} is numbers with dots, not {words:?}"))
        };
        let given = numbers.split('.').filter(|word| !word.is_empty()).map(read).collect();
        if numbers == words { Self::only(given) } else { Self::of(given) }
    }

    /// Chooses the next event among so many. The first is the usual.
    pub(super) fn choose(&mut self, among: u64) -> u64 {
        if among < 2 {
            return 0;
        }
        if self.is_over && self.given.len() <= self.taken.len() {
            self.is_cut = true;
            return 0;
        }
        self.take(among, 0)
    }

    /// Chooses the weather among so many. The last is the calmest.
    pub(super) fn weather(&mut self, among: u64) -> u64 {
        let calmest = among.saturating_sub(1);
        if self.is_search { calmest } else { self.take(among, calmest) }
    }

    /// Takes one of `among` choices, of which `usual` is the first or the last.
    fn take(&mut self, among: u64, usual: u64) -> u64 {
        let last = among.saturating_sub(1);
        let choice = match (self.given.get(self.taken.len()), &mut self.beyond) {
            (Some(given), _) => usual.abs_diff(*given.min(&last)),
            (None, Beyond::Usual) => usual,
            (None, Beyond::Drawn(random)) => random.below(among),
            (None, Beyond::Bytes(bytes)) => number(bytes, among).unwrap_or(usual),
        };
        self.taken.push((usual.abs_diff(choice), among));
        choice
    }

    /// From now on only what is usual happens, in a search.
    pub(super) const fn close(&mut self) {
        self.is_over = self.is_search;
    }

    pub(super) const fn is_search(&self) -> bool {
        self.is_search
    }

    pub(super) const fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns what was decided, without what is usual at the end.
    pub(super) fn decided(&self) -> Vec<u64> {
        let decided = self.taken.iter().rposition(|&(choice, _)| choice != 0);
        self.taken[..decided.map_or(0, |last| last + 1)].iter().map(|&(choice, _)| choice).collect()
    }

    /// Says where the run could not take a choice as it was given, if so.
    pub(super) fn misfit(&self) -> Option<String> {
        self.given.iter().enumerate().find_map(|(at, given)| match self.taken.get(at) {
            Some((taken, _)) if taken == given => None,
            Some((greatest, _)) => {
                Some(format!("choice {} is {given}, and the greatest is {greatest}", at + 1))
            }
            None => Some(format!("the run ended before choice {}", at + 1)),
        })
    }

    /// Returns the environment variable that leads to the same run.
    pub(super) fn replay(&self) -> String {
        format!("{SCHEDULE}={self}")
    }

    /// Returns the beginning of the next choices of a search, in their order; `None` after the last.
    pub(super) fn next(mut self) -> Option<Vec<u64>> {
        while let Some((choice, among)) = self.taken.pop() {
            if choice + 1 < among {
                let before = self.taken.iter().map(|&(choice, _)| choice);
                return Some(before.chain([choice + 1]).collect());
            }
        }
        None
    }

    /// Returns the number of runs with as many choices at each step.
    pub(super) fn product(&self) -> f64 {
        self.taken.iter().map(|&(_, among)| among as f64).product()
    }
}

/// The schedule that leads to the same run.
impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let weather = (!self.is_search).then(|| WEATHER.to_owned());
        let words = weather.into_iter().chain(self.given.iter().map(u64::to_string));
        f.write_str(&words.collect::<Vec<_>>().join("."))
    }
}

/// As many bytes as the number needs.
fn number(bytes: &mut VecDeque<u8>, among: u64) -> Option<u64> {
    let needed =
        among.saturating_sub(1).to_be_bytes().iter().skip_while(|&&byte| byte == 0).count();
    let mut number = 0;
    for _ in 0..needed {
        number = number << 8 | u64::from(bytes.pop_front()?);
    }
    (among > 0).then(|| number % among)
}

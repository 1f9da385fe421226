//! All choices of a run are decided here.

use std::collections::VecDeque;

use crate::random::Random;

/// The source of decisions. It is asked two kinds of questions: which event comes next, and which weather the
/// network has. A search asks the first in every way, and has no weather.
#[derive(Clone, Debug)]
pub(super) enum Choices {
    /// A tape decides both, which a seed may go on with.
    Tape(Tape),
    /// The bytes of a fuzzer decide both. When there are no more, nothing unusual happens.
    Bytes(VecDeque<u8>),
    /// A search decides what happens; the weather is calm.
    Path(Path),
}

/// Answers to all questions in turn, where 0 is the usual, and the calmest.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape {
    /// The choices that are decided already, in their order.
    given: Vec<u64>,
    /// The choices that were taken.
    taken: Vec<u64>,
    /// Beyond what is given: the usual, or what this draws.
    random: Option<Random>,
}

impl Tape {
    /// A tape after which nothing unusual happens.
    pub(super) fn of(given: Vec<u64>) -> Self {
        Self { given, ..Self::default() }
    }

    /// Returns what was decided, without what is usual at the end.
    pub(super) fn decided(mut self) -> Vec<u64> {
        while self.taken.last() == Some(&0) {
            self.taken.pop();
        }
        self.taken
    }

    /// Takes a choice whose usual is `usual`, the first or the last of so many.
    fn take(&mut self, among: u64, usual: u64) -> u64 {
        let last = among.saturating_sub(1);
        let given = self.given.get(self.taken.len()).map(|given| usual.abs_diff(*given.min(&last)));
        let drawn = |random: &mut Random| random.below(among);
        let choice = given.or_else(|| self.random.as_mut().map(drawn)).unwrap_or(usual);
        self.taken.push(usual.abs_diff(choice));
        choice
    }
}

/// One way through all that could happen.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    /// The choices that are decided already, in their order.
    pub(super) given: Vec<u32>,
    /// The choices that were taken, each with the number of possible ones.
    pub(super) taken: Vec<(u32, u32)>,
    /// Beyond what is given: the first, or what this draws.
    pub(super) random: Option<Random>,
    /// Whether nothing more is asked: whatever is usual happens.
    pub(super) is_over: bool,
    /// Whether something was not asked for that reason.
    pub(super) is_cut: bool,
}

impl Path {
    /// A path that begins so.
    pub(super) fn of(given: Vec<u32>) -> Self {
        Self { given, ..Self::default() }
    }

    /// A path that is no other.
    pub(super) fn only(given: Vec<u32>) -> Self {
        Self { is_over: true, ..Self::of(given) }
    }

    fn choose(&mut self, among: u32) -> u32 {
        let given = self.given.get(self.taken.len()).copied();
        if given.is_none() && self.is_over {
            self.is_cut = true;
            return 0;
        }
        let drawn = |random: &mut Random| small(random.below(among.into()));
        let choice = match (given, &mut self.random) {
            (Some(given), _) => given.min(among - 1),
            (None, random) => random.as_mut().map_or(0, drawn),
        };
        self.taken.push((choice, among));
        choice
    }

    /// Returns the beginning of the next path, in the order of choices; `None` after the last.
    pub(super) fn next(mut self) -> Option<Vec<u32>> {
        while let Some((choice, among)) = self.taken.pop() {
            if choice + 1 < among {
                let before = self.taken.iter().map(|&(choice, _)| choice);
                return Some(before.chain([choice + 1]).collect());
            }
        }
        None
    }

    /// The same path in as few choices as say it: the last ones are the usual.
    pub(super) fn shortest(&self) -> Vec<u32> {
        let mut choices: Vec<u32> = self.taken.iter().map(|&(choice, _)| choice).collect();
        while choices.last() == Some(&0) {
            choices.pop();
        }
        choices
    }
}

fn small(number: u64) -> u32 {
    u32::try_from(number).expect("it is below a small bound")
}

impl Choices {
    pub(super) fn seed(seed: u64) -> Self {
        Self::Tape(Tape { random: Some(Random::new(seed)), ..Tape::default() })
    }

    /// Chooses the next event among so many. The first is the usual.
    pub(super) fn choose(&mut self, among: u64) -> u64 {
        match self {
            _ if among < 2 => 0,
            Self::Tape(tape) => tape.take(among, 0),
            Self::Bytes(bytes) => take(bytes, among).unwrap_or(0),
            Self::Path(path) => path.choose(small(among)).into(),
        }
    }

    /// Chooses the weather among so many. The last is the calmest.
    pub(super) fn weather(&mut self, among: u64) -> u64 {
        match self {
            Self::Tape(tape) => tape.take(among, among.saturating_sub(1)),
            Self::Bytes(bytes) => take(bytes, among).unwrap_or(among.saturating_sub(1)),
            Self::Path(_) => among.saturating_sub(1),
        }
    }

    /// From now on only what is usual happens, in a search.
    pub(super) const fn close(&mut self) {
        if let Self::Path(path) = self {
            path.is_over = true;
        }
    }

    pub(super) const fn is_search(&self) -> bool {
        matches!(self, Self::Path(_))
    }
}

/// As many bytes as the number needs.
fn take(bytes: &mut VecDeque<u8>, among: u64) -> Option<u64> {
    let needed =
        among.saturating_sub(1).to_be_bytes().iter().skip_while(|&&byte| byte == 0).count();
    let mut number = 0;
    for _ in 0..needed {
        number = number << 8 | u64::from(bytes.pop_front()?);
    }
    (among > 0).then(|| number % among)
}

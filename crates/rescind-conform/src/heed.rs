//! The cancels that a server ignores. Some protocols let it ignore those of work that can't be cancelled.

use crate::facts::{Facts, Ignored};
use crate::judge::in_time;
use crate::options::Options;
use crate::play::Play;
use crate::target::Target;
use crate::words::*;

const CANCELLED_AT_WORK: &[Step] =
    &[Send(&[Slow('a', Fresh)]), Started('a'), Send(&[Cancel('a')]), Settled('a')];
const CANCELLED_OTHERWISE: &[Step] =
    &[Send(&[Slow('a', Fresh)]), Started('a'), Send(&[CancelWithMore('a')]), Settled('a')];
const CANCELLED_AT_ONCE: &[Step] = &[OneRead(&[Slow('a', Fresh), Cancel('a')]), Settled('a')];
/// The most trials, of which the first two that show something have to agree. On a late machine few do.
const TRIALS: u64 = 8;

/// Returns the cancels that the server ignores and that its protocol lets it ignore.
pub(crate) fn ignored(facts: &Facts, target: &dyn Target, options: &Options) -> Ignored {
    let may_ignore = matches!(facts.family(), Acp | AcpV2 | McpUntil2025 | Mcp2026);
    let Some(slow) = facts.slow.as_ref().ok().filter(|_| may_ignore) else { return Ignored::None };
    // The first two of so many trials that show something.
    let shows = |steps: &[Step], is_plain: bool, trials: u64| {
        let seen = (1..=trials).filter_map(|times| {
            let session = facts.open(target, options.suite.patience).ok()?;
            let slow_ms = options.slow_ms * times;
            let mut play = Play::new(session, facts, options.suite.seed, slow_ms);
            play.is_plain = is_plain;
            play.perform(steps).ok()?;
            is_answered_in_full(&play)
        });
        seen.take(2).collect::<Vec<_>>()
    };
    let are_ignored = |steps| shows(steps, false, TRIALS) == [true, true];
    // A server that does one thing after the other has none at work that it could read a cancel of.
    if slow.reads_on && !are_ignored(CANCELLED_AT_WORK) {
        return Ignored::None;
    }
    // Heeded with a reason, or where no progress is asked for, they are not ignored on purpose.
    if slow.reads_on && shows(CANCELLED_OTHERWISE, true, 2).contains(&false) {
        return Ignored::None;
    }
    match are_ignored(CANCELLED_AT_ONCE) {
        true => Ignored::All,
        false if slow.reads_on => Ignored::AtWork,
        false => Ignored::None,
    }
}

/// Returns whether the cancelled request was answered as if there were no cancel, or nothing if that can't be told.
fn is_answered_in_full(play: &Play<'_>) -> Option<bool> {
    let made = play.named.get(&'a')?;
    let Some((at, outcome)) = play.session.answers_to(&made.id).next() else { return Some(false) };
    if outcome.is_failure() || outcome.is_cancelled() || play.was_cut_short(made, at) {
        return Some(false);
    }
    (!play.may_read_on() || in_time(play, made).is_ok()).then_some(true)
}

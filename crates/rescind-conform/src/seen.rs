//! One play of a check, and what was seen in it.

use crate::judge::may_come_too_late;
use crate::judge::rules::Rule;
use crate::judge::rules::{is_excused_by_control, judge};
use crate::once::Once;
use crate::play::Play;
use crate::stop::{Fault, Stop};
use crate::words::Check;

/// The outcome of one play of a check.
pub(crate) struct Seen {
    pub(crate) stopped: Option<Stop>,
    pub(crate) broken: Option<(Rule, Fault)>,
}

impl Seen {
    /// Does the steps of a check, and judges what came of them.
    pub(crate) fn of(check: &Check, play: &mut Play<'_>) -> Self {
        let mut stopped = play.perform(check.steps).err();
        if stopped.is_none() && judge(play, check.rules).is_some() {
            stopped = play.wait_for_late_answers().err();
        }
        play.see_lateness();
        let broken = judge(play, check.rules);
        if stopped.is_none() && broken.is_none() && may_come_too_late(play) {
            stopped = Some(Stop::too_late());
        }
        Self { stopped, broken }
    }

    pub(crate) fn once(self) -> Once {
        Once::of(self.stopped, self.broken.map(|(_, fault)| fault))
    }

    /// Returns whether something is wrong for which the cancels may be to blame.
    pub(crate) fn may_be_excused(&self, play: &Play<'_>) -> bool {
        match (&self.stopped, &self.broken) {
            (Some(Stop::Ended(_)), _) => true,
            (Some(Stop::Missed(_) | Stop::NotExercised(_)), _) => false,
            (_, Some((rule, Fault::Broken(_)))) => is_excused_by_control(play, *rule),
            _ => false,
        }
    }

    /// Returns the reason why nothing can be said, if the same is seen without the cancels, or nothing.
    pub(crate) fn excused_by(&self, without: &Self, was_late: bool) -> Option<Stop> {
        match (&without.stopped, self.is_same_as(without)) {
            // A control that was cut short is no evidence.
            (Some(Stop::Missed(why)), _) | (Some(Stop::Stuck(why)), true) => {
                Some(Stop::Missed(format!("without the cancel, {why}")))
            }
            (_, false) => None,
            _ if was_late => Some(Stop::too_late()),
            _ => {
                let what = without.what().unwrap_or_default();
                Some(Stop::NotExercised(format!("without the cancel the same is seen: {what}")))
            }
        }
    }

    /// Returns whether another run went wrong in the same way.
    fn is_same_as(&self, other: &Self) -> bool {
        let broken = |seen: &Self| match &seen.broken {
            Some((rule, Fault::Broken(_))) => Some(*rule),
            _ => None,
        };
        match (&self.stopped, &other.stopped) {
            // It has not done what this one has.
            (_, Some(Stop::NotExercised(_))) => false,
            (Some(Stop::Ended(_)), other) => matches!(other, Some(Stop::Ended(_))),
            _ => broken(self).is_some() && broken(self) == broken(other),
        }
    }

    /// Returns what went wrong.
    fn what(&self) -> Option<&str> {
        match (&self.stopped, &self.broken) {
            (Some(Stop::Ended(why)), _) => Some(why),
            (_, Some((_, Fault::Broken(why) | Fault::Unclear(why)))) => Some(why),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_that_was_cut_short_excuses_nothing() {
        let seen = |stopped: Option<Stop>, rule| Seen {
            stopped,
            broken: Some((rule, Fault::Broken("it is gone".into()))),
        };
        let (rule, other) = (Rule::Ended('a'), Rule::NextAnswered);
        let excuse = |without, was_late| seen(None, rule).excused_by(&without, was_late);
        let same = "without the cancel the same is seen: it is gone";
        assert_eq!(excuse(seen(None, rule), false), Some(Stop::NotExercised(same.into())));
        assert_eq!(excuse(seen(None, rule), true), Some(Stop::too_late()));
        assert_eq!(excuse(seen(None, other), false), None);
        let stuck = || Some(Stop::Stuck("it took too long".into()));
        let cut = Stop::Missed("without the cancel, it took too long".into());
        assert_eq!(excuse(seen(stuck(), rule), false), Some(cut));
        assert_eq!(excuse(seen(stuck(), other), false), None, "what failed does so");
    }
}

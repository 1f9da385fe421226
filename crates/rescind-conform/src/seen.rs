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

    /// Returns whether another run went wrong in the same way.
    pub(crate) fn is_same_as(&self, other: &Self) -> bool {
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
    pub(crate) fn what(&self) -> Option<&str> {
        match (&self.stopped, &self.broken) {
            (Some(Stop::Ended(why)), _) => Some(why),
            (_, Some((_, Fault::Broken(why) | Fault::Unclear(why)))) => Some(why),
            _ => None,
        }
    }
}

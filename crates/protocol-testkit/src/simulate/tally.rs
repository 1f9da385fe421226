//! The account of all runs of a simulation or a search.

use super::executor::LookedFor;
use super::fault::Fault;
use super::report::Failure;
use super::run::Ran;
use super::trace::Trace;

/// Counts runs, and what their checks found.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) runs: u64,
    pub(super) excused: u64,
    looked_for: LookedFor,
}

impl Tally {
    /// Counts from zero. What was found stays found.
    pub(super) fn begin(&mut self) {
        (self.runs, self.excused) = (0, 0);
    }

    /// Counts a run.
    pub(super) fn add(&mut self, ran: &Ran) {
        self.runs += 1;
        self.excused += u64::from(ran.world.is_excused);
        for (what, is_found) in &ran.world.looked_for {
            *self.looked_for.entry(what.clone()).or_default() |= is_found;
        }
    }

    /// Fails if something was looked for and no run had it, or if no run was judged.
    pub(super) fn judge(&self) -> Result<(), Failure> {
        let Self { runs, excused, looked_for } = self;
        let missing = looked_for.iter().find(|(_, is_found)| !**is_found);
        let what = match missing {
            _ if *runs == 0 => "nothing was run".into(),
            _ if excused == runs => format!("all {runs} runs were excused"),
            Some((what, _)) => format!("none of {runs} runs had a {what}"),
            None => return Ok(()),
        };
        let (fault, runs) = (Fault::Unmatched, *runs);
        let (history, trace, replay) = (Vec::new(), Trace::default(), String::new());
        Err(Failure { fault, what, history, trace, runs, replay })
    }

    /// Prints how many runs were excused, if any were.
    pub(super) fn report(runs: u64, excused: u64) {
        if excused > 0 {
            println!("{excused} of {runs} runs were excused");
        }
    }
}

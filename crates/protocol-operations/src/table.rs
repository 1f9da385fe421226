//! Every transition of an operation, in one `match`.
//!
//! [`Status::on`] makes every decision, and [`Operations`](crate::Operations) carries it out.

/// The state of a live operation. An operation that has ended has no status, because its row is
/// gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// The operation is at work.
    Active,
    /// The operation was cancelled gracefully, and its worker may finish the unit of work in hand.
    Stopping,
    /// The operation was cancelled, and its worker has to stop now.
    Cancelled,
}

/// An event in the life of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input {
    /// A cancellation that grants the worker a grace period.
    GracefulCancel,
    /// A cancellation that stops the worker at once.
    ForcedCancel,
    /// The grace period of a graceful cancellation has expired.
    GraceExpired,
    /// The worker reports that it is done, or that it has stopped.
    Finished,
    /// The worker has disappeared without a report.
    WorkerLost,
}

/// The work that a transition leaves to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "it is for the host to do"]
pub enum Step {
    /// The input changes nothing, because the operation was cancelled before.
    Nothing,
    /// Notify the client that the operation is cancelled. This happens once for each cancelled
    /// operation.
    Notify,
    /// Notify the client, and stop the worker.
    NotifyAndStop,
    /// Stop the worker, whose grace period has expired or was cut short by a forced cancellation.
    Stop,
    /// Record that the operation ended by itself, with a result or an error.
    Complete,
    /// Record that the operation failed, because its worker was lost.
    Lose,
    /// Clean up after a cancelled operation that has ended, if its kind wants that. This happens
    /// once for each cancelled operation, and never while its worker still runs.
    CleanUp,
    /// The input cannot happen in this status. No method of the registry returns this step.
    Impossible,
}

/// The effect of one input in one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transition {
    /// The status afterwards; `None` if the operation has ended.
    pub next: Option<Status>,
    /// The work that is left to the host.
    pub step: Step,
}

impl Status {
    /// Every status, in the order of the variants.
    pub const ALL: &'static [Self] = &[Self::Active, Self::Stopping, Self::Cancelled];

    /// Returns the transition that `input` causes in this status.
    #[must_use]
    pub const fn on(self, input: Input) -> Transition {
        use Input::{Finished, ForcedCancel, GraceExpired, GracefulCancel, WorkerLost};
        use Status::{Active, Cancelled, Stopping};
        use Step::{CleanUp, Complete, Impossible, Lose, Nothing, Notify, NotifyAndStop, Stop};

        match (self, input) {
            // The client learns of a cancellation at once, while the worker may finish its unit of work.
            (Active, GracefulCancel) => to(Stopping, Notify),
            // Without a grace period, the worker has to stop when the client learns of it.
            (Active, ForcedCancel) => to(Cancelled, NotifyAndStop),
            // The client knows already, so all that is left is to stop the worker.
            (Stopping, ForcedCancel | GraceExpired) => to(Cancelled, Stop),
            // The first cancellation counts: a later one neither repeats nor softens it.
            (Stopping, GracefulCancel) | (Cancelled, GracefulCancel | ForcedCancel) => {
                to(self, Nothing)
            }
            // Nobody cancelled the operation, so the worker's own result is its outcome.
            (Active, Finished) => end(Complete),
            // Nobody cancelled the operation, but without a worker it has no result.
            (Active, WorkerLost) => end(Lose),
            // However its worker ended, the operation was cancelled, and nothing uses its leftovers.
            (Stopping | Cancelled, Finished | WorkerLost) => end(CleanUp),
            // Only an operation that is stopping has a grace period.
            (Active | Cancelled, GraceExpired) => to(self, Impossible),
        }
    }

    /// Returns the name in `snake_case`. A client sees a stopping operation as cancelled.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Stopping | Self::Cancelled => "cancelled",
        }
    }
}

const fn to(next: Status, step: Step) -> Transition {
    Transition { next: Some(next), step }
}

const fn end(step: Step) -> Transition {
    Transition { next: None, step }
}

impl Input {
    /// Every input, in the order of the variants.
    pub const ALL: &'static [Self] = &[
        Self::GracefulCancel,
        Self::ForcedCancel,
        Self::GraceExpired,
        Self::Finished,
        Self::WorkerLost,
    ];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_the_order_of_the_variants() {
        for (place, &status) in Status::ALL.iter().enumerate() {
            assert_eq!(status as usize, place);
        }
        for (place, &input) in Input::ALL.iter().enumerate() {
            assert_eq!(input as usize, place);
        }
    }

    /// On any path the client is notified at most once, and the worker stopped at most once. Clean-up
    /// happens exactly once if the client was notified, and never otherwise.
    #[test]
    fn every_path_notifies_once_and_cleans_up_once_if_it_notified() {
        fn walk(status: Status, notified: u32, stopped: u32, depth: u32) {
            if depth == 0 {
                return;
            }
            for &input in Input::ALL {
                let Transition { next, step } = status.on(input);
                let notifies = matches!(step, Step::Notify | Step::NotifyAndStop);
                let stops = matches!(step, Step::Stop | Step::NotifyAndStop);
                let (notified, stopped) =
                    (notified + u32::from(notifies), stopped + u32::from(stops));
                assert!(notified <= 1 && stopped <= 1, "{status:?} {input:?}");
                match next {
                    Some(next) => {
                        assert_eq!(notified == 1, next != Status::Active);
                        assert_eq!(stopped == 1, next == Status::Cancelled);
                        walk(next, notified, stopped, depth - 1);
                    }
                    None => {
                        assert_eq!(notified == 1, step == Step::CleanUp, "{status:?} {input:?}");
                    }
                }
            }
        }
        walk(Status::Active, 0, 0, 6);
    }
}

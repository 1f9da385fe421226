//! The transitions, as data.
//!
//! Everything an operation can do is a cell of [`TABLE`]. [`Operations`](crate::Operations) looks
//! the transition up and carries out its step; it decides nothing on its own.

/// Where an operation is. One that has ended is in no status: its row is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// At work.
    Active,
    /// Cancelled gracefully: its worker may finish the unit of work in hand.
    Stopping,
    /// Cancelled, and its worker is to stop now.
    Cancelled,
}

/// What can happen to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Input {
    /// Somebody cancels it, and grants its worker a grace.
    CancelGracefully,
    /// Somebody cancels it, and its worker is to stop now.
    CancelNow,
    /// The grace of a graceful cancel is over.
    GraceOver,
    /// Its worker says that it is done, or that it has stopped.
    Finish,
    /// Its worker is gone without a word.
    LoseWorker,
}

/// What a transition asks of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[must_use = "it is for the host to do"]
pub enum Step {
    /// Nothing: the operation was cancelled before.
    Nothing,
    /// Tell the client that the operation is cancelled. Once for each cancelled operation.
    Tell,
    /// Tell the client, and stop the worker.
    TellAndStop,
    /// Stop the worker: its grace is over, or a forced cancel has hastened a graceful one.
    Stop,
    /// The operation has ended by itself, with a result or an error.
    Complete,
    /// The operation failed, for its worker is gone.
    Lose,
    /// A cancelled operation has ended: clean up after it, if its kind wants that. Once for each
    /// cancelled operation, and never while its worker still runs.
    CleanUp,
}

/// One cell: the status afterwards (`None` when the row is gone), and what is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Transition {
    /// The status afterwards.
    pub next: Option<Status>,
    /// What is to be done.
    pub step: Step,
}

const fn to(next: Status, step: Step) -> Transition {
    Transition { next: Some(next), step }
}

const fn end(step: Step) -> Transition {
    Transition { next: None, step }
}

/// A row for each [`Status`], a column for each [`Input`].
const TABLE: [[Transition; 5]; 3] = {
    use Status::{Active, Cancelled, Stopping};
    use Step::{CleanUp, Complete, Lose, Nothing, Stop, Tell, TellAndStop};
    [
        // Active
        [
            to(Stopping, Tell),         // CancelGracefully
            to(Cancelled, TellAndStop), // CancelNow
            to(Active, Nothing),        // GraceOver
            end(Complete),              // Finish
            end(Lose),                  // LoseWorker
        ],
        // Stopping: the client was told already, and the first reason stays.
        [
            to(Stopping, Nothing), // CancelGracefully
            to(Cancelled, Stop),   // CancelNow
            to(Cancelled, Stop),   // GraceOver
            end(CleanUp),          // Finish
            end(CleanUp),          // LoseWorker
        ],
        // Cancelled: however it ends, it was cancelled.
        [
            to(Cancelled, Nothing), // CancelGracefully
            to(Cancelled, Nothing), // CancelNow
            to(Cancelled, Nothing), // GraceOver
            end(CleanUp),           // Finish
            end(CleanUp),           // LoseWorker
        ],
    ]
};

impl Status {
    /// Every status, in the order of the table's rows.
    pub const ALL: &'static [Self] = &[Self::Active, Self::Stopping, Self::Cancelled];

    /// Looks up what `input` does in this status.
    #[must_use]
    pub const fn on(self, input: Input) -> Transition {
        TABLE[self as usize][input as usize]
    }

    /// The name in `snake_case`. To clients a stopping operation is cancelled.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Stopping | Self::Cancelled => "cancelled",
        }
    }
}

impl Input {
    /// Every input, in the order of the table's columns.
    pub const ALL: &'static [Self] =
        &[Self::CancelGracefully, Self::CancelNow, Self::GraceOver, Self::Finish, Self::LoseWorker];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_are_in_table_order() {
        for (row, &status) in Status::ALL.iter().enumerate() {
            assert_eq!(status as usize, row);
        }
        for (column, &input) in Input::ALL.iter().enumerate() {
            assert_eq!(input as usize, column);
        }
    }

    /// Any path tells the client at most once, cleans up exactly once if and only if it told, and
    /// stops the worker at most once.
    #[test]
    fn every_path_tells_once_and_cleans_up_once_if_it_told() {
        fn walk(status: Status, told: u32, stopped: u32, depth: u32) {
            if depth == 0 {
                return;
            }
            for &input in Input::ALL {
                let Transition { next, step } = status.on(input);
                let told = told + u32::from(matches!(step, Step::Tell | Step::TellAndStop));
                let stopped = stopped + u32::from(matches!(step, Step::Stop | Step::TellAndStop));
                assert!(told <= 1 && stopped <= 1, "{status:?} {input:?}");
                match next {
                    Some(next) => {
                        assert_eq!(told == 1, next != Status::Active);
                        assert_eq!(stopped == 1, next == Status::Cancelled);
                        walk(next, told, stopped, depth - 1);
                    }
                    None => assert_eq!(told == 1, step == Step::CleanUp, "{status:?} {input:?}"),
                }
            }
        }
        walk(Status::Active, 0, 0, 6);
    }
}

//! Tasks of shuttle, each on a thread as far as their orders go.

use shuttle::future::{block_on, spawn};
use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Scheduler};
use shuttle::sync::{Arc, Mutex};
use shuttle::{Config, Runner};

use crate::{Task, count, flag};

flag::flag!(Mutex<State>);

const RUNS: usize = 100_000;
/// The number of changes of priority that PCT makes in a run.
const DEPTH: usize = 3;

fn run(task: Task, scheduler: impl Scheduler + 'static) {
    let mut config = Config::new();
    config.max_time = Some(task.most);
    Runner::new(scheduler, config).run(move || {
        count();
        block_on(async {
            let mut tasks = Vec::new();
            for _ in 0..task.pairs {
                let flag = Arc::new(Flag::new(task.is_wrong));
                let other = flag.clone();
                tasks.push(spawn(async move { flag.wait().await }));
                tasks.push(spawn(async move { other.set() }));
            }
            for task in tasks {
                task.await.expect("no task is aborted");
            }
        });
    });
}

pub(crate) fn depth_first(task: Task) {
    run(task, DfsScheduler::new(None, false));
}

pub(crate) fn random(task: Task) {
    run(task, RandomScheduler::new_from_seed(0, RUNS));
}

pub(crate) fn pct(task: Task) {
    run(task, PctScheduler::new_from_seed(0, DEPTH, RUNS));
}

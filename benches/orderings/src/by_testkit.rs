//! Tasks of one thread, as a connection's handlers are.

use std::rc::Rc;
use std::sync::Mutex;

use protocol_testkit::simulate::{self, Bound, Simulation};

use crate::{Task, count, flag};

flag::flag!(Mutex<State>);

fn world(task: Task) -> impl Fn(Simulation) {
    move |simulation| {
        count();
        for _ in 0..task.pairs {
            let flag = Rc::new(Flag::new(task.is_wrong));
            let other = flag.clone();
            simulation.spawn("waits", async move { flag.wait().await });
            simulation.spawn("sets", async move { other.set() });
        }
    }
}

pub(crate) fn every_order(task: Task) {
    let searched = simulate::every_order(Bound::steps(40), world(task));
    println!(
        "{} schedules of {:.0}, all: {}",
        searched.schedules, searched.of, searched.is_exhausted
    );
}

pub(crate) fn simulate(task: Task) {
    simulate::simulate(0..100_000, world(task));
}

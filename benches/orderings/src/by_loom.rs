//! Threads of loom, each with a future of its own. A deadlock aborts the process, after loom has said so.

use loom::future::block_on;
use loom::model::Builder;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::{Task, count, flag};

flag::flag!(Mutex<State>);

pub(crate) fn model(task: Task) {
    let mut builder = Builder::new();
    builder.max_duration = Some(task.most);
    builder.check(move || {
        count();
        let mut threads = Vec::new();
        for _ in 0..task.pairs {
            let flag = Arc::new(Flag::new(task.is_wrong));
            let other = flag.clone();
            threads.push(thread::spawn(move || block_on(flag.wait())));
            threads.push(thread::spawn(move || other.set()));
        }
        for thread in threads {
            thread.join().expect("no thread panics");
        }
    });
}

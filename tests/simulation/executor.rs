//! One thread, a virtual clock, and an order of tasks that the seed chooses.
//!
//! The world that runs is the thread's: its clock, randomness and tasks need no handle.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::env;
use std::future::Future;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use protocol_async::Timer;
use protocol_core::Timestamp;
use protocol_testkit::Random;

/// Polls that a world may take: whoever needs more spins.
const POLLS: usize = 200_000;

struct Task {
    name: &'static str,
    future: Pin<Box<dyn Future<Output = ()>>>,
}

struct World {
    random: Random,
    now: Timestamp,
    /// Who can go on, each once.
    ready: Vec<usize>,
    timers: BTreeMap<(Timestamp, u64), Waker>,
    timers_made: u64,
    /// New tasks, which the executor has not taken yet.
    spawned: Vec<Task>,
    tasks_made: usize,
    /// Everything that was noted.
    trace: DefaultHasher,
    /// Whether somebody wants to read it.
    is_replay: bool,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new(0));
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            now: Timestamp::ZERO,
            ready: Vec::new(),
            timers: BTreeMap::new(),
            timers_made: 0,
            spawned: Vec::new(),
            tasks_made: 0,
            trace: DefaultHasher::new(),
            is_replay: env::var_os("SIM_SEED").is_some(),
        }
    }
}

/// A number that the seed determines; 0 if `bound` is 0.
pub(crate) fn below(bound: u64) -> u64 {
    WORLD.with_borrow_mut(|world| world.random.below(bound))
}

/// One of these.
pub(crate) fn one_of<T: Clone>(choices: &[T]) -> T {
    choices[usize::try_from(below(choices.len() as u64)).unwrap()].clone()
}

/// A time below so many milliseconds.
pub(crate) fn time_below(millis: u64) -> Duration {
    Duration::from_millis(below(millis))
}

pub(crate) fn now() -> Timestamp {
    WORLD.with_borrow(|world| world.now)
}

/// Adds to what two runs of a seed must have in common (G10); a replay prints it.
pub(crate) fn note(what: &str) {
    WORLD.with_borrow_mut(|world| {
        what.hash(&mut world.trace);
        if world.is_replay {
            println!("{:>9} ms  {what}", world.now.as_millis());
        }
    });
}

pub(crate) fn spawn(name: &'static str, future: impl Future<Output = ()> + 'static) {
    WORLD.with_borrow_mut(|world| {
        world.spawned.push(Task { name, future: Box::pin(future) });
        world.ready.push(world.tasks_made);
        world.tasks_made += 1;
    });
}

pub(crate) fn sleep(time: Duration) -> Sleep {
    Clock.sleep_until(now() + time)
}

/// Runs a world until nothing is left to do, and gives the hash of its trace.
///
/// # Errors
///
/// Who waits for what never comes, or that somebody spins.
pub(crate) fn run(seed: u64, begin: impl FnOnce()) -> Result<u64, String> {
    WORLD.set(World::new(seed));
    begin();
    let mut tasks = Vec::new();
    for _ in 0..POLLS {
        let spawned = WORLD.with_borrow_mut(|world| std::mem::take(&mut world.spawned));
        tasks.extend(spawned.into_iter().map(Some));
        if let Some(next) = next_ready() {
            WORLD.with_borrow_mut(|world| (next, world.now).hash(&mut world.trace));
            let waker = Waker::from(Arc::new(Wakes(next)));
            let Some(task) = &mut tasks[next] else { continue };
            if task.future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                tasks[next] = None;
            }
        } else if !advance() {
            let waiting: Vec<_> = tasks.iter().flatten().map(|task| task.name).collect();
            return if waiting.is_empty() {
                Ok(WORLD.with_borrow(|world| world.trace.finish()))
            } else {
                Err(format!("deadlock: {} wait for ever", waiting.join(", ")))
            };
        }
    }
    Err(format!("livelock: more than {POLLS} polls"))
}

fn next_ready() -> Option<usize> {
    WORLD.with_borrow_mut(|world| {
        let choice = world.random.below(world.ready.len() as u64);
        let choice = usize::try_from(choice).unwrap();
        (!world.ready.is_empty()).then(|| world.ready.swap_remove(choice))
    })
}

/// When nobody can go on, it is the time of the next timer; false if there is none.
fn advance() -> bool {
    let due = WORLD.with_borrow_mut(|world| {
        let entry = world.timers.pop_first()?;
        world.now = entry.0.0;
        Some(entry.1)
    });
    due.map(Waker::wake).is_some()
}

/// Wakes the task with this number.
struct Wakes(usize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        WORLD.with_borrow_mut(|world| {
            if !world.ready.contains(&self.0) {
                world.ready.push(self.0);
            }
        });
    }
}

/// The world's clock.
#[derive(Clone, Copy)]
pub(crate) struct Clock;

impl Timer for Clock {
    type Sleep = Sleep;

    fn now(&self) -> Timestamp {
        now()
    }

    fn sleep_until(&self, due: Timestamp) -> Sleep {
        Sleep { due, key: None }
    }
}

/// Ends at a time.
pub(crate) struct Sleep {
    due: Timestamp,
    /// Its timer's, once it has one.
    key: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        WORLD.with_borrow_mut(|world| {
            if self.due <= world.now {
                return Poll::Ready(());
            }
            world.timers_made += 1;
            let key = *self.key.get_or_insert(world.timers_made);
            world.timers.insert((self.due, key), cx.waker().clone());
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            WORLD.with_borrow_mut(|world| world.timers.remove(&(self.due, key)));
        }
    }
}

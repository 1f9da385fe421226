//! One thread, a virtual clock, and an order of events that something else chooses.
//!
//! The world that runs is the thread's: its clock, its choices and its tasks need no handle.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::hash::{DefaultHasher, Hash};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use protocol_async::Timer;
use protocol_core::Timestamp;

use super::choices::Choices;
use super::clock::Clock;
use super::fault::Problem;
use super::served::Served;
use super::trace::{Happening, Trace};

/// The simulation that runs on this thread. Every method but [`Timer`]'s panics where none runs.
#[derive(Clone, Copy, Debug)]
pub struct Simulation;

pub(super) struct Task {
    pub(super) name: &'static str,
    pub(super) future: Pin<Box<dyn Future<Output = ()>>>,
}

/// Looks at something that must always hold.
pub(super) type Invariant = Box<dyn FnMut() -> Result<(), String>>;
/// Looks at everything that happened.
pub(super) type Check = Box<dyn FnOnce(&Trace) -> Result<(), String>>;

/// Whether each thing that was looked for was found.
pub(super) type LookedFor = BTreeMap<String, bool>;

#[derive(Default)]
pub(super) struct World {
    /// Tells its wakers from those of worlds before it.
    number: u64,
    pub(super) choices: Choices,
    pub(super) now: Timestamp,
    /// The tasks that can go on, each once, in the order in which they were woken.
    pub(super) ready: VecDeque<usize>,
    /// The same of tasks that run as soon as they can. No choice puts them in an order.
    pub(super) prompt: VecDeque<usize>,
    pub(super) timers: BTreeMap<(Timestamp, u64), Waker>,
    timers_made: u64,
    /// The clock of a runtime, which moves with this world's.
    pub(super) clock: Option<Rc<dyn Clock>>,
    /// The waker of the task that waits, with that clock, until another can go on.
    pub(super) passing: Option<Waker>,
    /// New tasks, which the executor has not taken yet.
    pub(super) spawned: Vec<Task>,
    pub(super) tasks_made: usize,
    /// Tasks that have ended, which nobody wakes.
    done: BTreeSet<usize>,
    /// The handlers under test, with their peers.
    pub(super) served: Vec<Rc<Served>>,
    pub(super) invariants: Vec<Invariant>,
    pub(super) checks: Vec<Check>,
    pub(super) trace: Trace,
    /// The number of messages that handlers' sides wrote in a row.
    pub(super) written: usize,
    /// A hash of everything that must be the same in two runs (G10).
    pub(super) fingerprint: DefaultHasher,
    pub(super) is_excused: bool,
    /// The things that some run has to have, and whether they were there.
    pub(super) looked_for: LookedFor,
    /// A fault that was found out of order.
    pub(super) problem: Option<Problem>,
}

thread_local! {
    static WORLD: RefCell<Option<World>> = const { RefCell::new(None) };
}

impl World {
    pub(super) fn new(choices: Choices) -> Self {
        static WORLDS: AtomicU64 = AtomicU64::new(0);
        Self { number: WORLDS.fetch_add(1, Ordering::Relaxed), choices, ..Self::default() }
    }

    pub(super) fn note(&mut self, what: Happening) {
        what.hash(&mut self.fingerprint);
        self.written += usize::from(matches!(what, Happening::Wrote { .. }));
        self.trace.add(self.now, what);
    }

    /// Returns whether no task can go on.
    pub(super) fn is_at_rest(&self) -> bool {
        self.ready.is_empty() && self.prompt.is_empty()
    }

    pub(super) fn fail(&mut self, problem: Problem) {
        self.problem.get_or_insert(problem);
    }
}

/// Begins a world on this thread, or ends the one that runs.
pub(super) fn replace(world: Option<World>) -> Option<World> {
    WORLD.replace(world)
}

/// Something of the world that runs. Nothing that is foreign may be called from it.
pub(super) fn with<T>(look: impl FnOnce(&mut World) -> T) -> T {
    WORLD.with_borrow_mut(|world| look(world.as_mut().expect("a simulation runs on this thread")))
}

/// Does some work in the context of this world's runtime, if it has one.
pub(super) fn in_context<T>(work: impl FnOnce() -> T) -> T {
    let Some(clock) = with(|world| world.clock.clone()) else { return work() };
    let (mut work, mut done) = (Some(work), None);
    clock.run(&mut || done = work.take().map(|work| work()));
    done.expect("it was done")
}

/// Records that something was looked for, which some run has to have. After a run nobody listens.
pub(super) fn looked_for(what: String, is_found: bool) {
    WORLD.with_borrow_mut(|world| {
        if let Some(world) = world {
            *world.looked_for.entry(what).or_default() |= is_found;
        }
    });
}

impl Simulation {
    /// Chooses a number below `bound`. A seed draws it, and a search tries each. It is 0 if `bound` is 0.
    #[must_use]
    pub fn choose(self, bound: u64) -> u64 {
        with(|world| world.choices.choose(bound))
    }

    /// Chooses one of these. A search tries each.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn one_of<T: Clone>(self, choices: &[T]) -> T {
        choices[index(self.choose(choices.len() as u64))].clone()
    }

    /// Chooses a time below so many milliseconds.
    #[must_use]
    pub fn time_below(self, millis: u64) -> Duration {
        Duration::from_millis(self.choose(millis))
    }

    /// Chooses the network's behaviour, among so many. The last is the calmest.
    pub(super) fn weather(self, among: u64) -> u64 {
        with(|world| world.choices.weather(among))
    }

    pub(super) fn is_search(self) -> bool {
        with(|world| world.choices.is_search())
    }

    pub(super) fn weather_of<T: Copy>(self, kinds: &[T]) -> T {
        kinds[index(self.weather(kinds.len() as u64))]
    }

    /// Returns the virtual time. It moves only when no task can go on.
    #[must_use]
    pub fn now(self) -> Timestamp {
        with(|world| world.now)
    }

    /// Waits, in virtual time.
    #[must_use = "it does nothing unless it is awaited"]
    pub fn sleep(self, time: Duration) -> Sleep {
        self.sleep_until(self.now() + time)
    }

    /// Runs something beside everything else. It need not be `Send`, and must end when the peer has
    /// hung up.
    pub fn spawn(self, name: &'static str, future: impl Future<Output = ()> + 'static) {
        with(|world| {
            let task = world.add(name, Box::pin(future));
            world.ready.push_back(task);
        });
    }

    /// Runs a part of the network: in a search as soon as it can, because no order of it is of
    /// interest.
    pub(super) fn spawn_network(self, future: impl Future<Output = ()> + 'static) {
        with(|world| {
            let task = world.add(NETWORK, Box::pin(future));
            let queue =
                if world.choices.is_search() { &mut world.prompt } else { &mut world.ready };
            queue.push_back(task);
        });
    }

    /// Notes that something happened, for the chart, for [`check`](Self::check), and for what two runs
    /// of a seed must have in common.
    pub fn note(self, what: impl Into<String>) {
        with(|world| world.note(Happening::Noted(what.into())));
    }

    /// Looks at something after every step; an error fails the run.
    pub fn always(self, holds: impl FnMut() -> Result<(), String> + 'static) {
        with(|world| world.invariants.push(Box::new(holds)));
    }

    /// Looks at everything that happened, once nothing happens any more; an error fails the run.
    pub fn check(self, holds: impl FnOnce(&Trace) -> Result<(), String> + 'static) {
        with(|world| world.checks.push(Box::new(holds)));
    }

    /// Ends the judging of this run, which met what is not tested.
    ///
    /// [`Simulated::excused`](super::Simulated::excused) counts these runs, and a simulation in which all
    /// of them are excused fails.
    pub fn excuse(self) {
        with(|world| world.is_excused = true);
    }
}

/// The name of the tasks that are no part of what is tested.
pub(super) const NETWORK: &str = "the network";

pub(super) fn index(number: u64) -> usize {
    usize::try_from(number).expect("it is below a length")
}

impl World {
    fn add(&mut self, name: &'static str, future: Pin<Box<dyn Future<Output = ()>>>) -> usize {
        self.spawned.push(Task { name, future });
        self.tasks_made += 1;
        self.tasks_made - 1
    }

    /// Forgets a task that has ended.
    pub(super) fn end(&mut self, task: usize) {
        self.done.insert(task);
        self.ready.retain(|&ready| ready != task);
    }

    pub(super) fn waker(&self, task: usize, is_prompt: bool) -> Waker {
        Waker::from(Arc::new(Wakes { world: self.number, task, is_prompt }))
    }
}

/// Wakes the task with this number, from the thread of its world.
struct Wakes {
    world: u64,
    task: usize,
    is_prompt: bool,
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        // At the end of the thread or of the world, nobody is left to wake.
        let _ = WORLD.try_with(|world| {
            let mut world = world.borrow_mut();
            let Some(world) = world.as_mut().filter(|world| world.number == self.world) else {
                return;
            };
            let queue = if self.is_prompt { &mut world.prompt } else { &mut world.ready };
            if !queue.contains(&self.task) && !world.done.contains(&self.task) {
                queue.push_back(self.task);
                if let Some(passing) = world.passing.take() {
                    passing.wake();
                }
            }
        });
    }
}

impl Timer for Simulation {
    type Sleep = Sleep;

    fn now(&self) -> Timestamp {
        // Handles that outlive their world ask when they are dropped.
        WORLD.with_borrow(|world| world.as_ref().map_or(Timestamp::ZERO, |world| world.now))
    }

    fn sleep_until(&self, due: Timestamp) -> Sleep {
        Sleep { due, key: None }
    }
}

/// Ends at a time; see [`Simulation::sleep`].
#[derive(Debug)]
#[must_use = "it does nothing unless it is awaited"]
pub struct Sleep {
    due: Timestamp,
    /// Its timer's, once it has one.
    key: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        with(|world| {
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
        let Some(key) = self.key else { return };
        let _ = WORLD.try_with(|world| {
            let timer =
                world.borrow_mut().as_mut().and_then(|world| world.timers.remove(&(self.due, key)));
            drop(timer);
        });
    }
}

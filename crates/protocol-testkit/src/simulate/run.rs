//! One run of a world, from its beginning until nothing happens any more.

use std::cell::{Cell, RefCell};
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Once};
use std::task::Context;
use std::time::Duration;

use protocol_async::hooks::mute_standard_error;

use super::choices::Choices;
use super::executor::{
    NETWORK, Simulation, Task, World, in_context, index, looked_for, replace, with,
};
use super::far::Move;
use super::fault::{Fault, Problem};
use super::served::Served;

/// Polls in a row without anything else happening: whoever needs more spins.
const POLLS: usize = 10_000;
/// Timers in a row without the peer doing anything, and then responses of it in a row: what goes on for ever is not
/// waited for.
const TICKS: usize = 1_000;
/// Messages in a row that a handler's side writes while no time passes and the peer does no more than to answer.
const MESSAGES: usize = 10_000;
/// The wait for a clock that can't say when its next timer is due.
const HORIZON: Duration = Duration::from_secs(3_600);
const IDLE: &str = "an hour passes, and nothing happens";

/// The limits of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    /// Beyond so many steps only what is usual happens.
    pub(super) open: usize,
    /// Beyond so many steps the run is of no interest any more.
    pub(super) most: usize,
    /// Whether each step is put in words.
    pub(super) is_told: bool,
}

impl Limits {
    pub(super) const WHOLE: Self = Self { open: usize::MAX, most: usize::MAX, is_told: false };
    pub(super) const TOLD: Self = Self { is_told: true, ..Self::WHOLE };
}

/// The outcome of a run.
pub(super) struct Ran {
    pub(super) problem: Option<Problem>,
    pub(super) steps: usize,
    /// Whether another run does the same in fewer steps.
    pub(super) is_redundant: bool,
    pub(super) history: Vec<String>,
    pub(super) world: World,
}

/// One thing that can happen next.
#[derive(Clone, Copy)]
enum Event {
    /// A task goes on.
    Go(usize),
    /// The peer of a connection does something.
    Move(usize, Move),
    /// It is the time of the next timer.
    Time,
}

#[derive(Default)]
struct Run {
    tasks: Vec<Option<Task>>,
    limits: Limits,
    steps: usize,
    polls: usize,
    ticks: usize,
    /// The peer's responses in a row, while it did nothing else.
    answers: usize,
    /// Whether a peer answered late, which its script does not say. It shows whether a request goes on then.
    is_trial: bool,
    /// The connection whose peer said something in the last step.
    moved: Option<usize>,
    /// Whether time has passed since a task went on, and no timer was due.
    is_idle: bool,
    is_redundant: bool,
    history: Vec<String>,
}

/// Runs a world.
pub(super) fn run(choices: Choices, limits: Limits, begin: &dyn Fn(Simulation)) -> Ran {
    keep_panics();
    PANIC.take();
    let was_muted = mute_standard_error(!limits.is_told);
    replace(Some(World::new(choices)));
    let mut run = Run { limits, ..Run::default() };
    let ended = contain(|| {
        begin(Simulation);
        if run.go()? { run.finish() } else { Ok(()) }
    });
    let problem = ended.and_then(|ended| ended);
    // Whatever is dropped may still wake somebody, and ask for the time.
    let left = contain(|| {
        in_context(|| drop(std::mem::take(&mut run.tasks)));
        drop(with(|world| {
            (std::mem::take(&mut world.invariants), std::mem::take(&mut world.checks))
        }));
        // With whatever runs there.
        drop(with(|world| world.clock.take()));
        leaks(&with(|world| std::mem::take(&mut world.served)))
    });
    mute_standard_error(was_muted);
    let mut world = replace(None).expect("it was put there");
    // A task that never began may hold something of the host's.
    drop(std::mem::take(&mut world.spawned));
    let problem = problem.and(left.and_then(|left| left)).err();
    let problem = world.problem.take().or(problem).filter(|_| !world.is_excused);
    let Run { steps, is_redundant, history, .. } = run;
    Ran { problem, steps, is_redundant, history, world }
}

/// Returns the number of tasks that the runtime has of its own, if this world has one.
fn tasks_of_clock() -> usize {
    with(|world| world.clock.as_ref().map_or(0, |clock| clock.tasks()))
}

/// Nothing of a connection that is over may be left in memory.
fn leaks(served: &[Rc<Served>]) -> Result<(), Problem> {
    served.iter().try_for_each(|served| {
        drop(served.near.take());
        match Arc::strong_count(&served.token) {
            1 => Ok(()),
            _ => Err(Problem::new(Fault::Leak, "a connection that is over is left in memory")),
        }
    })
}

impl Run {
    /// Until nothing can happen, or what happens is of no interest any more. Says whether it is to be
    /// judged in the end.
    fn go(&mut self) -> Result<bool, Problem> {
        loop {
            self.take_spawned();
            self.go_on_promptly()?;
            if self.is_over()? {
                return Ok(false);
            }
            let events = self.events()?;
            if events.is_empty() {
                return Ok(!self.is_trial);
            }
            if self.steps >= self.limits.most {
                return Ok(false);
            }
            if self.steps >= self.limits.open {
                with(|world| world.choices.close());
            }
            let chosen = Simulation.choose(events.len() as u64);
            let event = events[index(chosen)];
            self.steps += 1;
            if self.limits.is_told {
                self.tell(event);
            }
            let of_clock = tasks_of_clock();
            self.take(event)?;
            // Time passed and nobody was woken, and what was due still is. A task of the runtime might have
            // changed something meanwhile.
            let was_due = !matches!(events[0], Event::Time);
            self.is_redundant = matches!(event, Event::Time)
                && self.is_idle
                && was_due
                && of_clock == 0
                && Simulation.is_search();
            if self.is_redundant {
                return Ok(false);
            }
        }
    }

    /// Returns whether the run is not judged any further. Looks at what must always hold.
    fn is_over(&self) -> Result<bool, Problem> {
        if let Some(what) = PANIC.take() {
            return Err(Problem::new(Fault::Panicked, what));
        }
        let served = with(|world| match (world.problem.take(), world.is_excused) {
            (Some(problem), _) => Err(problem),
            (None, is_excused) => Ok((!is_excused).then(|| world.served.clone())),
        })?;
        let Some(served) = served else { return Ok(true) };
        for served in served {
            for (method, is_taken) in served.far.borrow_mut().take_responded() {
                let refused = "that is not refused with error -32601 or -32002";
                looked_for(format!("request {method:?} {refused}"), is_taken);
            }
            if let Some(what) = served.far.borrow_mut().take_wrong() {
                return Err(Problem::new(Fault::Difference, what));
            }
            served.look(Simulation.now());
        }
        let mut invariants = with(|world| std::mem::take(&mut world.invariants));
        let judged = invariants.iter_mut().try_for_each(|holds| holds());
        with(|world| world.invariants.append(&mut invariants));
        judged.map(|()| false).map_err(|what| Problem::new(Fault::Invariant, what))
    }

    /// Returns everything that can happen next, the usual first.
    fn events(&self) -> Result<Vec<Event>, Problem> {
        let (ready, timer, now, is_search, served) = with(|world| {
            let timer = world.timers.keys().next().map(|&(due, _)| due);
            // A clock of a runtime may have a timer at any time.
            let unknown = world.clock.as_ref().filter(|_| !self.is_idle).map(|_| world.now);
            let timer = unknown.or(timer);
            let ready: Vec<usize> = world.ready.iter().copied().collect();
            (ready, timer, world.now, world.choices.is_search(), world.served.clone())
        });
        let moves = |connection: usize, moves: Vec<Move>| {
            moves.into_iter().map(move |next| Event::Move(connection, next))
        };
        // Nobody sees the peer's messages before they are read, so a search sends them just before.
        if let Some(connection) = self.moved.filter(|_| is_search) {
            let (reader, far) = (served[connection].reader.get(), served[connection].far.borrow());
            if ready.contains(&reader) {
                let more = moves(connection, [far.due(), far.possible()].concat());
                return Ok([Event::Go(reader)].into_iter().chain(more).collect());
            }
        }
        let is_at_rest = ready.is_empty();
        let mut events: Vec<Event> = ready.into_iter().map(Event::Go).collect();
        for (connection, served) in served.iter().enumerate() {
            events.extend(moves(connection, served.far.borrow().due()));
        }
        let is_due = !events.is_empty();
        if is_at_rest {
            for served in &served {
                served.judge.borrow().rest(now, timer)?;
            }
            if timer.is_some() && self.ticks < TICKS {
                events.push(Event::Time);
            } else if !is_due {
                self.settle(&served, &mut events)?;
            }
        }
        for (connection, served) in served.iter().enumerate() {
            events.extend(moves(connection, served.far.borrow().possible()));
        }
        Ok(events)
    }

    /// Nothing happens any more: the peers hang up, or answer late what a request may wait for.
    fn settle(&self, served: &[Rc<Served>], events: &mut Vec<Event>) -> Result<(), Problem> {
        for (connection, served) in served.iter().enumerate() {
            if !served.far.borrow().is_over() {
                let is_doubtful = served.judge.borrow().settled()?;
                if !self.is_trial {
                    events.push(Event::Move(connection, Move::Finish));
                    events.extend(is_doubtful.then_some(Event::Move(connection, Move::AnswerLate)));
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, event: Event) -> Result<(), Problem> {
        self.moved = None;
        match event {
            Event::Go(task) => {
                with(|world| world.ready.retain(|&ready| ready != task));
                with(|world| (task, world.now).hash(&mut world.fingerprint));
                self.polls += 1;
                self.is_idle = false;
                self.poll(task, false)?;
                if self.polls > POLLS {
                    let name = self.name(task);
                    let what = format!("{name} was woken {POLLS} times in a row for nothing");
                    self.forget(self.polls);
                    return Err(Problem::new(Fault::BusyLoop, what));
                }
                if with(|world| world.written) > MESSAGES {
                    let last = with(|world| world.trace.last_written()).unwrap_or_default();
                    let what = format!(
                        "{MESSAGES} messages were written in a row, the last of them: {last}"
                    );
                    return Err(Problem::new(Fault::BusyLoop, what));
                }
            }
            Event::Move(connection, next) => {
                self.polls = 0;
                // A handler that calls for ever gets a response each time.
                if matches!(next, Move::Answer(..)) {
                    self.answers += 1;
                } else {
                    self.answers = 0;
                    with(|world| world.written = 0);
                }
                if self.answers < TICKS {
                    self.ticks = 0;
                }
                self.is_trial |= next == Move::AnswerLate;
                let far = with(|world| world.served[connection].far.clone());
                // A writer sees that the peer has gone.
                self.moved = (next != Move::HangUp).then_some(connection);
                far.borrow_mut().make(next, Simulation.now());
            }
            Event::Time => {
                (self.polls, self.ticks) = (0, self.ticks + 1);
                with(|world| world.written = 0);
                contain(|| self.pass())?;
            }
        }
        Ok(())
    }

    /// Lets time pass until the next timer is due.
    fn pass(&mut self) {
        let (clock, served, now, timer) = with(|world| {
            let timer = world.timers.keys().next().map(|&(due, _)| due);
            (world.clock.clone(), world.served.clone(), world.now, timer)
        });
        let due = match clock {
            None => timer.expect("there is one"),
            Some(clock) => {
                let limits = served.iter().filter_map(|served| served.judge.borrow().limit());
                let limit = limits.chain(timer).min();
                let passed = clock.pass(limit.map_or(HORIZON, |limit| limit.since(now)));
                clock.run(&mut || ());
                self.is_idle = limit.is_none() && with(|world| world.is_at_rest());
                now + passed
            }
        };
        let due = with(|world| {
            world.now = due;
            let later = world.timers.split_off(&(due, u64::MAX));
            std::mem::replace(&mut world.timers, later)
        });
        due.into_values().for_each(std::task::Waker::wake);
        if self.limits.is_told {
            let words = format!("it is {} ms", Simulation.now().as_millis());
            self.history.push(if self.is_idle { IDLE.into() } else { words });
        }
    }

    fn take_spawned(&mut self) {
        let spawned = with(|world| std::mem::take(&mut world.spawned));
        self.tasks.extend(spawned.into_iter().map(Some));
    }

    /// Lets the network go on as far as it can, where no choice puts it in an order.
    fn go_on_promptly(&mut self) -> Result<(), Problem> {
        while let Some(task) = with(|world| world.prompt.pop_front()) {
            self.poll(task, true)?;
        }
        Ok(())
    }

    fn poll(&mut self, task: usize, is_prompt: bool) -> Result<(), Problem> {
        let waker = with(|world| world.waker(task, is_prompt));
        let Some(place) = self.tasks.get_mut(task) else { return Ok(()) };
        let Some(Task { name, future }) = place else { return Ok(()) };
        if *name == NETWORK {
            self.polls = 0;
        }
        let mut cx = Context::from_waker(&waker);
        let polled = contain(|| in_context(|| future.as_mut().poll(&mut cx)));
        if polled?.is_ready() {
            with(|world| world.end(task));
            // Dropping it may call whatever it holds.
            let done = place.take();
            contain(|| in_context(|| drop(done)))?;
        }
        Ok(())
    }

    /// The last steps were all the same, and say nothing.
    fn forget(&mut self, steps: usize) {
        self.steps -= steps;
        self.history.truncate(self.steps);
    }

    fn name(&self, task: usize) -> &'static str {
        let task = self.tasks.get(task).and_then(Option::as_ref);
        task.map_or("a task that is done", |task| task.name)
    }

    fn tell(&mut self, event: Event) {
        let words = match event {
            Event::Go(task) => format!("{} goes on", self.name(task)),
            Event::Move(connection, next) => {
                let far = with(|world| world.served[connection].far.clone());
                far.borrow().words(next)
            }
            // It is told when it has passed.
            Event::Time => return,
        };
        self.history.push(words);
    }

    /// Nothing can happen any more: what must hold in the end.
    fn finish(&mut self) -> Result<(), Problem> {
        let waiting: Vec<_> = self
            .tasks
            .iter()
            .flatten()
            .map(|task| task.name)
            .filter(|name| *name != NETWORK)
            .chain(std::iter::repeat_n("a task of the runtime", tasks_of_clock()))
            .collect();
        if !waiting.is_empty() {
            let what = format!("at the end there is still: {}", waiting.join(", "));
            return Err(Problem::new(Fault::WaitsForEver, what));
        }
        for served in with(|world| world.served.clone()) {
            served.judge.borrow().over()?;
        }
        let (checks, trace) =
            with(|world| (std::mem::take(&mut world.checks), world.trace.clone()));
        checks.into_iter().try_for_each(|check| {
            contain(|| check(&trace))?.map_err(|what| Problem::new(Fault::Check, what))
        })
    }
}

thread_local! {
    /// The message of the last panic in the simulation of this thread.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
    /// Whether what runs is to be contained.
    static KEEPS: Cell<bool> = const { Cell::new(false) };
}

/// From now on, panics in a simulation are kept for its report, also those that somebody catches.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if KEEPS.get() {
                PANIC.with_borrow_mut(|panic| _ = panic.get_or_insert_with(|| info.to_string()));
            } else {
                before(info);
            }
        }));
    });
}

/// Runs what may panic; the panic is the problem.
fn contain<T>(work: impl FnOnce() -> T) -> Result<T, Problem> {
    let before = KEEPS.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    KEEPS.set(before);
    done.map_err(|_| {
        let what = PANIC.take().unwrap_or_else(|| "something panicked".into());
        Problem::new(Fault::Panicked, what)
    })
}

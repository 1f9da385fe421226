//! A process, from its beginning until it is gone.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::process::{ChildStderr, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use event_listener::{Event, EventListener, Listener};

use crate::group::Group;
use crate::lock::lock;
use crate::pipe::OutputPipe;
use crate::stderr::{Stderr, Tail};

/// The first pause between two looks at whether anything of a group is left. Each pause is twice as long, up to
/// [`LATEST`].
const SOON: Duration = Duration::from_millis(5);
const LATEST: Duration = Duration::from_millis(100);

/// The longest wait for the end of a group that was killed. Then the supervisor that should have ended it is killed.
const OBEDIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// The longest wait for the status of a process whose output has ended, and for the end of a dead one's standard
/// error. Mostly they are about to come.
pub(crate) const LAST_BREATH: Duration = Duration::from_secs(1);

/// A handle of a process that was spawned. Clones are the same process, and keep nothing alive.
#[derive(Clone)]
pub struct Process {
    shared: Arc<Shared>,
}

/// The owner of a process, which ends it and everything that it started when it is dropped.
///
/// Dropping it needs no runtime and waits for nothing: [`Process::exit`] waits for the end.
#[must_use = "dropping it ends the process"]
pub struct Owner {
    process: Process,
}

/// The strongest means that ended a process, or those that it left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pushed {
    /// It ended by itself, at the latest when its input was closed.
    No,
    /// It was sent `SIGTERM`.
    Terminated,
    /// It was sent `SIGKILL`, or its like on other systems.
    Killed,
}

struct Shared {
    id: u32,
    grace: Duration,
    group: Box<dyn Group>,
    state: Mutex<State>,
    /// Notified whenever the state changes.
    changed: Event,
    stderr: Tail,
}

struct State {
    life: Life,
    pushed: Pushed,
    /// Whether somebody is about to end the group.
    is_ending: bool,
    /// Whether there may be more on its standard error.
    is_talking: bool,
    /// Kept until the process is gone, and longer if it has no reader yet.
    output: Option<Arc<OutputPipe>>,
    has_reader: bool,
    /// Closed when the process has ended.
    #[cfg(unix)]
    end_with_it: Vec<UnixStream>,
}

/// The stages of a process's life, in their order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Life {
    Running,
    /// The process is dead and reaped; others of its group may be there.
    Ended(Status),
    /// Nothing of it is left, or nothing that we can reach.
    Gone(Status),
}

/// The status with which a process ended. An `io::Error` can't be cloned.
type Status = Result<ExitStatus, io::ErrorKind>;

impl Life {
    pub(crate) const fn has_ended(self) -> bool {
        !matches!(self, Self::Running)
    }

    pub(crate) const fn is_gone(self) -> bool {
        matches!(self, Self::Gone(_))
    }

    /// Returns the stage after the last process of the group.
    const fn gone(self) -> Self {
        match self {
            Self::Running => self,
            Self::Ended(status) | Self::Gone(status) => Self::Gone(status),
        }
    }

    const fn status(self) -> Option<Status> {
        match self {
            Self::Running => None,
            Self::Ended(status) | Self::Gone(status) => Some(status),
        }
    }
}

impl Process {
    pub(crate) fn new(id: u32, group: Box<dyn Group>, grace: Duration) -> Self {
        let state = State {
            life: Life::Running,
            pushed: Pushed::No,
            is_ending: false,
            is_talking: false,
            output: None,
            has_reader: false,
            #[cfg(unix)]
            end_with_it: Vec::new(),
        };
        let shared = Shared {
            id,
            grace,
            group,
            state: Mutex::new(state),
            changed: Event::new(),
            stderr: Tail::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Begins to read its standard error and to wait for it.
    ///
    /// # Errors
    ///
    /// There are no more threads or descriptors. The process is killed then.
    pub(crate) fn start(
        self,
        stdout: &ChildStdout,
        stderr: Option<(ChildStderr, Stderr)>,
    ) -> io::Result<Owner> {
        match self.start_threads(stdout, stderr) {
            Ok(()) => Ok(Owner { process: self }),
            Err(error) => {
                self.shared.push(Pushed::Killed);
                self.shared.group.release();
                if self.shared.group.wait().is_none() {
                    let _ = self.shared.group.reap();
                }
                Err(error)
            }
        }
    }

    fn start_threads(
        &self,
        stdout: &ChildStdout,
        stderr: Option<(ChildStderr, Stderr)>,
    ) -> io::Result<()> {
        self.shared.lock().output = Some(Arc::new(OutputPipe::of(stdout)?));
        if let Some((from, to)) = stderr {
            self.shared.lock().is_talking = true;
            let shared = self.shared.clone();
            Builder::new().name("child-stderr".into()).spawn(move || {
                to.drain(from, &shared.stderr);
                shared.change(|state| state.is_talking = false);
            })?;
        }
        let shared = self.shared.clone();
        Builder::new().name("child".into()).spawn(move || shared.keep())?;
        Ok(())
    }

    /// Returns its id, as the system names it.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.shared.id
    }

    /// Waits until it is gone, and with it everything of its group that ends within ten seconds of `SIGKILL`. Returns
    /// the status of the process itself.
    ///
    /// # Errors
    ///
    /// The system does not report the status, because this program ignores its children's ends.
    pub fn exit(&self) -> impl Future<Output = io::Result<ExitStatus>> + Send + Unpin + use<> {
        let (process, mut listener) = (self.clone(), None);
        poll_fn(move |cx| {
            ready!(process.poll_life(Life::is_gone, &mut listener, cx));
            Poll::Ready(process.shared.status())
        })
    }

    /// Waits as [`exit`](Self::exit) does, and blocks the thread.
    ///
    /// # Errors
    ///
    /// As [`exit`](Self::exit).
    pub fn wait(&self) -> io::Result<ExitStatus> {
        self.shared.wait_until(None, |state| state.life.is_gone());
        self.shared.status()
    }

    /// Returns whether the process itself has ended. Others that it has started may be left.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.life().has_ended()
    }

    /// Returns the strongest means that was used so far to end it.
    #[must_use]
    pub fn pushed(&self) -> Pushed {
        self.shared.lock().pushed
    }

    /// Returns the end of its standard error, from the beginning of a line on, if that is [kept](Stderr::Last).
    /// It is complete once the process is gone, unless its end takes more than a second to come.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        self.shared.stderr.text()
    }

    /// Ready once its life is so.
    pub(crate) fn poll_life(
        &self,
        is_so: fn(Life) -> bool,
        listener: &mut Option<EventListener>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        poll_until(|| is_so(self.life()), &self.shared.changed, listener, cx)
    }

    pub(crate) fn life(&self) -> Life {
        self.shared.lock().life
    }

    /// Waits for its end, but no longer than this, and returns whether it has ended.
    pub(crate) fn wait_for_end(&self, patience: Duration) -> bool {
        self.shared.wait_until(Some(Instant::now() + patience), |state| state.life.has_ended())
    }

    /// Returns a stream that ends when the process does.
    #[cfg(unix)]
    pub(crate) fn end_as_stream(&self) -> io::Result<UnixStream> {
        let (near, far) = UnixStream::pair()?;
        let mut state = self.shared.lock();
        if !state.life.has_ended() {
            state.end_with_it.push(far);
        }
        Ok(near)
    }

    /// Returns the error that readers of its output meet at its end.
    pub(crate) fn death(&self) -> io::Error {
        let how = match self.life().status() {
            Some(Ok(status)) => format!("the process ended: {status}"),
            _ => "the process ended".into(),
        };
        io::Error::new(io::ErrorKind::UnexpectedEof, how)
    }

    /// Returns the pipe of its output, for a reader. A process that is gone has it for the first reader alone.
    pub(crate) fn output(&self) -> Option<Arc<OutputPipe>> {
        let mut state = self.shared.lock();
        state.has_reader = true;
        if state.life.is_gone() { state.output.take() } else { state.output.clone() }
    }

    /// Reads its output and drops it until the process is gone, because no reader is left.
    pub(crate) fn discard_output(&self, output: Arc<OutputPipe>) {
        let process = self.clone();
        let discard = move || {
            let mut buffer = vec![0; 16 << 10];
            while !process.life().is_gone() {
                match output.read(&mut buffer, LATEST) {
                    Ok(1..) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Ok(0) | Err(_) => return,
                }
            }
        };
        // Without a thread its pipe may fill up, so that it does not end by itself.
        let _ = Builder::new().name("child-stdout".into()).spawn(discard);
    }
}

impl Owner {
    /// Returns a handle of the process, which does not own it.
    #[must_use]
    pub const fn process(&self) -> &Process {
        &self.process
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        let shared = &self.process.shared;
        if !shared.begin_to_end() {
            return;
        }
        let ending = shared.clone();
        if Builder::new().name("child-end".into()).spawn(move || ending.end()).is_err() {
            // There is no thread to be patient on.
            shared.push(Pushed::Killed);
            shared.end();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify(usize::MAX);
    }

    /// Waits for the process's end, and then ends what it left behind, unless somebody is at it.
    fn keep(&self) {
        let status = self.group.wait();
        self.change(|state| {
            let status = status.map_or_else(|| self.group.reap(), Ok);
            state.life = Life::Ended(status.map_err(|error| error.kind()));
            #[cfg(unix)]
            state.end_with_it.clear();
        });
        if self.begin_to_end() {
            self.end();
        }
    }

    /// Returns whether the caller is the first, who is to end it.
    fn begin_to_end(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_ending, true)
    }

    /// Ends the group, whose input is closed, and waits until it is gone.
    fn end(&self) {
        for push in [Pushed::Terminated, Pushed::Killed] {
            if self.is_deserted_within(self.grace) {
                break;
            }
            self.push(push);
        }
        // Processes that were killed need a moment, even without a grace. Some may never be reaped by their parents.
        self.is_deserted_within(OBEDIENCE);
        // This ends a supervisor that has not ended its process, so it comes before the wait for the process.
        self.group.release();
        self.wait_until(None, |state| state.life.has_ended());
        self.wait_until(Some(Instant::now() + LAST_BREATH), |state| !state.is_talking);
        self.change(|state| {
            state.life = state.life.gone();
            state.output.take_if(|_| state.has_reader);
        });
    }

    fn push(&self, push: Pushed) {
        // Under the lock the process is not reaped.
        let mut state = self.lock();
        state.pushed = push;
        let is_reaped = state.life.has_ended();
        match push {
            Pushed::No => {}
            Pushed::Terminated => self.group.terminate(is_reaped),
            Pushed::Killed => self.group.kill(is_reaped),
        }
    }

    /// Waits until nothing of the group is left, but no longer than this, and returns whether that is so.
    fn is_deserted_within(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        if !self.wait_until(Some(until), |state| state.life.has_ended()) {
            return false;
        }
        let mut pause = SOON;
        while !self.group.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::sleep(left.min(pause));
            pause = (2 * pause).min(LATEST);
        }
        true
    }

    /// Waits until the state is so, or until then, and returns whether it is.
    fn wait_until(&self, until: Option<Instant>, is_so: fn(&State) -> bool) -> bool {
        loop {
            let listener = self.changed.listen();
            if is_so(&self.lock()) {
                return true;
            }
            match until {
                None => listener.wait(),
                Some(until) if listener.wait_deadline(until).is_some() => {}
                Some(_) => return is_so(&self.lock()),
            }
        }
    }

    fn status(&self) -> io::Result<ExitStatus> {
        let status = self.lock().life.status();
        status.expect("it has ended").map_err(io::Error::from)
    }
}

/// Ready once it is so. It is looked at again whenever it may have changed.
fn poll_until(
    mut is_so: impl FnMut() -> bool,
    changed: &Event,
    listener: &mut Option<EventListener>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        if is_so() {
            return Poll::Ready(());
        }
        // A listener hears only of later changes, so the state is looked at once more.
        let Some(listening) = listener else {
            *listener = Some(changed.listen());
            continue;
        };
        ready!(Pin::new(listening).poll(cx));
        *listener = None;
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let life = self.life();
        f.debug_struct("Process").field("id", &self.id()).field("life", &life).finish()
    }
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Owner").field(&self.process).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Waker;

    #[test]
    fn f32_a_change_between_the_look_and_the_wait_is_not_missed() {
        let (changed, mut is_so) = (Event::new(), false);
        let look = || {
            let was_so = std::mem::replace(&mut is_so, true);
            changed.notify(usize::MAX);
            was_so
        };
        let mut cx = Context::from_waker(Waker::noop());
        assert!(poll_until(look, &changed, &mut None, &mut cx).is_ready());
    }

    /// A group of which something is found once more after it was killed. It counts how often it is looked at.
    struct Dying(AtomicU32);

    impl Group for Dying {
        fn wait(&self) -> Option<ExitStatus> {
            Some(ExitStatus::default())
        }

        fn reap(&self) -> io::Result<ExitStatus> {
            Ok(ExitStatus::default())
        }

        fn terminate(&self, _: bool) {}

        fn kill(&self, _: bool) {}

        /// Returns whether this is the fourth look at least. One comes before each signal.
        fn is_empty(&self) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed) > 2
        }

        fn release(&self) {
            assert!(self.0.load(Ordering::Relaxed) > 3, "it was not seen to be empty");
        }
    }

    #[test]
    fn f60_without_a_grace_there_is_still_time_for_what_was_killed_to_go() {
        let process = Process::new(1, Box::new(Dying(AtomicU32::new(0))), Duration::ZERO);
        process.shared.keep();
        assert!(process.life().is_gone());
        assert_eq!(process.pushed(), Pushed::Killed);
    }
}

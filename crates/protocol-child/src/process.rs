//! A process, from its beginning until it is gone.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::process::{Child, ChildStderr, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, ready};
use std::thread::{self, Builder};
use std::time::{Duration, Instant};

use event_listener::{Event, EventListener, Listener};

use crate::group::{Group, Spawned};
use crate::lock::lock;
use crate::output::Rest;
use crate::stderr::{Stderr, Tail};

/// The first pause between two looks at whether anything of a group is left. Each pause is twice as long, up to
/// [`LATEST`].
const SOON: Duration = Duration::from_millis(5);
const LATEST: Duration = Duration::from_millis(100);

/// A process that was spawned, from any thread. Clones share it; it keeps nothing alive.
#[derive(Clone)]
pub struct Process {
    shared: Arc<Shared>,
}

/// Ends the process and everything it started when it is dropped, which works without any runtime.
///
/// It only begins what then takes its time: [`Process::exit`] waits for its end.
#[must_use = "dropping it ends the process"]
pub struct Owner {
    process: Process,
}

/// The means that it took to end a process, or those that it left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pushed {
    /// It ended by itself, at the latest when its input was closed.
    No,
    /// It was sent `SIGTERM`.
    Terminated,
    /// It was sent `SIGKILL`, or what the system has for that.
    Killed,
}

struct Shared {
    id: u32,
    grace: Duration,
    group: Group,
    /// Invariant: locked by nobody but the one who waits for it.
    child: Mutex<Child>,
    state: Mutex<State>,
    /// Notified whenever the state changes.
    changed: Event,
    stderr: Tail,
}

struct State {
    life: Life,
    /// Invariant: there once it is not running any more.
    status: Option<Status>,
    pushed: Pushed,
    /// Whether somebody is about to end the group.
    is_ending: bool,
    /// Whether there may be more on its standard error.
    is_talking: bool,
    /// The other way to its output.
    rest: Rest,
    /// Closed when the process has ended.
    #[cfg(unix)]
    end_with_it: Vec<UnixStream>,
}

/// The stages of a process's life, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Life {
    Running,
    /// The process is dead and reaped; others of its group may be there.
    Ended,
    /// Nothing of it is left, or nothing that we can reach.
    Gone,
}

/// The status with which a process ended. An `io::Error` can't be cloned.
type Status = Result<ExitStatus, io::ErrorKind>;

impl Process {
    pub(crate) fn new(child: Child, group: Group, grace: Duration) -> Self {
        let state = State {
            life: Life::Running,
            status: None,
            pushed: Pushed::No,
            is_ending: false,
            is_talking: false,
            rest: Rest::default(),
            #[cfg(unix)]
            end_with_it: Vec::new(),
        };
        let shared = Shared {
            id: group.id(&child),
            grace,
            group,
            child: Mutex::new(child),
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
    /// There are no more threads or descriptors; the process is killed.
    pub(crate) fn start(
        self,
        stdout: &ChildStdout,
        stderr: Option<(ChildStderr, Stderr)>,
    ) -> io::Result<Owner> {
        match self.start_threads(stdout, stderr) {
            Ok(()) => Ok(Owner { process: self }),
            Err(error) => {
                self.shared.push(Pushed::Killed);
                self.shared.group.wait(&self.shared.child);
                let _ = self.shared.group.status(&self.shared.child);
                self.shared.group.release(&self.shared.child);
                Err(error)
            }
        }
    }

    fn start_threads(
        &self,
        stdout: &ChildStdout,
        stderr: Option<(ChildStderr, Stderr)>,
    ) -> io::Result<()> {
        self.shared.lock().rest = Rest::of(stdout)?;
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

    /// Waits until it is gone, and with it everything of its group, or as much as can be killed. Its
    /// own status is what this gives.
    ///
    /// # Errors
    ///
    /// The system does not say how it ended, because this program ignores its children's ends.
    pub fn exit(&self) -> impl Future<Output = io::Result<ExitStatus>> + Send + Unpin + use<> {
        let (process, mut listener) = (self.clone(), None);
        poll_fn(move |cx| {
            ready!(process.poll_life(Life::Gone, &mut listener, cx));
            Poll::Ready(process.shared.status())
        })
    }

    /// As [`exit`](Self::exit), by blocking the thread.
    ///
    /// # Errors
    ///
    /// As [`exit`](Self::exit).
    pub fn wait(&self) -> io::Result<ExitStatus> {
        self.shared.wait_for(Life::Gone);
        self.shared.status()
    }

    /// Returns whether the process itself has ended. Others that it has started may be left.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.has_come(Life::Ended)
    }

    /// Returns the means that it took to end it so far.
    #[must_use]
    pub fn pushed(&self) -> Pushed {
        self.shared.lock().pushed
    }

    /// The last that it wrote to its standard error, from the beginning of a line on: with
    /// [`Stderr::Last`]. It is complete once the process is gone.
    #[must_use]
    pub fn stderr_tail(&self) -> String {
        self.shared.stderr.text()
    }

    /// Ready once its life has come so far.
    pub(crate) fn poll_life(
        &self,
        far: Life,
        listener: &mut Option<EventListener>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        poll_until(|| self.has_come(far), &self.shared.changed, listener, cx)
    }

    pub(crate) fn has_come(&self, far: Life) -> bool {
        self.shared.lock().life >= far
    }

    /// Waits for its end, but no longer than this; says whether it has ended.
    pub(crate) fn wait_for_end(&self, patience: Duration) -> bool {
        self.shared.wait_until(Instant::now() + patience, |state| state.life >= Life::Ended)
    }

    /// A stream that ends when it does.
    #[cfg(unix)]
    pub(crate) fn end_as_stream(&self) -> io::Result<UnixStream> {
        let (near, far) = UnixStream::pair()?;
        let mut state = self.shared.lock();
        if state.life < Life::Ended {
            state.end_with_it.push(far);
        }
        Ok(near)
    }

    /// Returns the error that readers of its output meet at its end.
    pub(crate) fn death(&self) -> io::Error {
        let how = match self.shared.lock().status {
            Some(Ok(status)) => format!("the process ended: {status}"),
            _ => "the process ended".into(),
        };
        io::Error::new(io::ErrorKind::UnexpectedEof, how)
    }

    /// Returns the number of bytes that can be read of its output.
    pub(crate) fn rest_len(&self) -> usize {
        self.shared.lock().rest.len()
    }

    /// Reads what is left of its output. It waits for nothing; `None` if there is no more.
    pub(crate) fn read_rest(&self, buffer: &mut [u8]) -> Option<usize> {
        self.shared.lock().rest.read(buffer)
    }

    /// Nobody reads its output any more: until it is gone it is read and dropped.
    pub(crate) fn discard_output(&self) {
        let shared = self.shared.clone();
        // Without a thread it may get a broken pipe in place of an end.
        let _ = Builder::new().name("child-stdout".into()).spawn(move || shared.discard_output());
    }
}

impl Owner {
    /// Returns the process, which this goes on owning.
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
        self.group.wait(&self.child);
        self.change(|state| {
            let status = self.group.status(&self.child);
            state.status = Some(status.map_err(|error| error.kind()));
            state.life = Life::Ended;
            #[cfg(unix)]
            state.end_with_it.clear();
        });
        if self.begin_to_end() {
            self.end();
        }
    }

    /// Whether it is the caller's to end it: the first's.
    fn begin_to_end(&self) -> bool {
        !std::mem::replace(&mut self.lock().is_ending, true)
    }

    /// Its input is closed. Ends the group, and sees it gone.
    fn end(&self) {
        for push in [Pushed::Terminated, Pushed::Killed] {
            if self.is_deserted_within_grace() {
                break;
            }
            self.push(push);
        }
        self.wait_for(Life::Ended);
        // Those that were killed need a moment. There may be some that nobody buries, too.
        self.is_deserted_within_grace();
        self.wait_until(Instant::now() + self.grace, |state| !state.is_talking);
        self.group.release(&self.child);
        self.change(|state| state.life = Life::Gone);
    }

    fn push(&self, push: Pushed) {
        // Under the lock the process is not reaped.
        let mut state = self.lock();
        state.pushed = push;
        let spawned = if state.life == Life::Running { Spawned::Unreaped } else { Spawned::Reaped };
        match push {
            Pushed::No => {}
            Pushed::Terminated => self.group.terminate(spawned),
            Pushed::Killed => self.group.kill(spawned),
        }
    }

    /// Waits until nothing of the group is left, but no longer than the grace.
    fn is_deserted_within_grace(&self) -> bool {
        let until = Instant::now() + self.grace;
        if !self.wait_until(until, |state| state.life >= Life::Ended) {
            return false;
        }
        let mut pause = SOON;
        while !self.group.is_empty(&self.child) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            thread::sleep(left.min(pause));
            pause = (2 * pause).min(LATEST);
        }
        true
    }

    /// Waits until the state is so, but not for ever; says whether it is.
    fn wait_until(&self, until: Instant, there: fn(&State) -> bool) -> bool {
        loop {
            let listener = self.changed.listen();
            if there(&self.lock()) {
                return true;
            }
            if listener.wait_deadline(until).is_none() {
                return there(&self.lock());
            }
        }
    }

    fn wait_for(&self, far: Life) {
        loop {
            let listener = self.changed.listen();
            if self.lock().life >= far {
                return;
            }
            listener.wait();
        }
    }

    fn status(&self) -> io::Result<ExitStatus> {
        let status = self.lock().status;
        status.expect("it has ended").map_err(io::Error::from)
    }

    fn discard_output(&self) {
        let mut buffer = vec![0; 16 << 10];
        while self.lock().life < Life::Gone {
            let read = self.lock().rest.read(&mut buffer);
            match read {
                Some(0) => return,
                Some(_) => {}
                None => thread::sleep(SOON),
            }
        }
    }
}

/// Ready once it is so, which is looked at whenever it may have changed.
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
        // It hears only of what changes from then on, so it is looked at once more.
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
        let life = self.shared.lock().life;
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
}

//! An executor and a timer made by hand, on one thread, with handlers that are not `Send`.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use protocol_async::{Incoming, Options, Peer, Timer};
use protocol_core::Timestamp;

use crate::pipe::{PipeReader, PipeWriter};

#[path = "suite/mod.rs"]
mod suite;

#[path = "suite/whole.rs"]
mod whole;

pub(crate) const DRIVER: crate::Driver = crate::Driver::Future;

pub(crate) type Shared<T> = Rc<T>;

pub(crate) use protocol_router::LocalRouter as Router;

/// A short time.
pub(crate) const TICK: Duration = Duration::from_millis(30);

type Task = (Arc<Ready>, Pin<Box<dyn Future<Output = ()>>>);

thread_local! {
    static SPAWNED: RefCell<VecDeque<Task>> = RefCell::default();
}

struct Ready {
    is_ready: AtomicBool,
    thread: Thread,
}

impl Ready {
    fn new() -> Arc<Self> {
        Arc::new(Self { is_ready: AtomicBool::new(true), thread: thread::current() })
    }
}

impl Wake for Ready {
    fn wake(self: Arc<Self>) {
        self.is_ready.store(true, SeqCst);
        self.thread.unpark();
    }
}

pub(crate) fn spawn(task: impl Future<Output = ()> + 'static) {
    let ready = Ready::new();
    ready.thread.unpark();
    SPAWNED.with_borrow_mut(|spawned| spawned.push_back((ready, Box::pin(task))));
}

pub(crate) fn run(test: impl Future<Output = ()>) {
    let (mut test, main, begun) = (pin!(test), Ready::new(), Instant::now());
    let mut tasks: Vec<Task> = Vec::new();
    loop {
        if main.is_ready.swap(false, SeqCst) {
            let waker = Waker::from(main.clone());
            if test.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                return;
            }
        }
        tasks.retain_mut(|(ready, task)| {
            let waker = Waker::from(ready.clone());
            let mut context = Context::from_waker(&waker);
            !(ready.is_ready.swap(false, SeqCst) && task.as_mut().poll(&mut context).is_ready())
        });
        SPAWNED.with_borrow_mut(|spawned| tasks.extend(spawned.drain(..)));
        let is_ready = |ready: &Ready| ready.is_ready.load(SeqCst);
        if !is_ready(&main) && !tasks.iter().any(|(ready, _)| is_ready(ready)) {
            thread::park_timeout(Duration::from_secs(60));
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing happens");
        }
    }
}

/// A clock whose every sleep is a thread: slow, and as plain as can be.
#[derive(Clone)]
pub(crate) struct ThreadTimer(Instant);

impl ThreadTimer {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Timer for ThreadTimer {
    type Sleep = Sleep;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO + self.0.elapsed()
    }

    fn sleep_until(&self, due: Timestamp) -> Sleep {
        sleep(due.since(self.now()))
    }
}

/// Whether the time is over, and who waits.
pub(crate) struct Sleep(Arc<Mutex<(bool, Option<Waker>)>>);

pub(crate) fn sleep(time: Duration) -> Sleep {
    let sleep = Arc::new(Mutex::new((false, None::<Waker>)));
    let over = sleep.clone();
    thread::spawn(move || {
        thread::sleep(time);
        let mut state = over.lock().unwrap();
        state.0 = true;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    });
    Sleep(sleep)
}

impl Future for Sleep {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(cx.waker().clone());
        Poll::Pending
    }
}

pub(crate) fn open(
    reader: PipeReader,
    writer: PipeWriter,
    options: Options,
) -> (Peer, Incoming, impl Future<Output = std::io::Result<()>>) {
    protocol_async::connect(reader, writer, ThreadTimer::start(), options)
}

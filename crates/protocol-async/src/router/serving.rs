//! Serving one connection.

use std::future::{Future, poll_fn};
use std::mem;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{self, Poll, Waker, ready};

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use protocol_core::CloseReason;

use super::context::Context;
use super::form::Form;
use super::layers::{Contained, Next, begin};
use super::trouble::Trouble;
use super::{Claim, Done, Routes};
use crate::answer::RpcError;
use crate::contain::contain;
use crate::failure::{Answer, Failure};
use crate::incoming::{Arrival, Incoming};
use crate::message::{Notification, Request};
use crate::method::MethodName;
use crate::peer::Peer;
use crate::responder::Responder;
use crate::spans::RequestSpan;
use crate::turn::Turn;

/// What the handlers of one connection share.
pub(super) struct Serving<S: 'static, F: Form> {
    pub(super) routes: Arc<Routes<S, F>>,
    pub(super) peer: Peer,
    beside: Mutex<Beside<S, F>>,
}

/// Work that handlers have begun beside themselves, and that does not run yet.
struct Beside<S: 'static, F: Form> {
    /// Whoever serves. `None` when nobody does any more.
    server: Option<Waker>,
    work: Vec<Contained<S, F, Done>>,
}

/// Work at hand. Gives what it is counted as.
enum Job<S: 'static, F: Form> {
    /// `None` once it is answered.
    Request(Option<(Contained<S, F, Answer>, Responder)>),
    /// What is not answered by its outcome.
    Unanswered(Kind, Contained<S, F, Done>),
}

/// What work is counted as.
#[derive(Clone, Copy)]
enum Kind {
    /// A request, with or without a handler of its own.
    Request,
    /// A notification, or whatever else comes in turn.
    InTurn,
    /// Work beside the handlers.
    Beside,
}

/// All work at hand, and how much there is of each kind.
struct Jobs<S: 'static, F: Form> {
    all: FuturesUnordered<Job<S, F>>,
    count: [usize; 3],
}

/// So many notifications that wait for the peer go on beside the others. One more keeps its turn, so
/// that what comes after it stays in the inbox, which has bounds: else a peer that floods us and
/// answers nothing would have no end of them wait here.
const WAITING_NOTIFICATIONS: usize = 64;

impl<S: 'static, F: Form> Serving<S, F> {
    pub(super) fn new(routes: &Arc<Routes<S, F>>, incoming: &Incoming) -> Arc<Self> {
        let beside = Beside { server: Some(Waker::noop().clone()), work: Vec::new() };
        let (routes, peer) = (routes.clone(), incoming.peer());
        Arc::new(Self { routes, peer, beside: Mutex::new(beside) })
    }

    pub(super) async fn run(self: Arc<Self>, incoming: &Incoming) -> CloseReason {
        let mut jobs = Jobs::new();
        let open = Open(&self);
        let reason = loop {
            let arrival = match self.work_until(&mut jobs, incoming.receive()).await {
                Ok(arrival) => arrival,
                Err(reason) => break reason,
            };
            if let Arrival::Request(request, responder) = arrival {
                if let Some(mut job) = self.begin(request, responder, jobs.count(Kind::Request)) {
                    // Most are done at once, and need no place among the others.
                    let is_done =
                        poll_fn(|task| Poll::Ready(job.poll_unpin(task).is_ready())).await;
                    if !is_done {
                        jobs.push(job);
                    }
                }
            } else if let Some(work) = self.begin_in_turn(arrival) {
                let turn = Turn::of(Job::Unanswered(Kind::InTurn, work));
                if let Some(rest) = self.work_until(&mut jobs, turn).await {
                    self.go_on_beside(&mut jobs, rest).await;
                }
            }
        };
        poll_fn(|task| self.poll_jobs(&mut jobs, task)).await;
        drop(open);
        self.peer.flushed().await;
        reason
    }

    /// Goes on with the jobs until something else is there.
    async fn work_until<U: Future>(&self, jobs: &mut Jobs<S, F>, until: U) -> U::Output {
        let mut until = pin!(until);
        poll_fn(|task| {
            let _ = self.poll_jobs(jobs, task);
            until.as_mut().poll(task)
        })
        .await
    }

    /// Has a notification that waits for the peer go on beside the others, as soon as there is room
    /// for it among those that do.
    async fn go_on_beside(&self, jobs: &mut Jobs<S, F>, mut rest: Job<S, F>) {
        let is_done = poll_fn(|task| {
            let _ = self.poll_jobs(jobs, task);
            if jobs.count(Kind::InTurn) < WAITING_NOTIFICATIONS {
                return Poll::Ready(false);
            }
            rest.poll_unpin(task).map(|_| true)
        });
        if !is_done.await {
            jobs.push(rest);
        }
    }

    /// Goes on with the jobs; ready when there are none.
    fn poll_jobs(&self, jobs: &mut Jobs<S, F>, task: &mut task::Context<'_>) -> Poll<()> {
        loop {
            let begun = self.beside().take(task.waker());
            begun.into_iter().for_each(|work| jobs.push(Job::Unanswered(Kind::Beside, work)));
            ready!(jobs.poll(task));
            // The last of them may have begun others.
            if self.beside().work.is_empty() {
                return Poll::Ready(());
            }
        }
    }

    /// Begins to serve a request, when so many other requests are at work.
    fn begin(
        self: &Arc<Self>,
        request: Request,
        responder: Responder,
        at_work: usize,
    ) -> Option<Job<S, F>> {
        if at_work >= self.routes.at_most {
            let overload = Trouble::Overload(&request.method);
            responder.request_span().inside(|| self.tell(&overload));
            let code = self.peer.dialect().overload_code;
            let message = "The request was refused: too many are being served";
            responder.respond_with_failure(RpcError::new(code, message));
            return None;
        }
        if self.routes.otherwise.is_some()
            && !self.routes.requests.contains_key(request.method.as_str())
        {
            let arrival = Arrival::Request(request, responder);
            let work = self.begin_otherwise(arrival);
            return work.map(|work| Job::Unanswered(Kind::Request, work));
        }
        let of = Some((responder.handle(), responder.cancellation()));
        let cx = Context::new(self, request, of, responder.request_span());
        Some(Job::Request(Some((Next::outermost().begin(cx), responder))))
    }

    /// Begins to serve everything else, if somebody wants it.
    fn begin_in_turn(self: &Arc<Self>, arrival: Arrival) -> Option<Contained<S, F, Done>> {
        match arrival {
            Arrival::Notification(notification) if self.is_claimed(&notification) => None,
            Arrival::Notification(Notification { method, params }) => {
                let Some(handler) = self.routes.notifications.get(method.as_str()) else {
                    let unwanted = Notification { method, params };
                    return self.begin_otherwise(Arrival::Notification(unwanted));
                };
                let span = self.peer.span_of_notification(&method);
                let cx = Context::new(self, Request { method, params, options: None }, None, span);
                Some(Contained { work: begin(handler, cx.clone(), &cx), cx })
            }
            other => self.begin_otherwise(other),
        }
    }

    fn begin_otherwise(self: &Arc<Self>, arrival: Arrival) -> Option<Contained<S, F, Done>> {
        let Some(otherwise) = &self.routes.otherwise else {
            self.tell_arrival(&arrival);
            return None;
        };
        let (method, of, span) = match &arrival {
            Arrival::Request(Request { method, .. }, responder) => {
                let of = (responder.handle(), responder.cancellation());
                (method.clone(), Some(of), responder.request_span())
            }
            Arrival::Notification(Notification { method, .. }) => {
                (method.clone(), None, self.peer.span_of_notification(method))
            }
            _ => (MethodName::default(), None, RequestSpan::default()),
        };
        let cx = Context::new(self, Request { method, params: None, options: None }, of, span);
        Some(Contained { work: begin(otherwise, (arrival, cx.clone()), &cx), cx })
    }

    /// A panic of an observer harms nobody else (B33): it has claimed what it fell over.
    fn is_claimed(&self, notification: &Notification) -> bool {
        self.routes.observers.iter().rev().any(|observer| {
            let mut claim = Claim::Claimed;
            contain(|| claim = observer(notification));
            claim == Claim::Claimed
        })
    }

    pub(super) fn tell(&self, trouble: &Trouble<'_>) {
        contain(|| (self.routes.on_trouble)(trouble));
    }

    /// What arrived and nobody wants.
    fn tell_arrival(&self, arrival: &Arrival) {
        match arrival {
            Arrival::Notification(Notification { method, .. }) if !method.starts_with("$/") => {
                self.tell(&Trouble::UnknownNotification(method));
            }
            Arrival::Violation { violation, id } => {
                self.tell(&Trouble::Violation { violation: *violation, id: id.as_ref() });
            }
            Arrival::Missed { count } => self.tell(&Trouble::Missed(*count)),
            Arrival::Request(..) | Arrival::Notification(_) => {}
        }
    }

    /// Begins work beside the handlers.
    pub(super) fn spawn(&self, work: Contained<S, F, Done>) {
        let mut beside = self.beside();
        match beside.server.clone() {
            Some(server) => {
                beside.work.push(work);
                drop(beside);
                server.wake();
            }
            // Dropped when the lock is released: it is the host's.
            None => drop((beside, work)),
        }
    }

    fn beside(&self) -> MutexGuard<'_, Beside<S, F>> {
        self.beside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<S: 'static, F: Form> Beside<S, F> {
    /// Takes what is to be begun, and says whom to wake when there is more.
    fn take(&mut self, waker: &Waker) -> Vec<Contained<S, F, Done>> {
        if !self.server.as_ref().is_some_and(|server| server.will_wake(waker)) {
            self.server = Some(waker.clone());
        }
        mem::take(&mut self.work)
    }
}

impl<S: 'static, F: Form> Jobs<S, F> {
    fn new() -> Self {
        Self { all: FuturesUnordered::new(), count: [0; 3] }
    }

    fn count(&self, kind: Kind) -> usize {
        self.count[kind as usize]
    }

    fn push(&mut self, job: Job<S, F>) {
        self.count[job.kind() as usize] += 1;
        self.all.push(job);
    }

    /// Goes on with all of them; ready when there are none.
    fn poll(&mut self, task: &mut task::Context<'_>) -> Poll<()> {
        while let Some(done) = ready!(self.all.poll_next_unpin(task)) {
            self.count[done as usize] -= 1;
        }
        Poll::Ready(())
    }
}

impl<S: 'static, F: Form> Job<S, F> {
    fn kind(&self) -> Kind {
        match self {
            Self::Request(_) => Kind::Request,
            Self::Unanswered(kind, _) => *kind,
        }
    }
}

/// Somebody serves. Once that is over, what waits to be begun is dropped: it holds what holds it.
struct Open<'a, S: 'static, F: Form>(&'a Serving<S, F>);

impl<S: 'static, F: Form> Drop for Open<'_, S, F> {
    fn drop(&mut self) {
        let mut beside = self.0.beside();
        beside.server = None;
        let work = mem::take(&mut beside.work);
        drop(beside);
        drop(work);
    }
}

impl<S: 'static, F: Form> Future for Job<S, F> {
    type Output = Kind;

    fn poll(mut self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Kind> {
        let kind = self.kind();
        match &mut *self {
            Self::Request(job) => {
                let Some((work, _)) = job else { return Poll::Ready(kind) };
                let answer = ready!(work.poll_unpin(task));
                if let Err(failure) = &answer {
                    tell_failure(&work.cx, failure, true);
                }
                if let Some((work, responder)) = job.take() {
                    // Lets go of the marker, which is then used again.
                    drop(work);
                    responder.answer(answer);
                }
            }
            Self::Unanswered(_, work) => {
                let done = ready!(work.poll_unpin(task));
                if let Err(failure) = &done {
                    tell_failure(&work.cx, failure, false);
                }
            }
        }
        Poll::Ready(kind)
    }
}

/// What of a failure its answer doesn't say, or nobody is answered.
fn tell_failure<S, F: Form>(cx: &Context<S, F>, failure: &Failure, is_answered: bool) {
    let method = cx.method();
    match failure {
        Failure::InvalidParams(invalid) => cx.tell(&Trouble::InvalidParams(invalid)),
        Failure::Internal(failure) => cx.tell(&Trouble::Failed { method, failure }),
        Failure::Error(error) if !is_answered => cx.tell(&Trouble::Unanswered { method, error }),
        Failure::Error(_) | Failure::Cancelled => {}
    }
}

//! Serving one connection.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::task::{self, Poll, ready};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use futures_util::task::AtomicWaker;
use protocol_async::hooks::{RequestSpan, ReturnSlot, catch_panic};
use protocol_async::{
    Answer, Arrival, Canceller, Incoming, MethodName, Notification, Request, Responder, RpcError,
};
use protocol_core::{CloseReason, Dialect, News};

use crate::context::{Contained, Context, Done, Kind, Shared};
use crate::form::Form;
use crate::routes::Routes;
use crate::trouble::Trouble;
use crate::undo::Undoing;

/// One turn has at most this many steps: arrivals that are begun, and handlers that are done later.
const TURN_STEPS: usize = 32;
/// One turn begins nothing more after this time.
const TURN_TIME: Duration = Duration::from_millis(1);

/// So many notifications may wait, and one more.
///
/// While more of them wait, nothing is taken out of the inbox until the connection ends. The inbox has bounds. A
/// peer that floods us with notifications and answers nothing would otherwise have no end of them wait here.
const WAITING: usize = 64;

/// Serves until the connection is closed, all work is done, and the responses are written.
pub(crate) async fn serve<S, F: Form>(
    routes: &Arc<Routes<S, F>>,
    incoming: &Incoming,
) -> CloseReason {
    // With this future, everything that follows its marker is dropped.
    let end = Canceller::new();
    let (shared, spawned) = share(routes, incoming, &end);
    let (jobs, count) = (FuturesUnordered::new(), [0; 4]);
    // Steps that undo a request may outlast it, so the limit of the core alone does not bound them.
    let at_most = routes.at_most.min(shared.peer.limits().requests);
    let mut serving = Serving { routes, shared: &shared, spawned, jobs, count, at_most };
    let (mut receiving, mut ending, mut closed) = (incoming.receive(), shared.peer.closed(), None);
    let reason = poll_fn(|task| {
        shared.server.register(task.waker());
        let (mut steps, mut began) = (0, None);
        loop {
            let mut is_idle = !serving.poll_jobs(task);
            let has_room = serving.count[Kind::Notification as usize] <= WAITING;
            // After the end nothing more arrives, so all is taken. Then the marker of those that wait is set.
            if closed.is_none() && (has_room || ending.poll_unpin(task).is_ready()) {
                if let Poll::Ready(received) = receiving.poll_unpin(task) {
                    is_idle = false;
                    receiving = incoming.receive();
                    match received {
                        Ok(arrival) => serving.take(arrival, task),
                        Err(reason) => end.cancel(closed.insert(reason).cause()),
                    }
                }
            }
            if is_idle {
                let over = closed.filter(|_| serving.jobs.is_empty());
                return over.map_or(Poll::Pending, Poll::Ready);
            }
            steps += 1;
            // The clock is read after the first two steps, and after each fourth one.
            if steps <= 2 || steps % 4 == 0 {
                let now = shared.peer.now();
                if steps >= TURN_STEPS || now.since(*began.get_or_insert(now)) >= TURN_TIME {
                    incoming.yield_now(task);
                    return Poll::Pending;
                }
            }
        }
    })
    .await;
    drop(serving);
    shared.peer.flushed().await;
    reason
}

/// Work beside the handlers that has not begun.
type Spawned<S, F> = Receiver<(Kind, Contained<S, F, Done>)>;

/// Returns the things that handlers share, and the work that they spawn.
fn share<S, F: Form>(
    routes: &Routes<S, F>,
    incoming: &Incoming,
    end: &Canceller,
) -> (Arc<Shared<S, F>>, Spawned<S, F>) {
    let Routes { state, on_trouble, undo_limits, .. } = routes;
    let (state, on_trouble, undo_limits) = (state.clone(), on_trouble.clone(), *undo_limits);
    let ((spawned, receiver), server) = (channel(), AtomicWaker::new());
    let (peer, end) = (incoming.peer(), end.marker());
    (Arc::new(Shared { peer, state, on_trouble, undo_limits, end, server, spawned }), receiver)
}

/// The handlers at work.
struct Serving<'a, S, F: Form> {
    routes: &'a Arc<Routes<S, F>>,
    shared: &'a Arc<Shared<S, F>>,
    /// It is dropped with this, though the senders live on.
    spawned: Spawned<S, F>,
    jobs: FuturesUnordered<Job<S, F>>,
    /// The number of jobs of each kind.
    count: [usize; 4],
    /// The most requests at work, those that are being undone included.
    at_most: usize,
}

/// Work that has no response of its own, and the place to which a responder returns.
type Other<S, F> = (Contained<S, F, Done>, Option<ReturnSlot>);

/// Work at hand. Its output is what it counts as.
enum Job<S, F: Form> {
    /// The handler of a request. `None` once it is answered.
    Request(Option<(Contained<S, F, Answer>, Responder)>),
    /// Any other work, until it is done. The responder of a fallback's request returns to the slot if it is
    /// dropped.
    Other(Kind, Option<Other<S, F>>),
    /// Work that has failed and is undone.
    Undo(Kind, Box<Undoing<S, F>>),
}

impl<S, F: Form> Serving<'_, S, F> {
    /// Goes on with the work at hand until some of it is done, and returns whether that is so.
    fn poll_jobs(&mut self, task: &mut task::Context<'_>) -> bool {
        while let Ok((kind, work)) = self.spawned.try_recv() {
            self.push(Job::Other(kind, Some((work, None))));
        }
        let Poll::Ready(Some(done)) = self.jobs.poll_next_unpin(task) else { return false };
        self.count[done as usize] -= 1;
        true
    }

    /// Begins the handler of an arrival. Most handlers are done at once, and need no place.
    fn take(&mut self, arrival: Arrival, task: &mut task::Context<'_>) {
        let Some(mut job) = self.begin(arrival) else { return };
        if job.poll_unpin(task).is_pending() {
            self.push(job);
        }
    }

    fn push(&mut self, job: Job<S, F>) {
        self.count[job.kind() as usize] += 1;
        self.jobs.push(job);
    }

    fn begin(&self, arrival: Arrival) -> Option<Job<S, F>> {
        let routes = self.routes;
        let arrival = routes.gates.iter().rev().try_fold(arrival, |arrival, gate| gate(arrival))?;
        match arrival {
            Arrival::Request(request, responder)
                if self.count[Kind::Request as usize] >= self.at_most =>
            {
                let overload = Trouble::Overload(&request.method);
                responder.in_span(|| self.shared.report(&overload));
                let code = self.shared.peer.dialect().overload_code;
                let message = "The request was refused: too many are being served";
                responder.respond_with_failure(RpcError::new(code, message));
                None
            }
            Arrival::Request(request, responder)
                if routes.fallback.is_none()
                    || routes.requests.contains_key(request.method.as_str()) =>
            {
                let span = responder.request_span();
                let cx = Context::new(self.shared, request, Some(&responder), span);
                Some(Job::Request(Some((routes.begin(0, cx), responder))))
            }
            Arrival::Notification(Notification { method, params }) => {
                let Some(handler) = routes.notifications.get(method.as_str()) else {
                    let unknown = Notification { method, params };
                    return self.begin_fallback(Arrival::Notification(unknown));
                };
                let span = self.shared.peer.span_of_notification(&method);
                let request = Request { method, params, options: None };
                let cx = Context::new(self.shared, request, None, span);
                let work = Contained { work: handler(cx.clone()), cx };
                Some(Job::Other(Kind::Notification, Some((work, None))))
            }
            arrival => self.begin_fallback(arrival),
        }
    }

    fn begin_fallback(&self, mut arrival: Arrival) -> Option<Job<S, F>> {
        let Some(fallback) = &self.routes.fallback else {
            self.report(&arrival);
            return None;
        };
        let (mut kind, mut slot) = (Kind::Notification, None);
        let (method, responder, span) = match &mut arrival {
            Arrival::Request(Request { method, .. }, responder) => {
                (kind, slot) = (Kind::Request, Some(responder.return_to()));
                (method.clone(), Some(&*responder), responder.request_span())
            }
            Arrival::Notification(Notification { method, .. }) => {
                (method.clone(), None, self.shared.peer.span_of_notification(method))
            }
            _ => (MethodName::default(), None, RequestSpan::default()),
        };
        let request = Request { method, params: None, options: None };
        let cx = Context::new(self.shared, request, responder, span);
        let work = Contained { work: fallback((arrival, cx.clone())), cx };
        Some(Job::Other(kind, Some((work, slot))))
    }

    /// Reports an arrival for which there is no handler.
    fn report(&self, arrival: &Arrival) {
        self.shared.report(&match arrival {
            Arrival::Notification(Notification { method, .. }) => {
                if needs_no_handler(&self.shared.peer.dialect(), method) {
                    return;
                }
                Trouble::UnknownNotification(method)
            }
            Arrival::Violation { violation, id } => {
                Trouble::Violation { violation: *violation, id: id.as_ref() }
            }
            Arrival::Missed { count } => Trouble::Missed(*count),
            _ => return,
        });
    }
}

/// The notifications that end the opening of a session, in LSP and in MCP.
const OPENED: [&str; 2] = ["initialized", "notifications/initialized"];

/// Returns whether such a notification may be ignored. The core has stopped the work that it names, every
/// client sends it, or the protocol says so.
fn needs_no_handler(dialect: &Dialect, method: &str) -> bool {
    let mut signs = dialect.work.iter().flat_map(|rule| rule.signs.iter());
    method.starts_with("$/")
        || OPENED.contains(&method)
        || signs.any(|sign| sign.news == News::Stop && *sign.method == *method)
}

impl<S, F: Form> Job<S, F> {
    const fn kind(&self) -> Kind {
        match self {
            Self::Request(_) => Kind::Request,
            Self::Other(kind, _) | Self::Undo(kind, _) => *kind,
        }
    }

    fn poll_job(&mut self, kind: Kind, task: &mut task::Context<'_>) -> Poll<()> {
        let undoing = match self {
            Self::Request(job) => ready!(poll_request(job, task)),
            Self::Other(_, job) => ready!(poll_other(job, kind, task)),
            Self::Undo(_, undoing) => return undoing.poll_unpin(task),
        };
        let Some(mut undoing) = undoing else { return Poll::Ready(()) };
        let undone = undoing.poll_unpin(task);
        *self = Self::Undo(kind, Box::new(undoing));
        undone
    }
}

impl<S, F: Form> Future for Job<S, F> {
    type Output = Kind;

    fn poll(mut self: Pin<&mut Self>, task: &mut task::Context<'_>) -> Poll<Kind> {
        let kind = self.kind();
        // A destructor of the host's that panics ends this work and no other.
        let mut polled = Poll::Ready(());
        catch_panic(|| polled = self.poll_job(kind, task));
        polled.map(|()| kind)
    }
}

/// Returns what undoes the work of a request, if it has failed and there is anything.
fn poll_request<S, F: Form>(
    job: &mut Option<(Contained<S, F, Answer>, Responder)>,
    task: &mut task::Context<'_>,
) -> Poll<Option<Undoing<S, F>>> {
    let Some((work, responder)) = job else { return Poll::Ready(None) };
    let answer = ready!(work.poll_unpin(task));
    if let Err(failure) = &answer {
        work.cx.report_failure(failure, Some(responder));
    }
    let Some((work, responder)) = job.take() else { return Poll::Ready(None) };
    if answer.is_err() {
        return Poll::Ready(work.undo(Some((responder, answer))));
    }
    work.cx.keep_work();
    // Releases the marker, which is then used again.
    drop(work);
    responder.answer(answer);
    Poll::Ready(None)
}

/// Returns what undoes other work, if it has failed and there is anything.
fn poll_other<S, F: Form>(
    job: &mut Option<Other<S, F>>,
    kind: Kind,
    task: &mut task::Context<'_>,
) -> Poll<Option<Undoing<S, F>>> {
    let Some((work, slot)) = job else { return Poll::Ready(None) };
    let done = ready!(work.poll_unpin(task));
    let returned = slot.take().and_then(|slot| slot.take());
    let Err(failure) = done else {
        if kind != Kind::Beside {
            work.cx.keep_work();
        }
        *job = None;
        return Poll::Ready(None);
    };
    work.cx.report_failure(&failure, returned.as_ref());
    let Some((work, _)) = job.take().filter(|_| kind != Kind::Beside) else {
        return Poll::Ready(None);
    };
    Poll::Ready(work.undo(returned.map(|responder| (responder, Err(failure)))))
}

/// Work that is dropped before its end can't be undone any more.
impl<S, F: Form> Drop for Job<S, F> {
    fn drop(&mut self) {
        let cx = match self {
            Self::Request(Some((work, _))) => &work.cx,
            Self::Other(kind, Some((work, _))) if *kind != Kind::Beside => &work.cx,
            _ => return,
        };
        let steps = cx.lock_undo().end();
        cx.drop_undo(steps);
    }
}

//! Handlers of a router.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::lock::Mutex;
use protocol_async::{Canceller, Failure, Incoming, Peer, SentRequest, Way};
use protocol_core::{Cause, Config, Dialect};
use protocol_router::{LocalContext, LocalRouter};
use protocol_testkit::simulate::{PeerAnswer, Script, Simulation, Trace};
use serde_json::{Value, json};

use super::{Number, WORK, confirm, work};

async fn serve<S>(incoming: Incoming, router: LocalRouter<S>) {
    router.on_trouble(|_| {}).serve(&incoming).await;
}

/// Makes a call that is not on behalf of the request, and is not cancelled with it.
pub(crate) fn forgets_its_call(simulation: Simulation, is_wrong: bool) {
    let work_on = async move |_: Value, cx: LocalContext| {
        let call: SentRequest<Value> = match is_wrong {
            true => confirm(cx.peer()),
            false => cx.call("confirm", json!({})),
        };
        Ok(call.await?)
    };
    simulation.serve(work(1).cancels(1), move |incoming| {
        serve(incoming, LocalRouter::new().request("work", work_on))
    });
}

/// Responds to a cancel at once, and leaves its call to go on.
pub(crate) fn leaves_its_call(simulation: Simulation, is_wrong: bool) {
    let work_on = async move |_: Value, cx: LocalContext| {
        let call = confirm(cx.peer());
        match select(cx.cancellation().cancelled(), call).await {
            Either::Left((_, call)) => {
                if is_wrong {
                    call.detach();
                }
                Err(Failure::Cancelled)
            }
            Either::Right((result, _)) => Ok(result?),
        }
    };
    simulation.serve(work(1).cancels(1), move |incoming| {
        serve(incoming, LocalRouter::new().request("work", work_on))
    });
}

/// Works to the end, whether it is cancelled or not.
pub(crate) fn ignores_its_cancel(simulation: Simulation, is_wrong: bool) {
    let work_on = async move |_: Value, cx: LocalContext| {
        let long = simulation.sleep(Duration::from_secs(60));
        match is_wrong {
            true => long.await,
            false => cx.cancellation().unless_cancelled(long).await?,
        }
        Ok("done")
    };
    simulation.serve(work(1).cancels(1), move |incoming| {
        serve(incoming, LocalRouter::new().request("work", work_on))
    });
}

/// Returns a turn of an agent, which the client may stop and not cancel.
fn turn() -> Script {
    Script::new(Config::server(Dialect::ACP_V1))
        .request("session/prompt", json!({ "sessionId": "s1", "prompt": [] }))
        .stops(1)
}

/// Makes a call that is not on behalf of the turn, and goes on when the turn is stopped.
pub(crate) fn leaves_its_question(simulation: Simulation, is_wrong: bool) {
    let prompt = async move |_: Value, cx: LocalContext| {
        // A turn may be stopped before it begins.
        cx.cancellation().checkpoint()?;
        let question: SentRequest<Value> = match is_wrong {
            true => confirm(cx.peer()),
            false => cx.call("confirm", json!({})),
        };
        question.await?;
        Ok(json!({ "stopReason": "end_turn" }))
    };
    simulation.serve(turn(), move |incoming| {
        serve(incoming, LocalRouter::new().request("session/prompt", prompt))
    });
}

/// Ends its turn when it is done, whether the turn is stopped or not.
pub(crate) fn ignores_its_stop(simulation: Simulation, is_wrong: bool) {
    let prompt = async move |_: Value, cx: LocalContext| {
        let long = simulation.sleep(Duration::from_secs(60));
        match is_wrong {
            true => long.await,
            false => cx.cancellation().unless_cancelled(long).await?,
        }
        Ok(json!({ "stopReason": "end_turn" }))
    };
    simulation.serve(turn(), move |incoming| {
        serve(incoming, LocalRouter::new().request("session/prompt", prompt))
    });
}

/// Looks whether it is cancelled before it begins to wait, and not while it waits.
pub(crate) fn looks_once(simulation: Simulation, is_wrong: bool) {
    let work_on = async move |_: Value, cx: LocalContext| {
        cx.cancellation().checkpoint()?;
        for _ in 0..30 {
            simulation.sleep(Duration::from_millis(100)).await;
            if !is_wrong {
                cx.cancellation().checkpoint()?;
            }
        }
        Ok("done")
    };
    simulation.serve(work(1).cancels(1), move |incoming| {
        serve(incoming, LocalRouter::new().request("work", work_on))
    });
}

/// A flag that tasks wait for. The wrong one is lost if no task waits when it is set.
#[derive(Default)]
struct Flag {
    is_set: Cell<bool>,
    waiting: RefCell<Vec<Waker>>,
}

impl Flag {
    fn set(&self, is_wrong: bool) {
        let waiting = self.waiting.take();
        self.is_set.set(!is_wrong || !waiting.is_empty());
        waiting.into_iter().for_each(Waker::wake);
    }

    async fn wait(&self) {
        poll_fn(|cx| {
            if self.is_set.get() {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// Loses the wake-up of a request that waits for another, if the other one comes first.
pub(crate) fn loses_a_wake_up(simulation: Simulation, is_wrong: bool) {
    simulation.serve(work(2), move |incoming| {
        let work_on = async move |number: Number, cx: LocalContext<Flag>| {
            if number.of == 1 {
                cx.call::<Value>("confirm", json!({})).await?;
                cx.state().wait().await;
            } else {
                cx.state().set(is_wrong);
            }
            Ok("done")
        };
        serve(incoming, LocalRouter::with_state(Flag::default()).request("work", work_on))
    });
}

/// Takes two locks in another order for each of two requests.
pub(crate) fn deadlocks(simulation: Simulation, is_wrong: bool) {
    simulation.serve(work(2), move |incoming| {
        let work_on = async move |number: Number, cx: LocalContext<[Mutex<()>; 2]>| {
            let first = if is_wrong { number.of - 1 } else { 0 };
            let one = cx.state()[first].lock().await;
            cx.call::<Value>("confirm", json!({})).await?;
            let other = cx.state()[1 - first].lock().await;
            drop((one, other));
            Ok("done")
        };
        serve(incoming, LocalRouter::with_state(Default::default()).request("work", work_on))
    });
}

/// Waits for an event that never comes, beside a call that the peer never answers. The right one waits for the
/// lock that the caller holds.
pub(crate) fn waits_for_nobody(simulation: Simulation, is_wrong: bool) {
    simulation.serve(work(2).answers([PeerAnswer::Never]), move |incoming| {
        let work_on = async move |number: Number, cx: LocalContext<Mutex<()>>| {
            if is_wrong && number.of == 2 {
                cx.cancellation().cancelled().await;
            }
            let held = cx.cancellation().unless_cancelled(cx.state().lock()).await?;
            if number.of == 1 {
                cx.call::<Value>("confirm", json!({})).await?;
            }
            drop(held);
            Ok("done")
        };
        serve(incoming, LocalRouter::with_state(Mutex::default()).request("work", work_on))
    });
}

/// Holds a lock while it waits for a response, and waits for the lock without looking at its cancel.
pub(crate) fn waits_for_a_lock(simulation: Simulation, is_wrong: bool) {
    simulation.serve(work(2).cancels(1), move |incoming| {
        let work_on = async move |_: Value, cx: LocalContext<Mutex<()>>| {
            let lock = cx.state().lock();
            let held = match is_wrong {
                true => lock.await,
                false => cx.cancellation().unless_cancelled(lock).await?,
            };
            cx.call::<Value>("confirm", json!({})).await?;
            drop(held);
            Ok("done")
        };
        serve(incoming, LocalRouter::with_state(Mutex::default()).request("work", work_on))
    });
}

/// Reads a count, waits, and writes it plus one. Two requests at a time add one.
pub(crate) fn loses_an_update(simulation: Simulation, is_wrong: bool) {
    let count = Rc::new(Cell::new(0));
    let counted = count.clone();
    simulation.serve(work(2), move |incoming| {
        let work_on = async move |_: Value, cx: LocalContext<Rc<Cell<u32>>>| {
            let before = cx.state().get();
            cx.call::<Value>("confirm", json!({})).await?;
            cx.state().set(if is_wrong { before } else { cx.state().get() } + 1);
            Ok("done")
        };
        serve(incoming, LocalRouter::with_state(count).request("work", work_on))
    });
    simulation.check(move |_| match counted.get() {
        2 => Ok(()),
        other => Err(format!("two requests were counted as {other}")),
    });
}

/// Cancels all requests at work when one of them is cancelled.
pub(crate) fn cancels_its_sibling(simulation: Simulation, is_wrong: bool) {
    let script = work(2).cancels(1).reference(|_, _| Ok(json!("done")));
    simulation.serve(script, move |incoming| {
        let work_on = async move |_: Value, cx: LocalContext<Canceller>| {
            let all = cx.state().marker();
            let work = all.unless_cancelled(simulation.sleep(WORK));
            match cx.cancellation().unless_cancelled(work).await {
                Ok(done) => Ok(done.map(|()| "done")?),
                Err(cancelled) => {
                    if is_wrong {
                        cx.state().cancel(Cause::Internal);
                    }
                    Err(cancelled.into())
                }
            }
        };
        serve(incoming, LocalRouter::with_state(Canceller::new()).request("work", work_on))
    });
}

/// Takes the response that comes first for that of its first call.
pub(crate) fn mixes_up_answers(simulation: Simulation, is_wrong: bool) {
    let script = work(1)
        .answers_to("one", [PeerAnswer::Result(json!(1))])
        .answers_to("two", [PeerAnswer::Result(json!(2))])
        .reference(|_, _| Ok(json!([1, 2])));
    simulation.serve(script, move |incoming| {
        let work_on = async move |_: Value, cx: LocalContext| {
            let (one, two) = (cx.call::<u32>("one", json!({})), cx.call::<u32>("two", json!({})));
            Ok(match select(one, two).await {
                Either::Left((one, two)) => [one?, two.await?],
                Either::Right((two, one)) if is_wrong => [two?, one.await?],
                Either::Right((two, one)) => [one.await?, two?],
            })
        };
        serve(incoming, LocalRouter::new().request("work", work_on))
    });
}

/// Leaves a task that waits for an event which never comes.
pub(crate) fn leaks_a_task(simulation: Simulation, is_wrong: bool) {
    simulation.serve(work(1).cancels(1), move |incoming| {
        let work_on = async move |_: Value, cx: LocalContext| {
            let marker = cx.cancellation().clone();
            let (done, told) = futures_util::future::abortable(simulation.sleep(WORK));
            simulation.spawn("a watcher", async move {
                match is_wrong {
                    true => drop(marker.cancelled().await),
                    false => drop(marker.unless_cancelled(done).await),
                }
            });
            cx.cancellation().unless_cancelled(simulation.sleep(WORK)).await?;
            told.abort();
            Ok("done")
        };
        serve(incoming, LocalRouter::new().request("work", work_on))
    });
}

/// Waits for its cancel by asking again and again.
pub(crate) fn spins(simulation: Simulation, is_wrong: bool) {
    simulation.serve(work(1).cancels(1), move |incoming| {
        let work_on = async move |_: Value, cx: LocalContext| {
            let call = cx.call::<Value>("confirm", json!({}));
            let asking = poll_fn(|task| {
                if is_wrong && !cx.cancellation().is_cancelled() {
                    task.waker().wake_by_ref();
                }
                Poll::<()>::Pending
            });
            match select(call, asking).await {
                Either::Left((done, _)) => Ok(done?),
                Either::Right(((), _)) => Ok(Value::Null),
            }
        };
        serve(incoming, LocalRouter::new().request("work", work_on))
    });
}

/// Takes a call that was cancelled for one that can't fail.
pub(crate) fn panics(simulation: Simulation, is_wrong: bool) {
    let work_on = async move |_: Value, cx: LocalContext| {
        let result = cx.call::<Value>("confirm", json!({})).await;
        assert!(!is_wrong || result.is_ok(), "it is always confirmed");
        Ok(result?)
    };
    simulation.serve(work(1).cancels(1), move |incoming| {
        serve(incoming, LocalRouter::new().request("work", work_on))
    });
}

/// Keeps its peer in a state that keeps itself alive.
pub(crate) fn keeps_its_peer(simulation: Simulation, is_wrong: bool) {
    type Kept = Rc<RefCell<Option<(Peer, Box<dyn Fn()>)>>>;
    simulation.serve(work(1), move |incoming| {
        let work_on = async move |_: Value, cx: LocalContext<Kept>| {
            let (kept, again) = (cx.state().clone(), cx.state().clone());
            if is_wrong {
                *kept.borrow_mut() =
                    Some((cx.peer().clone(), Box::new(move || drop(again.clone()))));
            }
            Ok("done")
        };
        serve(incoming, LocalRouter::with_state(Kept::default()).request("work", work_on))
    });
}

/// Writes after it was cancelled.
pub(crate) fn writes_when_cancelled(simulation: Simulation, is_wrong: bool) {
    let work_on = async move |_: Value, cx: LocalContext| {
        let outcome = cx.call::<Value>("confirm", json!({})).await;
        if is_wrong || outcome.is_ok() && !cx.cancellation().is_cancelled() {
            simulation.note("write");
        }
        Ok(outcome?)
    };
    simulation.serve(work(1).cancels(1), move |incoming| {
        serve(incoming, LocalRouter::new().request("work", work_on))
    });
    simulation.check(|trace: &Trace| {
        let (cancels, responses) = (trace.cancels(Way::Received), trace.responses(Way::Sent));
        match (cancels.first(), trace.notes("write").first(), responses.first()) {
            (Some(cancel), Some(&write), Some(response))
                if cancel.place < write && write < response.place =>
            {
                Err("it writes between the cancel and its answer".into())
            }
            _ => Ok(()),
        }
    });
}

//! Steps undo the work of a handler after it has failed: the latest first, each once.

use std::future::pending;
use std::pin::pin;

use futures_util::future::select;
use protocol_async::{Failure, UndoLimits};
use protocol_core::{Config, Dialect};
use protocol_router::Trouble;
use smol::channel::{Receiver, Sender, unbounded};
use smol::future::yield_now;

use super::{
    Router, Shared, TICK, acp, against_far, cancel_line, cancelled_line, error_line,
    notification_line, request_line, result_line, run, spawn,
};
use crate::far::Far;
use crate::pipe::ENDLESS;

type Log = Sender<&'static str>;

/// Notes when a handler's work is dropped.
struct Dropped(Log);

impl Drop for Dropped {
    fn drop(&mut self) {
        note(&self.0, "work dropped");
    }
}

fn note(log: &Log, what: impl Into<String>) {
    // The log may be gone with the test.
    let _ = log.try_send(what.into().leak());
}

/// Registers the steps `one` and `two`, each of which waits for a moment.
macro_rules! register {
    ($cx:expr, $log:expr) => {
        for step in ["one", "two"] {
            let log = $log.clone();
            $cx.undo_with(async move {
                yield_now().await;
                note(&log, step);
                Ok(())
            })?;
        }
    };
}

/// Begins a log, and a router that writes the outcomes of steps into it.
fn logged() -> (Log, Receiver<&'static str>, Router) {
    let (log, logged) = unbounded();
    let outcomes = log.clone();
    let router = Router::new().on_trouble(move |trouble| match trouble {
        Trouble::Undone { method, undone } => note(&outcomes, format!("{method}: {undone}")),
        Trouble::Failed { .. } => {}
        trouble => note(&outcomes, trouble.to_string()),
    });
    (log, logged, router)
}

fn so_far(log: &Receiver<&'static str>) -> Vec<&'static str> {
    std::iter::from_fn(|| log.try_recv().ok()).collect()
}

/// Serves until the connection ends, and notes that.
fn serve(router: Router, log: &Log) -> Far {
    let (_peer, incoming, far) = against_far(acp(), ENDLESS);
    let log = log.clone();
    spawn(async move {
        router.serve(&incoming).await;
        note(&log, "over");
    });
    far
}

/// A handler that fails, panics or is cancelled, and the response to each.
#[test]
fn undo_runs_the_latest_step_first_and_then_the_response_is_sent() {
    run(async {
        let (log, told, router) = logged();
        let (fails, panics, waits) = (log.clone(), log.clone(), log.clone());
        let router = router
            .request("fails", async move |(): (), cx| {
                let _work = Dropped(fails.clone());
                register!(cx, fails);
                Err::<(), _>(Failure::internal("why"))
            })
            .request("panics", async move |(): (), cx| {
                let _work = Dropped(panics.clone());
                register!(cx, panics);
                assert_ne!(cx.method().as_str(), "panics", "on purpose");
                Ok(())
            })
            .request("waits", async move |(): (), cx| {
                let _work = Dropped(waits.clone());
                register!(cx, waits);
                note(&waits, "waits");
                cx.cancellation().unless_cancelled(pending::<()>()).await?;
                Ok(())
            });
        let mut far = serve(router, &log);
        for (id, method) in [(1, "fails"), (2, "panics"), (3, "waits")] {
            far.send(&[&request_line(id, method)]).await;
            if method == "waits" {
                assert_eq!(told.recv().await.unwrap(), "waits");
                far.send(&[&cancel_line(id)]).await;
            }
            let response = far.line().await.unwrap();
            assert!(response.contains(if id == 3 { "-32800" } else { "-32603" }), "{response}");
            let outcome = |step| &*format!("{method}: undo step {step} is done").leak();
            let all = ["work dropped", "two", outcome(2), "one", outcome(1)];
            assert_eq!(so_far(&told), all, "{method}");
        }
    });
}

#[test]
fn undo_never_runs_after_a_success() {
    run(async {
        let (log, told, router) = logged();
        let steps = log.clone();
        let router = router
            .request("works", async move |(): (), cx| {
                register!(cx, steps);
                note(&steps, "works");
                // The result counts, though the request is cancelled meanwhile.
                cx.cancellation().cancelled().await;
                Ok(7)
            })
            .request("next", async |(): (), _| Ok(8));
        let mut far = serve(router, &log);
        far.send(&[&request_line(1, "works")]).await;
        assert_eq!(told.recv().await.unwrap(), "works");
        far.send(&[&cancel_line(1), &request_line(2, "next")]).await;
        let mut responses = [far.line().await.unwrap(), far.line().await.unwrap()];
        responses.sort();
        assert_eq!(responses, [result_line(1, "7"), result_line(2, "8")]);
        far.close();
        assert_eq!(told.recv().await.unwrap(), "over");
        assert_eq!(so_far(&told), [""; 0]);
    });
}

/// A step that hangs after a hang-up has an end too, because the driver keeps time until then.
#[test]
fn undo_runs_when_the_connection_ends() {
    run(async {
        let (log, told, router) = logged();
        let steps = log.clone();
        let router = router.request("waits", async move |(): (), cx| {
            register!(cx, steps);
            cx.undo_within(TICK, pending())?;
            cx.undo_within(TICK, pending())?;
            note(&steps, "waits");
            cx.cancellation().unless_cancelled(pending::<()>()).await?;
            Ok(())
        });
        let mut far = serve(router, &log);
        far.send(&[&request_line(1, "waits")]).await;
        assert_eq!(told.recv().await.unwrap(), "waits");
        far.close();
        for what in [
            "waits: undo step 4 ran out of time",
            "waits: undo step 3 ran out of time",
            "two",
            "waits: undo step 2 is done",
            "one",
            "waits: undo step 1 is done",
            "over",
        ] {
            assert_eq!(told.recv().await.unwrap(), what);
        }
    });
}

/// The response does not wait for the steps behind the one that hung.
#[test]
fn undo_that_hangs_holds_the_response_until_its_time_is_over() {
    run(async {
        let (log, told, router) = logged();
        let (steps, (open, gate)) = (log.clone(), unbounded::<()>());
        let router = router.request("fails", async move |(): (), cx| {
            let gate = gate.clone();
            cx.undo_with(async move {
                let _ = gate.recv().await;
                Ok(())
            })?;
            let work = Dropped(steps.clone());
            cx.undo_within(TICK, async move {
                let _work = work;
                pending().await
            })?;
            Err::<(), _>(Failure::internal("why"))
        });
        let mut far = serve(router, &log);
        far.send(&[&request_line(1, "fails")]).await;
        far.expect(&error_line(1, -32603, "internal error")).await;
        assert_eq!(so_far(&told), ["work dropped", "fails: undo step 2 ran out of time"]);
        open.try_send(()).unwrap();
        assert_eq!(told.recv().await.unwrap(), "fails: undo step 1 is done");
    });
}

#[test]
fn undo_that_fails_or_panics_stops_no_other() {
    run(async {
        let (log, told, router) = logged();
        let steps = log.clone();
        let router = router.request("fails", async move |(): (), cx| {
            register!(cx, steps);
            let method = cx.method().clone();
            cx.undo_with(async move {
                yield_now().await;
                assert_ne!(method.as_str(), "fails", "on purpose");
                Ok(())
            })?;
            cx.undo_with(async { Err(Failure::internal("hunter2")) })?;
            Err::<(), _>(Failure::internal("why"))
        });
        let mut far = serve(router, &log);
        far.send(&[&request_line(1, "fails")]).await;
        far.expect(&error_line(1, -32603, "internal error")).await;
        let all = [
            "fails: undo step 4 failed",
            "fails: undo step 3 panicked",
            "two",
            "fails: undo step 2 is done",
            "one",
            "fails: undo step 1 is done",
        ];
        assert_eq!(so_far(&told), all);
    });
}

/// The cancel comes before, while or after the handler fails.
#[test]
fn undo_runs_once_when_a_stop_and_a_failure_race() {
    run(async {
        let (log, told, router) = logged();
        let (steps, (open, gate)) = (log.clone(), unbounded::<()>());
        let router = router.request("fails", async move |(): (), cx| {
            register!(cx, steps);
            note(&steps, "begun");
            let waiting = cx.cancellation().unless_cancelled(gate.recv());
            if waiting.await.is_ok() {
                return Err::<(), _>(Failure::internal("why"));
            }
            Err(Failure::Cancelled)
        });
        let mut far = serve(router, &log);
        for id in 1..=60 {
            far.send(&[&request_line(id, "fails")]).await;
            assert_eq!(told.recv().await.unwrap(), "begun");
            if id % 2 == 0 {
                open.try_send(()).unwrap();
            }
            far.send(&[&cancel_line(id), &cancel_line(id)]).await;
            if id % 3 == 0 {
                let _ = open.try_send(());
            }
            far.line().await.unwrap();
            let all = ["two", "fails: undo step 2 is done", "one", "fails: undo step 1 is done"];
            assert_eq!(so_far(&told), all, "{id}");
        }
    });
}

/// A second cancel does not reach a step either, and until it is done the request counts as served.
#[test]
fn undo_is_shielded_and_its_request_still_counts() {
    run(async {
        let (log, told, router) = logged();
        let (steps, (open, gate)) = (log.clone(), unbounded::<()>());
        let router = router.at_most(1).request("waits", async move |(): (), cx| {
            let (log, gate, marker) = (steps.clone(), gate.clone(), cx.cancellation().clone());
            cx.undo_with(async move {
                note(&log, if marker.is_cancelled() { "undoes" } else { "why?" });
                gate.recv().await.unwrap();
                note(&log, "undone");
                Ok(())
            })?;
            note(&steps, "waits");
            cx.cancellation().unless_cancelled(pending::<()>()).await?;
            Ok(())
        });
        let mut far = serve(router, &log);
        far.send(&[&request_line(1, "waits")]).await;
        assert_eq!(told.recv().await.unwrap(), "waits");
        far.send(&[&cancel_line(1)]).await;
        assert_eq!(told.recv().await.unwrap(), "undoes");
        far.send(&[&cancel_line(1), &request_line(2, "waits")]).await;
        let refused = far.line().await.unwrap();
        assert!(refused.contains(r#""id":2"#) && refused.contains("too many"), "{refused}");
        open.try_send(()).unwrap();
        far.expect(&cancelled_line(1)).await;
        assert_eq!(so_far(&told)[1..], ["undone", "waits: undo step 1 is done"]);
        far.send(&[&request_line(3, "waits")]).await;
        assert_eq!(told.recv().await.unwrap(), "waits");
    });
}

#[test]
fn undo_has_a_limit_of_steps_and_a_default_time() {
    run(async {
        let (log, told, router) = logged();
        let mut limits = UndoLimits::default();
        (limits.steps, limits.time) = (2, TICK);
        let refused = log.clone();
        let router = router.undo_limits(limits).request("fails", async move |(): (), cx| {
            cx.undo_with(async { Ok(()) })?;
            cx.undo_with(pending())?;
            let third = cx.undo_with(async { Ok(()) }).unwrap_err();
            note(&refused, third.to_string());
            Err::<(), _>(third.into())
        });
        let mut far = serve(router, &log);
        far.send(&[&request_line(1, "fails")]).await;
        far.expect(&error_line(1, -32603, "internal error")).await;
        assert_eq!(told.recv().await.unwrap(), "the work has too many undo steps (limits.steps)");
        assert_eq!(told.recv().await.unwrap(), "fails: undo step 2 ran out of time");
        assert_eq!(told.recv().await.unwrap(), "fails: undo step 1 is done");
    });
}

/// The client may begin the next turn once it has the response: what the stopped one did is undone then.
#[test]
fn undo_of_a_stopped_turn_precedes_its_response() {
    run(async {
        let (log, told, router) = logged();
        let steps = log.clone();
        let router = router.request("session/prompt", async move |_: serde_json::Value, cx| {
            register!(cx, steps);
            note(&steps, "waits");
            cx.cancellation().unless_cancelled(pending::<()>()).await?;
            Ok(())
        });
        let agent = Config::server(Dialect::ACP_V1);
        let (_peer, incoming, mut far) = against_far(agent, ENDLESS);
        spawn(async move {
            router.serve(&incoming).await;
        });
        let params = r#""params":{"sessionId":"s"}"#;
        let prompt = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"session/prompt",{params}}}"#);
        let stop = format!(r#"{{"jsonrpc":"2.0","method":"session/cancel",{params}}}"#);
        far.send(&[&prompt]).await;
        assert_eq!(told.recv().await.unwrap(), "waits");
        far.send(&[&stop]).await;
        far.expect(&result_line(1, r#"{"stopReason":"cancelled"}"#)).await;
        let outcome = |step| &*format!("session/prompt: undo step {step} is done").leak();
        assert_eq!(so_far(&told), ["two", outcome(2), "one", outcome(1)]);
    });
}

/// Work beside a handler outlives the request, and has steps of its own.
#[test]
fn undo_of_work_beside_a_handler_is_its_own() {
    run(async {
        let (log, told, router) = logged();
        let (steps, (open, gate)) = (log.clone(), unbounded::<bool>());
        let router = router.request("begin", async move |(): (), cx| {
            let (log, gate, own) = (steps.clone(), gate.clone(), cx.clone());
            cx.spawn_with(async move |cx| {
                register!(cx, log);
                let fails = gate.recv().await.unwrap();
                let late = own.undo_with(async { Ok(()) }).unwrap_err();
                note(&log, late.to_string());
                if fails { Err(Failure::Cancelled) } else { Ok(()) }
            });
            // The failure of work that shares the context undoes nothing.
            let (fails, failed) = unbounded::<()>();
            cx.undo_with(pending())?;
            cx.spawn(async move {
                let _fails = fails;
                Err(Failure::Cancelled)
            });
            let _ = failed.recv().await;
            yield_now().await;
            cx.undo_with(pending())?;
            Ok("begun")
        });
        let mut far = serve(router, &log);
        for (id, fails) in [(1, false), (2, true)] {
            far.send(&[&request_line(id, "begin")]).await;
            far.expect(&result_line(id, "\"begun\"")).await;
            assert_eq!(so_far(&told), [""; 0]);
            open.try_send(fails).unwrap();
            assert_eq!(told.recv().await.unwrap(), "the work is over, or can't be undone");
        }
        for what in ["two", "begin: undo step 2 is done", "one", "begin: undo step 1 is done"] {
            assert_eq!(told.recv().await.unwrap(), what);
        }
        far.close();
        assert_eq!(told.recv().await.unwrap(), "over");
    });
}

#[test]
fn undo_of_a_notification_and_of_a_fallback() {
    run(async {
        let (log, told, router) = logged();
        let (steps, others) = (log.clone(), log.clone());
        let router = router
            .notification("fails", async move |(): (), cx| {
                register!(cx, steps);
                Err(Failure::internal("why"))
            })
            .fallback(async move |_, cx| {
                register!(cx, others);
                Err(Failure::internal("why"))
            });
        let mut far = serve(router, &log);
        far.send(&[&notification_line("fails")]).await;
        for what in ["two", "fails: undo step 2 is done", "one", "fails: undo step 1 is done"] {
            assert_eq!(told.recv().await.unwrap(), what);
        }
        far.send(&[&request_line(1, "any")]).await;
        far.expect(&error_line(1, -32603, "internal error")).await;
        let all = ["two", "any: undo step 2 is done", "one", "any: undo step 1 is done"];
        assert_eq!(so_far(&told), all);
    });
}

/// Nothing can run any more, neither a step at work nor one that has not begun.
#[test]
fn undo_of_a_server_that_is_dropped_is_reported() {
    run(async {
        let (log, told, router) = logged();
        let (steps, (open, gate)) = (log.clone(), unbounded::<()>());
        let router = router
            .request("waits", async move |(): (), cx| {
                let own = cx.clone();
                cx.undo_with(async move {
                    // It has its own context, which it must not keep for ever.
                    drop(own);
                    Ok(())
                })?;
                cx.undo_with(pending())?;
                note(&steps, "waits");
                cx.cancellation().unless_cancelled(pending::<()>()).await?;
                Ok(())
            })
            .request("fails", async |(): (), cx| {
                cx.undo_with(async { Ok(()) })?;
                cx.undo_with(pending())?;
                Err::<(), _>(Failure::internal("why"))
            });
        let (_peer, incoming, mut far) = against_far(acp(), ENDLESS);
        let router = Shared::new(router);
        let (served, kept) = (router.clone(), log.clone());
        spawn(async move {
            {
                let serving = pin!(served.serve(&incoming));
                let _ = select(serving, pin!(gate.recv())).await;
            }
            note(&kept, "gone");
        });
        far.send(&[&request_line(1, "fails"), &request_line(2, "waits")]).await;
        assert_eq!(told.recv().await.unwrap(), "waits");
        open.try_send(()).unwrap();
        let mut all = Vec::new();
        while !all.contains(&"gone") {
            all.push(told.recv().await.unwrap());
        }
        let left = [
            "fails: undo step 1",
            "fails: undo step 2",
            "waits: undo step 1",
            "waits: undo step 2",
        ];
        let mut left: Vec<String> = left.map(|step| format!("{step} was dropped")).into();
        left.push("gone".into());
        all.sort_unstable();
        left.sort_unstable();
        assert_eq!(all, left);
    });
}

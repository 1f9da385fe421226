//! Handlers that use tokio's clock and tasks: wrong ones are found, right ones left alone, and a seed is a
//! world.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use protocol_core::{Config, Dialect, Timestamp};
use protocol_router::{LocalContext, LocalRouter};
use protocol_testkit::simulate::{
    Bound, Failure, Fault, Script, Simulation, try_every_order, try_simulate,
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

const WORK: Duration = Duration::from_millis(300);

/// A request that may be cancelled, served so.
fn world<F: Future<Output = Result<(), protocol_async::Failure>> + 'static>(
    simulation: Simulation,
    serve: impl Fn(LocalContext) -> F + Clone + 'static,
) {
    simulation.tokio();
    let peer = Script::new(Config::server(Dialect::ACP_V1)).request("work", json!({})).cancels(1);
    simulation.serve(peer, async move |incoming| {
        let router = LocalRouter::new()
            .on_trouble(|_| {})
            .request("work", async move |_: Value, cx| serve(cx).await);
        router.serve(&incoming).await
    });
}

/// Returns the failure of the shortest schedule. Some seed must fail in the same way.
fn failure(world: impl Fn(Simulation)) -> Failure {
    let failure = try_every_order(Bound::steps(40), &world).expect_err("it is wrong");
    let other = try_simulate(0..100, &world).expect_err("it is wrong");
    assert_eq!(other.fault, failure.fault, "{other}");
    failure
}

#[test]
fn f51_work_of_tokio_that_goes_on_after_its_cancel_is_found() {
    let failure = failure(|simulation| {
        world(simulation, async |_| {
            sleep(Duration::from_secs(60)).await;
            Ok(())
        });
    });
    assert_eq!(failure.fault, Fault::IgnoredCancel, "{failure}");
    assert_eq!(failure.history.last().unwrap(), "it is 1001 ms", "{failure}");
}

#[test]
fn f51_a_request_that_is_never_answered_is_found_though_it_might_be_cancelled() {
    let failure = failure(|simulation| {
        world(simulation, async |cx| {
            cx.cancellation().unless_cancelled(std::future::pending::<()>()).await?;
            Ok(())
        });
    });
    assert_eq!(failure.fault, Fault::Unanswered, "{failure}");
}

#[test]
fn f51_a_task_of_tokio_that_is_left_is_found() {
    let failure = failure(|simulation| {
        world(simulation, async |_| {
            tokio::spawn(std::future::pending::<()>());
            Ok(())
        });
    });
    assert_eq!(failure.fault, Fault::WaitsForEver, "{failure}");
    assert_eq!(failure.what, "at the end there is still: a task of the runtime");
    let is_idle = |step: &String| step == "an hour passes, and nothing happens";
    assert!(failure.history.iter().any(is_idle), "{failure}");
    assert!(!failure.history.iter().any(|step| step.starts_with("it is 3600")), "{failure}");
}

#[test]
fn f51_a_panic_in_a_task_of_tokio_is_found() {
    let failure = failure(|simulation| {
        world(simulation, async |_| {
            let _ = tokio::spawn(async { panic!("on purpose") }).await;
            Ok(())
        });
    });
    assert_eq!(failure.fault, Fault::Panicked, "{failure}");
}

/// Works in a task, which is ended with its request, with a time-out that it keeps.
async fn work(cx: LocalContext) -> Result<(), protocol_async::Failure> {
    let mut task = tokio::spawn(async {
        tokio::task::yield_now().await;
        sleep(WORK).await;
    });
    let worked = cx.cancellation().unless_cancelled(timeout(2 * WORK, &mut task)).await;
    task.abort();
    worked?.expect("it takes no longer").expect("it ends");
    Ok(())
}

#[test]
fn f51_nothing_is_found_in_a_right_handler_and_every_order_of_it_is_tried() {
    let searched = try_every_order(Bound::steps(40), |simulation| world(simulation, work));
    let searched = searched.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(searched.is_exhausted, "{searched:?}");
    // Without those in which time passes for nothing.
    assert_eq!(searched.schedules, 40);
}

/// A session that a task of tokio ends after a minute, which wakes nobody.
fn session(simulation: Simulation) {
    simulation.tokio();
    let peer = Script::new(Config::server(Dialect::ACP_V1))
        .request("open", json!({}))
        .request("work", json!({}));
    simulation.serve(peer, async |incoming| {
        let is_open = Arc::new(AtomicBool::new(true));
        let ends = is_open.clone();
        let router = LocalRouter::new()
            .on_trouble(|_| {})
            .request("open", async move |_: Value, _: LocalContext| {
                tokio::spawn(async move {
                    sleep(Duration::from_secs(60)).await;
                    ends.store(false, Ordering::Relaxed);
                });
                Ok::<_, protocol_async::Failure>(())
            })
            .request("work", async move |_: Value, _: LocalContext| {
                assert!(is_open.load(Ordering::Relaxed), "it was open before");
                Ok::<_, protocol_async::Failure>(())
            });
        router.serve(&incoming).await
    });
}

#[test]
fn f51_what_only_a_task_of_tokio_does_while_time_passes_is_searched() {
    let failure = try_every_order(Bound::steps(40), session).expect_err("it may be over");
    assert_eq!(failure.fault, Fault::Panicked, "{failure}");
}

#[test]
fn g10_a_seed_is_a_world_with_tokio_too() {
    let once = || try_simulate(0..50, |simulation| world(simulation, work));
    assert_eq!(once().unwrap(), once().unwrap());
}

/// Waits by both clocks in turn.
fn clocks(simulation: Simulation, waits: &'static [u64]) {
    simulation.tokio();
    simulation.spawn("both clocks", async move {
        let start = Instant::now();
        let now = || simulation.now().since(Timestamp::ZERO);
        for wait in waits.iter().copied().map(Duration::from_millis) {
            sleep(wait).await;
            assert_eq!(start.elapsed(), now());
            simulation.sleep(wait).await;
            assert_eq!(start.elapsed(), now());
        }
    });
}

#[test]
fn g10_the_clocks_of_tokio_and_of_the_world_are_one() {
    let ran = try_simulate(0..1, |simulation| clocks(simulation, &[1, 70, 5_000, 3_599_999]));
    ran.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn a_timer_of_tokio_that_is_due_after_an_hour_is_not_waited_for() {
    let ran = try_simulate(0..1, |simulation| clocks(simulation, &[3_600_001]));
    assert_eq!(ran.expect_err("it is not waited for").fault, Fault::WaitsForEver);
}

/// A request whose work is a task that need not be `Send`.
fn local_world(simulation: Simulation, is_left: bool) {
    world(simulation, move |cx: LocalContext| async move {
        let shared = std::rc::Rc::new(());
        let mut task = tokio::task::spawn_local(async move {
            sleep(WORK).await;
            drop(shared);
            if is_left {
                std::future::pending::<()>().await;
            }
        });
        let worked = cx.cancellation().unless_cancelled(&mut task).await;
        if !is_left {
            task.abort();
        }
        worked?.expect("it ends");
        Ok(())
    });
}

#[test]
fn f123_a_local_task_of_tokio_is_no_fault() {
    let searched = try_every_order(Bound::steps(40), |simulation| local_world(simulation, false));
    assert!(searched.unwrap_or_else(|failure| panic!("{failure}")).is_exhausted);
    try_simulate(0..50, |simulation| local_world(simulation, false)).unwrap();
}

#[test]
fn f123_a_local_task_of_tokio_that_is_left_is_found() {
    let failure = try_simulate(0..50, |simulation| local_world(simulation, true));
    let failure = failure.expect_err("it is left");
    let kinds = [Fault::WaitsForEver, Fault::Unanswered];
    assert!(kinds.contains(&failure.fault), "{failure}");
}

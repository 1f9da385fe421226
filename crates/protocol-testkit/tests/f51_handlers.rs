//! Async handlers as people write them: wrong ones, each found with its shortest schedule, and correct
//! ones, in which nothing is found.

use protocol_async::{Failure as Failed, Incoming, LocalContext, LocalRouter};
use protocol_core::{Config, Dialect};
use protocol_testkit::simulate::{
    Bound, Failure, Fault, PeerAnswer, Script, Simulation, try_every_order, try_simulate,
};
use serde_json::{Value, json};

fn peer() -> Script {
    Script::new(Config::server(Dialect::ACP_V1)).request("work", json!({})).cancels(1)
}

fn found(world: impl Fn(Simulation)) -> Failure {
    let failure = try_every_order(Bound::steps(40), &world).expect_err("it is wrong");
    println!("{failure}");
    failure
}

async fn confirmed(_: Value, cx: LocalContext) -> Result<bool, Failed> {
    Ok(cx.call::<bool>("confirm", json!({})).await?)
}

async fn serve(incoming: Incoming, router: LocalRouter) {
    router.serve(&incoming).await;
}

#[test]
fn f50_a_correct_nested_handler_is_found_correct() {
    let world = |simulation: Simulation| {
        let answers = [PeerAnswer::Result(json!(true)), PeerAnswer::Error(-5), PeerAnswer::Never];
        let script = peer().answers(answers);
        simulation.serve(script, |incoming| {
            serve(incoming, LocalRouter::new().request("work", confirmed))
        });
    };
    let begun = std::time::Instant::now();
    let searched = try_every_order(Bound::steps(60).schedules(1_000_000), world)
        .unwrap_or_else(|failure| panic!("{failure}"));
    println!("{searched:?} {:?}", begun.elapsed());
    let begun = std::time::Instant::now();
    println!("{:?}", try_simulate(0..2000, world).unwrap_or_else(|failure| panic!("{failure}")));
    println!("{:?}", begun.elapsed());
}

#[test]
fn f51_forgets_nested() {
    let failure = found(|simulation| {
        simulation.serve(peer(), |incoming| {
            serve(
                incoming,
                LocalRouter::new().request("work", async |_: Value, cx| {
                    Ok(cx.peer().call::<bool>("confirm", json!({})).await?)
                }),
            )
        });
    });
    assert_eq!(failure.fault, Fault::IgnoredCancel);
}

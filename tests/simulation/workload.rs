//! Callers that do everything one can do to a call, and handlers that answer in every way.

use std::mem::forget;
use std::time::Duration;

use futures_util::future::{Either, select};
use protocol_async::{Arrival, CallError, Failure, Incoming, Peer, RpcError, SentRequest};
use protocol_core::{CallOptions, Grace, Refusal, Violation, code};
use protocol_router::{LocalContext, LocalRouter};
use protocol_testkit::simulate::Simulation;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::history::{History, NEVER};

/// The methods whose handlers call nobody.
const SIMPLE: [&str; 7] = ["now", "later", "deaf", "never", "progress", "fails", "lost"];
const METHODS: [&str; 9] =
    ["now", "later", "deaf", "never", "progress", "fails", "lost", "nested", "passed"];

/// Names the call, and is the token of its progress in every dialect.
fn params(number: usize) -> Value {
    let meta = json!({ "progressToken": number });
    json!({ "number": number, "sessionId": number, "workDoneToken": number, "_meta": meta })
}

#[derive(Deserialize)]
struct Params {
    number: usize,
}

fn rarely(time: u64) -> Option<Duration> {
    (Simulation.choose(6) == 0).then(|| Simulation.time_below(time))
}

/// Makes one call, and does something to it.
pub(crate) async fn call(peer: &Peer, history: &History) {
    let method = Simulation.one_of(&METHODS);
    let options = CallOptions::default()
        .timeout(rarely(500))
        .idle_timeout(rarely(500))
        .hard_cap(rarely(500))
        .grace(rarely(500).map(Grace::Settle));
    let fate = Simulation.choose(8);
    if fate == 0 {
        let prepared = peer.prepare::<usize>(method, params(0), options);
        let handle = prepared.cancellation_handle();
        handle.cancel();
        drop(prepared.publish());
    }
    let number = history.begin(method, options, None);
    let sent: SentRequest<usize> = peer.call_with(method, params(number), options);
    match fate {
        0 => {
            let history = history.clone();
            sent.on_result(move |outcome| history.settle(number, outcome));
            return;
        }
        1 | 2 => return settle(peer, history, number, sent.await).await,
        _ => {}
    }
    let sent = match select(sent, Simulation.sleep(Simulation.time_below(100))).await {
        Either::Left((outcome, _)) => return settle(peer, history, number, outcome).await,
        Either::Right((_, sent)) => sent,
    };
    let give_up = |outcome| history.give_up(number, outcome, peer.dialect().grace);
    match fate {
        3 => give_up(sent.cancel()),
        4 => give_up(sent.cancel_with_reason("it is enough")),
        5 => {
            // The messages that are sent meanwhile leave together.
            let cork = peer.cork();
            Simulation.spawn("a cork", async move {
                Simulation.sleep(Simulation.time_below(50)).await;
                drop(cork);
            });
            give_up(sent.cancellation_handle().cancel());
        }
        6 => return drop((history.let_go(number, true), sent)),
        _ => return (history.let_go(number, false), sent.detach()).1,
    }
    settle(peer, history, number, sent.await).await;
}

type Outcome = Result<usize, CallError>;

/// If there was no room for it, waits until there is.
async fn settle(peer: &Peer, history: &History, number: usize, outcome: Outcome) {
    let is_full = matches!(outcome, Err(CallError::Refused(Refusal::OutboxFull)));
    history.settle(number, outcome);
    if is_full {
        peer.ready().await;
    }
}

/// Answers until the connection is closed.
pub(crate) async fn serve(incoming: Incoming, history: &History) {
    let methods = ["now", "later", "deaf", "never", "progress", "fails", "nested"];
    let router = LocalRouter::with_state(history.clone())
        .request("initialize", async |_: Value, _| Ok(json!({})))
        .fallback(answer_by_hand);
    let router = methods.into_iter().fold(router, |router, method| router.request(method, work));
    router.serve(&incoming).await;
}

type Context = LocalContext<History>;

/// Answers with the number of the call.
async fn work(Params { number }: Params, cx: Context) -> Result<usize, Failure> {
    let history = cx.state();
    let _serving = Serving::begin(history, number, &cx);
    let until_cancelled =
        async |time| cx.cancellation().unless_cancelled(Simulation.sleep(time)).await;
    match cx.method().as_str() {
        "later" => until_cancelled(Simulation.time_below(100)).await?,
        "deaf" => Simulation.sleep(Simulation.time_below(100)).await,
        "never" => until_cancelled(NEVER).await?,
        "progress" => {
            for _ in 0..Simulation.choose(4) {
                if let Some(rule) = cx.peer().dialect().progress.first() {
                    // Withheld if the request is cancelled.
                    let _ = cx.try_notify(&rule.method, json!({ rule.token.clone(): number }));
                }
                until_cancelled(Simulation.time_below(100)).await?;
            }
        }
        "fails" => return Err(RpcError::new(code::REQUEST_FAILED, number.to_string()).into()),
        "nested" => {
            let method = Simulation.one_of(&SIMPLE);
            let inner = history.begin(method, CallOptions::default(), Some(number));
            let outcome = cx.call::<usize>(method, params(inner)).await;
            history.settle(inner, outcome.clone());
            outcome?;
        }
        _ => {}
    }
    Ok(number)
}

/// Responds to requests without a route: by dropping the responder, or by handing it on.
async fn answer_by_hand(arrival: Arrival, cx: Context) -> Result<(), Failure> {
    let history = cx.state();
    let (request, responder) = match arrival {
        Arrival::Request(request, responder) => (request, responder),
        Arrival::Violation { violation: Violation::ResponseDropped, .. } => {
            History::drop_answer();
            return Ok(());
        }
        _ => return Ok(()),
    };
    let Params { number } = request.params().expect("a call of ours");
    let serving = Serving::begin(history, number, &cx);
    if request.method == "passed" {
        let method = Simulation.one_of(&SIMPLE);
        let inner = history.begin(method, CallOptions::default(), Some(number));
        history.let_go(inner, false);
        let sent: SentRequest<usize> = cx.peer().call(method, params(inner));
        sent.forward_response_to(responder);
        // That answers it some time.
        forget(serving);
    } else {
        Simulation.sleep(Simulation.time_below(100)).await;
    }
    Ok(())
}

/// A guard that notes a handler's beginning, its cancellation, and the moment before its response.
struct Serving<'a> {
    history: &'a History,
    number: usize,
}

impl<'a> Serving<'a> {
    fn begin(history: &'a History, number: usize, cx: &Context) -> Self {
        history.serve(number);
        let told = history.clone();
        cx.cancellation().on_cancel(move |cause| told.cancelled(number, cause)).forever();
        Self { history, number }
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.history.answer(self.number);
    }
}

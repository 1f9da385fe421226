//! Handlers that take what arrives by hand, and servers that know nothing of our connections.

use std::collections::BTreeSet;
use std::mem::{forget, take};
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{SinkExt, StreamExt};
use protocol_async::{Arrival, Incoming, Request, Responder};
use protocol_core::{Config, Dialect};
use protocol_testkit::simulate::{Script, Simulation, Socket};
use serde_json::{Value, json};

use super::{WORK, confirm, work};

/// Takes each request to a task of its own.
async fn each<F: Future<Output = ()> + 'static>(
    incoming: Incoming,
    serve: impl Fn(Request, Responder) -> F,
) {
    while let Ok(arrival) = incoming.receive().await {
        if let Arrival::Request(request, responder) = arrival {
            Simulation.spawn("a request", serve(request, responder));
        }
    }
}

/// Puts a request away that was cancelled during its work, and never responds to it.
pub(crate) fn swallows(simulation: Simulation, is_wrong: bool) {
    simulation.serve(work(1).cancels(1), move |incoming| {
        each(incoming, move |_, responder| async move {
            simulation.sleep(WORK).await;
            if is_wrong && responder.is_cancelled() {
                return forget(responder);
            }
            responder.cast().respond("done");
        })
    });
}

/// Forgets the response when it is cancelled during a call of its own.
pub(crate) fn forgets_in_a_call(simulation: Simulation, is_wrong: bool) {
    simulation.serve(work(1).cancels(1), move |incoming| {
        each(incoming, move |_, responder| async move {
            let call = confirm(&responder.peer());
            match responder.cancellation().unless_cancelled(call).await {
                Ok(_) => responder.cast().respond("done"),
                Err(_) if is_wrong => forget(responder),
                Err(cancelled) => responder.respond_with_failure(cancelled),
            }
        })
    });
}

/// The mistakes of a server that writes by itself.
struct Mistakes {
    /// A cancelled request gets its response, and its work goes on.
    work_goes_on: bool,
    /// A cancelled request gets a response where the dialect wants silence.
    answers_cancelled: bool,
}

/// Serves whole messages, with work that takes some time.
async fn serve(mut socket: Socket, cancel: &str, member: &str, mistakes: Mistakes) {
    let mut running = BTreeSet::new();
    loop {
        let message = if running.is_empty() {
            socket.next().await
        } else {
            match select(socket.next(), Simulation.sleep(WORK)).await {
                Either::Left((message, _)) => message,
                Either::Right(_) => {
                    for id in take(&mut running) {
                        let answer = json!({"jsonrpc": "2.0", "id": id, "result": "done"});
                        let _ = socket.send(answer.to_string().into_bytes()).await;
                    }
                    continue;
                }
            }
        };
        let Some(Ok(message)) = message else { return };
        let message: Value = serde_json::from_slice(&message).expect("the peer writes JSON");
        if message["method"] == cancel {
            let id = message["params"][member].as_u64().expect("the peer names one");
            let was_running =
                if mistakes.work_goes_on { running.contains(&id) } else { running.remove(&id) };
            if was_running && mistakes.answers_cancelled {
                let error = json!({"code": -32800, "message": "cancelled"});
                let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
                let _ = socket.send(answer.to_string().into_bytes()).await;
            }
        } else {
            running.extend(message["id"].as_u64());
        }
    }
}

/// Responds to a cancelled request at once. Its work, which nobody stopped, responds again.
pub(crate) fn answers_twice(simulation: Simulation, is_wrong: bool) {
    let script =
        Script::new(Config::server(Dialect::LSP_3_17)).request("work", json!({})).cancels(1);
    let mistakes = Mistakes { work_goes_on: is_wrong, answers_cancelled: true };
    simulation
        .serve_messages(script, move |socket| serve(socket, "$/cancelRequest", "id", mistakes));
}

/// Responds to a cancelled request in MCP, which wants silence.
pub(crate) fn answers_cancelled(simulation: Simulation, is_wrong: bool) {
    let script =
        Script::new(Config::server(Dialect::MCP_2025_11_25)).request("work", json!({})).cancels(1);
    let mistakes = Mistakes { work_goes_on: false, answers_cancelled: is_wrong };
    simulation.serve_messages(script, move |socket| {
        serve(socket, "notifications/cancelled", "requestId", mistakes)
    });
}

/// Cancels a call of its own twice.
pub(crate) fn cancels_twice(simulation: Simulation, is_wrong: bool) {
    let script = work(1).cancels(1);
    simulation.serve_messages(script, async move |mut socket: Socket| {
        let mut id = Value::Null;
        while let Some(Ok(message)) = socket.next().await {
            let message: Value = serde_json::from_slice(&message).expect("the peer writes JSON");
            let mut answers = Vec::new();
            if message["method"] == "work" {
                id = message["id"].clone();
                answers.push(json!({"jsonrpc": "2.0", "id": "c", "method": "confirm"}));
            } else if message["method"] == "$/cancel_request" {
                let params = json!({"requestId": "c"});
                let cancel =
                    json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params});
                answers.extend(std::iter::repeat_n(cancel, 1 + usize::from(is_wrong)));
            } else if message["id"] == "c" {
                answers.push(json!({"jsonrpc": "2.0", "id": id, "result": "done"}));
            }
            for answer in answers {
                let _ = socket.send(answer.to_string().into_bytes()).await;
            }
        }
    });
}

/// Works until a peer that has gone comes back.
pub(crate) fn outlives_its_peer(simulation: Simulation, is_wrong: bool) {
    simulation.serve(work(1), move |incoming| {
        each(incoming, move |_, responder| async move {
            let peer = responder.peer();
            responder.cast().respond("done");
            while !peer.is_closed() || is_wrong {
                simulation.sleep(Duration::from_secs(1)).await;
            }
        })
    });
}

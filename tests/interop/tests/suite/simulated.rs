//! Servers written with other libraries, in the simulation of `protocol_testkit`: it finds real bugs in them.

use std::io;
use std::pin::pin;
use std::thread;
use std::time::Duration;

use agent_client_protocol::role::UntypedRole;
use agent_client_protocol::{
    ConnectionTo, Error, Lines, Responder, UntypedMessage, on_receive_request,
};
use crossbeam_channel::{Select, bounded, unbounded};
use futures_util::future::{Either, join3, select};
use futures_util::{SinkExt, StreamExt, sink, stream};
use lsp_server::{Connection, Message, Response};
use protocol_core::{Config, Dialect, Framing};
use protocol_testkit::framed;
use protocol_testkit::simulate::{
    Bound, Fault, Script, Simulation, Socket, try_every_order, try_simulate,
};
use serde_json::json;
use tokio::sync::mpsc::unbounded_channel;

/// An agent on the SDK of ACP. Its one request works for a minute, or until it is cancelled: where it was
/// called, or in a task of the SDK's.
async fn agent(socket: Socket, waits_inline: bool) {
    let (mut to_peer, mut from_peer) = socket.split();
    let (to_agent, arriving) = unbounded_channel::<io::Result<String>>();
    let (from_agent, mut leaving) = unbounded_channel::<String>();
    let incoming = stream::unfold(arriving, async |mut it| Some((it.recv().await?, it)));
    let outgoing = sink::unfold(from_agent, async |it, line| {
        it.send(line).map(|()| it).map_err(io::Error::other)
    });
    let served = UntypedRole
        .builder()
        .on_receive_request(
            async move |_: UntypedMessage, responder: Responder, cx: ConnectionTo<UntypedRole>| {
                let wait = async move {
                    let work = Simulation.sleep(Duration::from_secs(60));
                    match select(pin!(responder.cancellation().cancelled()), work).await {
                        Either::Left(_) => responder.respond_with_error(Error::request_cancelled()),
                        Either::Right(_) => responder.respond(json!("done")),
                    }
                };
                if waits_inline { wait.await } else { cx.spawn(wait) }
            },
            on_receive_request!(),
        )
        .connect_to(Lines::new(Box::pin(outgoing), Box::pin(incoming)));
    let reading = async move {
        while let Some(Ok(message)) = from_peer.next().await {
            let _ = to_agent.send(String::from_utf8(message).map_err(io::Error::other));
        }
    };
    let writing = async move {
        while let Some(line) = leaving.recv().await {
            let _ = to_peer.send(line.into_bytes()).await;
        }
    };
    let _ = join3(served, reading, writing).await;
}

fn acp(simulation: Simulation, waits_inline: bool) {
    let script = Script::new(Config::server(Dialect::ACP_V1)).request("work", json!({})).cancels(1);
    simulation.serve_messages(script, move |socket| agent(socket, waits_inline));
}

#[test]
fn b06_the_acp_sdk_never_sees_the_cancel_of_a_handler_that_waits_for_it_where_it_was_called() {
    let failure = try_every_order(Bound::steps(40), |simulation| acp(simulation, true));
    let failure = failure.expect_err("its one loop waits for the handler");
    assert_eq!(failure.fault, Fault::IgnoredCancel, "{failure}");
}

#[test]
fn nothing_is_found_in_the_acp_sdk_where_the_handler_waits_in_a_task() {
    let searched = try_every_order(Bound::steps(40), |simulation| acp(simulation, false));
    assert!(searched.unwrap_or_else(|failure| panic!("{failure}")).is_exhausted);
    let ran = try_simulate(0..200, |simulation| acp(simulation, false));
    ran.unwrap_or_else(|failure| panic!("{failure}"));
}

/// The loop of a language server, as those of `lsp-server` are written: it blocks.
fn main_loop(connection: &Connection) {
    for message in &connection.receiver {
        if let Message::Request(request) = message {
            let answer = Response::new_ok(request.id, json!("done"));
            connection.sender.send(answer.into()).expect("whoever writes lives longer");
        }
    }
}

/// Runs that loop, on its thread. It gets a message, and goes on until it asks for the next: meanwhile
/// nobody else does anything, so the order of everything is the simulation's.
async fn language_server(mut socket: Socket) {
    let ((input, receiver), (sender, output)) = (bounded(0), unbounded());
    let serving = thread::spawn(move || main_loop(&Connection { sender, receiver }));
    while let Some(Ok(message)) = socket.next().await {
        // As the thread that reads does, which ends at the first error.
        let bytes = framed(&message, Framing::ContentLength);
        let Ok(Some(message)) = Message::read(&mut &*bytes) else { break };
        input.send(message).expect("the loop asks for it");
        let mut asks = Select::new();
        asks.send(&input);
        asks.ready();
        for answer in output.try_iter() {
            let _ = socket.send(written(&answer)).await;
        }
    }
    drop(input);
    serving.join().expect("the loop ends");
}

/// A message without its framing.
fn written(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.clone().write(&mut bytes).expect("there is room");
    let start = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("it is framed") + 4;
    bytes.split_off(start)
}

fn lsp(simulation: Simulation, hostile: usize) {
    let script = Script::new(Config::server(Dialect::LSP_3_17))
        .request("work", json!({}))
        .cancels(1)
        .hostile(hostile);
    simulation.serve_messages(script, language_server);
}

#[test]
fn b15_lsp_server_takes_a_request_of_an_odd_id_for_a_notification() {
    let failure = try_every_order(Bound::steps(40), |simulation| lsp(simulation, 1));
    let failure = failure.expect_err("nobody answers it");
    let odd = "peer sends Request with id null".to_owned();
    assert_eq!(failure.fault, Fault::Unanswered, "{failure}");
    assert!(failure.history.contains(&odd), "{failure}");
}

#[test]
fn nothing_is_found_in_a_loop_on_lsp_server_whose_peer_is_honest() {
    let searched = try_every_order(Bound::steps(40), |simulation| lsp(simulation, 0));
    assert!(searched.unwrap_or_else(|failure| panic!("{failure}")).is_exhausted);
    let ran = try_simulate(0..200, |simulation| lsp(simulation, 0));
    ran.unwrap_or_else(|failure| panic!("{failure}"));
}

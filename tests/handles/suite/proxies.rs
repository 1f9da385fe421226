//! Hops: the messages that a proxy forwards, and those that it keeps to itself.

use protocol_async::{CallError, Failure, Peer, SentRequest};
use protocol_core::{Cause, WireId};

use super::{
    Router, Shared, acp, against_far, cancel_line, cancelled_line, error_line, notification_line,
    pair, request, request_line, result_line, run, spawn,
};
use crate::pipe::ENDLESS;

#[test]
fn b25_forward_response_to_forwards_the_answer_and_the_cancel() {
    run(async {
        let (_up, incoming, mut client) = against_far(acp(), ENDLESS);
        let (down, _, mut server) = against_far(acp(), ENDLESS);
        // Ids differ on the two hops.
        down.call::<()>("first", ()).detach();
        server.expect(&request_line(1, "first")).await;
        client.send(&[&request_line(7, "slow"), &request_line(8, "quick")]).await;
        for id in [2, 3] {
            let (received, responder) = request(&incoming).await;
            let sent: SentRequest = down.call(&received.method, ());
            sent.forward_response_to(responder);
            server.expect(&request_line(id, &received.method)).await;
        }
        client.send(&[&cancel_line(7)]).await;
        server.expect(&cancel_line(2)).await;
        server.send(&[&error_line(3, -5, "no"), &result_line(2, "\"partial\"")]).await;
        client.expect(&error_line(8, -5, "no")).await;
        client.expect(&result_line(7, "\"partial\"")).await;
    });
}

#[test]
fn b25_send_proxied_forwards_all_but_raw_cancels() {
    run(async {
        let mut config = acp();
        config.show_raw_cancels = true;
        let (_up, incoming, mut client) = against_far(config, ENDLESS);
        let (down, _, mut server) = against_far(acp(), ENDLESS);
        spawn(async move {
            while let Ok(arrival) = incoming.receive().await {
                down.send_proxied(arrival).unwrap();
            }
        });
        client.send(&[&notification_line("n"), &request_line(7, "slow")]).await;
        server.expect(&notification_line("n")).await;
        server.expect(&request_line(1, "slow")).await;
        client.send(&[&cancel_line(7), &notification_line("$/other")]).await;
        server.expect(&cancel_line(1)).await;
        server.expect(&notification_line("$/other")).await;
        server.send(&[&cancelled_line(1)]).await;
        client.expect(&cancelled_line(7)).await;
    });
}

#[test]
fn g06_forward_cancellation_from_with_handling_of_its_own() {
    run(async {
        let (_up, incoming, mut client) = against_far(acp(), ENDLESS);
        let (down, _, mut server) = against_far(acp(), ENDLESS);
        client.send(&[&request_line(7, "slow")]).await;
        let (_, responder) = request(&incoming).await;
        let responder = responder.cast::<String>();
        down.call::<String>("slow", ())
            .forward_cancellation_from(&responder.cancellation())
            .on_result(|result| responder.respond_with_result(result.map(|text| text + "!")));
        server.expect(&request_line(1, "slow")).await;
        client.send(&[&cancel_line(7)]).await;
        server.expect(&cancel_line(1)).await;
        server.send(&[&result_line(1, "\"done\"")]).await;
        client.expect(&result_line(7, "\"done!\"")).await;
    });
}

#[test]
fn g06_without_forwarding_the_cancel_is_absorbed() {
    run(async {
        let (_up, incoming, mut client) = against_far(acp(), ENDLESS);
        let (down, _, mut server) = against_far(acp(), ENDLESS);
        client.send(&[&request_line(7, "slow")]).await;
        let (_, responder) = request(&incoming).await;
        let sent = down.call::<u8>("slow", ());
        server.expect(&request_line(1, "slow")).await;
        client.send(&[&cancel_line(7)]).await;
        responder.cancellation().cancelled().await;
        server.send(&[&result_line(1, "4")]).await;
        responder.cast().respond_with_result(sent.await);
        client.expect(&result_line(7, "4")).await;
        down.try_notify("end", ()).unwrap();
        server.expect(&notification_line("end")).await;
    });
}

#[test]
fn g06_send_cancel_request_names_any_id() {
    run(async {
        let (peer, _incoming, mut far) = against_far(acp(), ENDLESS);
        peer.send_cancel_request(&WireId::from_json("\"x\"").unwrap()).unwrap();
        far.expect(r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"x"}}"#)
            .await;
    });
}

/// Client -> server, whose handler calls the client back: the cancel goes there and back again.
#[test]
fn g06_a_cancel_cascades_through_nested_calls() {
    run(async {
        let ((client, client_incoming), (_server, server_incoming)) = pair();
        let (told, causes) = smol::channel::unbounded();
        let begun = Shared::new(told.clone());
        spawn(async move {
            let router = Router::new().request("ask", async move |(): (), cx| {
                begun.try_send(None).unwrap();
                begun.try_send(Some(cx.cancellation().cancelled().await)).unwrap();
                Err::<(), _>(Failure::Cancelled)
            });
            router.serve(&client_incoming).await;
        });
        spawn(async move {
            let router = Router::new()
                .request("outer", async |(): (), cx| Ok(cx.call::<u8>("ask", ()).await?));
            router.serve(&server_incoming).await;
        });
        let outer = client.call::<u8>("outer", ());
        assert_eq!(causes.recv().await.unwrap(), None);
        outer.cancel();
        assert_eq!(causes.recv().await.unwrap(), Some(Cause::Peer));
        assert!(matches!(outer.await, Err(CallError::Cancelled { cause: Cause::Caller, .. })));
    });
}

/// Two proxies that forward to each other, cancelled from both ends at once: no lock is taken while
/// another is held.
#[test]
fn b07_connections_that_forward_to_each_other_never_wait_for_each_other() {
    run(async {
        let ((west, west_incoming), (inner_west, inner_west_incoming)) = pair();
        let ((inner_east, inner_east_incoming), (east, east_incoming)) = pair();
        forward(inner_west_incoming, inner_east);
        forward(inner_east_incoming, inner_west);
        serve(west_incoming);
        serve(east_incoming);
        let (done, both) = smol::channel::unbounded();
        for peer in [west, east] {
            let done = done.clone();
            spawn(async move {
                storm(&peer).await;
                done.send(()).await.unwrap();
            });
        }
        both.recv().await.unwrap();
        both.recv().await.unwrap();
    });
}

fn forward(from: protocol_async::Incoming, to: Peer) {
    spawn(async move {
        while let Ok(arrival) = from.receive().await {
            to.send_proxied(arrival).unwrap();
        }
    });
}

fn serve(incoming: protocol_async::Incoming) {
    spawn(async move {
        let router = Router::new().request("echo", async |n: Vec<u32>, cx| {
            if n[0] % 3 == 0 {
                cx.cancellation().cancelled().await;
            }
            Ok(n)
        });
        router.serve(&incoming).await;
    });
}

async fn storm(peer: &Peer) {
    for round in 0..20_u32 {
        let calls: Vec<_> = (0..30).map(|n| peer.call::<Vec<u32>>("echo", [n + round])).collect();
        for (n, call) in calls.into_iter().enumerate() {
            match n % 5 {
                0 => drop(call),
                1 => call.on_result(drop),
                _ => {
                    call.cancel();
                    // Answered, cancelled on the way, or withdrawn: settled.
                    let _ = call.await;
                }
            }
        }
    }
}

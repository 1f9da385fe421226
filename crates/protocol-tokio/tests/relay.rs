//! The relay's driver: chains of it over pipes that hold next to nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use protocol_async::Arrival;
use protocol_async::CallError;
use protocol_async::relay::Options;
use protocol_core::{Config, Dialect};
use protocol_router::Router;
use protocol_tokio::{connect, relay};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex, split,
};
use tokio::task::JoinHandle;
use tokio::time::timeout;

type Ended = std::io::Result<()>;

/// Puts a relay before a stream, and gives the stream before the relay.
fn put_before(
    stream: DuplexStream,
    up: Dialect,
    down: Dialect,
    pipe: usize,
) -> (DuplexStream, JoinHandle<Ended>) {
    let (near, far) = duplex(pipe);
    let options = Options::new(Config::server(up), Config::client(down));
    (near, tokio::spawn(relay(split(far), split(stream), options)))
}

#[tokio::test]
async fn g06_b25_calls_settle_through_pipes_that_hold_sixteen_bytes() {
    let dialects = [Dialect::LSP_3_17, Dialect::ACP_V1, Dialect::LSP_3_17, Dialect::ACP_V1];
    let (mut stream, server) = duplex(16);
    let (reader, writer) = split(server);
    let (_peer, incoming, driver) = connect(reader, writer, Config::server(dialects[3].clone()));
    tokio::spawn(driver);
    let served = tokio::spawn(async move {
        let router = Router::new()
            .request("wait", async |(): (), cx| {
                cx.cancellation().cancelled().await;
                Err::<(), _>(protocol_async::Failure::Cancelled)
            })
            .request("echo", async |(number,): (u32,), _| Ok(number));
        router.serve(&incoming).await
    });
    let mut relays = Vec::new();
    for hop in dialects.windows(2).rev() {
        let (near, relay) = put_before(stream, hop[0].clone(), hop[1].clone(), 16);
        stream = near;
        relays.push(relay);
    }

    let (reader, writer) = split(stream);
    let (peer, client, driver) = connect(reader, writer, Config::client(dialects[0].clone()));
    let driver = tokio::spawn(driver);
    let calls: Vec<_> = (0..100_u32)
        .map(|number| {
            let peer = peer.clone();
            tokio::spawn(async move {
                let echoed = peer.call::<u32>("echo", (number,)).await.unwrap();
                assert_eq!(echoed, number);
                let waiting = peer.call::<()>("wait", ());
                let handle = waiting.cancellation_handle();
                if number % 2 == 0 {
                    tokio::task::yield_now().await;
                }
                handle.cancel();
                let cancelled = waiting.await.unwrap_err();
                assert!(matches!(cancelled, CallError::Cancelled { .. }), "{cancelled}");
            })
        })
        .collect();
    let all = async {
        for call in calls {
            call.await.unwrap();
        }
        drop((peer, client));
        driver.await.unwrap().unwrap();
        for relay in relays {
            relay.await.unwrap().unwrap();
        }
        served.await.unwrap();
    };
    timeout(Duration::from_secs(60), all).await.unwrap();
}

#[tokio::test]
async fn g03_cancels_pass_while_the_client_does_not_read() {
    timeout(Duration::from_secs(60), cancels_pass()).await.expect("every cancel has passed");
}

async fn cancels_pass() {
    const REQUESTS: usize = 1_000;
    let (stream, server) = duplex(1 << 10);
    let (mut client, relay) = put_before(stream, Dialect::ACP_V1, Dialect::ACP_V1, 1 << 10);
    let (reader, writer) = split(server);
    let (peer, incoming, driver) = connect(reader, writer, Config::server(Dialect::ACP_V1));
    tokio::spawn(driver);

    // More than the pipe to the client holds, so that its relay can't write to it any more.
    for _ in 0..1_000 {
        peer.try_notify("log", ("something",)).unwrap();
    }
    for id in 0..REQUESTS {
        let request = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"wait\"}}\n");
        client.write_all(request.as_bytes()).await.unwrap();
    }
    let mut responders = Vec::new();
    while responders.len() < REQUESTS {
        if let Arrival::Request(_, responder) = incoming.receive().await.unwrap() {
            responders.push(responder);
        }
    }
    for id in 0..REQUESTS {
        let cancel = format!(
            "{{\"jsonrpc\":\"2.0\",\"method\":\"$/cancel_request\",\"params\":{{\"requestId\":{id}}}}}\n"
        );
        client.write_all(cancel.as_bytes()).await.unwrap();
    }
    for responder in responders {
        responder.cancellation().cancelled().await;
        // Dropping it answers it.
    }

    let mut lines = BufReader::new(&mut client).lines();
    let mut answers = 0;
    while answers < REQUESTS {
        let line = lines.next_line().await.unwrap().unwrap();
        answers += usize::from(line.contains("-32800"));
    }
    drop((peer, incoming));
    client.shutdown().await.unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"", "each is answered once");
    relay.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn g12_a_server_that_never_answers_does_not_keep_the_relay_for_ever() {
    let (stream, mut server) = duplex(1 << 10);
    let (mut client, relay) = put_before(stream, Dialect::ACP_V1, Dialect::LSP_3_17, 1 << 10);
    client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"wait\"}\n").await.unwrap();
    let mut first = [0; 8];
    server.read_exact(&mut first).await.unwrap();
    client.shutdown().await.unwrap();
    timeout(Duration::from_secs(60), relay).await.unwrap().unwrap().unwrap();
    let mut answers = String::new();
    client.read_to_string(&mut answers).await.unwrap();
    assert!(answers.contains("-32800"), "{answers}");
    let mut rest = String::new();
    server.read_to_string(&mut rest).await.unwrap();
    assert!(rest.ends_with(r#"{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}"#));
}

/// A client that has closed and reads nothing keeps the relay as long as patience lasts, and no longer.
#[tokio::test(start_paused = true)]
async fn g08_a_client_that_never_reads_does_not_keep_the_relay_for_ever() {
    let (stream, mut server) = duplex(1 << 10);
    let (mut client, relay) = put_before(stream, Dialect::ACP_V1, Dialect::ACP_V1, 64);
    client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"bulk\"}\n").await.unwrap();
    let mut request = String::new();
    BufReader::new(&mut server).read_line(&mut request).await.unwrap();
    let bulk = "x".repeat(100_000);
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{bulk}\"}}\n");
    server.write_all(answer.as_bytes()).await.unwrap();
    client.shutdown().await.unwrap();

    let begun = tokio::time::Instant::now();
    let ended = timeout(Duration::from_secs(60), relay).await.expect("it is not kept").unwrap();
    assert_eq!(begun.elapsed().as_secs(), 5, "patience is five seconds");
    // What it did not read is lost (F69).
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn g07_the_end_reaches_the_server_while_the_client_does_not_read() {
    let (stream, mut server) = duplex(1 << 12);
    let (mut client, relay) = put_before(stream, Dialect::ACP_V1, Dialect::ACP_V1, 64);
    client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"bulk\"}\n").await.unwrap();
    let mut request = String::new();
    BufReader::new(&mut server).read_line(&mut request).await.unwrap();
    let bulk = "x".repeat(1_000);
    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{bulk}\"}}\n");
    server.write_all(answer.as_bytes()).await.unwrap();
    // The clock stands still until nothing else moves: the answer is stuck in the small pipe now.
    tokio::time::sleep(Duration::from_secs(1)).await;
    client.shutdown().await.unwrap();
    let mut rest = String::new();
    let ended = timeout(Duration::from_secs(60), server.read_to_string(&mut rest)).await;
    ended.expect("the server reads the end").unwrap();
    assert_eq!(rest, "");
    let mut answered = String::new();
    client.read_to_string(&mut answered).await.unwrap();
    assert_eq!(answered, answer.replace("\"id\":1", "\"id\":7"));
    relay.await.unwrap().unwrap();
}

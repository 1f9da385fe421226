//! Sockets and child processes.

#![cfg(unix)]

use std::process::Command;
use std::time::Duration;

use protocol_async::{CallError, Options};
use protocol_core::{Cause, Config, Dialect, Shutdown};
use protocol_router::Router;
use protocol_tokio::ChildCommand;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

fn acp() -> Config {
    Config::client(Dialect::ACP_V1)
}

#[tokio::test]
async fn g05_a_call_over_tcp_is_cancelled() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let config = Config::server(Dialect::ACP_V1);
    let server = protocol_tokio::tcp(listener.accept().await.unwrap().0, config).unwrap();
    tokio::spawn(async move {
        let router = Router::new().request("slow", async |(): (), cx| {
            cx.cancellation().unless_cancelled(std::future::pending::<()>()).await?;
            Ok(())
        });
        router.serve(&server.incoming).await
    });
    let client = protocol_tokio::tcp(near, acp()).unwrap();
    let sent = client.peer.call::<()>("slow", ());
    client.peer.flushed().await;
    sent.cancel();
    assert!(matches!(sent.await, Err(CallError::Cancelled { cause: Cause::Caller, .. })));
}

#[tokio::test]
async fn g07_the_end_is_sent_when_every_handle_is_dropped() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let mut far = listener.accept().await.unwrap().0;
    let client = protocol_tokio::tcp(near, acp()).unwrap();
    client.peer.try_notify("last", ()).unwrap();
    drop((client.peer, client.incoming));
    let mut all = String::new();
    // Our own half stays open meanwhile.
    far.read_to_string(&mut all).await.unwrap();
    assert_eq!(all, "{\"jsonrpc\":\"2.0\",\"method\":\"last\"}\n");
    drop(far);
    client.driver.await.unwrap().unwrap();
}

#[tokio::test]
async fn g06_the_last_response_arrives_though_the_client_says_more() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let config = Config::server(Dialect::ACP_V1);
    let server = protocol_tokio::tcp(listener.accept().await.unwrap().0, config).unwrap();
    tokio::spawn(async move {
        let router = Router::new().request("big", async |(): (), _cx| Ok("x".repeat(1 << 20)));
        router.serve(&server.incoming).await
    });
    near.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"big\"}\n").await.unwrap();
    near.readable().await.unwrap();
    server.peer.shutdown(Shutdown::Drain);
    server.peer.closed().await;
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        near.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"more\"}\n").await.unwrap();
    }
    let mut all = Vec::new();
    near.read_to_end(&mut all).await.unwrap();
    assert!(all.len() > 1 << 20, "{}", all.len());
    drop(near);
    server.driver.await.unwrap().unwrap();
}

#[tokio::test]
async fn g06_a_peer_that_is_given_up_is_not_waited_for() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let _near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let mut options = Options::new(acp());
    options.patience = Duration::from_secs(3_600);
    let client = protocol_tokio::tcp(listener.accept().await.unwrap().0, options).unwrap();
    client.peer.shutdown(Shutdown::Abandon);
    client.driver.await.unwrap().unwrap();
}

#[tokio::test]
async fn g07_a_child_ends_with_its_input() {
    let child = protocol_tokio::child(Command::new("cat"), acp()).unwrap();
    // cat says back what we say: a request, which nobody here serves, and then our own refusal.
    drop(child.incoming);
    let sent = child.peer.call::<()>("echo", ());
    assert!(matches!(sent.await, Err(CallError::Error(error)) if error.code == -32601));
    drop(child.peer);
    assert!(child.process.exit().await.unwrap().success());
}

#[tokio::test]
async fn g07_a_child_that_does_not_end_is_killed_after_the_grace() {
    let mut command = Command::new("sleep");
    command.arg("1000");
    let grace = Duration::from_millis(50);
    let begun = Instant::now();
    let child = protocol_tokio::child(ChildCommand::new(command).grace(grace), acp()).unwrap();
    drop((child.peer, child.incoming));
    let exit = timeout(Duration::from_secs(20), child.process.exit()).await.expect("it is killed");
    assert!(!exit.unwrap().success());
    assert!(begun.elapsed() >= grace);
}

/// A child that is stuck and reads nothing, with more unwritten than a pipe holds.
#[tokio::test]
async fn g08_a_child_that_reads_nothing_is_killed_too() {
    let mut command = Command::new("sleep");
    command.arg("1000");
    let mut options = Options::new(acp());
    options.patience = Duration::from_millis(50);
    let command = ChildCommand::new(command).grace(Duration::from_millis(50));
    let child = protocol_tokio::child(command, options).unwrap();
    child.peer.try_notify("bulk", ["x".repeat(1 << 20)]).unwrap();
    drop((child.peer, child.incoming));
    let exit = timeout(Duration::from_secs(20), child.process.exit()).await.expect("it is killed");
    assert!(!exit.unwrap().success());
}

/// Only the followers of a marker keep it.
#[tokio::test]
async fn f33_a_token_cancels_through_a_marker_that_nobody_keeps() {
    let token = tokio_util::sync::CancellationToken::new();
    let (near, far) = tokio::net::UnixStream::pair().unwrap();
    let client = protocol_tokio::unix(near, acp());
    let sent = client.peer.call::<()>("slow", ());
    let _sent = sent.forward_cancellation_from(&protocol_tokio::marker_of(&token));
    let there_and_back = protocol_tokio::token_of(&protocol_tokio::marker_of(&token));
    let mut lines = BufReader::new(far).lines();
    assert!(lines.next_line().await.unwrap().unwrap().contains("slow"));
    token.cancel();
    let cancel = timeout(Duration::from_secs(20), lines.next_line()).await.expect("it is sent");
    assert!(cancel.unwrap().unwrap().contains("$/cancel_request"));
    there_and_back.cancelled().await;
}

#[tokio::test]
async fn g05_markers_and_tokens_are_converted_both_ways() {
    let canceller = protocol_async::Canceller::new();
    let token = protocol_tokio::token_of(&canceller.marker());
    assert!(!token.is_cancelled());
    canceller.cancel(Cause::Caller);
    token.cancelled().await;

    let token = tokio_util::sync::CancellationToken::new();
    let marker = protocol_tokio::marker_of(&token);
    drop(protocol_tokio::marker_of(&token));
    token.cancel();
    assert_eq!(marker.cancelled().await, Cause::Internal);
    assert_eq!(protocol_tokio::marker_of(&token).cause(), Some(Cause::Internal));
}

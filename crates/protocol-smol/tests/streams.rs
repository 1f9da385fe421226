//! Sockets and child processes.

#![cfg(unix)]

use std::process::Command;
use std::time::{Duration, Instant};

use protocol_async::{CallError, Options};
use protocol_core::{Config, Dialect};
use protocol_smol::ChildCommand;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream};

fn acp() -> Config {
    Config::client(Dialect::ACP_V1)
}

#[test]
fn g07_the_end_is_sent_when_every_handle_is_dropped() {
    smol::block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut far = listener.accept().await.unwrap().0;
        // A clone of ours keeps the socket open: the end must be sent all the same.
        let _kept = near.clone();
        let client = protocol_smol::tcp(near, acp()).unwrap();
        client.peer.try_notify("last", ()).unwrap();
        drop((client.peer, client.incoming));
        let mut all = String::new();
        far.read_to_string(&mut all).await.unwrap();
        assert_eq!(all, "{\"jsonrpc\":\"2.0\",\"method\":\"last\"}\n");
        drop(far);
        client.driver.await.unwrap();
    });
}

#[test]
fn g06_the_last_words_arrive_though_the_peer_says_more() {
    smol::block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let server = protocol_smol::tcp(listener.accept().await.unwrap().0, acp()).unwrap();
        server.peer.try_notify("last", ("x".repeat(1 << 20),)).unwrap();
        near.peek(&mut [0]).await.unwrap();
        drop((server.peer, server.incoming));
        for _ in 0..5 {
            smol::Timer::after(Duration::from_millis(10)).await;
            near.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"more\"}\n").await.unwrap();
        }
        let mut all = Vec::new();
        near.read_to_end(&mut all).await.unwrap();
        assert!(all.len() > 1 << 20, "{}", all.len());
        drop(near);
        server.driver.await.unwrap();
    });
}

#[test]
fn g07_a_child_ends_with_its_input() {
    smol::block_on(async {
        let child = protocol_smol::child(Command::new("cat"), acp()).unwrap();
        // cat says back what we say: a request, which nobody here serves, and then our own refusal.
        drop(child.incoming);
        let sent = child.peer.call::<()>("echo", ());
        assert!(matches!(sent.await, Err(CallError::Error(error)) if error.code == -32601));
        drop(child.peer);
        assert!(child.process.exit().await.unwrap().success());
    });
}

#[test]
fn g07_a_child_that_does_not_end_is_killed_after_the_grace() {
    smol::block_on(async {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let grace = Duration::from_millis(50);
        let begun = Instant::now();
        let child = protocol_smol::child(ChildCommand::new(command).grace(grace), acp()).unwrap();
        drop((child.peer, child.incoming));
        assert!(!child.process.exit().await.unwrap().success());
        assert!(begun.elapsed() >= grace);
    });
}

/// A child that is stuck and reads nothing, with more unwritten than a pipe holds.
#[test]
fn g08_a_child_that_reads_nothing_is_killed_too() {
    smol::block_on(async {
        let mut command = Command::new("sleep");
        command.arg("1000");
        let mut options = Options::new(acp());
        options.patience = Duration::from_millis(50);
        let command = ChildCommand::new(command).grace(Duration::from_millis(50));
        let child = protocol_smol::child(command, options).unwrap();
        child.peer.try_notify("bulk", ["x".repeat(1 << 20)]).unwrap();
        drop((child.peer, child.incoming));
        assert!(!child.process.exit().await.unwrap().success());
    });
}

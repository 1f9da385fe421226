//! W7: `protocol-tokio` and the hand-made loop on real pipes and Unix sockets, with the serving
//! side in a process of its own.
//!
//! - `speed MILLISECONDS`: every figure, with so much time for each
//! - `serve pipe|unix NAME`: the other process

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bench_harness::floor::Floor;
use bench_harness::handmade::{self, Framing};
use bench_harness::report::{self, number};
use bench_harness::{Client, Payload, Runtime, Size, Tokio, clock};
use protocol_async::{Arrival, Peer};
use protocol_core::{Config, Dialect};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};

const OURS: &str = "tokio";
const HANDMADE: &str = "hand-made loop";
const SLICES: usize = 7;

type Stream = (Box<dyn AsyncRead + Send + Unpin>, Box<dyn AsyncWrite + Send + Unpin>);

fn pipes(reader: OwnedFd, writer: OwnedFd) -> io::Result<Stream> {
    Ok((Box::new(Receiver::from_owned_fd(reader)?), Box::new(Sender::from_owned_fd(writer)?)))
}

fn socket(socket: StdUnixStream) -> io::Result<Stream> {
    socket.set_nonblocking(true)?;
    let (reader, writer) = UnixStream::from_std(socket)?.into_split();
    Ok((Box::new(reader), Box::new(writer)))
}

/// Starts the other process.
fn start(transport: &str, name: &str) -> io::Result<(Child, Stream)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["serve", transport, name]);
    if transport == "unix" {
        let (near, far) = StdUnixStream::pair()?;
        let child = command.stdin(Stdio::from(OwnedFd::from(far))).spawn()?;
        return Ok((child, socket(near)?));
    }
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let ends = child.stdout.take().zip(child.stdin.take());
    let (reader, writer) = ends.expect("both are piped");
    Ok((child, pipes(reader.into(), writer.into())?))
}

async fn serve(transport: &str, name: &str) -> io::Result<()> {
    let input = io::stdin().as_fd().try_clone_to_owned()?;
    let (reader, writer) = if transport == "unix" {
        socket(input.into())?
    } else {
        pipes(input, io::stdout().as_fd().try_clone_to_owned()?)?
    };
    if name == HANDMADE {
        handmade::serve(tokio::io::join(reader, writer)).await;
        return Ok(());
    }
    let connection = protocol_tokio::spawn(reader, writer, Config::server(Dialect::ACP_V1));
    while let Ok(arrival) = connection.incoming.receive().await {
        let Arrival::Request(request, responder) = arrival else { continue };
        responder.cast::<Payload>().respond_with_result(request.params::<Payload>());
    }
    Ok(())
}

#[derive(Clone)]
enum Caller {
    Ours(Peer),
    Handmade(handmade::Client),
}

impl Caller {
    async fn echo(&self, times: usize) {
        let payload = Size::Small.payload();
        for _ in 0..times {
            let params = payload.clone();
            let echoed = match self {
                Self::Ours(peer) => peer.call("bench/echo", params).await.expect("an echo"),
                Self::Handmade(client) => client.echo(params).await,
            };
            assert!(echoed == payload, "what comes back is what was sent");
        }
    }

    async fn echoes(&self, width: usize, total: usize) {
        let task = |_| {
            let caller = self.clone();
            Tokio::spawn(async move { caller.echo(total / width).await })
        };
        let tasks: Vec<_> = (0..width).map(task).collect();
        for task in tasks {
            task.await;
        }
    }
}

/// Nanoseconds of CPU time that the other process, of one thread, has used.
fn cpu_of(child: &Child) -> io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{}/schedstat", child.id()))?;
    let first = text.split_whitespace().next().and_then(|first| first.parse().ok());
    first.ok_or_else(|| io::Error::other("no time in schedstat"))
}

async fn one(transport: &str, name: &str, budget: Duration) -> io::Result<()> {
    let (mut child, (reader, writer)) = start(transport, name)?;
    let caller = if name == HANDMADE {
        let stream = tokio::io::join(reader, writer);
        Caller::Handmade(handmade::Client::connect::<Tokio>(stream, Framing::Line))
    } else {
        Caller::Ours(protocol_tokio::spawn(reader, writer, Config::client(Dialect::ACP_V1)).peer)
    };
    let figure = |metric: &str, value| {
        report::figure(name, &format!("w7.{transport}.{metric}"), value);
    };
    for width in [1, 64] {
        caller.echoes(width, 2048).await;
        let begun = clock::wall();
        caller.echoes(width, 2048).await;
        let step = (clock::wall() - begun) as f64 / 2048.0;
        let steps = (budget.as_nanos() as f64 / SLICES as f64 / step) as usize;
        let steps = (steps / width).max(1) * width;
        let mut least = f64::INFINITY;
        for _ in 0..SLICES {
            let before = clock::cpu() + cpu_of(&child)?;
            caller.echoes(width, steps).await;
            let took = clock::cpu() + cpu_of(&child)? - before;
            least = least.min(took as f64 / steps as f64);
        }
        figure(&format!("{width}.cpu_ns"), least);
    }
    let mut latencies = Vec::new();
    for _ in 0..5_000 {
        let begun = clock::wall();
        caller.echo(1).await;
        latencies.push(clock::wall() - begun);
    }
    figure("1.p50_ns", clock::percentile(&mut latencies, 0.5));
    child.kill()?;
    child.wait().map(drop)
}

fn main() -> io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", transport, name] => Tokio::block_on(serve(transport, name)),
        ["speed", milliseconds] => {
            let budget = Duration::from_millis(number(milliseconds) as u64);
            for name in [OURS, HANDMADE] {
                for transport in ["pipe", "unix"] {
                    Tokio::block_on(one(transport, name, budget))?;
                }
                let payload = Size::Small.payload();
                let mut floor = Floor::default();
                let cost = clock::cpu_per_step(budget, 1, |times| floor.echo(times, &payload));
                report::figure(name, "floor.scaling.cpu_ns", cost);
            }
            Ok(())
        }
        _ => panic!("asked for {arguments:?}; see the source for what there is to ask for"),
    }
}

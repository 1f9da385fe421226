//! `rescind relay --connect http://…`: a client on standard streams in front of a server of MCP over HTTP.

use std::io;
use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use std::future::pending;

use futures_util::future::join;
use protocol_async::{Options, Peer};
use protocol_core::{Config, Role, Shutdown};
use protocol_http::connect::{ClientOptions, Target, connect};
use protocol_relay::Side;
use protocol_tokio::TokioTimer;
use smol::io::AsyncRead;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::report::log;
use super::stdout::{Lost, Stdout};
use super::upstream::Upstream;
use super::{RelayArgs, summarize, traced};
use crate::address::Listen;
use crate::ending::{Ending, SHORT_GRACE};
use crate::http_client::{PATIENCE, reach};
use crate::record::Session;
use crate::terminal::{Line, say};
use crate::tls::Trust;
use crate::{exit, failure, input, output_error, usage_error};

/// Relays to the end of the client or of the server's session.
pub(super) fn run(args: &RelayArgs, address: &Listen) -> ExitCode {
    let Listen::Http(address) = address else {
        return usage_error("a relay connects to an http:// or https:// address");
    };
    if args.dialect.http_revisions().is_none() {
        return usage_error(
            "an http:// address is for --dialect mcp-http, or one of its revisions",
        );
    }
    if args.ca.is_some() && !address.is_secure {
        return usage_error("--ca is for https://");
    }
    if input::is_directory() {
        return usage_error("standard input is a directory");
    }
    let url = address.http_url();
    let started = args.clients.token().and_then(|it| Ok((it, args.record.start(Some(&url))?)));
    let (secret, recording) = match started {
        Ok(started) => started,
        Err(error) => return usage_error(error),
    };
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failure(exit::UNREACHABLE, format_args!("no runtime: {error}")),
    };
    let ending = Ending::catch("rescind relay", &recording);
    let trust = args.ca.clone().map_or(Trust::System, Trust::Only);
    let relayed: Result<_, String> = runtime.block_on(async {
        let way = reach(address, &trust, secret, PATIENCE).await?;
        Ok(relay(args, way, &ending, &recording).await)
    });
    // Its thread may be waiting for standard input for ever.
    runtime.shutdown_background();
    let recorded = recording.finish();
    match relayed {
        Err(error) => failure(exit::UNREACHABLE, error),
        Ok(relayed) => ended(args, relayed, recorded),
    }
}

/// The end of both connections.
struct Relayed {
    up: io::Result<()>,
    down: io::Result<()>,
    /// The error that kept responses from the client.
    lost: Lost,
}

/// Reports what ended other than it should, and returns the exit code.
fn ended(args: &RelayArgs, relayed: Relayed, recorded: Option<PathBuf>) -> ExitCode {
    if let Some(path) = recorded.filter(|_| !args.quiet) {
        summarize(&path);
    }
    if let Err(error) = &relayed.down {
        log(format_args!("the server: {error}"));
    }
    match (relayed.lost.get(), &relayed.up) {
        (Some(error), _) | (None, Err(error)) => output_error(error),
        (None, Ok(())) if relayed.down.is_err() => ExitCode::from(exit::ERROR),
        (None, Ok(())) => ExitCode::SUCCESS,
    }
}

async fn relay(
    args: &RelayArgs,
    (target, options): (Target, ClientOptions),
    ending: &Ending,
    recording: &Session,
) -> Relayed {
    let begun = Instant::now();
    let [up, down] =
        [Config::server(args.dialect.behind_http()), args.dialect.config(Role::Client)];
    let [up, down] = [(Side::Up, up), (Side::Down, down)].map(|(side, mut config)| {
        config.abandoned_grace = args.grace;
        let mut options = Options::new(config);
        options.trace = args.trace.then(|| traced(side, &options.config.dialect, begun));
        let name = if side == Side::Up { "client" } else { "server" };
        recording.connection(name, options)
    });
    let (lost, (end, input_ended)) = (Lost::default(), oneshot::channel());
    let input = Input { stream: protocol_tokio::stdin().compat(), end: Some(end) };
    let output = Stdout { stream: protocol_tokio::stdout().compat_write(), lost: lost.clone() };
    let (up, incoming, up_driver) = protocol_async::connect(input, output, TokioTimer::start(), up);
    let (down, server, down_driver) = connect(target, down, reported(options));
    let mut down_driver = tokio::spawn(down_driver);
    let (server, mut outcomes) = Upstream::new(down, server, args.guard.guard(), Some(up.clone()));

    let relayed = async {
        join(server.forward(&up, &incoming), async {
            server.pump(&mut outcomes).await;
            up.shutdown(Shutdown::CancelAll);
        })
        .await;
        // A request may have come just before the connection closed.
        server.pump(&mut outcomes).await;
        pending::<()>().await;
    };
    let over = async {
        end_of_client(args, &up, input_ended, ending).await;
        server.end(Shutdown::Abandon);
        pending::<()>().await;
    };
    let up = tokio::select! {
        over = up_driver => over,
        () = relayed => Ok(()),
        () = over => Ok(()),
    };
    server.end(Shutdown::CancelAll);
    let down = tokio::select! {
        over = &mut down_driver => over,
        () = within(args.grace, ending, SHORT_GRACE) => {
            server.end(Shutdown::Abandon);
            down_driver.await
        }
    };
    Relayed { up, down: down.unwrap_or_else(|error| Err(error.into())), lost }
}

/// Waits for the end of the client's input, or until the end is asked for. Then it lets requests in flight finish, and
/// cancels them. Returns when the server has had its time to respond to the cancels.
async fn end_of_client(
    args: &RelayArgs,
    up: &Peer,
    input_ended: oneshot::Receiver<()>,
    ending: &Ending,
) {
    tokio::select! {
        _ = input_ended => {
            up.shutdown(Shutdown::Drain);
            within(args.answer_after_end, ending, Duration::ZERO).await;
        }
        _ = ending.asked() => {}
    }
    up.shutdown(Shutdown::CancelAll);
    within(args.grace, ending, args.grace.min(SHORT_GRACE)).await;
}

/// Waits for a time, or for a shorter one once the end is asked for.
async fn within(time: Duration, ending: &Ending, shorter: Duration) {
    let shorter = async {
        ending.asked().await;
        sleep(shorter).await;
    };
    tokio::select! {
        () = sleep(time) => {}
        () = shorter => {}
    }
}

/// Reports what does not reach the server, and what does not come from it.
fn reported(mut options: ClientOptions) -> ClientOptions {
    options.untaken = Some(Arc::new(|message, why| {
        let line = Line::new().text("rescind relay: not taken by the server: ");
        say(line.value(message).text(format_args!(" ({why})")));
    }));
    options.unheard = Some(Arc::new(|why| {
        log(format_args!("the session's own stream is not read any more: {why}"));
    }));
    options
}

/// The input of a client, which reports its end. Nothing comes then, so that the client may still be responded to.
struct Input<R> {
    stream: R,
    end: Option<oneshot::Sender<()>>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Input<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.end.is_none() {
            return Poll::Pending;
        }
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        let (Ok(0), Some(first)) = (&read, buffer.first_mut()) else { return Poll::Ready(read) };
        // The last line may be without its end, and a request all the same.
        *first = b'\n';
        // Whoever waits for it may be gone.
        let _ = self.end.take().map(|end| end.send(()));
        Poll::Ready(Ok(1))
    }
}

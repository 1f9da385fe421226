//! `rescind relay --connect http://…`: a client on standard streams in front of a server of MCP or ACP over HTTP.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use futures_util::future::{Either, join3, maybe_done, select};
use protocol_async::{Options, Peer};
use protocol_core::{Config, Shutdown};
use protocol_http::connect::{ClientOptions, Target, connect};
use protocol_relay::Side;
use protocol_tokio::TokioTimer;
use smol::io::AsyncRead;
use tokio::io::{AsyncReadExt, simplex};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{sleep, timeout};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};
use tokio_util::io::InspectReader;

use super::args::RelayArgs;
use super::report::{log, summarize, traced};
use super::stdout::{Lost, Stdout};
use super::upstream::Upstream;
use crate::address::Address;
use crate::ending::{Ending, SHORT_GRACE};
use crate::exit::{self, Exit};
use crate::http_client::{PATIENCE, reach, rules_of};
use crate::input;
use crate::record::Session;
use crate::terminal::{Line, say};
use crate::tls::Trust;

/// Relays to the end of the client or of the server's session, if the server there takes a connection now.
pub(super) fn run(args: &RelayArgs, address: &Address) -> Result<ExitCode, Exit> {
    if !address.is_http {
        return Err("a relay connects to an http:// or https:// address".into());
    }
    args.dialect.http_revisions()?;
    let trust = Trust::of(args.ca.as_deref(), address)?;
    input::check_standard()?;
    let dialect = &args.dialect.dialect;
    let url = address.of_rules(rules_of(dialect)).to_string();
    let secret = args.clients.token()?;
    // A query may hold a secret.
    let recording = args.record.start(url.split('?').next())?;
    let ending = Ending::catch("rescind relay", &recording);
    let opened = crate::connect::open(reach(address, dialect, &trust, secret, PATIENCE));
    let relayed = opened.map(|(runtime, (target, options))| {
        let relayed = runtime.block_on(relay(args, target, options, &recording, &ending));
        // Its thread may be waiting for standard input for ever.
        runtime.shutdown_background();
        relayed
    });
    if let Some(path) = recording.finish().filter(|_| !args.quiet) {
        summarize(&path);
    }
    let [up, down] = relayed.map_err(|error| Exit::new(exit::UNREACHABLE, error))?;
    if let Err(error) = &down {
        log(format_args!("the server: {error}"));
    }
    up.map_err(Exit::output)?;
    Ok(if down.is_err() { exit::ERROR } else { 0 }.into())
}

/// Returns how the connections to the client and to the server ended.
async fn relay(
    args: &RelayArgs,
    target: Target,
    options: ClientOptions,
    recording: &Session,
    ending: &Ending,
) -> [io::Result<()>; 2] {
    let (grace, begun) = (args.grace, Instant::now());
    let endpoint = |side, name, mut config: Config| {
        config.abandoned_grace = grace;
        let trace = args.trace.then(|| traced(side, &config.dialect, begun));
        let mut options = Options::new(config);
        options.trace = trace;
        recording.connection(name, options)
    };
    let up = endpoint(Side::Up, "client", Config::server(args.dialect.behind_http()));
    let down = endpoint(Side::Down, "server", Config::client(args.dialect.dialect.clone()));
    let (input, input_ended) = input();
    let lost = Lost::default();
    let output = Stdout { stream: protocol_tokio::stdout().compat_write(), lost: lost.clone() };
    let (up, incoming, up_driver) = protocol_async::connect(input, output, TokioTimer::start(), up);
    let (down, server, down_driver) = connect(target, down, reported(options));
    let down_driver = tokio::spawn(down_driver);
    let server = Upstream::new(down, server, args.guard.guard(), Some(up.clone()));

    let mut forwarded = pin!(maybe_done(server.forward(&up, &incoming)));
    let pumped = async {
        server.pump().await;
        up.shutdown(Shutdown::CancelAll);
    };
    let end = end(args, &up, &server, input_ended, ending);
    let over = tokio::select! {
        over = up_driver => over,
        ((), (), never) = join3(forwarded.as_mut(), pumped, end) => match never {},
    };
    // The last notifications of the client have come just now, or wait for room.
    let late = pin!(within(args.answer_after_end, ending, Duration::ZERO));
    if let Either::Right(_) = select(forwarded, late).await {
        log("the last notifications of the client were dropped: the server had no room for them");
    }
    let down = finish(&server, down_driver, within(grace, ending, SHORT_GRACE)).await;
    // The error that kept responses from the client comes first.
    let up = Arc::into_inner(lost).and_then(OnceLock::into_inner).map_or(over, Err);
    [up, down.unwrap_or_else(|error| Err(error.into()))]
}

/// Ends what is in flight once the input is over, or the end is asked for.
async fn end(
    args: &RelayArgs,
    up: &Peer,
    server: &Upstream,
    input_ended: oneshot::Receiver<()>,
    ending: &Ending,
) -> Infallible {
    let grace = args.grace;
    tokio::select! {
        _ = input_ended => {
            up.shutdown(Shutdown::Drain);
            within(args.answer_after_end, ending, Duration::ZERO).await;
        }
        _ = ending.asked() => {}
    }
    up.shutdown(Shutdown::CancelAll);
    within(grace, ending, grace.min(SHORT_GRACE)).await;
    // Requests without a response of the server get one from us.
    server.peer.shutdown(Shutdown::Abandon);
    pending().await
}

/// Ends the connection to the server and waits for its end. It is abandoned once it `is_late`.
async fn finish<T>(
    server: &Upstream,
    mut driver: JoinHandle<T>,
    is_late: impl Future<Output = ()>,
) -> Result<T, JoinError> {
    server.peer.shutdown(Shutdown::CancelAll);
    tokio::select! {
        over = &mut driver => over,
        () = is_late => {
            server.peer.shutdown(Shutdown::Abandon);
            driver.await
        }
    }
}

/// Waits for a time, or for a shorter one once the end is asked for.
async fn within(time: Duration, ending: &Ending, shorter: Duration) {
    let shorter = async {
        ending.asked().await;
        sleep(shorter).await;
    };
    let _ = timeout(time, shorter).await;
}

/// Reports what does not reach the server, and what does not come from it.
fn reported(mut options: ClientOptions) -> ClientOptions {
    options.trouble = Some(Arc::new(|message, why| {
        let Some(message) = message else {
            return log(format_args!("the session's own stream is not read any more: {why}"));
        };
        let line = Line::new().text("rescind relay: not taken by the server: ");
        say(line.value(message).text(format_args!(" ({why})")));
    }));
    options
}

/// Returns standard input, and the report of its end. Nothing comes then, so that the client may still be responded to.
fn input() -> (impl AsyncRead + Unpin, oneshot::Receiver<()>) {
    let (end, ended) = oneshot::channel();
    let (mut end, (nothing, open)) = (Some(end), simplex(1));
    let stdin = InspectReader::new(protocol_tokio::stdin(), move |read: &[u8]| {
        let _open = &open;
        // The relay may be over.
        let _ = end.take_if(|_| read.is_empty()).map(|end| end.send(()));
    });
    // The last line may be without its end, and a request all the same.
    (stdin.chain(&b"\n"[..]).chain(nothing).compat(), ended)
}

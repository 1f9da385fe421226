//! `rescind relay --connect http://…`: a client on standard streams in front of a server of MCP or ACP over HTTP.

use std::future::pending;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::join;
use protocol_async::{Options, Trace};
use protocol_core::{Config, Dialect, Shutdown};
use protocol_http::connect::{ClientOptions, Target, connect};
use protocol_relay::Guard;
use protocol_tokio::TokioTimer;
use smol::io::AsyncRead;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use super::report::log;
use super::stdout::{Lost, Stdout};
use super::upstream::Upstream;
use crate::address::Address;
use crate::ending::{Ending, SHORT_GRACE};
use crate::http_client::{PATIENCE, reach};
use crate::record::Session;
use crate::terminal::{Line, say};
use crate::tls::Trust;

/// A relay to a server of MCP or ACP over HTTP.
pub(super) struct Front {
    /// The dialects of the client and of the server.
    pub(super) dialects: [Dialect; 2],
    /// The callbacks that see the messages of both, if somebody wants to.
    pub(super) traces: [Option<Trace>; 2],
    pub(super) answer_after_end: Duration,
    /// The time in which the server has to respond to cancels, once the client's input has ended.
    pub(super) grace: Duration,
    pub(super) guard: Guard,
    pub(super) recording: Session,
    pub(super) ending: Ending,
}

/// The end of both connections.
pub(super) struct Relayed {
    pub(super) up: io::Result<()>,
    pub(super) down: io::Result<()>,
    /// The error that kept responses from the client.
    pub(super) lost: Lost,
}

impl Front {
    /// Relays to the end of the client or of the server's session, if the server there takes a connection now.
    pub(super) fn run(
        self,
        address: &Address,
        trust: &Trust,
        secret: Option<String>,
    ) -> Result<Relayed, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("there is no runtime: {error}"))?;
        let relayed = runtime.block_on(async {
            let (target, options) =
                reach(address, &self.dialects[1], trust, secret, PATIENCE).await?;
            Ok(self.relay(target, options).await)
        });
        // Its thread may be waiting for standard input for ever.
        runtime.shutdown_background();
        relayed
    }

    async fn relay(self, target: Target, options: ClientOptions) -> Relayed {
        let Self { dialects: [up, down], traces: [trace, traced], .. } = self;
        let (grace, recording, ending) = (self.grace, &self.recording, &self.ending);
        let endpoint = |name: &str, mut config: Config, trace| {
            config.abandoned_grace = grace;
            let mut options = Options::new(config);
            options.trace = trace;
            recording.connection(name, options)
        };
        let up = endpoint("client", Config::server(up), trace);
        let down = endpoint("server", Config::client(down), traced);
        let (lost, (end, input_ended)) = (Lost::default(), oneshot::channel());
        let input = Input { stream: protocol_tokio::stdin().compat(), end: Some(end) };
        let output = Stdout { stream: protocol_tokio::stdout().compat_write(), lost: lost.clone() };
        let (up, incoming, up_driver) =
            protocol_async::connect(input, output, TokioTimer::start(), up);
        let (down, server, down_driver) = connect(target, down, reported(options));
        let mut down_driver = tokio::spawn(down_driver);
        let (server, mut calls) = Upstream::new(down, server, self.guard, Some(up.clone()));

        let relayed = async {
            join(server.forward(&up, &incoming), async {
                server.pump(&mut calls).await;
                up.shutdown(Shutdown::CancelAll);
            })
            .await;
            // A request may have come just before the connection closed.
            server.pump(&mut calls).await;
            pending::<()>().await;
        };
        let over = async {
            tokio::select! {
                _ = input_ended => {
                    up.shutdown(Shutdown::Drain);
                    within(self.answer_after_end, ending, Duration::ZERO).await;
                }
                _ = ending.asked() => {}
            }
            up.shutdown(Shutdown::CancelAll);
            within(grace, ending, grace.min(SHORT_GRACE)).await;
            // Requests without a response of the server get one from us.
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
            () = within(grace, ending, SHORT_GRACE) => {
                server.end(Shutdown::Abandon);
                down_driver.await
            }
        };
        Relayed { up, down: down.unwrap_or_else(|error| Err(error.into())), lost }
    }
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
        // Its receiver may be gone.
        let _ = self.end.take().map(|end| end.send(()));
        Poll::Ready(Ok(1))
    }
}

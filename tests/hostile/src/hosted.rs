//! Servers of the libraries, on the runtime that is named. They have the methods `echo` and `sleep`.
//!
//! - `hosted RUNTIME` serves on standard input and output
//! - `hosted RUNTIME listen` serves behind a `Listener`, on a port that it prints on standard error
//! - `hosted RUNTIME default` does the same, with every default of a socket

use std::convert::identity;
use std::future::pending;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use futures_util::future::join;
use futures_util::io::{AsyncRead, AsyncWrite};
use protocol_async::{Account, AccountLimits, Options, Timer};
use protocol_blocking::single::{FdTransport, Host};
use protocol_blocking::{Answer, Request, Responder, threaded};
use protocol_router::{LocalRouter, Router};
use protocol_smol::SmolTimer;
use protocol_tokio::TokioTimer;
use protocol_websocket::{Listener, ListenerLimits, Origins};
use rescind_cli::freed::{Freed, INTERVAL, trim};
use rescind_hostile_suite::hosting::options;
use serde_json::value::RawValue;
use smol::{LocalExecutor, block_on};
use tokio::runtime::Builder;
use tokio_util::compat::TokioAsyncReadCompatExt;

/// Requests that are served at the same time by threads.
const WORKERS: usize = 8;

/// The same methods on a router of either kind.
macro_rules! router {
    ($Router:ident) => {
        $Router::new().request("echo", async |params: Box<RawValue>, _cx| Ok(params)).request(
            "sleep",
            async |params: Box<RawValue>, cx| {
                cx.cancellation().unless_cancelled(pending::<()>()).await?;
                Ok(params)
            },
        )
    };
}

/// The same for a host that blocks.
fn answer(request: &Request, responder: &mut dyn Responder) -> Answer {
    if request.method == "sleep" {
        responder.sleep(Duration::from_secs(3_600))?;
    }
    request.params().map_err(Into::into).map(identity::<Box<RawValue>>)
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (runtime, how) = (arguments.next().unwrap_or_default(), arguments.next());
    let listens = how.is_some();
    let is_default = how.as_deref() == Some("default");
    let options =
        move || if is_default { Options::socket(options().config.clone()) } else { options() };
    match (runtime.as_str(), listens) {
        ("tokio-current-thread", false) => {
            Builder::new_current_thread().enable_all().build()?.block_on(async {
                router!(Router).serve(&protocol_tokio::stdio(options()).incoming).await;
            });
        }
        ("tokio-multi-thread", false) => {
            Builder::new_multi_thread().enable_all().build()?.block_on(async {
                router!(Router).serve(&protocol_tokio::stdio(options()).incoming).await;
            });
        }
        ("tokio-local", false) => {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            tokio::task::LocalSet::new().block_on(&runtime, async {
                router!(LocalRouter).serve(&protocol_tokio::stdio(options()).incoming).await;
            });
        }
        ("smol", false) => {
            block_on(async {
                router!(Router).serve(&protocol_smol::stdio(options()).incoming).await
            });
        }
        ("smol-local", false) => {
            let executor = LocalExecutor::new();
            let connection = protocol_smol::stdio(options());
            block_on(executor.run(async {
                let serving = executor.spawn(async move {
                    router!(LocalRouter).serve(&connection.incoming).await;
                });
                serving.await;
            }));
        }
        ("no-executor", false) => {
            let options = options();
            let stdin = protocol_smol::stdin(options.pipe_bytes);
            let stdout = protocol_smol::stdout(options.pipe_bytes);
            let (peer, incoming, driver) =
                protocol_async::connect(stdin, stdout, SmolTimer::start(), options);
            drop(peer);
            let (ended, _) =
                block_on(join(driver, async { router!(LocalRouter).serve(&incoming).await }));
            ended?;
        }
        ("threads", false) => {
            let (_peer, incoming) = threaded::stdio(options());
            threaded::serve(&incoming, WORKERS, &answer);
        }
        ("single", false) => {
            let transport = FdTransport::new(io::stdin(), io::stdout());
            Host::new(transport, options()).run(&answer)?;
        }
        ("tokio", true) => {
            Builder::new_multi_thread().enable_all().build()?.block_on(listen_on_tokio(options))?;
        }
        ("smol", true) => block_on(listen_on_smol(options))?,
        ("threads", true) => listen_on_threads(options)?,
        _ => return Err(io::Error::other("there is no such runtime")),
    }
    Ok(())
}

async fn listen_on_tokio(options: impl Fn() -> Options) -> io::Result<()> {
    let bound = bind()?;
    bound.set_nonblocking(true)?;
    let bound = tokio::net::TcpListener::from_std(bound)?;
    let listener = Listener::new(limits(), TokioTimer::start());
    release(listener.account().clone());
    loop {
        let (stream, from) = bound.accept().await?;
        stream.set_nodelay(true)?;
        tokio::spawn(seated(listener.clone(), stream.compat(), from, options()));
    }
}

async fn listen_on_smol(options: impl Fn() -> Options) -> io::Result<()> {
    let bound = smol::Async::new(bind()?)?;
    let listener = Listener::new(limits(), SmolTimer::start());
    release(listener.account().clone());
    loop {
        let (stream, from) = bound.accept().await?;
        stream.get_ref().set_nodelay(true)?;
        smol::spawn(seated(listener.clone(), stream, from, options())).detach();
    }
}

/// Has all threads share one heap; called before there are any.
///
/// glibc makes up to eight heaps for each core, and [`trim`] keeps the free end of each but the first.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "each function of C is unsafe to call")]
fn share_heap() {
    // SAFETY: it takes two numbers, and any thread may call it at any time.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}

/// Does nothing: other allocators do it by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
const fn share_heap() {}

/// Three threads for each connection, and all of them draw on one account.
fn listen_on_threads(options: impl Fn() -> Options) -> io::Result<()> {
    let path = std::env::temp_dir().join(format!("hosted-{}.sock", std::process::id()));
    // One that a process with this number has left.
    let _ = std::fs::remove_file(&path);
    share_heap();
    let bound = UnixListener::bind(&path)?;
    eprintln!("listening on unix:{}", path.display());
    let account = Account::new(AccountLimits::within(AccountLimits::DEFAULT.pool_bytes));
    release(account.clone());
    loop {
        let mut options = options();
        options.account = Some(account.clone());
        let server = threaded::Server::new(options).workers(2);
        // It is served until it ends, whoever holds it.
        let served = server.unix(bound.accept()?.0, Arc::new(answer))?;
        thread::spawn(move || served.wait());
    }
}

fn bind() -> io::Result<TcpListener> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    eprintln!("listening on ws://{}", bound.local_addr()?);
    Ok(bound)
}

/// Returns freed memory to the system, as docs/memory.md says.
fn release(account: Account) {
    thread::spawn(move || {
        let mut freed = Freed::default();
        loop {
            thread::sleep(INTERVAL);
            if freed.look(account.used()) {
                trim();
            }
        }
    });
}

/// All clients are of one address here.
fn limits() -> ListenerLimits {
    let mut limits = ListenerLimits::DEFAULT;
    limits.connections = 20_000;
    limits.connections_per_address = 20_000;
    limits
}

async fn seated<S, T>(listener: Listener<T>, stream: S, from: SocketAddr, options: Options)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: Timer + Unpin,
{
    let seat = match listener.admit(Some(from.ip())) {
        Ok(seat) => seat,
        Err(refused) => return drop(listener.turn_away(stream, refused).await),
    };
    let gate = Origins::local();
    // An attacker is sent away in the end.
    let _ = seat
        .serve(stream, &gate, options, async |_peer, incoming| {
            router!(Router).serve(&incoming).await;
        })
        .await;
}

//! A WebSocket of ours to which tested clients connect. Each connection is a case.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use rescind_conform::{ClientListener, Link};
use tokio::time::timeout;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};

use super::socket::carry;
use crate::address::{Address, Place};
use crate::lock::lock;

/// The longest time that a client may take for its handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The most connections that wait to be a case; then the oldest is let go.
const WAITING: usize = 16;

/// A WebSocket that listens.
#[derive(Debug)]
pub(super) struct Doorway {
    address: Address,
    /// Whether each case has an address of its own, so that none is taken for another.
    has_own_addresses: bool,
    next: AtomicU64,
    arrivals: Arc<Arrivals>,
}

/// Connections that no case has taken yet, each with the path that it asked for.
#[derive(Debug, Default)]
struct Arrivals {
    waiting: Mutex<Vec<(String, Link)>>,
    changed: Condvar,
}

impl Doorway {
    /// Listens on a TCP address, to which the clients under test connect.
    pub(super) fn open(address: &Address, has_own_addresses: bool) -> io::Result<Self> {
        let Place::Tcp(host, port) = &address.place else {
            return Err(io::Error::other("clients connect to ws://HOST:PORT"));
        };
        if address.is_secure {
            return Err(io::Error::other("no TLS is spoken there: clients connect to ws://"));
        }
        let listener = TcpListener::bind((host.as_str(), *port))?;
        let address = address.with_port(listener.local_addr()?.port());
        let arrivals = Arc::new(Arrivals::default());
        let told = arrivals.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let arrivals = told.clone();
                // Who fails in the handshake has not arrived.
                thread::spawn(move || arrivals.take(stream));
            }
        });
        Ok(Self { address, has_own_addresses, next: AtomicU64::new(1), arrivals })
    }
}

impl ClientListener for Doorway {
    fn address(&self) -> String {
        match self.has_own_addresses {
            true => format!("{}/{}", self.address, self.next.fetch_add(1, Ordering::Relaxed)),
            false => self.address.to_string(),
        }
    }

    fn accept(&self, address: &str, within: Duration) -> io::Result<Option<Link>> {
        let is_for_it = |path: &str| !self.has_own_addresses || address.ends_with(path);
        let none =
            |waiting: &mut Vec<(String, Link)>| !waiting.iter().any(|(path, _)| is_for_it(path));
        let (mut waiting, _) = (self.arrivals.changed)
            .wait_timeout_while(lock(&self.arrivals.waiting), within, none)
            .unwrap_or_else(PoisonError::into_inner);
        let first = waiting.iter().position(|(path, _)| is_for_it(path));
        Ok(first.map(|first| waiting.remove(first).1))
    }
}

impl Arrivals {
    fn wait(&self, path: String, link: Link) {
        let mut waiting = lock(&self.waiting);
        if waiting.len() == WAITING {
            waiting.remove(0);
        }
        waiting.push((path, link));
        self.changed.notify_all();
    }

    /// Speaks with one client, from its handshake to its end.
    fn take(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let stream = tokio::net::TcpStream::from_std(stream)?;
            let mut path = String::new();
            let opened = tokio_tungstenite::accept_hdr_async(stream, Asked(&mut path));
            let socket = timeout(HANDSHAKE, opened).await?.map_err(io::Error::other)?;
            let (near, link) = Link::pair()?;
            near.set_nonblocking(true)?;
            let near = tokio::net::TcpStream::from_std(near)?;
            self.wait(path, link);
            carry(socket, near).await;
            Ok(())
        })
    }
}

/// Keeps the path that a client asks for.
struct Asked<'a>(&'a mut String);

impl Callback for Asked<'_> {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        request.uri().path().clone_into(self.0);
        Ok(response)
    }
}

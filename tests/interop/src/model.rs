//! A model that never responds, for agents that have no account.

use std::net::SocketAddr;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// The endpoint of a model, until it is dropped.
#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    seen: UnboundedReceiver<Seen>,
    _serving: JoinSet<()>,
}

/// A request of an agent, by the number of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// The bytes that have arrived of it.
    Asked(u32, Vec<u8>),
    /// The agent closed the connection. It waits for nothing any more.
    GivenUp(u32),
}

impl Model {
    /// Starts the endpoint.
    ///
    /// # Panics
    ///
    /// If loopback has no free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let ((see, seen), mut serving) = (unbounded_channel(), JoinSet::new());
        serving.spawn(async move {
            let mut connections = JoinSet::new();
            for number in 0.. {
                let Ok((connection, _)) = listener.accept().await else { break };
                connections.spawn(listen(connection, number, see.clone()));
            }
        });
        Self { address, seen, _serving: serving }
    }

    /// Returns its address as a URL.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits until the agent asks with this text, and returns the number of the request.
    ///
    /// An agent may ask again when its turn was stopped, so that only the text tells one turn from another.
    ///
    /// # Panics
    ///
    /// If the endpoint is gone.
    pub async fn is_asked(&mut self, text: &str) -> u32 {
        loop {
            let seen = self.seen.recv().await.expect("the endpoint lives");
            if let Seen::Asked(number, bytes) = seen
                && String::from_utf8_lossy(&bytes).contains(text)
            {
                return number;
            }
        }
    }

    /// Waits until the agent no longer waits for an answer to this request.
    ///
    /// # Panics
    ///
    /// If the endpoint is gone.
    pub async fn is_given_up(&mut self, number: u32) {
        while self.seen.recv().await.expect("the endpoint lives") != Seen::GivenUp(number) {}
    }
}

/// Reports what arrives on a connection, and its end.
async fn listen(mut connection: impl AsyncRead + Unpin, number: u32, see: UnboundedSender<Seen>) {
    let mut bytes = Vec::new();
    while connection.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
        // Nobody listens any more once the checks are over.
        let _ = see.send(Seen::Asked(number, bytes.clone()));
    }
    let _ = see.send(Seen::GivenUp(number));
}

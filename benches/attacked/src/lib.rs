//! The parts that all attacked servers share: a port of this machine, and a task for each
//! connection.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde::Deserialize;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

/// The params of a request to sleep: the time, in milliseconds.
#[derive(Deserialize, Debug)]
pub struct Sleep {
    ms: u64,
}

impl Sleep {
    pub async fn sleep(self) {
        sleep(Duration::from_millis(self.ms)).await;
    }
}

/// Serves each connection in a task of its own. First prints the address on standard error.
pub async fn listen<S>(scheme: &str, serve: impl Fn(TcpStream) -> S) -> std::io::Result<()>
where
    S: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    eprintln!("listening on {scheme}://{}", listener.local_addr()?);
    loop {
        // One that could not be accepted is nobody.
        let Ok((stream, _)) = listener.accept().await else { continue };
        stream.set_nodelay(true)?;
        tokio::spawn(serve(stream));
    }
}

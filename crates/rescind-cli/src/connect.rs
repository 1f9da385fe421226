//! The way to a server: over TCP or a Unix socket, with TLS or without, and a WebSocket above that.

use std::io;

use protocol_http::connect::{ServerStream, Stream};
use protocol_http::set_tcp_options;
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::http::header::AUTHORIZATION;
use tungstenite::protocol::WebSocketConfig;

use crate::address::{Address, Place};
use crate::tls::{Client, Trust};

/// Opens a WebSocket there, on the runtime that this is called on.
pub(crate) async fn handshake(
    address: &Address,
    trust: &Trust,
    secret: Option<String>,
    settings: WebSocketConfig,
) -> io::Result<WebSocketStream<Box<dyn Stream>>> {
    let tls = address.is_secure.then(|| trust.client(&[])).transpose()?;
    let stream = connect_with(address, tls.as_ref()).await?.stream;
    let mut request = address.url().into_client_request().map_err(io::Error::other)?;
    if let Some(secret) = secret {
        let bearer = HeaderValue::try_from(format!("Bearer {secret}")).map_err(io::Error::other)?;
        request.headers_mut().insert(AUTHORIZATION, bearer);
    }
    let opened = client_async_with_config(request, stream, Some(settings)).await;
    opened.map(|(socket, _)| socket).map_err(io::Error::other)
}

/// Connects to a server, with this TLS if there is one.
pub(crate) async fn connect_with(
    address: &Address,
    tls: Option<&Client>,
) -> io::Result<ServerStream> {
    let stream: Box<dyn Stream> = match &address.place {
        Place::Tcp(host, port) => {
            let stream = TcpStream::connect((host.as_str(), *port)).await?;
            set_tcp_options(&stream);
            match tls {
                Some(tls) => return tls.connect(host, Box::new(stream)).await,
                None => Box::new(stream),
            }
        }
        #[cfg(unix)]
        Place::File(file) => Box::new(UnixStream::connect(file).await?),
        #[cfg(not(unix))]
        Place::File(_) => return Err(io::ErrorKind::Unsupported.into()),
    };
    Ok(ServerStream { stream, is_http2: false })
}

/// Opens a connection on a runtime of one thread, which is returned with it.
pub(crate) fn open<T, E: From<String>>(
    opening: impl Future<Output = Result<T, E>>,
) -> Result<(Runtime, T), E> {
    let runtime = runtime()?;
    match runtime.block_on(opening) {
        Ok(opened) => Ok((runtime, opened)),
        Err(why) => {
            // A thread of it may still be looking the name up.
            runtime.shutdown_background();
            Err(why)
        }
    }
}

/// Makes a runtime of one thread.
pub(crate) fn runtime() -> Result<Runtime, String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| format!("there is no runtime: {error}"))
}

//! The way to a server: over TCP or a Unix socket, with TLS or without, and a WebSocket above that.

use std::io;

use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::http::header::AUTHORIZATION;
use tungstenite::protocol::WebSocketConfig;

use crate::address::{Address, Place};
use crate::socket::{Stream, at_once};
use crate::tls::{Client, Trust};

/// Opens a WebSocket there, on the runtime that this is called on.
pub(crate) async fn handshake(
    address: &Address,
    trust: &Trust,
    secret: Option<String>,
    settings: WebSocketConfig,
) -> io::Result<WebSocketStream<Box<dyn Stream>>> {
    let tls = address.is_secure.then(|| trust.client(&[])).transpose()?;
    let (stream, _) = connect_with(address, tls.as_ref()).await?;
    let mut request = address.url().into_client_request().map_err(io::Error::other)?;
    if let Some(secret) = secret {
        let bearer = HeaderValue::try_from(format!("Bearer {secret}")).map_err(io::Error::other)?;
        request.headers_mut().insert(AUTHORIZATION, bearer);
    }
    let opened = client_async_with_config(request, stream, Some(settings)).await;
    opened.map(|(socket, _)| socket).map_err(io::Error::other)
}

/// Connects to a server, with this TLS if there is one. Returns whether both have agreed on HTTP/2.
pub(crate) async fn connect_with(
    address: &Address,
    tls: Option<&Client>,
) -> io::Result<(Box<dyn Stream>, bool)> {
    match &address.place {
        Place::Tcp(host, port) => {
            let stream = at_once(TcpStream::connect((host.as_str(), *port)).await?);
            match tls {
                Some(tls) => tls.connect(host, stream).await,
                None => Ok((stream, false)),
            }
        }
        #[cfg(unix)]
        Place::File(file) => Ok((Box::new(UnixStream::connect(file).await?), false)),
        #[cfg(not(unix))]
        Place::File(_) => Err(io::ErrorKind::Unsupported.into()),
    }
}

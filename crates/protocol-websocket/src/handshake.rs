//! The request of a client for a WebSocket, and its response.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use futures_io::{AsyncRead, AsyncWrite};
use futures_util::{AsyncReadExt, AsyncWriteExt, FutureExt};
use tungstenite::Error;
use tungstenite::error::ProtocolError;
use tungstenite::handshake::machine::TryParse;
use tungstenite::handshake::server::{
    Callback, ErrorResponse, Request, create_response, write_response,
};
use tungstenite::http::header::{
    CONNECTION, CONTENT_LENGTH, HeaderValue, RETRY_AFTER, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use tungstenite::http::{Response, StatusCode};

/// Bytes of one read.
const READ_BYTES: usize = 1_024;

/// The reason for which there is no WebSocket.
#[derive(Debug)]
#[non_exhaustive]
pub enum HandshakeError {
    /// The client got a response with this status. It may have gone before it got to read that.
    Refused(StatusCode),
    /// The client went away.
    Io(io::Error),
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => write!(f, "a request for a WebSocket was refused: {status}"),
            Self::Io(error) => write!(f, "no request for a WebSocket came: {error}"),
        }
    }
}

impl StdError for HandshakeError {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Refused(_) => None,
            Self::Io(error) => Some(error),
        }
    }
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads the request for a WebSocket and grants it. Returns the bytes that were read behind it, or the response that
/// refuses it.
pub(crate) async fn shake_hands<S, G>(
    stream: &mut S,
    gate: G,
    most_bytes: usize,
) -> io::Result<Result<Vec<u8>, ErrorResponse>>
where
    S: AsyncRead + AsyncWrite + Unpin,
    G: Callback,
{
    match read_request(stream, most_bytes).await? {
        Ok((request, tail)) => match judge(&request, gate) {
            Ok(response) => {
                stream.write_all(&response).await?;
                stream.flush().await?;
                Ok(Ok(tail))
            }
            Err(refusal) => Ok(Err(refusal)),
        },
        Err(status) => Ok(Err(refusal(status))),
    }
}

/// Sends a response that refuses a WebSocket, and ends the stream. It waits for nothing: a new stream has room for so
/// few bytes.
pub(crate) fn refuse<S>(stream: &mut S, mut refusal: ErrorResponse) -> io::Result<()>
where
    S: AsyncWrite + Unpin,
{
    let body = refusal.body().clone().unwrap_or_default();
    let headers = refusal.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    if !headers.contains_key(CONNECTION) {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let mut bytes = Vec::new();
    write_response(&mut bytes, &refusal).map_err(io::Error::other)?;
    bytes.extend_from_slice(body.as_bytes());
    let sent = async {
        stream.write_all(&bytes).await?;
        stream.close().await
    };
    sent.now_or_never().unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))
}

/// Returns a response that refuses a WebSocket with this status, which is all that its body says too.
pub(crate) fn refusal(status: StatusCode) -> ErrorResponse {
    let mut refusal = Response::new(Some(format!("{status}\n")));
    *refusal.status_mut() = status;
    let headers = refusal.headers_mut();
    match status {
        StatusCode::UPGRADE_REQUIRED => {
            headers.insert(CONNECTION, HeaderValue::from_static("close, upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
        }
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("10"));
        }
        _ => {}
    }
    refusal
}

/// Reads up to the empty line, which ends a request that has no body.
async fn read_request<S>(
    stream: &mut S,
    most_bytes: usize,
) -> io::Result<Result<(Request, Vec<u8>), StatusCode>>
where
    S: AsyncRead + Unpin,
{
    let mut head = Vec::new();
    loop {
        let before = head.len();
        head.resize(before + READ_BYTES.min(most_bytes - before), 0);
        let read = stream.read(&mut head[before..]).await?;
        head.truncate(before + read);
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // It is parsed once, because a client may send a byte at a time.
        if has_empty_line(&head[before.saturating_sub(3)..]) {
            return Ok(match Request::try_parse(&head) {
                Ok(Some((used, request))) => Ok((request, head.split_off(used))),
                Ok(None) => Err(StatusCode::BAD_REQUEST),
                Err(error) => Err(status(&error)),
            });
        }
        if head.len() >= most_bytes {
            return Ok(Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        }
    }
}

fn has_empty_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|line| line == b"\n\n") || bytes.windows(3).any(|line| line == b"\n\r\n")
}

/// Returns the bytes of the response that opens a WebSocket, or the response that refuses it.
#[expect(clippy::result_large_err, reason = "what tungstenite's callbacks return")]
fn judge(request: &Request, gate: impl Callback) -> Result<Vec<u8>, ErrorResponse> {
    let response = create_response(request).map_err(|error| refusal(status(&error)))?;
    let response = gate.on_request(request, response)?;
    let mut bytes = Vec::new();
    match write_response(&mut bytes, &response) {
        Ok(()) => Ok(bytes),
        Err(_) => Err(refusal(StatusCode::INTERNAL_SERVER_ERROR)),
    }
}

/// Returns the status for a request that asks for no WebSocket, or for one of another version.
fn status(error: &Error) -> StatusCode {
    match error {
        Error::Protocol(ProtocolError::WrongHttpMethod) => StatusCode::METHOD_NOT_ALLOWED,
        Error::Protocol(ProtocolError::WrongHttpVersion) => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
        Error::Protocol(
            ProtocolError::MissingConnectionUpgradeHeader
            | ProtocolError::MissingUpgradeWebSocketHeader
            | ProtocolError::MissingSecWebSocketVersionHeader,
        ) => StatusCode::UPGRADE_REQUIRED,
        _ => StatusCode::BAD_REQUEST,
    }
}

//! Streams that the host opens.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::pin::Pin;
use std::io;

use tokio::io::{AsyncRead, AsyncWrite};

/// A callback that opens a stream to the server.
pub type Open =
    Arc<dyn Fn() -> Pin<Box<dyn Future<Output = io::Result<ServerStream>> + Send>> + Send + Sync>;

pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A stream to the server that the host has opened, with TLS or without.
pub struct ServerStream {
    pub(super) stream: Box<dyn Stream>,
    pub(super) is_http2: bool,
}

impl ServerStream {
    /// Takes a stream on which HTTP/1.1 is spoken.
    pub fn http1(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { stream: Box::new(stream), is_http2: false }
    }

    /// Takes a stream on which HTTP/2 is spoken, such as one of TLS whose peers have agreed on `h2`.
    ///
    /// Many exchanges share it. A stream that is closed is reset, and the connection goes on.
    pub fn http2(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self { stream: Box::new(stream), is_http2: true }
    }
}

impl fmt::Debug for ServerStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerStream").field("is_http2", &self.is_http2).finish_non_exhaustive()
    }
}

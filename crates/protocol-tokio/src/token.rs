//! To and from tokio's own cancellation tokens.

use protocol_async::{Cancellation, Canceller};
use protocol_core::Cause;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

/// Returns a token that is cancelled when the marker is set, for work that knows tokens only.
///
/// The marker keeps the token until it is set or gone. So it should be one that ends with the work, such as
/// that of a request.
#[must_use]
pub fn token_of(marker: &Cancellation) -> CancellationToken {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    marker.on_cancel(move |_| cancelled.cancel()).forever();
    token
}

/// Returns a marker that is set, cause `internal`, when the token is cancelled.
///
/// # Panics
///
/// Outside a tokio runtime: a task waits for the token, until nobody has the marker any more.
#[must_use]
pub fn marker_of(token: &CancellationToken) -> Cancellation {
    let canceller = Canceller::new();
    let marker = canceller.marker();
    if token.is_cancelled() {
        canceller.cancel(Cause::Internal);
    } else {
        let (token, weak) = (token.clone(), canceller.downgrade());
        let waiting = tokio::spawn(async move {
            token.cancelled().await;
            weak.cancel(Cause::Internal);
        });
        canceller.keep(Abort(waiting.abort_handle()));
    }
    marker
}

/// Ends a task when it is dropped.
struct Abort(AbortHandle);

impl Drop for Abort {
    fn drop(&mut self) {
        self.0.abort();
    }
}

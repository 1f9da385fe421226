//! Who sees every message.

use protocol_async::{Trace, Way};

/// Shows every message to whoever asked for that.
pub(super) struct Tracer(pub(super) Option<Trace>);

impl Tracer {
    pub(super) fn received(&mut self, message: Option<&[u8]>) {
        if let (Some(trace), Some(message)) = (&mut self.0, message) {
            trace(Way::Received, message);
        }
    }

    pub(super) fn sent(&mut self, message: &[u8]) {
        if let Some(trace) = &mut self.0 {
            trace(Way::Sent, message);
        }
    }
}

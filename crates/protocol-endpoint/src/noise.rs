//! Noise: bytes from a peer that are no message.

use protocol_core::{Config, Role, Violation, WireId};

/// Returns whether a violation is noise, and not a faulty message.
///
/// Only a client sees noise. A server responds to bytes that it can't read.
#[must_use]
pub fn is_noise(config: &Config, violation: Violation, id: Option<&WireId>) -> bool {
    config.role == Role::Client
        && id.is_none()
        && matches!(
            violation,
            Violation::Parse { .. }
                | Violation::InvalidUtf8 { .. }
                | Violation::InvalidRequest { .. }
                | Violation::InvalidHeader
                | Violation::HeaderTooLong
        )
}

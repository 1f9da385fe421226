//! What a peer says that is no message.

use protocol_core::{Config, Role, Violation, WireId};

/// Sees what a server says that is no message, and what keeps it from being one: a line that it prints
/// on its standard output, or where its framing can't be followed any more what is there. It should be
/// quick, and must not use any handle of the connection.
///
/// As a client we don't answer such a thing, so this is all that becomes of it.
pub type Noise = Box<dyn FnMut(Violation, &[u8]) + Send>;

/// Whether what was reported so is noise and not a message with a fault. A server has no noise to
/// see: it answers what it can't read.
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

//! The results of handshakes: who may ask whom to cancel, and the revision.

use alloc::boxed::Box;

use serde_json::value::RawValue;

use crate::config::Config;
use crate::dialect::facts::{Handshake, is_true};
use crate::dialect::{CapabilityRule, Dialect, Role};
use crate::machine::Machine;

/// The agreement that a handshake makes, once both sides know it.
#[derive(Clone, Debug)]
pub(super) struct Negotiated {
    /// Whether we declared that we can be asked to cancel, and whether the peer did.
    declared: Option<(bool, bool)>,
    /// The revision that is spoken from then on.
    dialect: Option<Box<Dialect>>,
}

impl Negotiated {
    /// Reads the result of a handshake, and opens the session that it opens.
    ///
    /// The side that asks is the client of the exchange, whatever its role.
    pub(super) fn read<C, R: Default>(
        machine: &mut Machine<C, R>,
        handshake: Handshake,
        is_ours: bool,
        result: &RawValue,
    ) -> Option<Self> {
        if handshake.opens_session {
            machine.open_session();
        }
        let dialect = &machine.config().dialect;
        let declared = match (&dialect.capability, handshake.capability) {
            (CapabilityRule::Declared { server, .. }, Some(client)) => {
                let server = is_true(result, server);
                Some(if is_ours { (client, server) } else { (server, client) })
            }
            _ => None,
        };
        let exchange = handshake.exchange.and_then(|at| dialect.exchanges.get(usize::from(at)));
        let dialect = exchange.and_then(|(method, _)| dialect.settled_by(method, result));
        let dialect = dialect.map(Box::new);
        (declared.is_some() || dialect.is_some()).then_some(Self { declared, dialect })
    }

    /// Applies what was settled.
    pub(super) fn apply<C, R: Default>(self, machine: &mut Machine<C, R>) {
        if let Some((ours, peers)) = self.declared {
            machine.set_consent(true, ours);
            machine.set_consent(false, peers);
        }
        if let Some(dialect) = self.dialect {
            machine.set_dialect(*dialect);
        }
    }
}

/// Applies what a notification declares anew, if it is the server's and does: whether the server can be
/// asked to cancel.
#[inline]
pub(super) fn declare_anew<C, R: Default>(
    machine: &mut Machine<C, R>,
    is_ours: bool,
    method: &str,
    params: Option<&RawValue>,
) {
    let Config { dialect, role, .. } = machine.config();
    let CapabilityRule::Declared { later: Some((later, path)), .. } = &dialect.capability else {
        return;
    };
    if later != method || is_ours != (*role == Role::Server) {
        return;
    }
    let declared = params.and_then(|params| protocol_json::path(params, path));
    if let Some(declared @ ("true" | "false")) = declared.map(RawValue::get) {
        machine.set_consent(is_ours, declared == "true");
    }
}

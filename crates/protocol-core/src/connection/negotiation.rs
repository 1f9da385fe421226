//! What an exchange settles: who may ask whom to cancel, the session, the revision.

use alloc::boxed::Box;

use serde_json::value::RawValue;

use super::Connection;
use super::rows::{Opening, is_declared};
use crate::config::Config;
use crate::dialect::{CapabilityRule, Dialect, Role};
use crate::wire::decode;

/// What an exchange settles about cancels, once both sides know it.
#[derive(Clone, Debug)]
pub(super) struct Conclusion {
    /// Whether we declared that we can be asked to cancel, and whether the peer did.
    declared: Option<(bool, bool)>,
    /// The revision that is spoken from then on.
    dialect: Option<Box<Dialect>>,
}

impl<O, I: Default> Connection<O, I> {
    /// A request of `asker`'s is answered with this result: settles what it opens, and gives what it
    /// concludes about cancels, which is known to both sides only once the answer is on its way.
    pub(super) fn open(
        &mut self,
        opening: Opening,
        asker: Role,
        result: &RawValue,
    ) -> Option<Conclusion> {
        if opening.session() {
            self.machine.open_session();
        }
        let dialect = &self.config().dialect;
        let declared = match (&dialect.capability, opening.declares) {
            (CapabilityRule::Declared { server, .. }, Some(client)) => {
                let server = is_declared(Some(result), server);
                // Whoever asks first is the client of the exchange, whatever the role.
                Some(if asker == Role::Client { (client, server) } else { (server, client) })
            }
            _ => None,
        };
        let exchange = opening.exchange().and_then(|at| dialect.exchanges.get(at));
        let dialect = exchange.and_then(|(method, _)| dialect.settled_by(method, result));
        let dialect = dialect.map(Box::new);
        (declared.is_some() || dialect.is_some()).then_some(Conclusion { declared, dialect })
    }

    /// A notification of ours was sent, or one of the peer's came: what a server declares anew with it
    /// holds from now on.
    pub(super) fn declare_anew(&mut self, is_ours: bool, method: &str, params: Option<&RawValue>) {
        let Config { dialect, role, .. } = self.config();
        let CapabilityRule::Declared { later: Some((later, path)), .. } = &dialect.capability
        else {
            return;
        };
        let is_it = later == method && is_ours == (*role == Role::Server);
        match decode::path(params.filter(|_| is_it), path).map(RawValue::get) {
            Some("true") => self.machine.declared(is_ours, true),
            Some("false") => self.machine.declared(is_ours, false),
            _ => {}
        }
    }

    /// What was concluded holds from now on.
    pub(super) fn conclude(&mut self, conclusion: Option<Conclusion>) {
        let Some(Conclusion { declared, dialect }) = conclusion else { return };
        if let Some((ours, peers)) = declared {
            self.machine.declared(true, ours);
            self.machine.declared(false, peers);
        }
        if let Some(dialect) = dialect {
            self.machine.speak(*dialect);
        }
    }
}

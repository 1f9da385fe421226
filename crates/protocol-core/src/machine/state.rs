//! The state of a machine.

use alloc::collections::VecDeque;
use core::hash::{Hash, Hasher};

use super::action::Action;
use super::calls::Calls;
use super::requests::Requests;
use super::table::Life;
use super::works::Works;
use crate::config::Config;
use crate::dialect::CapabilityRule;
use crate::error::CancelRefusal;
use crate::time::Timestamp;

/// The decisions of one connection; see the [module](super).
///
/// - **commands**: [`call`](Self::call), [`cancel`](Self::cancel), [`detach`](Self::detach),
///   [`respond`](Self::respond), [`end_request`](Self::end_request),
///   [`begin_operation`](Self::begin_operation), [`cancel_request`](Self::cancel_request),
///   [`shutdown`](Self::shutdown)
/// - **inputs**: [`transmitted`](Self::transmitted), [`receive_request`](Self::receive_request),
///   [`receive_cancel`](Self::receive_cancel), [`receive_response`](Self::receive_response),
///   [`progress`](Self::progress), [`handle_timeout`](Self::handle_timeout), [`close`](Self::close)
/// - **outputs**: [`poll_action`](Self::poll_action), [`poll_timeout`](Self::poll_timeout)
/// - **getters**: the rest
#[derive(Clone, Debug)]
pub struct Machine<C, R> {
    pub(super) config: Config,
    pub(super) life: Life,
    /// The latest time of any input or command. Time that goes back counts as this.
    pub(super) now: Timestamp,
    /// Whether the close of a draining connection waits for the end of a batch, or of a notification about work.
    pub(super) holds_close: bool,
    pub(super) calls: Calls<C>,
    pub(super) requests: Requests<R>,
    /// The reason why no call can be cancelled on the wire, as far as capabilities rule that out.
    pub(super) consent_refusal: Option<CancelRefusal>,
    /// Whether the peer may cancel, as far as capabilities were declared.
    pub(super) peer_may_cancel: bool,
    /// The work in progress.
    pub(super) works: Works,
    /// The decisions, in the order they are to be carried out. `Connection` leaves none behind, so the first one after
    /// an input is of that input.
    pub(super) actions: VecDeque<Action<C>>,
}

impl<C, R: Default> Machine<C, R> {
    /// Creates a machine with nothing in flight.
    pub fn new(config: Config) -> Self {
        let needs_consent = config.dialect.capability != CapabilityRule::NotNeeded;
        Self {
            life: if config.dialect.session.is_some() { Life::Opening } else { Life::Open },
            now: Timestamp::ZERO,
            holds_close: false,
            calls: Calls::new(config.connection),
            requests: Requests::new(config.connection),
            consent_refusal: needs_consent.then_some(CancelRefusal::BeforeExchange),
            peer_may_cancel: !needs_consent,
            works: Works::new(config.connection),
            actions: VecDeque::new(),
            config,
        }
    }
}

/// Hashes the state that decides the machine's future, for searches through its states.
///
/// It is to be taken when no action waits. Two machines that hash alike behave alike from now on, but for
/// the slots in handles of later requests and for time that goes back. The host's data tells no two states
/// apart. Neither does the configuration, except the dialect, which negotiation may change.
impl<C, R> Hash for Machine<C, R> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.config.dialect.name.hash(state);
        (self.life, self.holds_close, self.consent_refusal, self.peer_may_cancel).hash(state);
        (&self.calls, &self.requests, &self.works, self.actions.len()).hash(state);
    }
}

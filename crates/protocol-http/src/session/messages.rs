//! The way of each message from the endpoint to a stream.

use alloc::vec::Vec;

use protocol_core::{Timestamp, WireId};
use protocol_json::{Members, elements, member, path, text};
use serde_json::value::RawValue;

use super::state::{Exchange, Session};
use crate::post::{id_of_response, scope};
use crate::table::{Input, Phase};

const NAMES: [&str; 5] = ["method", "id", "params", "result", "error"];

impl Session {
    /// Takes a message of the endpoint, for the stream to which it belongs.
    ///
    /// A response goes to the stream of its request, and progress to that of its token. Another message goes to the GET
    /// stream if there is one, else to the oldest exchange with a stream. A message without a stream is kept for a client
    /// that comes back, or dropped if none can. In ACP a message goes to the stream of the session that it names, or else
    /// to that of the connection. A response goes to that of its request's session.
    pub fn message(&mut self, message: &[u8], now: Timestamp) {
        let Ok(json) = core::str::from_utf8(message) else { return };
        if let Some(all) = elements(json, usize::MAX) {
            let ids = all.iter().filter_map(|one| id_of_response(one.get().as_bytes()));
            let exchanges: Vec<u64> = ids.filter_map(|id| self.by_id.remove(&id)).collect();
            if let Some(at) = exchanges.first() {
                self.respond(*at, message, 200, now);
            }
            return;
        }
        let Some(members) = Members::of(json, &NAMES) else { return };
        if members.token(0).is_some() {
            if let Some(at) = self.route(&members) {
                self.step(at, Input::Update, message, now);
            }
            return;
        }
        let id = members.token(1).and_then(WireId::from_json);
        let Some(mut at) = id.and_then(|id| self.by_id.remove(&id)) else { return };
        // The RFD has the response to `session/load` "on connection-scoped stream". Here, as in the SDK 5.0, it comes there
        // only if nothing came on the session's. So it never overtakes what it follows.
        if self.exchanges.get(&at).is_some_and(Exchange::is_unheard) {
            at = 0;
        }
        let opens_session = self.exchanges.get(&at).is_some_and(|it| it.opens_session);
        if let Some(result) = members.raw(3).filter(|_| opens_session) {
            let version = member(result, "protocolVersion").and_then(text);
            self.rules = self.rules.settled(version.as_deref());
        }
        let status = self.status(members.raw(4));
        self.respond(at, message, status, now);
    }

    fn respond(&mut self, at: u64, message: &[u8], status: u16, now: Timestamp) {
        let is_posted = self.exchanges.get(&at).is_some_and(|it| it.is_posted);
        let is_last = is_posted && self.is_answered(at);
        self.step(at, if is_last { Input::Last(status) } else { Input::Update }, message, now);
    }

    /// Returns the status of a response with this error, or with none.
    fn status(&self, error: Option<&RawValue>) -> u16 {
        let code = error.and_then(|error| member(error, "code")?.get().parse().ok());
        let found = self.rules.error_statuses.iter().find(|(error, _)| Some(*error) == code);
        found.map_or(200, |(_, status)| *status)
    }

    /// Returns the exchange of a notification or a request.
    fn route(&mut self, members: &Members<'_, 5>) -> Option<u64> {
        if self.rules.shares_streams {
            return Some(members.raw(2).and_then(scope).map_or(0, |name| self.scope(&name)));
        }
        let token = members.raw(2).and_then(|params| path(params, &["progressToken"]));
        let token = token.and_then(|token| WireId::from_json(token.get()));
        if let Some(at) = token.and_then(|token| self.by_token.get(&token)) {
            return Some(*at);
        }
        let is_open = |phase: Phase| matches!(phase, Phase::Fresh | Phase::Open);
        let listens = self.exchanges.get(&0).is_some_and(|it| it.phase == Phase::Open);
        let open = self.exchanges.iter().find(|(_, it)| is_open(it.phase)).map(|(at, _)| *at);
        let any = self.exchanges.keys().next().copied();
        if listens { Some(0) } else { open.or(any) }
    }
}

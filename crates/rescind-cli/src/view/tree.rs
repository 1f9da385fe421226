//! Finds the request on whose behalf another was made. A recording does not say it, so the order of messages
//! has to. A parent is told only where there is one answer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

use protocol_record::line::{Direction, Role};

use super::row::{Connection, Row, other};

/// Finds the parents of requests, as they begin.
///
/// - What a relay receives over one of its connections and sends over the other is passed on: the oldest request of
///   that method that was not. It passes them on in the order in which they came.
/// - What a server asks of its client while it is at work on exactly one request of that client's is taken to be asked
///   on behalf of that. While it is at work on several, nothing says on behalf of which.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// The side of each connection that records.
    roles: HashMap<Rc<str>, Role>,
    in_flight: HashMap<(Connection, Direction), BTreeSet<u64>>,
    /// By method: received, in flight, and not passed on yet. The oldest first.
    to_pass_on: HashMap<String, BTreeMap<u64, Connection>>,
}

impl Tree {
    /// Begins a connection. Nothing is in flight over it.
    pub(crate) fn open(&mut self, hop: &Connection, role: Role) {
        self.roles.insert(hop.name.clone(), role);
    }

    /// Returns the requests in flight over a connection.
    pub(crate) fn of(&self, hop: &Connection) -> Vec<u64> {
        let those = |dir| self.in_flight.get(&(hop.clone(), dir)).into_iter().flatten();
        those(Direction::Sent).chain(those(Direction::Received)).copied().collect()
    }

    /// A request began; gives its parent.
    pub(crate) fn begin(&mut self, row: &Row) -> Option<u64> {
        let Row { number, hop, dir, method, .. } = row;
        let passed_on = if *dir == Direction::Sent { self.pass_on(hop, method) } else { None };
        let parent = passed_on.or_else(|| self.is_served(hop, *dir));
        self.in_flight.entry((hop.clone(), *dir)).or_default().insert(*number);
        if *dir == Direction::Received {
            let waiting = self.to_pass_on.entry(method.clone()).or_default();
            waiting.insert(*number, hop.clone());
        }
        parent
    }

    /// A request ended, or is forgotten.
    pub(crate) fn end(&mut self, row: &Row) {
        let hop = (row.hop.clone(), row.dir);
        if let Some(numbers) = self.in_flight.get_mut(&hop) {
            numbers.remove(&row.number);
            if numbers.is_empty() {
                self.in_flight.remove(&hop);
            }
        }
        if let Some(waiting) = self.to_pass_on.get_mut(&row.method) {
            waiting.remove(&row.number);
            if waiting.is_empty() {
                self.to_pass_on.remove(&row.method);
            }
        }
    }

    /// The request that is passed on over this connection.
    fn pass_on(&mut self, hop: &Connection, method: &str) -> Option<u64> {
        let role = self.roles.get(&hop.name)?;
        let waiting = self.to_pass_on.get_mut(method)?;
        // A server with two clients passes nothing on from one to the other.
        let crosses =
            |from: &Connection| self.roles.get(&from.name).is_some_and(|from| from != role);
        let (&number, _) = waiting.iter().find(|(_, from)| crosses(from))?;
        waiting.remove(&number);
        Some(number)
    }

    /// The one request that a server is at work on while it asks.
    fn is_served(&self, hop: &Connection, dir: Direction) -> Option<u64> {
        let asks = if dir == Direction::Sent { Role::Server } else { Role::Client };
        let numbers = self.in_flight.get(&(hop.clone(), other(dir)))?;
        let is_clear = self.roles.get(&hop.name) == Some(&asks) && numbers.len() == 1;
        numbers.first().copied().filter(|_| is_clear)
    }
}

#[cfg(test)]
mod tests;

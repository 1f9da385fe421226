//! The account of memory that the connections of one process share.
//!
//! It is pure: a host gives it the charges of all connections in one order, and the same order has the same
//! result. It names the connection that is to be ended, and that connection's own host ends it.

use core::fmt;

use slab::Slab;

/// The permission that an [`Account`] gives a connection. Each variant permits less than the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Grant {
    /// Everything is taken that the limits of the connection allow.
    #[default]
    All,
    /// New requests get the dialect's overload code.
    NoRequests,
    /// Nothing is read either.
    NoReading,
    /// The connection ends.
    Revoked,
}

impl Grant {
    /// Returns the name of the grant, as recordings have it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::NoRequests => "no_requests",
            Self::NoReading => "no_reading",
            Self::Revoked => "revoked",
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The limits of an [`Account`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccountLimits {
    /// The most bytes that all connections hold together; 256 MiB.
    pub pool_bytes: usize,
    /// The bytes that each connection may always hold, whatever the others do; 64 KiB.
    pub floor_bytes: usize,
}

impl AccountLimits {
    /// The default limits.
    pub const DEFAULT: Self = Self { pool_bytes: 256 << 20, floor_bytes: 64 << 10 };

    /// Returns limits for a pool of this size.
    #[must_use]
    pub const fn of(pool_bytes: usize) -> Self {
        Self { pool_bytes, ..Self::DEFAULT }
    }

    /// Returns limits whose pool is five eighths of this memory.
    ///
    /// The rest is for what an account does not count: tables, the buffers of transports, and the allocator.
    #[must_use]
    pub const fn within(memory_bytes: usize) -> Self {
        Self::of(memory_bytes / 8 * 5)
    }

    /// Returns the most bytes that so many connections hold together.
    ///
    /// It is the bound of G8 for a process: the pool, or the floors of all connections if they are more. It counts messages, requests and
    /// calls; each connection has its tables and the buffers of its transport beside that.
    #[must_use]
    pub const fn memory(&self, connections: usize) -> usize {
        let floors = self.floor_bytes.saturating_mul(connections);
        if floors > self.pool_bytes { floors } else { self.pool_bytes }
    }

    /// Returns the grant of a connection above its share, when all connections hold this much. The last
    /// eighth of the pool is for messages while they move.
    const fn level(&self, used: usize) -> Grant {
        let eighth = self.pool_bytes / 8;
        if used > 6 * eighth {
            Grant::NoReading
        } else if used > 5 * eighth {
            Grant::NoRequests
        } else {
            Grant::All
        }
    }

    const fn most(&self) -> usize {
        self.pool_bytes / 8 * 7
    }
}

impl Default for AccountLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// The account of memory that the connections of one process share.
///
/// A connection that holds no more than its share of the pool, or its floor, is never limited. When the
/// pool runs out, those above their share first get no new requests, then they are not read. At last one
/// ends: among those that hold at least half as much as the largest, the one whose peer has not read for
/// longest. "Longest" is an order of charges, because the account has no clock.
///
/// A host keeps a value with each connection. [`changed`](Self::changed) shows the value with the new grant.
///
/// ```
/// use protocol_endpoint::{Account, AccountLimits, Grant};
///
/// let mut account = Account::new(AccountLimits::of(64 << 20));
/// let (greedy, modest) = (account.open("greedy"), account.open("modest"));
/// account.charge(modest, 1 << 20);
/// account.charge(greedy, 63 << 20);
/// assert_eq!(account.grant(greedy), Grant::Revoked);
/// assert_eq!(account.grant(modest), Grant::All);
/// assert_eq!(account.changed().collect::<Vec<_>>(), [(&"greedy", Grant::Revoked)]);
/// ```
#[derive(Clone, Debug)]
pub struct Account<T> {
    limits: AccountLimits,
    rows: Slab<Row<T>>,
    /// The bytes that all connections hold.
    used: usize,
    /// The bytes of those among them whose grant is revoked.
    revoked: usize,
    /// The number of charges so far.
    charges: u64,
    level: Grant,
    /// Whether there is a grant that [`changed`](Self::changed) has not taken.
    has_changed: bool,
}

/// A connection that draws on an [`Account`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member(usize);

#[derive(Clone, Debug)]
struct Row<T> {
    /// The host's value.
    value: T,
    held: usize,
    /// The number of the last charge by which it held less than before.
    read: u64,
    grant: Grant,
    /// Whether its host has not seen its grant yet.
    is_new: bool,
}

impl<T> Account<T> {
    /// Returns an account without a connection.
    #[must_use]
    pub const fn new(limits: AccountLimits) -> Self {
        Self {
            limits,
            rows: Slab::new(),
            used: 0,
            revoked: 0,
            charges: 0,
            level: Grant::All,
            has_changed: false,
        }
    }

    /// Returns the limits.
    #[must_use]
    pub const fn limits(&self) -> &AccountLimits {
        &self.limits
    }

    /// Returns the bytes that all connections hold.
    #[must_use]
    pub const fn used(&self) -> usize {
        self.used
    }

    /// Opens the account of a connection that holds nothing yet, and keeps the host's value with it.
    pub fn open(&mut self, value: T) -> Member {
        let row = Row { value, held: 0, read: self.charges, grant: Grant::All, is_new: false };
        let member = Member(self.rows.insert(row));
        self.look_again();
        member
    }

    /// Closes the account of a connection that holds nothing any more.
    pub fn close(&mut self, member: Member) {
        self.charge(member, 0);
        if self.rows.try_remove(member.0).is_some() {
            self.look_again();
        }
    }

    /// Charges a connection with everything that it holds now, in bytes. A charge that is lower than the
    /// one before shows that its peer reads.
    ///
    /// Returns whether there are grants that changed, which [`changed`](Self::changed) takes.
    pub fn charge(&mut self, member: Member, held: usize) -> bool {
        let share = self.share();
        self.charges += 1;
        let Some(row) = self.rows.get_mut(member.0) else { return false };
        self.used = self.used - row.held + held;
        if row.grant == Grant::Revoked {
            self.revoked = self.revoked - row.held + held;
        }
        if held < row.held {
            row.read = self.charges;
        }
        row.held = held;
        let level = self.limits.level(self.used);
        if level == self.level {
            self.has_changed |= row.give(level, share);
        } else {
            self.level = level;
            self.give_all();
        }
        while self.used - self.revoked > self.limits.most() && self.revoke() {}
        self.has_changed
    }

    /// Returns the grant of a connection. One that is unknown has none.
    #[must_use]
    pub fn grant(&self, member: Member) -> Grant {
        self.rows.get(member.0).map_or(Grant::Revoked, |row| row.grant)
    }

    /// Takes the values and grants of the connections whose grant has changed. The connections are in the order in which
    /// they were opened or took a place that was left.
    pub fn changed(&mut self) -> impl Iterator<Item = (&T, Grant)> {
        self.has_changed = false;
        self.rows.iter_mut().filter_map(|(_, row)| {
            let is_new = core::mem::take(&mut row.is_new);
            is_new.then_some((&row.value, row.grant))
        })
    }

    /// Returns the bytes that each connection may hold before it is limited.
    fn share(&self) -> usize {
        (self.limits.most() / self.rows.len().max(1)).max(self.limits.floor_bytes)
    }

    /// Looks at every grant again, because the shares have changed.
    fn look_again(&mut self) {
        if self.level > Grant::All {
            self.give_all();
        }
    }

    fn give_all(&mut self) {
        let (level, share) = (self.level, self.share());
        for (_, row) in &mut self.rows {
            self.has_changed |= row.give(level, share);
        }
    }

    /// Revokes the grant of one connection, if any is above its share.
    fn revoke(&mut self) -> bool {
        let share = self.share();
        let is_candidate = |row: &Row<T>| row.grant < Grant::Revoked && row.held > share;
        let held = self.rows.iter().map(|(_, row)| row).filter(|row| is_candidate(row));
        let Some(largest) = held.map(|row| row.held).max() else { return false };
        let large = self.rows.iter_mut().map(|(_, row)| row);
        let large = large.filter(|row| is_candidate(row) && row.held >= largest / 2);
        let Some(row) = large.min_by_key(|row| row.read) else { return false };
        (row.grant, row.is_new) = (Grant::Revoked, true);
        self.has_changed = true;
        self.revoked += row.held;
        true
    }
}

impl<T> Row<T> {
    /// Gives it the grant of this level, if it holds more than the share. Returns whether that is new.
    fn give(&mut self, level: Grant, share: usize) -> bool {
        let grant = if self.held > share { level } else { Grant::All };
        let is_new = self.grant != Grant::Revoked && self.grant != grant;
        if is_new {
            (self.grant, self.is_new) = (grant, true);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const POOL: usize = 8 << 20;
    const MIB: usize = 1 << 20;

    /// Returns an account with connections that hold this many bytes, charged in their order.
    fn account<const N: usize>(held: [usize; N]) -> (Account<usize>, [Member; N]) {
        let mut account = Account::new(AccountLimits::of(POOL));
        let members = core::array::from_fn(|number| account.open(number));
        for (member, held) in members.iter().zip(held) {
            account.charge(*member, held);
        }
        (account, members)
    }

    fn grants<const N: usize>(account: &Account<usize>, members: [Member; N]) -> [Grant; N] {
        members.map(|member| account.grant(member))
    }

    #[test]
    fn a_connection_is_limited_step_by_step_and_its_grant_goes_back() {
        let (mut account, [greedy, _, _, _]) = account([0; 4]);
        for (held, grant) in [
            (5 * MIB, Grant::All),
            (5 * MIB + 1, Grant::NoRequests),
            (6 * MIB + 1, Grant::NoReading),
            (6 * MIB, Grant::NoRequests),
            (MIB, Grant::All),
        ] {
            account.charge(greedy, held);
            assert_eq!(account.grant(greedy), grant, "{held}");
        }
        assert_eq!(account.used(), MIB);
    }

    #[test]
    fn a_connection_below_its_share_or_its_floor_is_never_limited() {
        let (mut account, members) = account([6 * MIB + 8, 16 << 10, 0, 0]);
        let [greedy, modest, ..] = grants(&account, members);
        assert_eq!((greedy, modest), (Grant::NoReading, Grant::All));
        // So many have no share that is more than their floor.
        let more: Vec<Member> = (0..1_000).map(|number| account.open(number)).collect();
        account.charge(more[0], 64 << 10);
        account.charge(more[1], (64 << 10) + 1);
        let [least, above] = grants(&account, [more[0], more[1]]);
        assert_eq!((least, above), (Grant::All, Grant::NoReading));
    }

    #[test]
    fn the_victim_is_large_and_has_not_read_for_longest() {
        let (mut account, members) = account([MIB, 3 * MIB, 2 * MIB, 0]);
        let [small, reads, stuck, last] = members;
        // The small one has read before all others, and the largest has read since.
        account.charge(small, MIB / 2);
        account.charge(stuck, 2 * MIB - 1);
        account.charge(reads, 3 * MIB - 1);
        account.charge(last, 1);
        account.charge(last, 0);
        account.charge(last, 2 * MIB);
        let expected = [Grant::All, Grant::NoReading, Grant::Revoked, Grant::NoReading];
        assert_eq!(grants(&account, members), expected);
        // Its bytes make no room before they are released, and a revoked grant stays revoked.
        assert_eq!(account.used(), 15 * MIB / 2 - 2);
        account.charge(stuck, 0);
        assert_eq!(account.grant(stuck), Grant::Revoked);
        assert_eq!(account.grant(reads), Grant::NoRequests);
        account.close(stuck);
        assert_eq!(account.used(), 11 * MIB / 2 - 1);
    }

    #[test]
    fn the_connections_that_stay_hold_no_more_than_the_pool() {
        let (mut account, members) = account([0; 64]);
        let mut state = 1_u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let member = members[(state >> 33) as usize % members.len()];
            account.charge(member, (state >> 40) as usize % MIB);
            let staying = account.used() - account.revoked;
            assert!(staying <= POOL, "{staying}");
        }
        let revoked = account.rows.iter().filter(|(_, row)| row.grant == Grant::Revoked);
        assert!(revoked.count() > 1, "it was put to the test");
        members.into_iter().for_each(|member| account.close(member));
        assert_eq!((account.used(), account.revoked), (0, 0));
    }

    #[test]
    fn the_same_charges_have_the_same_grants() {
        let run = || {
            let (mut account, members) = account([0; 16]);
            let mut seen = Vec::new();
            for turn in 0..2_000_usize {
                let held = turn * 7_919 * 997 % (2 * MIB);
                if account.charge(members[turn * 31 % 16], held) {
                    seen.extend(account.changed().map(|(&number, grant)| (number, grant)));
                    assert_eq!(account.changed().next(), None, "each is told once");
                }
            }
            seen
        };
        assert!(run().len() > 16);
        assert_eq!(run(), run());
    }

    #[test]
    fn the_formula_of_the_process_is_the_pool_or_all_floors() {
        let limits = AccountLimits::of(POOL);
        assert_eq!(limits.memory(64), POOL);
        assert_eq!(limits.memory(1_024), 64 * MIB);
    }
}

//! The grant of an account: an input that limits what the endpoint takes.

use protocol_core::Shutdown;

use crate::account::Grant;
use crate::effects::{Effect, Effects, Shown};
use crate::state::{EndReason, Endpoint};
use crate::verdict::Verdict;

/// The bytes that a request or call in flight counts beside its messages: its rows, names and marks.
const ROW: usize = 2 << 10;

impl<W, M> Endpoint<W, M> {
    /// Takes the grant that an [`Account`](crate::Account) gives this connection. It is an input like any
    /// other, and is shown as a [`Verdict`], so a replay can repeat it.
    ///
    /// [`Grant::Revoked`] ends the connection: everything in flight is lost, and nothing more is written.
    pub fn set_grant(&mut self, grant: Grant, effects: &mut Effects<W, M>) {
        if self.grant == grant || self.grant == Grant::Revoked {
            return;
        }
        self.grant = grant;
        if self.shows.verdicts || self.shows.responses {
            effects.show(Shown::Verdict(Verdict::Granted { grant }, self.now));
        }
        if grant == Grant::Revoked {
            self.end_by(EndReason::Revoked);
            self.shutdown(Shutdown::Abandon, self.now, effects);
            // Nothing of it is read any more, and its memory is what the others need.
            self.stop_serving(effects);
            while let Some((request, _)) = self.responses.pop() {
                let mark = self.release_unsent(request, effects);
                effects.add(mark.map(Effect::DropMark));
            }
        }
    }

    /// Returns the latest grant.
    pub const fn grant(&self) -> Grant {
        self.grant
    }

    /// Returns whether the host may read from the peer.
    pub fn may_read(&self) -> bool {
        self.grant < Grant::NoReading
    }

    /// Notes the bytes of an unfinished message that the host holds. [`receive`](Self::receive) does it for
    /// a stream of bytes; a transport of whole messages knows better.
    pub const fn note_unfinished(&mut self, bytes: usize) {
        self.unfinished = bytes;
    }

    /// Notes that the host keeps `after` bytes for the peer beside the endpoint, in place of `before`.
    pub const fn note_kept(&mut self, before: usize, after: usize) {
        self.kept = self.kept.saturating_sub(before).saturating_add(after);
    }

    /// Returns the bytes that are held for the peer, for [`Account::charge`](crate::Account::charge).
    ///
    /// An unfinished message counts twice, because it may be copied once when it is complete.
    pub fn held_bytes(&self) -> usize {
        let core = self.core();
        let rows = core.calls_in_flight() + core.requests_in_flight();
        rows * ROW
            + core.unsent_bytes()
            + self.output.staged.len()
            + self.output.taken
            + self.inbox.bytes()
            + self.at_work.bytes()
            + self.responses.bytes()
            + self.calls.bytes()
            + 2 * self.unfinished
            + self.kept
    }
}

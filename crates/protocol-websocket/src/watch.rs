//! The meaning of a connection's silence. The decisions are pure, so a test can see all of them.

use std::time::Duration;

use protocol_core::Timestamp;

use crate::eviction::Eviction;
use crate::limits::ListenerLimits;

/// The shortest idle time: a row that is due at once would begin again without end.
const SHORTEST_IDLE: Duration = Duration::from_millis(10);

/// The times of one connection. Each row is due so long after something:
///
/// | after | a time of | then |
/// |---|---|---|
/// | the last sign of life: a byte that was heard, or room again for what is sent | `ping_every` | a ping is sent, once |
/// | that ping, without such a sign since | `ping_time` | [`Eviction::Unanswered`] |
/// | the first byte of an unfinished message | `message_time` | [`Eviction::UnfinishedMessage`] |
/// | the moment when what is sent stopped leaving | `write_time` | [`Eviction::Unread`] |
/// | the last message, either way | `idle_time` | [`Eviction::Idle`], unless something is in flight: then the row begins again |
#[derive(Debug)]
pub(crate) struct Watch {
    limits: ListenerLimits,
    heard: Timestamp,
    pinged: Option<Timestamp>,
    unfinished: Option<Timestamp>,
    unread: Option<Timestamp>,
    message: Timestamp,
}

/// A thing that is to be done about a silence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Ping,
    /// To be evicted as idle, if nothing is in flight.
    Idle,
    Evict(Eviction),
}

impl Watch {
    pub(crate) fn new(limits: ListenerLimits, now: Timestamp) -> Self {
        let idle_time = limits.idle_time.map(|time| time.max(SHORTEST_IDLE));
        let limits = ListenerLimits { idle_time, ..limits };
        Self { limits, heard: now, pinged: None, unfinished: None, unread: None, message: now }
    }

    /// Takes note of bytes that came.
    pub(crate) fn heard(&mut self, now: Timestamp) {
        self.heard = now;
        self.pinged = None;
    }

    /// Takes note of a message that came or went whole, or is still owed.
    pub(crate) fn message(&mut self, now: Timestamp) {
        self.message = now;
    }

    /// Takes note of whether a message has begun to come that is not finished.
    pub(crate) fn unfinished(&mut self, is_unfinished: bool, now: Timestamp) {
        self.unfinished = is_unfinished.then(|| self.unfinished.unwrap_or(now));
    }

    /// Takes note of whether sent messages can't leave, and returns whether that is new. A peer that takes them
    /// again is alive: no ping may have had room until then, nor its pong.
    pub(crate) fn unread(&mut self, is_unread: bool, now: Timestamp) -> bool {
        if !is_unread && self.unread.is_some() {
            self.heard(now);
        }
        let is_new = is_unread && self.unread.is_none();
        self.unread = is_unread.then(|| self.unread.unwrap_or(now));
        is_new
    }

    /// Takes note of a ping that was sent, or would have been if the peer read anything.
    pub(crate) fn pinged(&mut self, now: Timestamp) {
        self.pinged = Some(now);
    }

    /// Returns the next thing that is due, and its time.
    pub(crate) fn due(&self) -> Option<(Timestamp, Due)> {
        let ListenerLimits { message_time, write_time, ping_every, ping_time, idle_time, .. } =
            self.limits;
        let row =
            |after: Option<Timestamp>, time: Option<Duration>, then| Some((after? + time?, then));
        let silent = match self.pinged {
            None => row(Some(self.heard), ping_every, Due::Ping),
            pinged => row(pinged, Some(ping_time), Due::Evict(Eviction::Unanswered)),
        };
        let evict = |eviction| Due::Evict(eviction);
        [
            silent,
            row(self.unfinished, Some(message_time), evict(Eviction::UnfinishedMessage)),
            row(self.unread, Some(write_time), evict(Eviction::Unread)),
            row(Some(self.message), idle_time, Due::Idle),
        ]
        .into_iter()
        .flatten()
        .min_by_key(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn at(seconds: u32) -> Timestamp {
        Timestamp::ZERO + SECOND * seconds
    }

    fn watch() -> Watch {
        let limits = ListenerLimits {
            message_time: SECOND * 8,
            write_time: SECOND * 20,
            ping_every: Some(SECOND * 5),
            ping_time: SECOND * 2,
            idle_time: Some(SECOND * 60),
            ..ListenerLimits::DEFAULT
        };
        Watch::new(limits, at(0))
    }

    #[test]
    fn f47_who_is_silent_is_asked_once_and_then_sent_away() {
        let mut watch = watch();
        assert_eq!(watch.due(), Some((at(5), Due::Ping)));
        watch.heard(at(3));
        assert_eq!(watch.due(), Some((at(8), Due::Ping)));
        watch.pinged(at(8));
        assert_eq!(watch.due(), Some((at(10), Due::Evict(Eviction::Unanswered))));
        watch.heard(at(9));
        assert_eq!(watch.due(), Some((at(14), Due::Ping)), "any byte is an answer");
    }

    #[test]
    fn f47_a_message_has_its_time_however_it_dribbles() {
        let mut watch = watch();
        for now in 1..8 {
            watch.heard(at(now));
            watch.unfinished(true, at(now));
        }
        assert_eq!(watch.due(), Some((at(9), Due::Evict(Eviction::UnfinishedMessage))));
        watch.unfinished(false, at(8));
        watch.unfinished(true, at(9));
        watch.heard(at(16));
        assert_eq!(watch.due(), Some((at(17), Due::Evict(Eviction::UnfinishedMessage))));
    }

    #[test]
    fn f45_who_reads_nothing_has_its_time_whatever_it_says() {
        let mut watch = watch();
        assert!(watch.unread(true, at(1)));
        assert!(!watch.unread(true, at(2)));
        (2..20).for_each(|now| watch.heard(at(now)));
        assert_eq!(watch.due(), Some((at(21), Due::Evict(Eviction::Unread))));
        assert!(!watch.unread(false, at(20)));
        assert_eq!(watch.due(), Some((at(25), Due::Ping)));
        assert!(watch.unread(true, at(23)));
    }

    #[test]
    fn f45_who_reads_now_and_then_is_not_silent() {
        let mut watch = watch();
        watch.unread(true, at(1));
        watch.pinged(at(5));
        watch.unread(false, at(6));
        watch.unread(true, at(6));
        assert_eq!(watch.due(), Some((at(11), Due::Ping)));
    }

    #[test]
    fn f47_pongs_alone_do_not_keep_a_connection() {
        let mut watch = watch();
        watch.message(at(2));
        (3..61).for_each(|now| watch.heard(at(now)));
        assert_eq!(watch.due(), Some((at(62), Due::Idle)));
    }

    #[test]
    fn what_is_switched_off_is_never_due() {
        let limits =
            ListenerLimits { ping_every: None, idle_time: None, ..ListenerLimits::DEFAULT };
        assert_eq!(Watch::new(limits, at(0)).due(), None);
    }
}

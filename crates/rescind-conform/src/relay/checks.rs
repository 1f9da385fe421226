//! The table of checks of relays, in the order in which they are made and reported.

use super::clauses::*;
use super::message::{Cancelled, Cancellers, Framing, Protocol};
use super::play::Play;
use super::progress::*;
use super::rules::Rule;
use super::scenarios::*;
use super::silent::*;
use crate::check::Clause;

/// One check: a conversation with a relay, what has to hold of it, and who says so.
#[derive(Clone, Copy, Debug)]
pub struct RelayCheck {
    /// Names it, for good.
    pub id: &'static str,
    /// The statement that holds if it passes.
    pub title: &'static str,
    /// The protocols that ask for that; to others the check does not apply.
    pub clauses: &'static [Clause],
    /// The rules for this conversation, in addition to those for every one ([`RelayCheck::ALWAYS`]).
    pub rules: &'static [Rule],
    /// The evidence that the relay had its chance to break them.
    pub witness: &'static str,
    pub(super) only: fn(Protocol) -> bool,
    /// The conversation. `None` if it came to a halt.
    pub(super) run: fn(&mut Play<'_>) -> Option<()>,
}

impl RelayCheck {
    /// The rules for every conversation. A program that breaks them is no relay.
    pub const ALWAYS: [Rule; 5] = [
        Rule::ForwardedOnce,
        Rule::OwnIds,
        Rule::AnsweredOnce,
        Rule::AnswerUnchanged,
        Rule::CancelOfAnother,
    ];

    pub(super) fn judges(&self, rule: Rule) -> bool {
        Self::ALWAYS.contains(&rule) || self.rules.contains(&rule)
    }

    pub(super) fn clause(&self, protocols: [Protocol; 2]) -> Option<&'static Clause> {
        let asks = |protocol: &Protocol| {
            self.clauses.iter().find(|clause| clause.families.contains(&protocol.family))
        };
        protocols.iter().find_map(asks)
    }
}

const fn by_lines(protocol: Protocol) -> bool {
    matches!(protocol.framing, Framing::Newline)
}

const fn with_headers(protocol: Protocol) -> bool {
    matches!(protocol.framing, Framing::ContentLength)
}

const fn silent(protocol: Protocol) -> bool {
    !matches!(protocol.cancelled, Cancelled::Answered)
}

const fn answered(protocol: Protocol) -> bool {
    !silent(protocol)
}

const fn both_may_cancel(protocol: Protocol) -> bool {
    matches!(protocol.cancellers, Cancellers::Both)
}

const fn without_batches(protocol: Protocol) -> bool {
    !protocol.batches
}

const fn has_uncancellable(protocol: Protocol) -> bool {
    !protocol.uncancellable.is_empty()
}

const BASE: RelayCheck = RelayCheck {
    id: "",
    title: "",
    clauses: ANSWERED,
    rules: &[],
    witness: "A request each way, sent after it, arrives and is answered.",
    only: |_| true,
    run: |_| None,
};

/// Every check of relays.
pub const RELAY_CHECKS: &[RelayCheck] = &[
    RelayCheck {
        id: "relay-id/kinds",
        title: "ids of every kind in flight at once: each request is answered under its own",
        run: ids_of_every_kind,
        ..BASE
    },
    RelayCheck {
        id: "relay-id/large",
        title: "ids greater than 2^53 that differ by one: each request is answered under its own",
        clauses: ENDED_LARGE,
        only: by_lines,
        run: large_ids,
        ..BASE
    },
    RelayCheck {
        id: "relay-id/reused",
        title: "an id used again after its answer: the old cancel is not the new request's",
        clauses: ANSWERED_BY_ID,
        run: id_reused_after_answer,
        ..BASE
    },
    RelayCheck {
        id: "relay-id/reused-at-once",
        title: "a request, its cancel and its id used again in one write: each is answered or refused",
        clauses: REUSED,
        run: id_reused_at_once,
        ..BASE
    },
    RelayCheck {
        id: "relay-id/duplicate",
        title: "an id that is in flight, used again: refused, and the first goes on",
        clauses: REUSED,
        run: duplicate_id,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/live",
        title: "a cancel of a live request: it arrives once, under the id that the request has there",
        clauses: FORWARDED,
        rules: &[Rule::CancelForwarded],
        run: cancel_live,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/one-write",
        title: "a request and its cancel in one write: both arrive, or neither",
        clauses: FORWARDED,
        rules: &[Rule::CancelForwarded],
        run: cancel_in_the_same_write,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/twice",
        title: "two cancels of one request: one arrives",
        clauses: FORWARDED,
        rules: &[Rule::CancelForwarded],
        run: cancel_twice,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/both-directions",
        title: "the same id in flight both ways: a cancel is of the request of its own direction",
        clauses: ONE_NAMED,
        only: both_may_cancel,
        run: same_id_both_ways,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/wrong-side",
        title: "a cancel by the side that works on the request: no request is hit",
        clauses: ONE_NAMED,
        run: cancel_from_the_wrong_side,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/result",
        title: "a cancelled request that ends with a result: the result is passed on",
        clauses: PASSED_ON,
        rules: &[Rule::CancelledAnswer],
        only: answered,
        run: cancel_answered_with_result,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/notified",
        title: "a notification after a cancel: it is passed on",
        clauses: PASSED_ON,
        rules: &[Rule::Notifications],
        run: progress_after_cancel,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/crossing",
        title: "a cancel and an answer that cross: the request ends once",
        clauses: ENDED,
        run: crossing,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/late",
        title: "a cancel of an answered request: it does not arrive",
        clauses: IGNORED,
        rules: &[Rule::CancelOfNothing],
        run: cancel_answered,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/unknown",
        title: "a cancel of an id that was never used, of another type or of the other side: it does not arrive",
        clauses: IGNORED,
        rules: &[Rule::CancelOfNothing],
        run: cancel_unknown,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/before-request",
        title: "a cancel before its request: it does not arrive, and the request is not cancelled",
        clauses: IGNORED,
        rules: &[Rule::CancelOfNothing],
        run: cancel_before_request,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/malformed",
        title: "malformed cancels: none arrives",
        clauses: IGNORED,
        rules: &[Rule::MalformedCancel],
        run: cancel_malformed,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/uncancellable",
        title: "a cancel of a request that can't be cancelled: it does not arrive",
        clauses: UNCANCELLABLE,
        only: has_uncancellable,
        run: cancel_refused,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/acknowledged",
        title: "cancels that are requests, of one at work, one that was answered and one that never was: each is answered",
        clauses: ACKNOWLEDGED,
        rules: &[Rule::Acknowledged],
        run: acknowledged,
        ..BASE
    },
    RelayCheck {
        id: "relay-cancel/progress",
        title: "a cancel that names a progress: it arrives, naming that, and its answer comes back",
        clauses: PROGRESS_CANCELLED,
        rules: &[Rule::RequestUnchanged],
        run: progress_cancelled,
        ..BASE
    },
    RelayCheck {
        id: "relay-silence/progress",
        title: "progress and an answer after a cancel: none is passed on where the protocol wants silence",
        clauses: SILENCE,
        rules: &[Rule::Silence],
        only: silent,
        run: token_after_cancel,
        ..BASE
    },
    RelayCheck {
        id: "relay-silence/many",
        title: "twenty requests, every second cancelled, all answered: nothing is passed on about the cancelled",
        clauses: SILENCE,
        rules: &[Rule::Silence],
        only: silent,
        run: late_of_many,
        ..BASE
    },
    RelayCheck {
        id: "relay-silence/spares-others",
        title: "progress of a request beside a cancelled one: it is passed on",
        clauses: PROGRESS,
        rules: &[Rule::Notifications],
        only: silent,
        run: token_after_cancel,
        ..BASE
    },
    RelayCheck {
        id: "relay-answer/stray",
        title: "answers to nothing, and the same answer again: none is passed on",
        clauses: STRAY,
        run: stray_answers,
        ..BASE
    },
    RelayCheck {
        id: "relay-answer/other-type",
        title: "an answer under an id of the other JSON type: it answers nothing",
        clauses: STRAY_BY_TYPE,
        run: answer_under_other_type,
        ..BASE
    },
    RelayCheck {
        id: "relay-answer/error",
        title: "an error with data: its code and message are passed on",
        run: errors_with_data,
        ..BASE
    },
    RelayCheck {
        id: "relay-answer/malformed",
        title: "malformed answers: the caller gets an error that it can read",
        clauses: FORM,
        run: malformed_answers,
        ..BASE
    },
    RelayCheck {
        id: "relay-notification/order",
        title: "notifications: each arrives once, in order, with its tokens untouched",
        clauses: PASSED_ON,
        rules: &[Rule::Notifications],
        run: notifications,
        ..BASE
    },
    RelayCheck {
        id: "relay-notification/request",
        title: "a progress that names its request: it arrives with the id that its caller has given it",
        clauses: PROGRESS_NAMES,
        rules: &[Rule::Notifications],
        run: progress_of_request,
        ..BASE
    },
    RelayCheck {
        id: "relay-form/unchanged",
        title: "a request arrives with the method and the params that it had",
        clauses: PASSED_ON,
        rules: &[Rule::RequestUnchanged],
        run: odd_spelling,
        ..BASE
    },
    RelayCheck {
        id: "relay-form/ids",
        title: "the relay's own ids are numbers of 31 bits or plain texts, whatever the caller's",
        clauses: FORM,
        rules: &[Rule::Form],
        run: ids_of_every_kind,
        ..BASE
    },
    RelayCheck {
        id: "relay-form/spelling",
        title: "messages with escapes, spaces and members in another order: they are read as any",
        clauses: SPELLED,
        rules: &[Rule::CancelForwarded],
        run: odd_spelling,
        ..BASE
    },
    RelayCheck {
        id: "relay-form/byte-by-byte",
        title: "a message written byte by byte: it is read as any",
        clauses: SPELLED,
        run: byte_by_byte,
        ..BASE
    },
    RelayCheck {
        id: "relay-form/batches",
        title: "batches, where the protocol has none: they do not arrive, nor do their members",
        clauses: FORM,
        rules: &[Rule::Batch],
        only: without_batches,
        run: batches,
        ..BASE
    },
    RelayCheck {
        id: "relay-form/garbage",
        title: "messages that are none: they do not arrive, and the relay lives on",
        clauses: FORM,
        rules: &[Rule::Form],
        run: garbage,
        ..BASE
    },
    RelayCheck {
        id: "relay-form/blank-lines",
        title: "blank lines and lines that end with CR LF: the message is read as any",
        clauses: FORM,
        only: by_lines,
        run: blank_lines,
        ..BASE
    },
    RelayCheck {
        id: "relay-form/headers",
        title: "headers in every spelling that is in use: the messages are read as any",
        clauses: FORM,
        only: with_headers,
        run: header_spellings,
        ..BASE
    },
    RelayCheck {
        id: "relay-form/large-message",
        title: "a message of 5 MiB, and its answer: both arrive",
        clauses: FORM,
        run: large_message,
        ..BASE
    },
    RelayCheck {
        id: "relay-load/many",
        title: "two hundred requests in one write, every third cancelled: each ends as it should",
        clauses: FORWARDED,
        rules: &[Rule::CancelForwarded],
        run: many,
        ..BASE
    },
    RelayCheck {
        id: "relay-end/caller",
        title: "the caller hangs up: its request is cancelled on the other side, or that side is told of the end",
        clauses: GONE,
        rules: &[Rule::Ends],
        witness: "A cancel of the request, or the end of the input, is waited for on the other side.",
        run: caller_hangs_up,
        ..BASE
    },
    RelayCheck {
        id: "relay-end/callee",
        title: "the side that works on a request hangs up: the request is answered with an error",
        clauses: GONE,
        rules: &[Rule::Ends],
        witness: "The answer is waited for.",
        run: callee_hangs_up,
        ..BASE
    },
];

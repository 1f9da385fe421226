//! The table of checks of relays, in the order in which they are made and reported.

use protocol_core::{Cancellers, Dialect, Framing, ResponseRule};

use super::clauses::*;
use super::play::Play;
use super::progress::*;
use super::rules::Rule::{self, *};
use super::scenarios::*;
use crate::check::Row;
use crate::family::Family::*;

/// A check of a relay: a conversation for the protocols that these fit, and its own rules beside [`RelayCheck::ALWAYS`].
pub type RelayCheck = Row<Fits, Conversation, Rule>;

/// Returns whether a check is for a protocol.
pub(super) type Fits = fn(&Dialect) -> bool;

/// The steps of a check: `None` if the conversation came to a halt.
pub(super) type Conversation = fn(&mut Play<'_>) -> Option<()>;

type Steps = &'static [Conversation];

impl RelayCheck {
    /// The rules for every conversation. A program that breaks them is no relay.
    pub const ALWAYS: [Rule; 5] =
        [ForwardedOnce, OwnIds, AnsweredOnce, AnswerUnchanged, CancelOfAnother];

    pub(super) fn judges(&self, rule: Rule) -> bool {
        Self::ALWAYS.contains(&rule) || self.rules.contains(&rule)
    }
}

const BY_LINES: Fits = |dialect| dialect.framing != Framing::ContentLength;
const WITH_HEADERS: Fits = |dialect| dialect.framing == Framing::ContentLength;
const SILENT: Fits = |dialect| dialect.response != ResponseRule::Required;
const WANTS_ANSWERS: Fits = |dialect| dialect.response == ResponseRule::Required;
const BOTH_MAY_CANCEL: Fits = |dialect| dialect.cancellers == Cancellers::Both;
/// The first revision of MCP says nothing of batches, and JSON-RPC has them.
pub(super) const WITHOUT_BATCHES: Fits =
    |dialect| dialect.batches.is_none() && dialect.name != "mcp-2024-11-05";
const HAS_UNCANCELLABLE: Fits = |dialect| !dialect.uncancellable.methods.is_empty();

const fn check(id: &'static str, steps: Steps, title: &'static str) -> RelayCheck {
    let check = RelayCheck::BASE.named(id, title).steps(steps).clauses(ANSWERED);
    check.witness("A request each way, sent after it, arrives and is answered.")
}

/// A cancel that has to arrive.
const fn forwarded(id: &'static str, steps: Steps, title: &'static str) -> RelayCheck {
    check(id, steps, title).clauses(FORWARDED).rules(&[CancelForwarded])
}

/// A cancel that names nothing.
const fn ignored(id: &'static str, steps: Steps, title: &'static str) -> RelayCheck {
    check(id, steps, title).clauses(IGNORED).rules(&[CancelOfNothing])
}

/// Something that is passed on as it was.
const fn passed_on(id: &'static str, steps: Steps, title: &'static str) -> RelayCheck {
    check(id, steps, title).clauses(PASSED_ON)
}

/// Something that is not to be said about a cancelled request.
const fn silent(id: &'static str, steps: Steps, title: &'static str) -> RelayCheck {
    check(id, steps, title).clauses(SILENCE).rules(&[Silence]).needs(&[SILENT])
}

/// Something that leaves in a form which every peer reads, or does not leave.
const fn readable(id: &'static str, steps: Steps, title: &'static str) -> RelayCheck {
    check(id, steps, title).clauses(FORM)
}

/// Every check of relays.
pub const RELAY_CHECKS: &[RelayCheck] = &[
    check("relay-id/kinds", &[ids_of_every_kind], "ids of every kind in flight at once: each request is answered under its own"),
    check("relay-id/large", &[large_ids], "ids greater than 2^53 that differ by one: each request is answered under its own")
        .clauses(&[JSON_RPC.of(&[Acp, AcpV2, AcpDraft, McpUntil2025, Mcp2026]).should("An id is an integer of any size, or a text. A relay rounds none.")])
        .needs(&[BY_LINES]),
    check("relay-id/reused", &[id_reused_after_answer], "an id used again after its answer: the old cancel is not the new request's")
        .clauses(ANSWERED_BY_ID),
    check("relay-id/reused-at-once", &[id_reused_at_once], "a request, its cancel and its id used again in one write: each is answered or refused")
        .clauses(REUSED),
    check("relay-id/duplicate", &[duplicate_id], "an id that is in flight, used again: each request is answered or refused")
        .clauses(REUSED),
    forwarded("relay-cancel/live", &[cancel_live], "a cancel of a live request: it arrives once, under the id that the request has there"),
    forwarded("relay-cancel/one-write", &[cancel_in_the_same_write], "a request and its cancel in one write: both arrive, or neither"),
    forwarded("relay-cancel/twice", &[cancel_twice], "two cancels of one request: one arrives"),
    check("relay-cancel/both-directions", &[same_id_both_ways], "the same id in flight both ways: a cancel is of the request of its own direction")
        .clauses(ONE_NAMED)
        .needs(&[BOTH_MAY_CANCEL]),
    check("relay-cancel/wrong-side", &[cancel_from_the_wrong_side], "a cancel by the side that works on the request: no request is hit")
        .clauses(ONE_NAMED),
    passed_on("relay-cancel/result", &[cancel_answered_with_result], "a cancelled request that ends with a result: the result is passed on")
        .rules(&[CancelledAnswer])
        .needs(&[WANTS_ANSWERS]),
    passed_on("relay-cancel/notified", &[progress_after_cancel], "a notification after a cancel: it is passed on")
        .rules(&[Notifications]),
    check("relay-cancel/crossing", &[crossing], "a cancel and an answer that cross: the request ends once")
        .clauses(&[
            ENDED_IN_ACP,
            ENDED_IN_LSP,
            MCP.should("A cancel and an answer may cross: neither disturbs another request."),
            MCP_NEW.should("A cancel and an answer may cross: neither disturbs another request."),
            ENDED_IN_DAP,
        ]),
    ignored("relay-cancel/late", &[cancel_answered], "a cancel of an answered request: it does not arrive"),
    ignored("relay-cancel/unknown", &[cancel_unknown], "a cancel of an id that was never used, of another type or of the other side: it does not arrive"),
    ignored("relay-cancel/before-request", &[cancel_before_request], "a cancel before its request: it does not arrive, and the request is not cancelled"),
    check("relay-cancel/malformed", &[cancel_malformed], "malformed cancels: none arrives")
        .clauses(IGNORED)
        .rules(&[MalformedCancel]),
    check("relay-cancel/uncancellable", &[cancel_refused], "a cancel of a request that can't be cancelled: it does not arrive")
        .clauses(&[
            ACP.of(&[AcpDraft]).must("The request that opens the session is not cancelled."),
            MCP.must("A client does not cancel its initialize."),
        ])
        .needs(&[HAS_UNCANCELLABLE]),
    check("relay-cancel/acknowledged", &[acknowledged], "cancels that are requests, of one at work, one that was answered and one that never was: each is answered")
        .clauses(&[DAP.must("A cancel is a request, and its response an acknowledgement; one that could not cancel anything may return an error.")])
        .rules(&[Acknowledged]),
    check("relay-cancel/progress", &[progress_cancelled], "a cancel that names a progress: it arrives, naming that, and its answer comes back")
        .clauses(&[DAP.should("A cancel may name a progress, by the id that its adapter gave it, instead of a request.")])
        .rules(&[RequestUnchanged]),
    silent("relay-silence/progress", &[token_after_cancel], "progress and an answer after a cancel: none is passed on where the protocol wants silence"),
    silent("relay-silence/many", &[late_of_many], "twenty requests, every second cancelled, all answered: nothing is passed on about the cancelled"),
    check("relay-silence/spares-others", &[token_after_cancel], "progress of a request beside a cancelled one: it is passed on")
        .clauses(&[MCP_PROGRESS.of(&[McpUntil2025, Mcp2026]).should("Progress goes to who asked for it, by the token that he gave.")])
        .rules(&[Notifications])
        .needs(&[SILENT]),
    check("relay-answer/stray", &[stray_answers], "answers to nothing, and the same answer again: none is passed on")
        .clauses(&[OURS.of(ALL).should("An answer that names no request is ignored by who reads it first: on the next connection its id may be another request's.")]),
    check("relay-answer/other-type", &[answer_under_other_type], "an answer under an id of the other JSON type: it answers nothing")
        .clauses(&[OURS.of(BY_ID).should("An answer that names no request is ignored by who reads it first: on the next connection its id may be another request's.")]),
    check("relay-answer/error", &[errors_with_data], "an error with data: its code and message are passed on"),
    readable("relay-answer/malformed", &[malformed_answers], "malformed answers: the caller gets an error that it can read"),
    passed_on("relay-notification/order", &[notifications], "notifications: each arrives once, in order, with its tokens untouched")
        .rules(&[Notifications]),
    check("relay-notification/request", &[progress_of_request], "a progress that names its request: it arrives with the id that its caller has given it")
        .clauses(&[DAP_PROGRESS.should("A progress that belongs to a request names that by its number: the one that its caller has given it.")])
        .rules(&[Notifications]),
    passed_on("relay-form/unchanged", &[odd_spelling], "a request arrives with the method and the params that it had")
        .rules(&[RequestUnchanged]),
    readable("relay-form/ids", &[ids_of_every_kind], "the relay's own ids are numbers of 31 bits or plain texts, whatever the caller's")
        .rules(&[Form]),
    check("relay-form/spelling", &[odd_spelling], "messages with escapes, spaces and members in another order: they are read as any")
        .clauses(SPELLED)
        .rules(&[CancelForwarded]),
    check("relay-form/byte-by-byte", &[byte_by_byte], "a message written byte by byte: it is read as any")
        .clauses(SPELLED),
    readable("relay-form/batches", &[batches], "batches, where the protocol has none: they do not arrive, nor do their members")
        .rules(&[Batch])
        .needs(&[WITHOUT_BATCHES]),
    readable("relay-form/garbage", &[garbage], "messages that are none: they do not arrive, and the relay lives on")
        .rules(&[Form]),
    readable("relay-form/blank-lines", &[blank_lines], "blank lines and lines that end with CR LF: the message is read as any")
        .needs(&[BY_LINES]),
    readable("relay-form/headers", &[header_spellings], "headers in every spelling that is in use: the messages are read as any")
        .needs(&[WITH_HEADERS]),
    readable("relay-form/large-message", &[large_message], "a message of 5 MiB, and its answer: both arrive"),
    forwarded("relay-load/many", &[many], "two hundred requests in one write, every third cancelled: each ends as it should"),
    check("relay-end/caller", &[caller_hangs_up], "the caller hangs up: its request is cancelled on the other side, or that side is told of the end")
        .clauses(GONE)
        .rules(&[Ends])
        .witness("A cancel of the request, or the end of the input, is waited for on the other side."),
    check("relay-end/callee", &[callee_hangs_up], "the side that works on a request hangs up: the request is answered with an error")
        .clauses(GONE)
        .rules(&[Ends])
        .witness("The answer is waited for."),
];

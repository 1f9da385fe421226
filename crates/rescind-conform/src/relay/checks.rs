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

const fn check(id: &'static str, title: &'static str) -> RelayCheck {
    let check = RelayCheck::BASE.named(id, title).clauses(ANSWERED);
    check.witness("A request each way, sent after it, arrives and is answered.")
}

/// A cancel that has to arrive.
const fn forwarded(id: &'static str, title: &'static str) -> RelayCheck {
    check(id, title).clauses(FORWARDED).rules(&[CancelForwarded])
}

/// A cancel that names nothing.
const fn ignored(id: &'static str, title: &'static str) -> RelayCheck {
    check(id, title).clauses(IGNORED).rules(&[CancelOfNothing])
}

/// Something that is passed on as it was.
const fn passed_on(id: &'static str, title: &'static str) -> RelayCheck {
    check(id, title).clauses(PASSED_ON)
}

/// Something that is not to be said about a cancelled request.
const fn silent(id: &'static str, title: &'static str) -> RelayCheck {
    check(id, title).clauses(SILENCE).rules(&[Silence]).needs(&[SILENT])
}

/// Something that leaves in a form which every peer reads, or does not leave.
const fn readable(id: &'static str, title: &'static str) -> RelayCheck {
    check(id, title).clauses(FORM)
}

/// Every check of relays.
pub const RELAY_CHECKS: &[RelayCheck] = &[
    check("relay-id/kinds", "ids of every kind in flight at once: each request is answered under its own")
        .steps(&[ids_of_every_kind]),
    check("relay-id/large", "ids greater than 2^53 that differ by one: each request is answered under its own")
        .clauses(&[JSON_RPC.of(&[Acp, AcpV2, AcpDraft, McpUntil2025, Mcp2026]).should("An id is an integer of any size, or a text. A relay rounds none.")])
        .needs(&[BY_LINES])
        .steps(&[large_ids]),
    check("relay-id/reused", "an id used again after its answer: the old cancel is not the new request's")
        .clauses(ANSWERED_BY_ID)
        .steps(&[id_reused_after_answer]),
    check("relay-id/reused-at-once", "a request, its cancel and its id used again in one write: each is answered or refused")
        .clauses(REUSED)
        .steps(&[id_reused_at_once]),
    check("relay-id/duplicate", "an id that is in flight, used again: refused, and the first goes on")
        .clauses(REUSED)
        .steps(&[duplicate_id]),
    forwarded("relay-cancel/live", "a cancel of a live request: it arrives once, under the id that the request has there")
        .steps(&[cancel_live]),
    forwarded("relay-cancel/one-write", "a request and its cancel in one write: both arrive, or neither")
        .steps(&[cancel_in_the_same_write]),
    forwarded("relay-cancel/twice", "two cancels of one request: one arrives")
        .steps(&[cancel_twice]),
    check("relay-cancel/both-directions", "the same id in flight both ways: a cancel is of the request of its own direction")
        .clauses(ONE_NAMED)
        .needs(&[BOTH_MAY_CANCEL])
        .steps(&[same_id_both_ways]),
    check("relay-cancel/wrong-side", "a cancel by the side that works on the request: no request is hit")
        .clauses(ONE_NAMED)
        .steps(&[cancel_from_the_wrong_side]),
    passed_on("relay-cancel/result", "a cancelled request that ends with a result: the result is passed on")
        .rules(&[CancelledAnswer])
        .needs(&[WANTS_ANSWERS])
        .steps(&[cancel_answered_with_result]),
    passed_on("relay-cancel/notified", "a notification after a cancel: it is passed on")
        .rules(&[Notifications])
        .steps(&[progress_after_cancel]),
    check("relay-cancel/crossing", "a cancel and an answer that cross: the request ends once")
        .clauses(&[
            ENDED_IN_ACP,
            ENDED_IN_LSP,
            MCP.should("A cancel and an answer may cross: neither disturbs another request."),
            MCP_NEW.should("A cancel and an answer may cross: neither disturbs another request."),
            ENDED_IN_DAP,
        ])
        .steps(&[crossing]),
    ignored("relay-cancel/late", "a cancel of an answered request: it does not arrive")
        .steps(&[cancel_answered]),
    ignored("relay-cancel/unknown", "a cancel of an id that was never used, of another type or of the other side: it does not arrive")
        .steps(&[cancel_unknown]),
    ignored("relay-cancel/before-request", "a cancel before its request: it does not arrive, and the request is not cancelled")
        .steps(&[cancel_before_request]),
    check("relay-cancel/malformed", "malformed cancels: none arrives")
        .clauses(IGNORED)
        .rules(&[MalformedCancel])
        .steps(&[cancel_malformed]),
    check("relay-cancel/uncancellable", "a cancel of a request that can't be cancelled: it does not arrive")
        .clauses(&[
            ACP.of(&[AcpDraft]).must("The request that opens the session is not cancelled."),
            MCP.must("A client does not cancel its initialize."),
        ])
        .needs(&[HAS_UNCANCELLABLE])
        .steps(&[cancel_refused]),
    check("relay-cancel/acknowledged", "cancels that are requests, of one at work, one that was answered and one that never was: each is answered")
        .clauses(&[DAP.must("A cancel is a request, and its response an acknowledgement; one that could not cancel anything may return an error.")])
        .rules(&[Acknowledged])
        .steps(&[acknowledged]),
    check("relay-cancel/progress", "a cancel that names a progress: it arrives, naming that, and its answer comes back")
        .clauses(&[DAP.should("A cancel may name a progress, by the id that its adapter gave it, instead of a request.")])
        .rules(&[RequestUnchanged])
        .steps(&[progress_cancelled]),
    silent("relay-silence/progress", "progress and an answer after a cancel: none is passed on where the protocol wants silence")
        .steps(&[token_after_cancel]),
    silent("relay-silence/many", "twenty requests, every second cancelled, all answered: nothing is passed on about the cancelled")
        .steps(&[late_of_many]),
    check("relay-silence/spares-others", "progress of a request beside a cancelled one: it is passed on")
        .clauses(&[MCP_PROGRESS.of(&[McpUntil2025, Mcp2026]).should("Progress goes to who asked for it, by the token that he gave.")])
        .rules(&[Notifications])
        .needs(&[SILENT])
        .steps(&[token_after_cancel]),
    check("relay-answer/stray", "answers to nothing, and the same answer again: none is passed on")
        .clauses(&[OURS.of(ALL).should("An answer that names no request is ignored by who reads it first: on the next connection its id may be another request's.")])
        .steps(&[stray_answers]),
    check("relay-answer/other-type", "an answer under an id of the other JSON type: it answers nothing")
        .clauses(&[OURS.of(BY_ID).should("An answer that names no request is ignored by who reads it first: on the next connection its id may be another request's.")])
        .steps(&[answer_under_other_type]),
    check("relay-answer/error", "an error with data: its code and message are passed on")
        .steps(&[errors_with_data]),
    readable("relay-answer/malformed", "malformed answers: the caller gets an error that it can read")
        .steps(&[malformed_answers]),
    passed_on("relay-notification/order", "notifications: each arrives once, in order, with its tokens untouched")
        .rules(&[Notifications])
        .steps(&[notifications]),
    check("relay-notification/request", "a progress that names its request: it arrives with the id that its caller has given it")
        .clauses(&[DAP_PROGRESS.should("A progress that belongs to a request names that by its number: the one that its caller has given it.")])
        .rules(&[Notifications])
        .steps(&[progress_of_request]),
    passed_on("relay-form/unchanged", "a request arrives with the method and the params that it had")
        .rules(&[RequestUnchanged])
        .steps(&[odd_spelling]),
    readable("relay-form/ids", "the relay's own ids are numbers of 31 bits or plain texts, whatever the caller's")
        .rules(&[Form])
        .steps(&[ids_of_every_kind]),
    check("relay-form/spelling", "messages with escapes, spaces and members in another order: they are read as any")
        .clauses(SPELLED)
        .rules(&[CancelForwarded])
        .steps(&[odd_spelling]),
    check("relay-form/byte-by-byte", "a message written byte by byte: it is read as any")
        .clauses(SPELLED)
        .steps(&[byte_by_byte]),
    readable("relay-form/batches", "batches, where the protocol has none: they do not arrive, nor do their members")
        .rules(&[Batch])
        .needs(&[WITHOUT_BATCHES])
        .steps(&[batches]),
    readable("relay-form/garbage", "messages that are none: they do not arrive, and the relay lives on")
        .rules(&[Form])
        .steps(&[garbage]),
    readable("relay-form/blank-lines", "blank lines and lines that end with CR LF: the message is read as any")
        .needs(&[BY_LINES])
        .steps(&[blank_lines]),
    readable("relay-form/headers", "headers in every spelling that is in use: the messages are read as any")
        .needs(&[WITH_HEADERS])
        .steps(&[header_spellings]),
    readable("relay-form/large-message", "a message of 5 MiB, and its answer: both arrive")
        .steps(&[large_message]),
    forwarded("relay-load/many", "two hundred requests in one write, every third cancelled: each ends as it should")
        .steps(&[many]),
    check("relay-end/caller", "the caller hangs up: its request is cancelled on the other side, or that side is told of the end")
        .clauses(GONE)
        .rules(&[Ends])
        .witness("A cancel of the request, or the end of the input, is waited for on the other side.")
        .steps(&[caller_hangs_up]),
    check("relay-end/callee", "the side that works on a request hangs up: the request is answered with an error")
        .clauses(GONE)
        .rules(&[Ends])
        .witness("The answer is waited for.")
        .steps(&[callee_hangs_up]),
];

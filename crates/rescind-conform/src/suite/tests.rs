//! The needs of a check, and its verdict on a server that lacks them.

use std::time::Duration;

use protocol_core::Dialect;
use serde_json::json;

use super::{case_seed, hash, in_order};
use crate::check::Need;
use crate::facts::{Facts, Slow};
use crate::family::Request;
use crate::once::{self, Once};
use crate::options::{Options, Suite};
use crate::report::Verdict::{self, NotApplicable, NotExercised, Pass, Unclear};
use crate::server::Server;
use crate::stop::{Stop, TOO_LATE};
use crate::tests::{Absent, IN_TWO_PROTOCOLS, is_played};
use crate::words::Check;

/// Returns the verdict of a check that needs this, on a server with these facts.
fn said(need: Need, dialect: &str, known: impl FnOnce(&mut Facts)) -> Verdict {
    let dialect = Dialect::named(dialect).expect("there is such a dialect");
    let mut facts = Facts::unknown(dialect.clone());
    known(&mut facts);
    let options = Options::new(dialect);
    let needs = Box::leak(Box::new([need]));
    let check = Check::BASE.named("cancel/late", "").clauses(IN_TWO_PROTOCOLS).needs(needs);
    let server = Server { target: &Absent, options: &options, facts };
    options.suite.outcome(&server, &check).verdict
}

/// A request that takes its time, with progress or not, while others are answered or not.
pub(crate) fn slow(has_progress: bool, reads_on: bool) -> Result<Slow, Stop> {
    let request = Request::new("work", json!({}));
    Ok(Slow {
        request,
        natural: Duration::from_secs(1),
        undelayed: Duration::from_secs(1),
        asked_ms: 1000,
        has_progress,
        reads_on,
        ..Slow::default()
    })
}

#[track_caller]
fn lacks(need: Need, dialect: &str, why: &str, known: impl FnOnce(&mut Facts)) {
    assert_eq!(said(need, dialect, known), NotExercised { why: why.into() });
}

#[test]
fn what_a_server_lacks_is_said_and_is_no_verdict() {
    let no_slow = "no request is known that takes its time (--slow METHOD PARAMS)";
    lacks(Need::Slow, "acp", no_slow, |_| {});
    let no_progress = "the request that takes its time reports no progress";
    lacks(Need::Progress, "acp", no_progress, |_| {});
    lacks(Need::Progress, "acp", no_progress, |facts| facts.slow = slow(false, true));
    let busy = "the server answers nothing else while it is at work";
    lacks(Need::ReadsOn, "acp", busy, |_| {});
    lacks(Need::ReadsOn, "acp", busy, |facts| facts.slow = slow(true, false));
    // Nobody knows what was not seen on a machine that was late.
    let late = |facts: &mut Facts| {
        facts.slow = slow(false, false).map(|slow| Slow { was_late: true, ..slow });
    };
    for need in [Need::ReadsOn, Need::Progress] {
        assert_eq!(said(need, "acp", late), Unclear { why: TOO_LATE.into() });
    }
    let asks_nothing = "no request is known that makes the server ask something (--reverse)";
    lacks(Need::Reverse, "acp", asks_nothing, |_| {});
    let untold = "no request is known that tells how the work of another ended (--witness)";
    lacks(Need::Witness, "acp", untold, |_| {});
}

#[test]
fn a_check_is_played_with_a_server_that_has_what_it_needs() {
    assert!(is_played(&said(Need::Slow, "acp", |facts| facts.slow = slow(false, false))));
    assert!(is_played(&said(Need::Progress, "acp", |facts| facts.slow = slow(true, false))));
    assert!(is_played(&said(Need::ReadsOn, "acp", |facts| facts.slow = slow(false, true))));
    let asks = |facts: &mut Facts| facts.reverse = Some(Request::new("ask", json!({})));
    assert!(is_played(&said(Need::Reverse, "acp", asks)));
    assert!(is_played(&said(Need::Process, "acp", |facts| facts.is_process = true)));
}

#[test]
fn a_check_applies_where_there_is_a_clause_and_what_it_is_about() {
    assert_eq!(said(Need::Process, "acp", |_| {}), NotApplicable);
    assert_eq!(said(Need::Slow, "lsp", |_| {}), NotApplicable);
    let newest = "mcp-2026-07-28";
    let over_http = "mcp-2026-07-28-http";
    for (need, on_streams) in [(Need::OneStream, true), (Need::Message, true), (Need::Http, false)]
    {
        assert_eq!(said(need, newest, |_| {}) == NotApplicable, !on_streams, "{need:?}");
        assert_eq!(said(need, over_http, |_| {}) == NotApplicable, on_streams, "{need:?}");
    }
    // In a session, a cancel is a message over HTTP too.
    assert!(Facts::unknown(Dialect::MCP_2025_11_25_HTTP).applies(Need::Message));
}

#[test]
fn the_checks_to_run_are_named_by_themselves_or_by_their_group() {
    let names = |only: &[&str]| -> Vec<&str> {
        let only = only.iter().map(|only| (*only).to_owned()).collect();
        let suite = Suite { only, ..Suite::default() };
        crate::CHECKS.iter().map(|check| check.id).filter(|id| suite.runs(id)).collect()
    };
    assert_eq!(names(&[]).len(), crate::CHECKS.len());
    assert_eq!(names(&["cancel/late"]), ["cancel/late"]);
    assert_eq!(names(&["end"]), ["end/pending", "end/orphan"]);
    assert_eq!(names(&["end", "cancel/late"]), ["cancel/late", "end/pending", "end/orphan"]);
}

#[test]
fn outcomes_are_told_in_the_order_of_the_table() {
    let make = |number: &u64| {
        let check = Check::BASE.named("cancel/late", "");
        let passes = |_| Once::without(Pass);
        let mut outcome = once::outcome(&check, None, &crate::Known::default(), passes);
        outcome.stderr = number.to_string();
        outcome
    };
    let checks: Vec<u64> = (0..20).collect();
    let mut seen = Vec::new();
    let outcomes = in_order(&checks, 4, make, |outcome| seen.push(outcome.stderr.clone()));
    let expected: Vec<String> = checks.iter().map(u64::to_string).collect();
    assert_eq!(seen, expected);
    assert_eq!(outcomes.into_iter().map(|it| it.stderr).collect::<Vec<_>>(), expected);
}

/// The numbers of the reference, so that a seed makes the same run anywhere and later.
#[test]
fn the_seed_of_a_check_is_made_of_its_name_by_fnv_1a() {
    assert_eq!(hash(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(hash("foobar"), 0x8594_4171_f739_67e8);
    assert_eq!(case_seed(0x0105, "foobar"), 0x8594_4171_f739_66ed);
}

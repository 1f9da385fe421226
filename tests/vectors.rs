//! Runs `tests/vectors/*.jsonl` through `rescind step`, byte for byte.
//!
//! A vector begins with a line that says what it shows, which bugs (B) and guarantees (G) it holds,
//! and which rule of which protocol asks for it. Then come `{"in": INPUT}` lines, each followed by
//! the `{"out": OUTPUT}` lines that it makes. `BLESS=1 cargo test --test vectors` rewrites the
//! outputs; read the difference before you commit it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod committed;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, panic};

use clap::Parser;
use rescind::step::{Session, StepArgs};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Makes a test of each vector, and the list of them all.
macro_rules! vectors {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

vectors! {
    b01_lsp_malformed_response_settles_its_call
    b01_malformed_response_settles_its_call
    b02_bad_envelope_is_answered_with_its_id
    b02_lsp_bad_envelope_is_answered_with_its_id
    b03_nothing_of_the_peer_is_echoed
    b04_bad_bytes_do_not_end_the_connection
    b04_lsp_bad_bytes_do_not_end_the_connection
    b05_duplicate_id_in_flight_is_refused
    b05_jsonrpc_duplicate_id_in_a_batch_is_refused
    b05_lsp_duplicate_id_is_compared_by_what_it_says
    b07_cancel_is_read_however_much_waits
    b08_cancel_does_not_queue_behind_bulk
    b09_cancel_in_the_same_read
    b09_early_cancel_names_nothing
    b09_lsp_cancel_in_the_same_read
    b10_cancel_crosses_the_answer
    b12_cancelled_request_is_answered
    b12_lsp_cancelled_request_is_answered
    b13_peers_cancel_does_not_touch_our_call
    b14_acp_cancel_names_the_exact_id
    b14_answer_of_another_type_is_not_ours
    b14_escaped_ids_are_echoed_and_found
    b14_look_alike_ids_are_different
    b15_jsonrpc_request_never_becomes_a_notification
    b15_lsp_request_never_becomes_a_notification
    b15_request_never_becomes_a_notification
    b16_end_of_input_settles_every_call
    b16_lsp_truncated_end_settles_every_call
    b17_requests_are_told_that_the_peer_is_gone
    b18_giving_up_tells_the_peer
    b18_lsp_giving_up_tells_the_peer
    b18_unsent_cancel_outlives_its_call
    b19_jsonrpc_late_response_to_a_local_cancel
    b19_late_response_is_told_from_all_others
    b20_calls_that_nobody_awaits_are_released
    b21_hard_cap_needs_no_progress_to_fire
    b21_lsp_idle_timeout_is_reset_by_its_own_progress_only
    b22_abort_is_not_a_timeout
    b23_good_result_wins
    b24_unsent_call_is_withdrawn_with_its_cancel
    b28_half_a_message_waits_for_the_rest
    b28_lsp_half_a_header_waits_for_the_rest
    b29_cancel_is_no_wait
    b30_limits_are_answered
    b30_lsp_limits_are_answered
    b31_answer_to_a_request_that_never_left
    b31_unknown_response_is_reported
    b32_batch_ends_when_its_members_have
    b32_batch_of_responses_settles_its_calls
    b32_batch_outlives_the_end_of_input
    b33_failed_request_fails_alone
    g01_every_call_settles_exactly_once
    g02_one_answer_a_request
    g03_cancel_is_marked_while_its_message_is_decoded
    g04_answer_withdraws_the_cancel
    g04_cancel_overtakes_bulk_but_not_its_request
    g05_every_way_of_giving_up_keeps_its_cause
    g05_jsonrpc_every_way_of_giving_up_is_local
    g05_reasons_are_accepted
    g05_shutdown_abandons
    g05_shutdown_cancels
    g05_shutdown_cancels_within_bounds
    g05_shutdown_drains
    g05_shutdown_true_is_a_drain
    g05_stronger_shutdown_takes_over
    g06_answer_leaves_its_calls_alone
    g06_cancel_cascades_to_the_calls_made_for_a_request
    g07_closed_is_the_last_event
    g08_cancelled_requests_still_count
    g08_id_that_is_too_long_is_not_kept
    g09_bad_messages_are_typed_and_answered
    g10_refused_commands_change_nothing
    g11_draining_late_changes_nothing_but_withdrawals
    g11_splitting_changes_nothing
    g12_grace_is_per_call
    g12_late_duplicate_and_unknown_are_told_apart
    input_batches_are_refused
    input_calls_are_numbered_and_named
    input_content_length_headers
    input_empty_lines_and_crlf
    input_header_huge_ends_the_connection
    input_header_negative_ends_the_connection
    input_header_no_length_ends_the_connection
    input_header_text_ends_the_connection
    input_header_two_ends_the_connection
    input_ids_of_every_type
    input_ids_of_every_type_in_responses
    input_method_and_result_is_a_request
    input_odd_but_valid_messages
    input_time_moves_before_the_input
    input_truncated_header_is_reported
    input_truncated_line_is_still_a_message
    input_wrong_jsonrpc
}

/// The rows of the list of bugs that one connection can't show, and what shows them instead.
const SHOWN_ELSEWHERE: &[(u8, &str)] = &[
    (6, "handlers are the adapters' business"),
    (11, "no dialect of today demands silence"),
    (25, "takes two connections: the relay"),
    (26, "takes two connections: the relay"),
    (27, "dropping handles is the adapters' business"),
];

/// The rows that there are.
const BUGS: u8 = 33;
const GUARANTEES: u8 = 12;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    /// One sentence: what it shows.
    vector: String,
    /// Which bugs and guarantees: `B9`, `G3`.
    rules: Vec<String>,
    dialect: String,
    /// Which rule of which protocol, or which reader of the wire, asks for it.
    cites: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(borrow, rename = "in")]
    input: Option<&'a RawValue>,
    #[serde(borrow, rename = "out")]
    _output: Option<&'a RawValue>,
}

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: StepArgs,
}

#[test]
fn every_vector_is_listed_and_every_listed_one_is_there() {
    let found: BTreeSet<String> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .map(|name| name.strip_suffix(".jsonl").expect("only vectors are here").to_owned())
        .collect();
    let listed: BTreeSet<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
    let differ: Vec<_> = found.symmetric_difference(&listed).collect();
    assert!(differ.is_empty(), "only in the list, or only in the directory: {differ:?}");
}

#[test]
fn every_bug_and_guarantee_has_a_vector_named_for_it() {
    let named = |prefix: String| NAMES.iter().any(|name| name.starts_with(&prefix));
    for bug in 1..=BUGS {
        let elsewhere = SHOWN_ELSEWHERE.iter().find(|(row, _)| *row == bug);
        match elsewhere {
            None => assert!(named(format!("b{bug:02}_")), "B{bug} has no vector"),
            Some((_, why)) => assert!(!named(format!("b{bug:02}_")), "B{bug} has one, yet: {why}"),
        }
    }
    for guarantee in 1..=GUARANTEES {
        assert!(named(format!("g{guarantee:02}_")), "G{guarantee} has no vector");
    }
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors")
}

/// Replays one vector and compares the whole transcript.
fn run(name: &str) {
    let path = directory().join(name).with_extension("jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let (first, rest) = text.split_once('\n').unwrap();
    let header: Header = serde_json::from_str(first).unwrap();
    check_header(name, &header);

    let transcript = transcript(&header, rest);
    assert_eq!(transcript, self::transcript(&header, rest), "G10: the same again");
    if let Err(difference) = committed::check(&path, &format!("{first}\n{transcript}")) {
        panic!("{}\n{difference}", header.vector);
    }
}

fn check_header(name: &str, header: &Header) {
    assert!(header.vector.ends_with('.'), "a vector says what it shows in one sentence");
    assert!(!header.cites.is_empty());
    for rule in &header.rules {
        let (kind, number) = rule.split_at(1);
        let last = if kind == "B" { BUGS } else { GUARANTEES };
        let known = ["B", "G"].contains(&kind) && (1..=last).contains(&number.parse().unwrap());
        assert!(known, "{rule} is neither a bug nor a guarantee");
    }
    let prefix = name.split('_').next().unwrap().to_uppercase();
    if prefix != "INPUT" {
        let rule = format!("{}{}", &prefix[..1], prefix[1..].trim_start_matches('0'));
        assert!(header.rules.contains(&rule), "the name says {rule}");
    }
}

/// The inputs among `lines` as they stand, each with the outputs that it really makes.
fn transcript(header: &Header, lines: &str) -> String {
    let mut session =
        Session::new(&Command::parse_from(["step", "--dialect", &header.dialect]).args);
    let mut transcript = String::new();
    for line in lines.lines() {
        let parsed: Line<'_> =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let Some(input) = parsed.input else { continue };
        let mut outputs = Vec::new();
        session
            .take(input.get().as_bytes(), &mut outputs)
            .unwrap_or_else(|problem| panic!("{line}: {problem}"));
        transcript.push_str(line);
        transcript.push('\n');
        for output in String::from_utf8(outputs).unwrap().lines() {
            serde_json::from_str::<&RawValue>(output).expect("every output is JSON");
            transcript.push_str(&format!("{{\"out\": {output}}}\n"));
        }
    }
    transcript
}

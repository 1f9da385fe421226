//! Runs `tests/vectors/*.jsonl` and `tests/vectors/<dialect>/*.jsonl` through `rescind step`, byte for
//! byte.
//!
//! A vector begins with a line that says what it shows, which bugs (B) and guarantees (G) it holds,
//! which rule of which protocol asks for it, and which side of the dialect it is. Then come `{"in": INPUT}` lines, each followed by
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
    ($($name:ident)*; $($module:ident in $dialect:literal { $($inner:ident)* })*) => {
        $(
            #[test]
            fn $name() {
                run(stringify!($name));
            }
        )*
        $(
            mod $module {
                $(
                    #[test]
                    fn $inner() {
                        super::run(concat!($dialect, "/", stringify!($inner)));
                    }
                )*
            }
        )*
        const NAMES: &[&str] = &[
            $(stringify!($name),)*
            $($(concat!($dialect, "/", stringify!($inner)),)*)*
        ];
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
    input_wrong_jsonrpc;

    acp_draft in "acp-draft" {
        agent_to_client_cancellation_only_as_the_agent
        agent_to_client_cancellation_only_as_the_client
        b12_cancelled_request_is_answered
        b23_both_outcomes_of_our_cancel
        batches_null_ids_and_unknown_methods
        bidirectional_cancellation_as_the_agent
        bidirectional_cancellation_as_the_client
        cancel_does_not_overtake_the_exchange
        client_to_agent_cancellation_only_as_the_agent
        client_to_agent_cancellation_only_as_the_client
        failed_exchange_declares_nothing
        g02_finished_unknown_and_second_cancels_change_nothing
        initialize_is_never_cancelled_as_the_agent
        initialize_is_never_cancelled_as_the_client
        no_cancellation_as_the_agent
        no_cancellation_as_the_client
        nothing_is_cancelled_before_the_exchange_as_the_agent
        nothing_is_cancelled_before_the_exchange_as_the_client
        only_true_is_a_declaration
        uncancellable_calls_settle_here_when_time_is_up
        unsent_calls_are_withdrawn_whatever_was_declared
    }

    acp_v2 in "acp-v2" {
        batches_are_refused
        g02_cancels_after_the_answer_or_for_unknown_ids_are_never_answered
        ids_are_never_null
        initialize_can_be_cancelled_as_the_agent
        initialize_can_be_cancelled_as_the_client
    }

    mcp in "mcp" {
        is_the_newest_revision
        is_the_newest_revision_as_the_server
    }

    mcp_2024_11_05 in "mcp-2024-11-05" {
        b09_early_cancel_names_nothing
        b11_cancelled_request_is_not_answered
        batches_are_refused
        both_sides_cancel
        cancel_settles_the_call_at_once
        closed_stream_is_a_peer_that_is_gone
        g02_invalid_cancels_are_ignored
        ids_are_never_null
        initialize_is_never_cancelled_as_the_client
        initialize_is_never_cancelled_as_the_server
        progress_of_a_cancelled_request_may_still_leave
        time_outs_cancel_and_settle
    }

    mcp_2024_11_05_http in "mcp-2024-11-05-http" {
        b11_cancelled_request_is_not_answered
        batches_are_refused
        both_sides_cancel
        cancel_settles_the_call_at_once
        closed_stream_is_no_cancel
        early_cancel_waits_for_its_request
        g02_invalid_cancels_are_ignored
        ids_are_never_null
        initialize_is_never_cancelled_as_the_client
        initialize_is_never_cancelled_as_the_server
        time_outs_cancel_and_settle
    }

    mcp_2025_03_26 in "mcp-2025-03-26" {
        b09_early_cancel_names_nothing
        b11_cancelled_request_is_not_answered
        batches_are_taken
        both_sides_cancel
        cancel_settles_the_call_at_once
        closed_stream_is_a_peer_that_is_gone
        g02_invalid_cancels_are_ignored
        ids_are_never_null
        initialize_is_never_cancelled_as_the_client
        initialize_is_never_cancelled_as_the_server
        initialize_may_not_be_in_a_batch
        progress_of_a_cancelled_request_may_still_leave
        time_outs_cancel_and_settle
    }

    mcp_2025_03_26_http in "mcp-2025-03-26-http" {
        b11_cancelled_request_is_not_answered
        batches_are_taken
        both_sides_cancel
        cancel_settles_the_call_at_once
        closed_stream_is_no_cancel
        early_cancel_waits_for_its_request
        g02_invalid_cancels_are_ignored
        ids_are_never_null
        initialize_is_never_cancelled_as_the_client
        initialize_is_never_cancelled_as_the_server
        initialize_may_not_be_in_a_batch
        time_outs_cancel_and_settle
    }

    mcp_2025_06_18 in "mcp-2025-06-18" {
        b09_early_cancel_names_nothing
        b11_cancelled_request_is_not_answered
        batches_are_refused
        both_sides_cancel
        cancel_settles_the_call_at_once
        closed_stream_is_a_peer_that_is_gone
        g02_invalid_cancels_are_ignored
        ids_are_never_null
        initialize_is_never_cancelled_as_the_client
        initialize_is_never_cancelled_as_the_server
        progress_of_a_cancelled_request_may_still_leave
        time_outs_cancel_and_settle
    }

    mcp_2025_06_18_http in "mcp-2025-06-18-http" {
        b11_cancelled_request_is_not_answered
        batches_are_refused
        both_sides_cancel
        cancel_settles_the_call_at_once
        closed_stream_is_no_cancel
        early_cancel_waits_for_its_request
        g02_invalid_cancels_are_ignored
        ids_are_never_null
        initialize_is_never_cancelled_as_the_client
        initialize_is_never_cancelled_as_the_server
        time_outs_cancel_and_settle
    }

    mcp_2025_11_25 in "mcp-2025-11-25" {
        b09_early_cancel_names_nothing
        b11_cancelled_request_is_not_answered
        batches_are_refused
        both_sides_cancel
        cancel_settles_the_call_at_once
        closed_stream_is_a_peer_that_is_gone
        g02_invalid_cancels_are_ignored
        ids_are_never_null
        initialize_is_never_cancelled_as_the_client
        initialize_is_never_cancelled_as_the_server
        progress_of_a_cancelled_request_may_still_leave
        task_augmented_requests_are_not_cancelled_as_the_client
        task_augmented_requests_are_not_cancelled_as_the_server
        time_outs_cancel_and_settle
    }

    mcp_2025_11_25_http in "mcp-2025-11-25-http" {
        b11_cancelled_request_is_not_answered
        batches_are_refused
        both_sides_cancel
        cancel_settles_the_call_at_once
        closed_stream_is_no_cancel
        early_cancel_waits_for_its_request
        g02_invalid_cancels_are_ignored
        ids_are_never_null
        initialize_is_never_cancelled_as_the_client
        initialize_is_never_cancelled_as_the_server
        task_augmented_requests_are_not_cancelled_as_the_client
        task_augmented_requests_are_not_cancelled_as_the_server
        time_outs_cancel_and_settle
    }

    mcp_2026_07_28 in "mcp-2026-07-28" {
        b09_early_cancel_names_nothing
        b11_cancelled_request_is_not_answered
        batches_are_refused
        cancel_settles_the_call_at_once
        closed_stream_is_a_peer_that_is_gone
        g02_invalid_cancels_are_ignored
        ids_are_never_null
        progress_of_a_cancelled_request_is_withheld
        server_ends_its_subscriptions_as_the_client
        server_ends_its_subscriptions_as_the_server
        task_augmented_requests_are_not_cancelled_this_way
        time_outs_cancel_and_settle
    }

    mcp_2026_07_28_http in "mcp-2026-07-28-http" {
        batches_are_refused
        cancel_settles_the_call_at_once
        closed_stream_cancels
        ids_are_never_null
        notifications_cancelled_is_no_cancel
        progress_of_a_cancelled_request_is_withheld
        server_ends_its_subscriptions_as_the_client
        server_ends_its_subscriptions_as_the_server
        task_augmented_requests_are_not_cancelled_this_way
        time_outs_cancel_and_settle
    }

    mcp_http in "mcp-http" {
        is_the_newest_revision
        is_the_newest_revision_as_the_server
    }
}

/// The rows of the list of bugs that one connection can't show, and what shows them instead.
const SHOWN_ELSEWHERE: &[(u8, &str)] = &[
    (6, "handlers are the adapters' business"),
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
    /// Which side it is, where the dialect tells its sides apart.
    #[serde(default = "client")]
    side: String,
}

fn client() -> String {
    "client".into()
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
    let mut found = BTreeSet::new();
    find(&directory(), "", &mut found);
    let listed: BTreeSet<String> = NAMES.iter().map(|&name| name.to_owned()).collect();
    let differ: Vec<_> = found.symmetric_difference(&listed).collect();
    assert!(differ.is_empty(), "only in the list, or only in the directory: {differ:?}");
}

#[test]
fn every_bug_and_guarantee_has_a_vector_named_for_it() {
    let named = |prefix: String| {
        let mut names = NAMES.iter().map(|name| name.rsplit('/').next().unwrap());
        names.any(|name| name.starts_with(&prefix))
    };
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

/// The vectors under a directory, by their paths.
fn find(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            find(&entry.path(), &format!("{prefix}{name}/"), found);
        } else {
            let name = name.strip_suffix(".jsonl").expect("only vectors are here");
            found.insert(format!("{prefix}{name}"));
        }
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
    let name = match name.split_once('/') {
        None => name,
        Some((directory, name)) => {
            assert_eq!(directory, header.dialect, "a directory holds one dialect");
            name
        }
    };
    let prefix = name.split('_').next().unwrap().to_uppercase();
    let is_rule = prefix.len() == 3 && prefix.starts_with(['B', 'G']);
    if is_rule && prefix[1..].parse::<u8>().is_ok() {
        let rule = format!("{}{}", &prefix[..1], prefix[1..].trim_start_matches('0'));
        assert!(header.rules.contains(&rule), "the name says {rule}");
    }
}

/// The inputs among `lines` as they stand, each with the outputs that it really makes.
fn transcript(header: &Header, lines: &str) -> String {
    let args = ["step", "--dialect", &header.dialect, "--side", &header.side];
    let mut session = Session::new(&Command::parse_from(args).args);
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

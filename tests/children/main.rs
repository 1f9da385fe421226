//! Child processes, on every runtime: one suite, written once.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod host;
mod plain;
mod suite;
mod support;

/// Makes a test of each function of the suite, on each runtime.
macro_rules! on_every_runtime {
    ($($test:ident)*) => {
        mod on_tokio {
            $(
                #[test]
                fn $test() {
                    crate::support::run_on_tokio(crate::suite::$test(crate::support::on_tokio));
                }
            )*
        }

        mod on_smol {
            $(
                #[test]
                fn $test() {
                    smol::block_on(crate::suite::$test(crate::support::on_smol));
                }
            )*
        }
    };
}

on_every_runtime! {
    f32_a_death_behind_an_open_pipe_settles_calls_with_the_status
    f32_an_output_that_ends_with_the_process_tells_the_status
    f32_what_was_written_before_the_death_arrives
    f32_one_that_left_the_group_keeps_nobody_waiting
    f32_an_output_that_ends_before_the_process_settles_calls
    f34_a_call_that_could_not_be_written_is_told_the_status_too
    f32_stderr_never_stops_the_process
    f32_the_tail_of_stderr_and_the_id_are_told
    f60_the_end_of_input_ends_what_is_behind_a_wrapper
    f60_what_ignores_its_input_is_terminated
    f60_what_ignores_sigterm_is_killed
    f60_a_process_that_leaves_its_group_is_ended_itself
    f62_what_is_written_after_the_end_of_input_is_read
}

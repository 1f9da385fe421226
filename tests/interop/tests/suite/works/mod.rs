//! Work that goes on beside requests, with real peers in both roles: turns, tasks and progress. Each is stopped by its
//! own name, and the witness is that it ended.

mod agents;
mod progress;
mod sdk_v2;
mod tasks;
mod tasks_extension;
mod turns;
mod turns_v2;

use std::process::Command;

use rescind_interop::peers::CommandLine;

/// Runs a script in front of a server, and checks that it came to its last check.
fn script(client: Option<CommandLine>, server: &[String], last: &str) {
    let Some(client) = client else { return };
    let output = Command::new("timeout").arg("300").args(&client).args(server).output();
    let output = output.expect("the client runs");
    let (checks, problems) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "held:\n{checks}\n{problems}");
    assert_eq!(checks.lines().last(), Some(last), "every check was made:\n{checks}");
}

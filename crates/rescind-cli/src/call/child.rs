//! The spawned server.

use std::env;
use std::ffi::OsString;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use protocol_child::{Owner, Spawned};

use crate::dialect::Spoken;
use crate::process::{self, ProcessArgs};

/// The time that a server has to end once its input is closed.
const GRACE: Duration = Duration::from_millis(500);

/// Spawns the command, or ourselves as the built-in peer. Its standard error is ours.
///
/// It is in a process group of its own: Ctrl-C is for us, and we pass it on as a cancel.
pub(super) fn spawn(
    spoken: &Spoken,
    command: &[OsString],
    args: &ProcessArgs,
) -> Result<Spawned, String> {
    let spawn = match process::command(command) {
        Some(spawn) => spawn,
        None => {
            let ourselves = env::current_exe()
                .map_err(|error| format!("can't find the built-in peer: {error}"))?;
            let mut spawn = Command::new(ourselves);
            spawn.arg("serve").args(spoken.arguments());
            spawn
        }
    };
    let program = spawn.get_program().to_string_lossy().into_owned();
    protocol_child::spawn(args.child(spawn, GRACE))
        .map_err(|error| format!("can't start {program}: {error}"))
}

/// Waits for the end of a server whose input is about to be closed, and gives its status.
pub(super) fn end(owner: Owner) -> Option<ExitStatus> {
    let process = owner.process().clone();
    drop(owner);
    process.wait().ok()
}

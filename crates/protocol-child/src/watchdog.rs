//! Ends a group when we can't: because we were killed.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// When its input ends, we are gone, and so is the input of the process that we spawned: what follows are
/// the other two steps.
///
/// It leads the group, so it needs nobody's id, and what is meant for the group, by a terminal too, must
/// neither end nor stop it. `command -p` finds `sleep` where the system has it, whatever the path says. Where
/// there is none, there is no grace.
const SCRIPT: &str = r#"
trap "" HUP INT QUIT TERM TSTP TTIN TTOU
read -r nothing
command -p sleep "$1"
kill -s TERM 0
command -p sleep "$1"
kill -s KILL 0
"#;

/// A small shell that leads a process group, and outlives us if it has to.
///
/// The parent-death signal of Linux would reach only the process that we spawned, not what that
/// started, and setting it takes code that runs between `fork` and `exec`.
#[derive(Debug)]
pub(crate) struct Watchdog {
    id: u32,
    /// `None` once it was dismissed.
    shell: Mutex<Option<Child>>,
}

impl Watchdog {
    /// # Errors
    ///
    /// Those of spawning a shell.
    pub(crate) fn start(grace: Duration) -> io::Result<Self> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", SCRIPT, "rescind-watchdog", &format!("{:.3}", grace.as_secs_f64())]);
        // It holds nothing of the place where we are.
        command.current_dir("/").env_clear().process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let shell = command.spawn().map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("its watchdog, /bin/sh, can't be started: {error}"),
            )
        })?;
        Ok(Self { id: shell.id(), shell: Mutex::new(Some(shell)) })
    }

    /// Its id, which is its group's, and no other's until it is dismissed.
    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    /// The rest of its group is gone, or was never there.
    pub(crate) fn dismiss(&self) {
        let shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut shell) = shell {
            // Whatever state it is in, this ends it. It may be dead already; unreaped, its id is no other's.
            let _ = shell.kill();
            let _ = shell.wait();
        }
    }
}

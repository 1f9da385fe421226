//! A program that ends a group when we were killed.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use crate::lock::lock;

/// The script of a watchdog. When its input ends, we are gone, and so is the input of the process that we spawned. The
/// other two steps follow.
///
/// It leads the group, so it needs no id. A signal for the group, from a terminal too, neither ends nor stops it.
/// `command -p` finds the system's `sleep`, whatever the path is. Without `sleep` there is no grace.
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
        // It keeps no folder of ours in use.
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

    /// Returns its id, which is its group's, and no other's until it is dismissed.
    pub(crate) const fn id(&self) -> u32 {
        self.id
    }

    /// Ends it, because the rest of its group is gone, or was never there.
    pub(crate) fn dismiss(&self) {
        let shell = lock(&self.shell).take();
        if let Some(mut shell) = shell {
            // This ends a stopped one too. A dead one is unreaped, so its id is no other's.
            let _ = shell.kill();
            let _ = shell.wait();
        }
    }
}

//! Ends a group when we can't: because we were killed.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// It is told the group, and then that the group is gone. If its input ends before that, we are gone,
/// and so is the input of the process that we spawned: what follows are the other two steps.
const SCRIPT: &str = r#"
read -r group || exit
read -r gone && exit
sleep "$1"
kill -s TERM -- "-$group" && sleep "$1"
kill -s KILL -- "-$group"
"#;

/// A small shell that outlives us if it has to.
///
/// The parent-death signal of Linux would reach only the process that we spawned, not what that
/// started, and setting it takes code that runs between `fork` and `exec`.
#[derive(Debug)]
pub(crate) struct Watchdog {
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
        // Nothing of where we are is held by it, and no signal for our group reaches it.
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: Mutex::new(Some(command.spawn()?)) })
    }

    /// From now on it watches the group of this process.
    pub(crate) fn watch(&self, leader: u32) {
        self.tell(&format!("{leader}\n"));
    }

    /// The group is gone.
    pub(crate) fn dismiss(&self) {
        self.tell("gone\n");
        self.call_off();
    }

    /// There is nothing to watch: to be called before it is told a group.
    pub(crate) fn call_off(&self) {
        let shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut shell) = shell {
            // Its input is closed by this; it ends at once.
            let _ = shell.wait();
        }
    }

    fn tell(&self, line: &str) {
        let mut shell = self.shell.lock().unwrap_or_else(PoisonError::into_inner);
        let input = shell.as_mut().and_then(|shell| shell.stdin.as_mut());
        if let Some(input) = input {
            // Somebody may have killed it.
            let _ = input.write_all(line.as_bytes());
        }
    }
}

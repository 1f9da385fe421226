//! The spawned server.

use std::env;
use std::ffi::OsString;
use std::io;
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::dialect::Spoken;

/// How long a server may take to end once its input is closed.
const GRACE: Duration = Duration::from_millis(500);

/// A server on two pipes. Its standard error is ours.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
}

impl Child {
    /// Spawns the command, or ourselves as the built-in peer.
    pub(super) fn spawn(spoken: &Spoken, command: &[OsString]) -> Result<Self, String> {
        let mut spawn = match command.split_first() {
            Some((program, arguments)) => {
                let mut spawn = Command::new(program);
                spawn.args(arguments);
                spawn
            }
            None => {
                let ourselves = env::current_exe()
                    .map_err(|error| format!("can't find the built-in peer: {error}"))?;
                let mut spawn = Command::new(ourselves);
                spawn.arg("serve").args(spoken.arguments());
                spawn
            }
        };
        spawn.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Ctrl-C is for us: we pass it on as a cancel.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut spawn, 0);
        match spawn.spawn() {
            Ok(process) => Ok(Self { process }),
            Err(error) => {
                let program = spawn.get_program().to_string_lossy();
                Err(format!("can't start {program}: {error}"))
            }
        }
    }

    /// Its output and its input. To be called once.
    pub(super) fn streams(&mut self) -> (ChildStdout, ChildStdin) {
        let streams = self.process.stdout.take().zip(self.process.stdin.take());
        streams.expect("both are piped, and taken once")
    }

    /// Waits for its end, which closing its input asks for; kills it after a grace.
    pub(super) fn end(mut self) {
        let patience = Instant::now() + GRACE;
        while Instant::now() < patience {
            match self.process.try_wait() {
                Ok(None) => thread::sleep(Duration::from_millis(5)),
                Ok(Some(_)) | Err(_) => return,
            }
        }
        let killed: io::Result<()> = self.process.kill();
        if killed.is_ok() {
            let _ = self.process.wait();
        }
    }
}

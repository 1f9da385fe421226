//! The program under attack, and the measurement of its cost.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rescind_hostile_suite::PATIENCE;
use rescind_hostile_suite::process::Process;

/// A program that is killed when the test is over.
pub(crate) struct Program {
    pub(crate) child: Child,
}

impl Program {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_rescind-attacked")), arguments)
    }

    /// A server of the libraries alone.
    pub(crate) fn hosted(arguments: &[&str]) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_hosted")), arguments)
    }

    fn run(mut command: Command, arguments: &[&str]) -> Self {
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { child: command.spawn().unwrap() }
    }

    /// Returns its first line on standard error. The rest is read and forgotten.
    pub(crate) fn first_line(&mut self) -> String {
        self.first_line_and_log(true)
    }

    /// Returns the same line. The rest stays unread if `is_read` is false, as long as the program
    /// runs.
    pub(crate) fn first_line_and_log(&mut self, is_read: bool) -> String {
        let mut stderr = BufReader::new(self.child.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        self.child.stderr = Some(stderr.into_inner());
        self.log(is_read);
        line
    }

    /// Reads its standard error and forgets it, if `is_read` says so.
    pub(crate) fn log(&mut self, is_read: bool) {
        if is_read {
            let mut stderr = self.child.stderr.take().unwrap();
            thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        }
    }

    /// The memory it has had at most.
    pub(crate) fn peak(&self) -> usize {
        self.process().peak().expect("it has not ended")
    }

    /// The processor time it has taken.
    pub(crate) fn processor(&self) -> Duration {
        self.process().processor().expect("it is there until it is waited for")
    }

    pub(crate) fn process(&self) -> Process {
        Process(self.child.id())
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! A server with a tap in front, whose record is checked at the end.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs, process};

use rescind_interop::peers::CommandLine;
use rescind_interop::tap::silence;

/// See the module.
pub(crate) struct Tapped {
    record: PathBuf,
    command: CommandLine,
}

impl Tapped {
    /// A tap in front of this server.
    pub(crate) fn new(server: &[String]) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let record = env::temp_dir().join(format!("tap-{}-{number}.jsonl", process::id()));
        let tap = env!("CARGO_BIN_EXE_tap");
        let mut command = vec![tap.to_owned(), record.to_string_lossy().into_owned()];
        command.extend_from_slice(server);
        Self { record, command }
    }

    /// Returns the command that a client has to spawn.
    pub(crate) fn command(&self) -> &[String] {
        &self.command
    }

    /// At least so many live requests were cancelled, and nothing was said about any of them.
    #[track_caller]
    pub(crate) fn assert_silent(self, cancels: usize) {
        let record = fs::read_to_string(&self.record).expect("the tap has kept a record");
        fs::remove_file(&self.record).expect("it is ours");
        let silence = silence(&record);
        assert!(silence.cancels >= cancels, "{} cancels", silence.cancels);
        assert!(silence.broken.is_empty(), "{:#?}", silence.broken);
    }
}

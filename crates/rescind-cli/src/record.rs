//! `--record`: what `call`, `relay` and `serve` see is kept in a file.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use bytesize::ByteSize;
use clap::Args;
use protocol_async::{Options, relay};
use protocol_record::line::Payloads;
use protocol_record::{Recorded, Recorder, Recording, Settings};
use serde_json::value::RawValue;

use crate::lock::lock;
use crate::note;

/// The options of a recording.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Recording")]
pub(crate) struct RecordArgs {
    /// Record every message and every decision into this file, as JSON Lines; `rescind view FILE` shows
    /// them. Params, results and errors are left out
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Keep params, results and errors in the recording. They may hold secrets
    #[arg(long, requires = "record")]
    payloads: bool,

    /// Begin another file after so many bytes; older ones are FILE.1, FILE.2, …
    #[arg(long, value_name = "SIZE", requires = "record", default_value = "64MiB")]
    record_size: ByteSize,

    /// Keep so many files
    #[arg(long, value_name = "N", requires = "record", default_value = "4", value_parser = clap::value_parser!(u64).range(1..=1000))]
    record_files: u64,

    /// Let so many bytes wait to be written; what comes on top of that is dropped, counted and said
    #[arg(long, value_name = "SIZE", requires = "record", default_value = "32MiB")]
    record_buffer: ByteSize,
}

/// A recording, if one is asked for. Whoever ends the program first ends it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Session(Arc<Mutex<Option<(PathBuf, Recording)>>>);

impl RecordArgs {
    /// Begins the recording of this program.
    pub(crate) fn start(&self, program: Option<&str>) -> Result<Session, String> {
        self.start_with(program, || Ok(None))
    }

    /// The same, of what was set up so.
    pub(crate) fn start_with(
        &self,
        program: Option<&str>,
        setup: impl FnOnce() -> Result<Option<Box<RawValue>>, String>,
    ) -> Result<Session, String> {
        let Some(path) = &self.record else { return Ok(Session::default()) };
        let mut settings = Settings::new(path);
        settings.payloads = if self.payloads { Payloads::Kept } else { Payloads::Redacted };
        settings.program = program.map(Into::into);
        settings.setup = setup()?;
        settings.file_bytes = self.record_size.as_u64();
        settings.files = usize::try_from(self.record_files).unwrap_or(usize::MAX);
        settings.buffer_bytes = usize::try_from(self.record_buffer.as_u64()).unwrap_or(usize::MAX);
        settings.on_error = |path, error| {
            let path = path.display();
            note(format_args!("rescind: the recording {path} ended early: {error}"));
        };
        let recording = Recording::start(settings);
        let recording =
            recording.map_err(|error| format!("can't record into {}: {error}", path.display()))?;
        Ok(Session(Arc::new(Mutex::new(Some((path.clone(), recording))))))
    }
}

impl Session {
    /// Records a connection under this name.
    pub(crate) fn connection(&self, name: &str, options: Options) -> Options {
        match self.recorder() {
            Some(recorder) => recorder.connection(name, options),
            None => options,
        }
    }

    /// Records both connections of a relay.
    pub(crate) fn relay(&self, options: relay::Options) -> relay::Options {
        match self.recorder() {
            Some(recorder) => recorder.relay(options),
            None => options,
        }
    }

    /// Returns the handle that records more connections.
    pub(crate) fn recorder(&self) -> Option<Recorder> {
        lock(&self.0).as_ref().map(|(_, recording)| recording.recorder())
    }

    /// Ends it, and says on standard error what is missing, if anything is. Where somebody else is at
    /// that already, it is waited for: the program ends next. Gives the file.
    pub(crate) fn finish(&self) -> Option<PathBuf> {
        let mut session = lock(&self.0);
        let (file, recording) = session.take()?;
        let Recorded { lines, dropped, .. } = recording.finish();
        if dropped > 0 {
            let (path, all) = (file.display(), lines + dropped);
            note(format_args!("rescind: the recording {path} lacks {dropped} of {all} lines"));
        }
        Some(file)
    }
}

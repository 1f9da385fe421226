//! The events that the libraries report by `tracing`, where they are asked for.

use std::env;
use std::io;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{fmt, registry};

use super::{Line, note, show};

/// The variable that names the events to print, such as `protocol_async=debug`.
const VARIABLE: &str = "RESCIND_LOG";

/// Prints the events that the environment asks for, among all other lines.
pub fn subscribe() {
    let Ok(wanted) = env::var(VARIABLE) else { return };
    match wanted.parse::<Targets>() {
        Ok(targets) => {
            let printed = fmt::layer().without_time().with_ansi(false).with_writer(|| Events);
            // This is the only one who subscribes.
            let _ = registry().with(targets).with(printed).try_init();
        }
        Err(error) => note(format_args!("{VARIABLE}={wanted}: {error}")),
    }
}

/// Takes one event a write.
struct Events;

impl io::Write for Events {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        show(Line::new().message(event.trim_ascii_end()));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

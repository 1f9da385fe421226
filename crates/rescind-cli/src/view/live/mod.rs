//! `rescind view --live`: the requests of a recording while it is being written, on a terminal.
//!
//! [`Live`] is all that is shown, and a pure state machine: lines, keys and the time go in, and [`draw`] makes a
//! screen of it. Here is what reads, waits and restores the terminal.

mod draw;
mod follow;
mod inputs;
mod state;
mod texts;

use std::io::{self, IsTerminal};
use std::mem;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::style::force_color_output;

use super::filter::Filter;
use crate::exit::{self, Exit};
use draw::draw;
use follow::{Follower, Pace};
use state::Live;

/// So often the screen is drawn anew.
const FRAME: Duration = Duration::from_millis(100);
/// So long is read before keys are looked for.
const PIECE: Duration = Duration::from_millis(30);

/// Shows the recording, and at most so many requests of it that are done, until it is told to stop.
pub(super) fn show(
    path: &Path,
    most: usize,
    filter: Option<Filter>,
    text: String,
) -> Result<ExitCode, Exit> {
    if !io::stdout().is_terminal() {
        return Err("--live draws on a terminal, and standard output is none".into());
    }
    let mut follower = Follower::open(path)?;
    if anstream::ColorChoice::global() == anstream::ColorChoice::Never {
        force_color_output(false);
    }
    let mut live = Live::new(most, filter, text);
    let shown = signals::catch().and_then(|signals| {
        let ended = on_terminal(|terminal| run(terminal, &mut live, &mut follower, &signals))?;
        signals.obey();
        Ok(ended)
    });
    shown.map_err(|error| Exit::new(exit::OUTPUT, format_args!("the terminal: {error}")))??;
    Ok(ExitCode::SUCCESS)
}

/// Does it on a screen of its own; afterwards the terminal is as it was, even if it panics.
fn on_terminal<T>(run: impl FnOnce(&mut DefaultTerminal) -> T) -> io::Result<T> {
    let mut terminal = ratatui::try_init()?;
    let done = run(&mut terminal);
    // If nobody sees the cursor any more, dropping it would panic: it says so on standard error, which is gone too.
    if let Err(error) = terminal.show_cursor() {
        mem::forget(terminal);
        return Err(error);
    }
    drop(terminal);
    ratatui::try_restore()?;
    Ok(done)
}

fn run(
    terminal: &mut DefaultTerminal,
    live: &mut Live,
    follower: &mut Follower,
    signals: &signals::Signals,
) -> Result<(), String> {
    let of_terminal = |error: io::Error| format!("the terminal: {error}");
    while !live.is_over && !signals.has_come() {
        let mut pace = Pace::CaughtUp;
        // Lines that are not read during a pause stay in the file.
        if !live.is_paused {
            let until = Instant::now() + PIECE;
            pace = follower.read(until, |line| live.line(line))?;
        }
        live.flaws(&follower.flaws);
        live.tick(SystemTime::now());
        live.refresh();
        terminal.draw(|frame| draw(live, frame)).map_err(of_terminal)?;
        let mut patience = if pace == Pace::Behind { Duration::ZERO } else { FRAME };
        while !live.is_over && event::poll(patience).map_err(of_terminal)? {
            patience = Duration::ZERO;
            if let Event::Key(key) = event::read().map_err(of_terminal)?
                && key.kind != KeyEventKind::Release
            {
                live.key(key);
                live.refresh();
            }
        }
    }
    Ok(())
}

/// The signals that end a program: the terminal is restored before they do.
#[cfg(unix)]
mod signals {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI32, Ordering};
    use std::time::Duration;
    use std::{io, thread};

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator;
    use signal_hook::low_level::emulate_default_handler;

    /// So long a signal waits for the terminal to be restored. One that has hung up is read for ever, by crossterm.
    const GRACE: Duration = Duration::from_secs(1);

    /// The number of the last one; 0 if none has come.
    pub(super) struct Signals(Arc<AtomicI32>);

    /// From now on none is missed.
    pub(super) fn catch() -> io::Result<Signals> {
        let come = Arc::new(AtomicI32::new(0));
        let (told, mut coming) = (come.clone(), iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?);
        thread::spawn(move || {
            for signal in coming.forever() {
                told.store(signal, Ordering::Relaxed);
                thread::sleep(GRACE);
                // It can't be refused: all three end a program.
                let _ = emulate_default_handler(signal);
            }
        });
        Ok(Signals(come))
    }

    impl Signals {
        pub(super) fn has_come(&self) -> bool {
            self.0.load(Ordering::Relaxed) != 0
        }

        /// Ends the program as the signal would have.
        pub(super) fn obey(&self) {
            if self.has_come() {
                let _ = emulate_default_handler(self.0.load(Ordering::Relaxed));
            }
        }
    }
}

/// There Ctrl-C is a key, and nothing else asks a program to end.
#[cfg(not(unix))]
mod signals {
    pub(super) struct Signals;

    pub(super) fn catch() -> std::io::Result<Signals> {
        Ok(Signals)
    }

    impl Signals {
        #[expect(clippy::unused_self, reason = "elsewhere it has some")]
        pub(super) const fn has_come(&self) -> bool {
            false
        }

        #[expect(clippy::unused_self, reason = "elsewhere it has some")]
        pub(super) const fn obey(&self) {}
    }
}

#[cfg(test)]
mod tests;

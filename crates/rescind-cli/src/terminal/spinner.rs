//! The spinner that turns while something is waited for.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A spinner, where standard error is a terminal.
#[derive(Default)]
pub(super) struct Spinner {
    drawn: Option<ProgressBar>,
}

impl Spinner {
    /// Says this from now on, or is gone.
    pub(super) fn show(&mut self, message: Option<String>) {
        match message {
            Some(message) => self.drawn.get_or_insert_with(start).set_message(message),
            None => self.drawn.take().iter().for_each(ProgressBar::finish_and_clear),
        }
    }

    /// Lets something else be drawn.
    pub(super) fn around(&self, draw: impl FnOnce()) {
        match &self.drawn {
            Some(spinner) => spinner.suspend(draw),
            None => draw(),
        }
    }
}

fn start() -> ProgressBar {
    let spinner = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{spinner} {wide_msg} {elapsed}");
    spinner.set_style(style.expect("the template is valid"));
    spinner.enable_steady_tick(Duration::from_millis(100));
    spinner
}

//! `--on-stuck`: what is done with a server that says nothing any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{Args, ValueEnum};
use humantime::format_duration;
use protocol_async::relay::Options;
use protocol_async::{Timer, Way};
use protocol_child::Owner;
use protocol_relay::{RelayEvent, Side};
use tokio::sync::watch::{Receiver, channel};

use super::report::log;

/// The options for a server that is stuck.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Guard")]
pub(super) struct StuckArgs {
    /// Report or end a server that says nothing at all for --stuck-after once a request was given up or stopped.
    /// When it is ended, everything else that it owes gets an error. Needs a --deadline, --idle, --cap or
    /// --method. A ping that is not answered is no sign
    #[arg(long, value_name = "WHAT", requires = "GuardArgs")]
    on_stuck: Option<OnStuck>,

    /// The time that a server has to say anything after a request was given up or stopped, such as 2s
    #[arg(long, value_name = "DUR", default_value = "2s", value_parser = crate::duration, requires = "on_stuck")]
    stuck_after: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OnStuck {
    /// Say so on standard error
    Report,
    /// End it and all that it started
    Kill,
}

/// Watches whether a server says anything.
#[derive(Debug)]
pub(super) struct Watch {
    what: OnStuck,
    after: Duration,
    /// The number of messages that came from the server.
    heard: Arc<AtomicU64>,
    /// The number of messages when the last request was given up. Only the latest value counts.
    given_up: Receiver<u64>,
}

impl StuckArgs {
    /// Watches the server of this relay, if that is asked for.
    pub(super) fn watch(&self, options: &mut Options) -> Option<Watch> {
        let what = self.on_stuck?;
        let heard = Arc::<AtomicU64>::default();
        let (tell, given_up) = channel(0);
        let (counted, mut trace) = (heard.clone(), options.trace.take());
        let heard_now = heard.clone();
        let watch = Watch { what, after: self.stuck_after, heard, given_up };
        options.trace = Some(Box::new(move |side, way, message| {
            if (side, way) == (Side::Down, Way::Received) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            trace.iter_mut().for_each(|trace| trace(side, way, message));
        }));
        let mut observer = options.observer.take();
        options.observer = Some(Box::new(move |side, event| {
            let is_given_up =
                matches!(event, RelayEvent::TimedOut { .. } | RelayEvent::WorkStopped { .. });
            if side == Side::Up && is_given_up {
                tell.send_replace(heard_now.load(Ordering::Relaxed));
            }
            if let Some(observer) = &mut observer {
                observer(side, event);
            }
        }));
        Some(watch)
    }
}

impl Watch {
    /// Does what was asked for whenever the server is stuck; ends never.
    pub(super) async fn run(mut self, timer: impl Timer, owner: &mut Option<Owner>) {
        while self.given_up.changed().await.is_ok() {
            // Messages since then count, though this is looked into only now.
            let before = *self.given_up.borrow_and_update();
            timer.sleep_until(timer.now() + self.after).await;
            if self.heard.load(Ordering::Relaxed) != before {
                continue;
            }
            let silence = format_duration(self.after);
            let deed = if self.what == OnStuck::Kill { ", and is ended" } else { "" };
            log(format_args!(
                "the server is stuck{deed}: it has said nothing for {silence} since a request was given up or stopped"
            ));
            if self.what == OnStuck::Kill {
                owner.take();
            }
        }
        std::future::pending::<()>().await;
    }
}

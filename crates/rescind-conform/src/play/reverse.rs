//! Steps about what the server asks of us.

use super::Play;
use crate::check::Name;
use crate::session::{Session, Waited};
use crate::stop::Stop;

impl Play<'_> {
    pub(super) fn wait_until_cancel_read(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.made(name)?.id.clone();
        self.wait(&format!("a sign that the cancel of request {id} was read"), |session| {
            session.has_read_cancel(&id)
        })
    }

    pub(super) fn wait_until_asked_for(&mut self, name: Name) -> Result<(), Stop> {
        let known: Vec<String> = self.theirs_for.values().cloned().collect();
        let asked =
            |session: &Session| session.asked_of_us().find(|id| !known.contains(id)).cloned();
        let own = self.made(name)?.id.clone();
        let run = self.runs.get(&name).cloned();
        let is_over = |session: &Session| match &run {
            Some(run) => !run.ends(session).is_empty(),
            None => session.is_answered(&own),
        };
        let waited = self.session.wait(|session| asked(session).is_some() || is_over(session));
        if matches!(waited, Waited::Ended | Waited::Late) {
            self.waited(waited, "it asked something")?;
        }
        let theirs = asked(&self.session).ok_or_else(|| {
            // A server that is still at work may ask later: that is no evidence that it asks nothing.
            Stop::NotExercised(match waited {
                Waited::Done => "the server asked nothing of us".into(),
                _ => {
                    format!(
                        "{} s passed without a request of the server",
                        self.session.patience.as_secs()
                    )
                }
            })
        })?;
        self.theirs_for.insert(name, theirs);
        Ok(())
    }
}

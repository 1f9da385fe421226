//! Cancels that are malformed, each followed by a request.

use super::Play;
use crate::check::Name;
use crate::malformed as forms;
use crate::stop::Stop;

impl Play<'_> {
    pub(super) fn malformed_cancels(&mut self, name: Name) -> Result<(), Stop> {
        let id = self.made(name)?.id.clone();
        let forms = forms::plain(self.session.wire.cancel_member(), &id);
        // A cancel that is a request is answered.
        if self.session.wire.cancels_by_notification() {
            self.silent = self.session.record.len()..usize::MAX;
        }
        self.cancel_with_each(forms)?;
        // An answer that is behind has one request more to come.
        self.next()
    }

    pub(super) fn unreadable_cancels(&mut self) -> Result<(), Stop> {
        self.cancel_with_each(forms::refusable(self.session.wire.cancel_member()))
    }

    fn cancel_with_each(&mut self, forms: Vec<Option<String>>) -> Result<(), Stop> {
        for (number, params) in forms.into_iter().enumerate() {
            self.session.note(format!("malformed cancel {}", number + 1));
            let own = self.fresh();
            let cancel = |params: &str| self.session.wire.cancel_with(params, &own);
            let message = forms::message(params.as_deref(), cancel);
            let message = self.unless_control(message, self.session.record.len());
            self.write(vec![message], false);
            let after = format!(
                "after the malformed cancel with params {}",
                params.as_deref().unwrap_or("(none)")
            );
            self.next().map_err(|stop| match stop {
                Stop::Stuck(why) => Stop::Stuck(format!("{after}: {why}")),
                Stop::Ended(why) => Stop::Ended(format!("{after}: {why}")),
                other => other,
            })?;
        }
        Ok(())
    }
}

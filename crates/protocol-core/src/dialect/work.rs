//! The reading of messages that speak of work.

use protocol_json::path;
use serde_json::value::RawValue;

use super::Dialect;
use super::signs::{Carrier, Mark, News, Sign, WorkPart, WorkRule};
use crate::id::WireId;

impl Dialect {
    /// Returns what a message reports about work, with the method and the params or the result of the message. Most
    /// messages speak of none, which their method tells. Names of work longer than `names_up_to` bytes are not read.
    #[inline]
    #[must_use]
    pub fn work_in(
        &self,
        carrier: Carrier,
        method: &str,
        value: Option<&RawValue>,
        names_up_to: usize,
    ) -> Option<WorkPart> {
        let speaks = |rule: &&WorkRule| rule.signs.iter().any(|sign| sign.is_of(carrier, method));
        self.work.iter().find(speaks)?;
        self.report_in(carrier, method, value?, names_up_to)
    }

    #[cold]
    fn report_in(
        &self,
        carrier: Carrier,
        method: &str,
        value: &RawValue,
        names_up_to: usize,
    ) -> Option<WorkPart> {
        (0..).zip(self.work.iter()).find_map(|(rule, it)| {
            let fits = |sign: &Sign| sign.is_of(carrier, method) && sign.has_state(value);
            let named = it.signs.iter().enumerate().filter(|(_, sign)| fits(sign));
            let (index, sign, name) = named
                .filter_map(|(index, sign)| {
                    let name =
                        if sign.name.is_empty() { "null" } else { path(value, &sign.name)?.get() };
                    Some((index, sign, name))
                })
                .next()?;
            let name = WireId::scanned(Some(name).filter(|name| name.len() <= names_up_to)?)?;
            let is_stopped = sign.stopped.as_ref().is_some_and(|mark| mark.is_in(value));
            Some(WorkPart { rule, news: sign.news, name, is_stopped, sign: index as u8 })
        })
    }

    /// Returns the mark of a stop in the result of a request with this part.
    pub(crate) fn mark_of(&self, part: &WorkPart) -> Option<&Mark> {
        let rule = self.work.get(usize::from(part.rule))?;
        rule.signs.get(usize::from(part.sign))?.stopped.as_ref()
    }

    /// Returns whether work that a request began ends with the response.
    #[must_use]
    pub fn work_ends_with_response(&self, part: &WorkPart) -> bool {
        let rule = self.work.get(usize::from(part.rule));
        rule.is_none_or(|rule| rule.signs.iter().all(|sign| sign.news != News::Ended))
    }
}

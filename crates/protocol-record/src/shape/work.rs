//! The news of work in messages.

use protocol_core::{Carrier, Dialect, News as Sign, StopMark, WorkPart};
use serde_json::value::RawValue;

use crate::line::{ID_BYTES, News, Work};

/// The dialects whose rules of work differ: that of a connection, and its revisions.
#[derive(Clone, Debug, Default)]
pub(super) struct Works(Vec<Dialect>);

impl Works {
    pub(super) fn learn(&mut self, dialect: &Dialect) {
        let is_new = self.0.iter().all(|known| known.work != dialect.work);
        if is_new && !dialect.work.is_empty() {
            self.0.push(dialect.clone());
        }
    }

    /// Returns the size of the heap data, in bytes. The rules are those of presets, or of a dialect that lives elsewhere.
    pub(super) fn bytes(&self) -> usize {
        size_of::<Dialect>() * self.0.len()
    }

    /// Returns the news in the params of a request or notification.
    pub(super) fn in_params(
        &self,
        is_request: bool,
        method: &str,
        params: Option<&RawValue>,
    ) -> Option<Work<'static>> {
        let carrier = if is_request { Carrier::Request } else { Carrier::Notification };
        self.find(carrier, method, params)
    }

    /// Returns the news in a result. Its request has to be looked up by whoever reads the recording.
    pub(super) fn in_result(&self, result: &RawValue) -> Option<Work<'static>> {
        self.find(Carrier::Result, "", Some(result)).or_else(|| {
            let rules = self.0.iter().flat_map(|dialect| dialect.work.iter());
            let stopped = rules.flat_map(|rule| rule.signs.iter().map(move |sign| (rule, sign)));
            let mut begun = stopped.filter(|(_, sign)| sign.news == Sign::Begun);
            let is_marked = |mark: &StopMark| mark.is_in(result);
            let (rule, _) = begun.find(|(_, sign)| sign.stopped.as_ref().is_some_and(is_marked))?;
            let kind = rule.kind.to_string().into();
            Some(Work { kind, name: None, news: News::Stopped })
        })
    }

    fn find(
        &self,
        carrier: Carrier,
        method: &str,
        value: Option<&RawValue>,
    ) -> Option<Work<'static>> {
        self.0.iter().find_map(|dialect| {
            let part = dialect.work_in(carrier, method, value, ID_BYTES)?;
            let kind = dialect.work.get(usize::from(part.rule))?.kind.to_string().into();
            let news = match part.news {
                Sign::Begun if dialect.work_ends_with_response(&part) => News::Request,
                Sign::Begun => News::Began,
                Sign::Stop => News::Stop,
                Sign::Nested { .. } => News::Nested,
                Sign::Ended if part.is_stopped => News::Stopped,
                Sign::Ended => News::Ended,
                Sign::Asked => News::Asked,
            };
            Some(Work { kind, name: tag(&part).map(Into::into), news })
        })
    }
}

/// Returns the hash of a name, by FNV-1a: the same on every machine.
fn tag(WorkPart { name, .. }: &WorkPart) -> Option<String> {
    let name = Some(name).filter(|name| name.as_json() != "null")?.as_json();
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    Some(format!("{hash:08x}"))
}

//! The messages of checks, each with what returns its text.

use std::mem;

use serde_json::{Value, json};

use super::{Made, Next, Play};
use crate::check::{Id, Name, Reply};
use crate::document::{DOCUMENT, Document};
use crate::family::Request;
use crate::stop::{Stop, lacks};
use crate::wire::Wire;
use crate::work_record::Run;

/// Defines the messages. Beside each stands what returns its text, and those that come with it. `$at` is the place of the first
/// in the record. An empty text is none.
macro_rules! items {
    (|$play:ident, $at:ident| $($(#[$about:meta])* $item:ident$(($($given:ident: $kind:ty),+))? => $texts:expr;)*) => {
        /// One message of ours.
        #[derive(Clone, Copy, Debug)]
        pub enum Item {
            $($(#[$about])* $item$(($($kind),+))?,)*
        }

        impl Item {
            pub(super) fn texts(self, $play: &mut Play<'_>, $at: usize) -> Result<Vec<String>, Stop> {
                let texts: Vec<String> = match self {
                    $(Self::$item$(($($given),+))? => $texts,)*
                };
                Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
            }
        }
    };
}

items! { |play, at|
    /// The request that takes its time.
    Slow(name: Name, id: Id) => {
        let made = play.name_work(name, id, play.slow_ms, at);
        match mem::replace(&mut play.has_edited, true) {
            false => play.slow(&made),
            true => vec![play.slow_unchanged(&made)],
        }
    };
    /// The same, asked to take so many hundredths of the time; of a language server, about what it knows already.
    SlowFor(name: Name, hundredths: u64) => {
        let made = play.name_work(name, Id::Fresh, play.slow_ms * hundredths / 100, at);
        vec![play.slow_unchanged(&made)]
    };
    /// A request that is done at once.
    Quick(name: Name, id: Id) => {
        let made = play.name(name, id);
        // A server that has answered it has read what came before it.
        play.reads.push(Next { id: made.id.clone(), sent_at: at });
        vec![play.quick(&made)]
    };
    /// A request that makes the server ask something of us.
    Reverse(name: Name) => {
        let request = play.facts.reverse.as_ref().unwrap_or(&play.facts.quick);
        let params = play.params_of(request, play.slow_ms);
        vec![play.named_request(name, &request.method, &params)]
    };
    /// The request that begins work: a prompt in a session of its own, a call that becomes a task.
    Work(name: Name) => play.begin(name, name, at);
    /// The same under the name of other work, where we choose the name.
    WorkAfter(name: Name, before: Name) => play.begin(name, before, at);
    /// The same under a token of ours, which is the token of the request.
    WorkUnderToken(name: Name) => {
        let token = json!(format!("progress-{name}"));
        play.runs.insert(name, Run { name: token, ..Run::default() });
        play.begin(name, name, at)
    };
    /// The stop of work, by the name that it has or will have. If nobody knows the name yet, it stops nothing.
    Stop(name: Name) => {
        if let Some(made) = play.named.get_mut(&name) {
            made.cancelled_at.get_or_insert(at);
        }
        let stop = play.stop(name, at);
        [stop].into_iter().chain(play.responses_to(Some(name), true)).collect()
    };
    /// The stop of work that nobody has begun.
    StopNothing => {
        let own = play.fresh();
        vec![play.unless_control(play.session.wire.stop(&json!("conformance-unknown"), &own), at)]
    };
    /// A change of a language server's document to half of its lines, which are always the same.
    Shorten => {
        play.version += 1;
        let params = play.document()?.shortened(play.version);
        vec![play.session.wire.notification("textDocument/didChange", &params)]
    };
    /// The end of a language server's document.
    Close => vec![play.session.wire.notification("textDocument/didClose", &play.document()?.named())];
    /// The question for the status of work, where there is one.
    Status(name: Name) => vec![play.ask_status(name)];
    /// The request that opens the session.
    Opening(name: Name) => {
        let made = play.name_work(name, Id::Fresh, play.slow_ms, at);
        let text = |message: &Request| {
            play.session.wire.request(&made.id, &message.method, &message.params, "")
        };
        play.facts.opening.first().map(|opening| text(&opening.message)).into_iter().collect()
    };
    /// The cancel of a request.
    Cancel(name: Name) => vec![play.cancel_named(name, at, Wire::cancel)];
    /// The same with members that the server does not know.
    CancelWithMore(name: Name) => vec![play.cancel_named(name, at, Wire::cancel_with_more)];
    /// The cancel of the progress that was begun for a request.
    CancelProgress(name: Name) => {
        let progress = play.cancellable_progress(name)?;
        vec![play.cancel_named(name, at, |wire, _, own| wire.cancel_progress(&progress, own))]
    };
    /// The cancel of an id, by its token.
    CancelId(token: &'static str) => {
        let own = play.fresh();
        vec![play.unless_control(play.session.wire.cancel(&play.token(token), &own), at)]
    };
    /// A cancel under the id of a request of the other side's, where we have none.
    CancelTheirs => {
        let id = play.their_id();
        if play.ids.contains(&id) {
            return lacks(format!("{} has given its request an id of ours", play.subject()));
        }
        vec![play.unless_control(play.session.wire.cancel(&id, "\"c\""), at)]
    };
    /// The loss of the response stream of a request, which the server is not told.
    Lose(name: Name) => vec![play.unless_control(play.session.wire.loss(&play.made(name)?.id), at)];
    /// A notification of this method.
    Notification(method: &'static str) => vec![play.session.wire.notification(method, &params(method))];
    /// A request of this method.
    Request(name: Name, method: &'static str) => vec![play.named_request(name, method, &params(method))];
    /// An answer, to the client's held request or to nothing.
    Answer(with: Reply) => play.answer(with, at)?.into_iter().collect();
    /// A request that is done at once, under the id of the held one.
    UnderTheirId(name: Name) => {
        let made = Made { id: play.their_id(), ..play.make(Id::Fresh) };
        play.ids.insert(made.id.clone());
        play.named.insert(name, made.clone());
        vec![play.quick(&made)]
    };
}

/// The params of a method whose params nobody asks for. Some language servers refuse any where there are none.
fn params(method: &str) -> Value {
    if matches!(method, "shutdown" | "exit") { Value::Null } else { json!({}) }
}

impl Play<'_> {
    /// Writes some messages at once.
    pub(crate) fn send(&mut self, items: &[Item], in_one_read: bool) -> Result<(), Stop> {
        let may_be_in_session =
            |item: &&Item| matches!(item, Item::Slow(..) | Item::SlowFor(..) | Item::Reverse(_));
        self.open_sessions(items.iter().filter(may_be_in_session).count())?;
        self.open_for_work(items)?;
        self.has_edited = false;
        self.sent_at = self.session.record.len();
        let mut messages = Vec::new();
        for item in items {
            let at = self.session.record.len() + messages.len();
            messages.extend(item.texts(self, at)?);
        }
        self.write(messages, in_one_read);
        Ok(())
    }

    /// Makes a request that the check has a name for.
    pub(super) fn name(&mut self, name: Name, id: Id) -> Made {
        let made = self.make(id);
        self.named.insert(name, made.clone());
        made
    }

    /// The same of a request that takes its time, and will stand there in the record.
    fn name_work(&mut self, name: Name, id: Id, asked_ms: u64, at: usize) -> Made {
        let made = Made { works_from: Some(at), asked_ms, ..self.make(id) };
        self.named.insert(name, made.clone());
        made
    }

    fn named_request(&mut self, name: Name, method: &str, params: &Value) -> String {
        let made = self.name(name, Id::Fresh);
        self.session.wire.request(&made.id, method, params, "")
    }

    /// Returns the cancel of a request that was made, and notes the first in it.
    fn cancel_named(
        &mut self,
        name: Name,
        at: usize,
        text: impl FnOnce(&Wire, &str, &str) -> String,
    ) -> String {
        let own = self.fresh();
        let Some(made) = self.named.get_mut(&name) else { return String::new() };
        let cancel = text(&self.session.wire, &made.id, &own);
        made.cancel_id.get_or_insert(own);
        made.cancelled_at.get_or_insert(at);
        self.unless_control(cancel, at)
    }

    /// Returns the name of the progress of a request, if that can be cancelled.
    fn cancellable_progress(&self, name: Name) -> Result<Value, Stop> {
        let token = json!(self.made(name)?.token);
        let first =
            self.session.reports_of(&token).next().map(|(_, report)| report["body"].clone());
        match first.filter(|body| body["cancellable"] == true) {
            Some(body) => Ok(body["progressId"].clone()),
            None => lacks("its progress can't be cancelled"),
        }
    }

    /// Returns the document that the slow request is about.
    fn document(&self) -> Result<&Document, Stop> {
        let slow = self.facts.slow.as_ref();
        match &self.facts.document {
            Some(document) if slow.is_ok_and(|slow| slow.request.method.starts_with(DOCUMENT)) => {
                Ok(document)
            }
            _ => lacks("the request that takes its time is not about a document"),
        }
    }
}

//! The script of a peer: its messages, and the moves that it may make besides.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use protocol_async::Options;
use protocol_core::{Config, Framing};
use serde_json::{Value, to_value};

use super::recording::START;

/// The peer at the other end of a handler's connection. It sends its messages in this order but at any time,
/// and may make other moves.
///
/// ```
/// use protocol_core::{Config, Dialect};
/// use protocol_testkit::simulate::{PeerAnswer, Script};
/// use serde_json::json;
///
/// // Two requests, of which one may be cancelled; the handler's own calls are answered or not.
/// let peer = Script::new(Config::server(Dialect::ACP_V1))
///     .request("session/prompt", json!({ "text": "hello" }))
///     .request("session/prompt", json!({ "text": "world" }))
///     .cancels(1)
///     .answers([PeerAnswer::Result(json!(true)), PeerAnswer::Never]);
/// # let _ = peer;
/// ```
#[derive(Clone)]
pub struct Script {
    /// Of the handler's side.
    pub(super) config: Config,
    pub(super) options: Rc<Change>,
    pub(super) says: Vec<Said>,
    /// Whether the first request is answered before anything else is said.
    pub(super) is_opened: bool,
    pub(super) cancels: usize,
    pub(super) stops: usize,
    pub(super) hostile: usize,
    pub(super) hangs_up: bool,
    answers: Vec<PeerAnswer>,
    answers_to: Vec<(String, Vec<PeerAnswer>)>,
    pub(super) cancel_within: Duration,
    pub(super) calls_by_itself: bool,
    pub(super) reference: Option<Rc<Reference>>,
}

/// The right answer to a request that is not cancelled: a result, or an error of this code.
pub(super) type Reference = dyn Fn(&str, &Value) -> Result<Value, i64>;

/// Changes the options of the handler's connection.
type Change = dyn Fn(&mut Options);

/// One thing to be said.
#[derive(Clone, Debug)]
pub(super) struct Said {
    pub(super) method: String,
    pub(super) params: Value,
    pub(super) is_request: bool,
}

/// A peer's possible answer to a call of the handler's. Whatever a script says, the peer may also answer a
/// cancelled call as its dialect answers one.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum PeerAnswer {
    /// A response with this result.
    Result(Value),
    /// An error of this code.
    Error(i64),
    /// This result, twice.
    Twice(Value),
    /// No response at all. If another request waits for that call too, some runs end with error -32603 in place of
    /// the response. They show whether that request goes on then.
    Never,
}

impl Script {
    /// Returns a peer that says nothing, for a handler on a connection made from this. It responds to each call
    /// with `null`, and hangs up when nothing happens any more.
    #[must_use]
    pub fn new(mut config: Config) -> Self {
        // Two runs tell the same time of day.
        config.unix_time_at_zero = START;
        Self {
            config,
            options: Rc::new(|_| {}),
            says: Vec::new(),
            is_opened: false,
            cancels: 0,
            stops: 0,
            hostile: 0,
            hangs_up: false,
            answers: vec![PeerAnswer::Result(Value::Null)],
            answers_to: Vec::new(),
            cancel_within: Duration::from_secs(1),
            calls_by_itself: false,
            reference: None,
        }
    }

    /// Changes the options of the handler's connection, such as its keep-alive, budgets and inbox.
    ///
    /// The simulation has a trace and entropy of its own. A keep-alive calls by itself, so it needs
    /// [`calls_by_itself`](Self::calls_by_itself). A handler behind
    /// [`serve_messages`](super::Simulation::serve_messages) has no such options.
    #[must_use]
    pub fn options(mut self, change: impl Fn(&mut Options) + 'static) -> Self {
        self.options = Rc::new(change);
        self
    }

    fn say(mut self, method: &str, params: impl serde::Serialize, is_request: bool) -> Self {
        let params = to_value(params).expect("params are JSON");
        self.says.push(Said { method: method.into(), params, is_request });
        self
    }

    /// Sends this request before anything else. The peer goes on when it has the response.
    #[must_use]
    pub fn opening(mut self, method: &str, params: impl serde::Serialize) -> Self {
        self.is_opened = true;
        let said = std::mem::take(&mut self.says);
        self = self.say(method, params, true);
        self.says.extend(said);
        self
    }

    /// Sends this request, after what the script sends already.
    #[must_use]
    pub fn request(self, method: &str, params: impl serde::Serialize) -> Self {
        self.say(method, params, true)
    }

    /// Sends this notification, after what the script sends already.
    #[must_use]
    pub fn notification(self, method: &str, params: impl serde::Serialize) -> Self {
        self.say(method, params, false)
    }

    /// Lets the peer cancel up to `most` of its requests, each at any time before it reads the response.
    ///
    /// A cancel that its connection would refuse is not sent, such as one before cancellation was declared.
    #[must_use]
    pub fn cancels(mut self, most: usize) -> Self {
        self.cancels = most;
        self
    }

    /// Lets the peer stop the work of its requests, such as turns of ACP, up to `most` times. Each is stopped by
    /// its name, at any time before it ends.
    ///
    /// The request that began the work is cancelled by that, so the rules for cancelled requests hold for it.
    #[must_use]
    pub fn stops(mut self, most: usize) -> Self {
        self.stops = most;
        self
    }

    /// Responds to each call of the handler's in one of these ways, at any time. The first is the usual one.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn answers(mut self, answers: impl IntoIterator<Item = PeerAnswer>) -> Self {
        self.answers = some(answers);
        self
    }

    /// Responds to the calls of one method in one of these ways.
    ///
    /// # Panics
    ///
    /// If there is none.
    #[must_use]
    pub fn answers_to(
        mut self,
        method: &str,
        answers: impl IntoIterator<Item = PeerAnswer>,
    ) -> Self {
        self.answers_to.push((method.into(), some(answers)));
        self
    }

    pub(super) fn answers_for(&self, method: &str) -> &[PeerAnswer] {
        let own = self.answers_to.iter().find(|(other, _)| other == method);
        own.map_or(&self.answers, |(_, answers)| answers)
    }

    /// Lets the peer go away at any time, which cuts the line.
    #[must_use]
    pub fn hangs_up(mut self) -> Self {
        self.hangs_up = true;
        self
    }

    /// Lets the peer send up to `most` messages of a [hostile](crate::Hostile) peer. Some are malformed, have ids
    /// that look alike, or are responses to nothing. Others are early, late or second ones.
    #[must_use]
    pub fn hostile(mut self, most: usize) -> Self {
        self.hostile = most;
        self
    }

    /// Lets the peer do whatever the dialect allows: cancel each request, stop its work, and hang up. It may respond
    /// to each call with `null`, with an error, twice, or never.
    #[must_use]
    pub fn anything(self) -> Self {
        let requests = self.says.iter().filter(|said| said.is_request).count();
        self.cancels(requests).stops(requests).hangs_up().answers([
            PeerAnswer::Result(Value::Null),
            PeerAnswer::Error(-1),
            PeerAnswer::Twice(Value::Null),
            PeerAnswer::Never,
        ])
    }

    /// Limits the time in which the handler must end a request that the peer has cancelled; 1 s by default. The
    /// handler may wait longer for the answer to a call that it cancelled too.
    #[must_use]
    pub fn cancel_within(mut self, time: Duration) -> Self {
        self.cancel_within = time;
        self
    }

    /// Allows the handler calls that are on behalf of no request. Such a call may outlive every request that
    /// was in flight when it was made, though they were cancelled.
    #[must_use]
    pub fn calls_by_itself(mut self) -> Self {
        self.calls_by_itself = true;
        self
    }

    /// Gives the right answer to each request that is not cancelled: a result, or an error of this code. A
    /// request that is cancelled may have this answer too, or any error, or none. One whose work was stopped
    /// may have any answer.
    #[must_use]
    pub fn reference(
        mut self,
        answers: impl Fn(&str, &Value) -> Result<Value, i64> + 'static,
    ) -> Self {
        self.reference = Some(Rc::new(answers));
        self
    }

    /// Returns the configuration of the peer's own connection, on a line with the framing of the handler's
    /// side. Its limits are the default ones.
    pub(super) fn far_config(&self, framing: Framing) -> Config {
        let mut config = Config::client(self.config.dialect.clone());
        config.role = self.config.role.other();
        config.dialect.framing = framing;
        config.unix_time_at_zero = START;
        config
    }
}

fn some(answers: impl IntoIterator<Item = PeerAnswer>) -> Vec<PeerAnswer> {
    let answers: Vec<_> = answers.into_iter().collect();
    assert!(!answers.is_empty(), "a peer that never answers has `PeerAnswer::Never`");
    answers
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("says", &self.says).finish_non_exhaustive()
    }
}

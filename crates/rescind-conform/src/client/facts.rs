//! The facts about a client that its checks need.

use std::process::ExitStatus;
use std::time::Duration;

use protocol_core::{Dialect, ResponseRule};
use serde_json::{Value, json};

use crate::facts::{Facts, Slow};
use crate::family::{Family, Request};
use crate::options::ClientOptions;
use crate::report::json::milliseconds;

/// The facts about a client.
#[derive(Clone, Debug)]
pub(crate) struct ClientFacts {
    /// The facts that are known of a server too.
    pub(crate) common: Facts,
    /// The method of the request that is held.
    pub(super) method: String,
    /// Whether it answers requests of ours while it waits for an answer.
    pub(crate) answers: bool,
    /// Whether it has declared that its own work can be cancelled.
    pub(super) declares: bool,
    /// The time after its request, or after the trigger, at which it cancels; `None` if it does not.
    pub(crate) cancels: Option<Duration>,
    /// Whether what we ask takes it time, and it answers others meanwhile.
    pub(crate) ask_is_slow: bool,
    /// Whether what we ask takes it time, be others answered meanwhile or not.
    pub(crate) ask_takes_time: bool,
    /// Whether the machine was too late to see something of this.
    pub(crate) was_late: bool,
    /// Whether it ends when its request is not answered for long.
    pub(crate) gives_up: bool,
    /// The responses after which it ends by itself, each with its status then, if it is a process.
    pub(super) ends: Vec<(End, Option<ExitStatus>)>,
}

/// The response that ended the held request, as far as we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Result,
    Error,
    Cancelled,
}

impl ClientFacts {
    /// Creates the facts about a client that was not met yet.
    pub(super) fn unknown(options: &ClientOptions) -> Self {
        let mut common = Facts::unknown(options.dialect.clone());
        if let Some(request) = options.ask.clone() {
            common.slow = Ok(Slow { request, asked_ms: options.ask_ms, ..Slow::default() });
        }
        let mut facts = Self {
            common,
            method: String::new(),
            answers: false,
            declares: true,
            cancels: None,
            ask_is_slow: false,
            ask_takes_time: false,
            was_late: false,
            gives_up: false,
            ends: Vec::new(),
        };
        facts.speak(options.dialect.clone());
        facts
    }

    pub(super) fn family(&self) -> Family {
        self.common.family()
    }

    /// Takes this for the dialect, in which there is a request that every client answers at once.
    pub(super) fn speak(&mut self, dialect: Dialect) {
        self.common.dialect = dialect;
        self.common.quick = match self.family() {
            Family::McpUntil2025 => Request::new("ping", json!({})),
            _ => Request::new("conformance/unknown", json!({})),
        };
    }

    /// In one line, for reports.
    pub(super) fn describe(&self) -> Value {
        json!({
            "client": self.common.name,
            "dialect": self.common.dialect.name,
            "held": self.method,
            "answers": self.answers,
            "cancels_after_ms": self.cancels.map(milliseconds),
            "ask_takes_time": self.ask_is_slow,
        })
    }

    /// Whether a cancelled request gets no answer.
    pub(super) fn is_silent(&self) -> bool {
        self.common.dialect.response != ResponseRule::Required
    }
}

/// The client of a check as it is played.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    pub(crate) facts: &'a ClientFacts,
    /// The kind of response that the held request got.
    pub(super) end: Option<End>,
}

//! One line of input.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use protocol_core::{Response, Shutdown};
use serde::Deserialize;
use serde::de::{Deserializer, Error};
use serde_json::value::RawValue;

use super::compact::compact;
use super::error::InputProblem;

/// When something is to be done, and what.
#[derive(Debug)]
pub(super) struct Input<'a> {
    /// The time to move to first, in milliseconds.
    pub(super) at: Option<u64>,
    pub(super) command: Command<'a>,
}

#[derive(Debug)]
pub(super) enum Command<'a> {
    /// One whole message arrives.
    Receive(Message<'a>),
    /// Bytes of the stream arrive.
    Bytes(Vec<u8>),
    Call(Call<'a>),
    Notify(Notify<'a>),
    /// Cancels a call, perhaps saying why.
    Cancel(String, Option<String>),
    Drop(String),
    Detach(String),
    Respond(Respond<'a>),
    /// Ends a request without an answer, perhaps saying why.
    End(String, Option<String>),
    /// Time moves on by so many milliseconds.
    Advance(u64),
    Hold,
    Drain,
    Eof,
    Shutdown(Shutdown),
}

impl<'a> Input<'a> {
    /// Reads a line; `None` if it is blank.
    pub(super) fn parse(line: &'a [u8]) -> Result<Option<Self>, InputProblem> {
        let line = line.trim_ascii();
        if line.is_empty() {
            return Ok(None);
        }
        let members: Members<'a> = serde_json::from_slice(line)?;
        let (at, reason) = (members.at, members.reason.is_some());
        let command = members.command()?;
        if reason && !matches!(command, Command::Cancel(..) | Command::End(..)) {
            return Err(InputProblem::new("reason belongs to cancel and end"));
        }
        Ok(Some(Self { at, command }))
    }
}

/// A line as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
struct Members<'a> {
    at: Option<u64>,
    #[serde(borrow)]
    receive: Option<Message<'a>>,
    bytes: Option<String>,
    bytes_base64: Option<Base64>,
    #[serde(borrow)]
    call: Option<Call<'a>>,
    #[serde(borrow)]
    notify: Option<Notify<'a>>,
    cancel: Option<String>,
    /// Taken for every dialect, sent in those that have a place for it.
    reason: Option<String>,
    drop: Option<String>,
    detach: Option<String>,
    #[serde(borrow)]
    respond: Option<Respond<'a>>,
    end: Option<String>,
    advance: Option<u64>,
    hold: Option<True>,
    drain: Option<True>,
    eof: Option<True>,
    shutdown: Option<ShutdownWord>,
}

impl<'a> Members<'a> {
    /// The one command among the members.
    fn command(self) -> Result<Command<'a>, InputProblem> {
        if self.respond.as_ref().is_some_and(|respond| respond.reply().is_none()) {
            return Err(InputProblem::new("respond takes either a result or an error"));
        }
        let commands = [
            ("receive", self.receive.map(Command::Receive)),
            ("bytes", self.bytes.map(|text| Command::Bytes(text.into_bytes()))),
            ("bytes_base64", self.bytes_base64.map(|Base64(bytes)| Command::Bytes(bytes))),
            ("call", self.call.map(Command::Call)),
            ("notify", self.notify.map(Command::Notify)),
            ("cancel", self.cancel.map(|call| Command::Cancel(call, self.reason.clone()))),
            ("drop", self.drop.map(Command::Drop)),
            ("detach", self.detach.map(Command::Detach)),
            ("respond", self.respond.map(Command::Respond)),
            ("end", self.end.map(|request| Command::End(request, self.reason))),
            ("advance", self.advance.map(Command::Advance)),
            ("hold", self.hold.map(|True| Command::Hold)),
            ("drain", self.drain.map(|True| Command::Drain)),
            ("eof", self.eof.map(|True| Command::Eof)),
            ("shutdown", self.shutdown.map(|ShutdownWord(how)| Command::Shutdown(how))),
        ];
        let mut there = commands.into_iter().filter_map(|(name, command)| Some((name, command?)));
        match (there.next(), there.next()) {
            (Some((_, command)), None) => Ok(command),
            (Some((name, _)), Some((other, _))) => {
                let problem = format!("{name} and {other} in one input; give one a line");
                Err(InputProblem::new(problem))
            }
            (None, _) => {
                let problem = "no command; rescind step --help lists what an input can be";
                Err(InputProblem::new(problem))
            }
        }
    }
}

/// The text of one message.
#[derive(Debug)]
pub(super) struct Message<'a>(pub(super) Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Message<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = <&RawValue>::deserialize(deserializer)?.get();
        match value.as_bytes().first() {
            Some(b'{' | b'[') => Ok(Self(compact(value).into())),
            Some(b'"') => {
                let text: String = serde_json::from_str(value).map_err(D::Error::custom)?;
                Ok(Self(text.into()))
            }
            _ => Err(D::Error::custom(
                "receive takes an object, an array, or a string with the raw text of a message",
            )),
        }
    }
}

#[derive(Debug)]
struct Base64(Vec<u8>);

impl<'de> Deserialize<'de> for Base64 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        BASE64_STANDARD
            .decode(text)
            .map(Self)
            .map_err(|error| D::Error::custom(format_args!("bytes_base64: {error}")))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call<'a> {
    pub(super) method: String,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
    /// The name it is called by from now on.
    #[serde(rename = "as")]
    pub(super) name: Option<String>,
    pub(super) timeout_ms: Option<u64>,
    pub(super) idle_ms: Option<u64>,
    pub(super) cap_ms: Option<u64>,
    pub(super) grace_ms: Option<u64>,
    /// The name of the request it is made for.
    pub(super) parent: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Notify<'a> {
    pub(super) method: String,
    #[serde(borrow)]
    pub(super) params: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Respond<'a> {
    pub(super) request: String,
    // An `Option<&RawValue>` alone would lose `"result": null`.
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow)]
    error: Option<ErrorObject<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorObject<'a> {
    code: i64,
    message: String,
    #[serde(borrow, default, deserialize_with = "present")]
    data: Option<&'a RawValue>,
}

impl Respond<'_> {
    /// The answer; `None` if it is not exactly one.
    pub(super) fn reply(&self) -> Option<Response<'_>> {
        match (self.result, &self.error) {
            (Some(result), None) => Some(Response::Result(result)),
            (None, Some(ErrorObject { code, message, data })) => {
                Some(Response::Error { code: *code, message, data: *data })
            }
            _ => None,
        }
    }
}

fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// The value of a command that has no other.
struct True;

impl<'de> Deserialize<'de> for True {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match bool::deserialize(deserializer)? {
            true => Ok(Self),
            false => Err(D::Error::custom("the only value is true")),
        }
    }
}

struct ShutdownWord(Shutdown);

impl<'de> Deserialize<'de> for ShutdownWord {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match <&RawValue>::deserialize(deserializer)?.get() {
            "true" | r#""drain""# => Ok(Self(Shutdown::Drain)),
            r#""cancel""# => Ok(Self(Shutdown::CancelAll)),
            r#""abandon""# => Ok(Self(Shutdown::Abandon)),
            _ => Err(D::Error::custom(r#"shutdown takes "drain", "cancel" or "abandon""#)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(line: &str) -> String {
        Input::parse(line.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn null_is_a_result() {
        let line = br#"{"respond": {"request": "r1", "result": null}}"#;
        let input = Input::parse(line).unwrap().unwrap();
        let Command::Respond(respond) = input.command else { panic!("{input:?}") };
        assert!(matches!(respond.reply(), Some(Response::Result(value)) if value.get() == "null"));
    }

    #[test]
    fn problems_say_what_is_wrong() {
        for (line, expected) in [
            ("{", "EOF while parsing an object"),
            ("5", "invalid type: integer `5`, expected a JSON object"),
            ("{}", "no command; rescind step --help lists what an input can be"),
            (r#"{"at": 5}"#, "no command; rescind step --help lists what an input can be"),
            (r#"{"eof": true, "hold": true}"#, "hold and eof in one input; give one a line"),
            (r#"{"eof": false}"#, "the only value is true"),
            (r#"{"drop": "c1", "reason": "x"}"#, "reason belongs to cancel and end"),
            (r#"{"respond": {"request": "r1"}}"#, "respond takes either a result or an error"),
            (
                r#"{"receive": 7}"#,
                "receive takes an object, an array, or a string with the raw text of a message",
            ),
            (r#"{"bytes_base64": "!"}"#, "bytes_base64: Invalid symbol 33, offset 0."),
            (r#"{"shutdown": "now"}"#, r#"shutdown takes "drain", "cancel" or "abandon""#),
            (r#"{"call": {"method": "m", "ass": "x"}}"#, "unknown field `ass`"),
        ] {
            let problem = problem(line);
            assert!(problem.starts_with(expected), "{line}: {problem}");
        }
    }
}

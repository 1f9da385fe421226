//! The options of `rescind step`, and the page that explains its lines.

use crate::dialect::DialectArgs;

/// The options of `rescind step`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    about = "Drive the protocol machine by hand: JSON lines in, JSON lines out, no clock",
    after_long_help = HELP
)]
pub struct StepArgs {
    /// The dialect to speak.
    #[command(flatten)]
    pub dialect: DialectArgs,
    /// The side to be, where the dialect tells its sides apart
    #[arg(long, value_enum, default_value_t = Side::Client)]
    pub side: Side,
    /// The seed of unforgeable tokens, in dialects that have them
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

/// The side of the connection that a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// The side that opened the connection.
    #[default]
    Client,
    /// The side that was connected to.
    Server,
}

pub(super) const HELP: &str = r#"Example:
  printf '%s\n' '{"call": {"method": "slow", "timeout_ms": 500}}' '{"advance": 500}' \
    '{"receive": {"jsonrpc": "2.0", "id": 1, "result": "too late"}}' | rescind step

  {"send":{"jsonrpc":"2.0","id":1,"method":"slow"},"kind":"request"}
  {"event":"settled","call":"c1","outcome":"timed_out","cause":"deadline"}
  {"send":{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}},"kind":"cancel"}
  {"event":"violation","kind":"late_response","id":1}

Inputs, one object a line; each may carry "at": MS, and then time moves there first:
  {"receive": VALUE}          one message; a string is its raw text, for malformed ones
  {"bytes": "TEXT"}           bytes of the stream, framed; {"bytes_base64": "..."} for any bytes
  {"call": {"method", "params"?, "as"?, "timeout_ms"?, "idle_ms"?, "cap_ms"?, "grace_ms"?, "parent"?}}
  {"notify": {"method", "params"?}}
  {"cancel": "c1", "reason"?}  {"drop": "c1"}  {"detach": "c1"}
  {"respond": {"request": "r1", "result": VALUE}}
  {"respond": {"request": "r1", "error": {"code", "message", "data"?}}}
                              where a request starts an operation, this ends it: its token was the answer
  {"end": "r1", "reason"?}    ends a client's request that the dialect lets the server end
  {"advance": MS}             time moves on, and due timers fire; without it time stands still
  {"hold": true}              stop taking messages out of the outbox; {"drain": true} resumes
  {"eof": true}               the peer's input ends (the end of standard input does not mean that)
  {"shutdown": "drain"}       or "cancel", or "abandon"

Outputs after each input, first what happened and then what is sent:
  {"event": "request", "request": "r1", "id", "method", "params"?, "options"?}
  {"event": "notification", "method", "params"?}
  {"event": "cancelled", "request": "r1", "cause", "reason"?}
  {"event": "settled", "call": "c1", "outcome", "value"?, "cause"?}
  {"event": "violation", "kind", "id"?}
  {"event": "closed", "reason"}
  {"send": MESSAGE, "kind": "request|notification|response|cancel|acknowledgement"}
  {"refused": REASON, ...}    for a command that can't be taken"#;

//! A peer that writes whatever it likes, in the words of the dialect.

use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use protocol_core::{CancelRule, CapabilityRule, Dialect, Envelope};

use super::random::Random;

/// The bytes that tokens of our operations consist of. There are few, so that some are in use.
pub(super) const TOKENS: [u8; 3] = [0xab, 0xcd, 0xef];

/// The calls and requests that a message is about.
pub(super) struct Targets {
    /// The number of a call or of a cancel of ours.
    pub(super) call: u32,
    /// The id of a request of the peer's, or the token of its operation.
    pub(super) request: String,
}

/// The words that a dialect and its revisions use.
pub(super) struct Peer {
    envelope: Envelope,
    /// The methods that one of them treats in a way of its own, and two that none does.
    methods: Vec<String>,
    cancels: Vec<Cancel>,
}

/// A form of cancels.
#[derive(Clone)]
struct Cancel {
    method: String,
    /// The member of its params that names its target.
    member: String,
    is_request: bool,
}

impl Peer {
    pub(super) fn new(dialect: &Dialect) -> Self {
        let mut peer = Self {
            envelope: dialect.envelope,
            methods: vec!["m".into(), "a/b".into()],
            cancels: Vec::new(),
        };
        peer.learn(dialect);
        dialect.revisions.iter().for_each(|(_, revision)| peer.learn(revision));
        peer
    }

    fn learn(&mut self, dialect: &Dialect) {
        let Self { methods, cancels, .. } = self;
        methods.extend(dialect.session.as_deref().map(ToString::to_string));
        methods.extend(dialect.exchanges.iter().map(|(method, _)| method.to_string()));
        methods.extend(dialect.progress.iter().map(|rule| rule.method.to_string()));
        methods.extend(dialect.uncancellable.methods.iter().map(ToString::to_string));
        if let protocol_core::Cancellers::Client { server_may_end } = &dialect.cancellers {
            methods.extend(server_may_end.iter().map(ToString::to_string));
        }
        if let CapabilityRule::Declared { exchange, later, .. } = &dialect.capability {
            methods.push(exchange.to_string());
            methods.extend(later.as_ref().map(|(method, _)| method.to_string()));
        }
        let (method, member) = match &dialect.cancel {
            CancelRule::Notification { method, id, .. } => (method, id),
            CancelRule::Request { method, id, .. } => (method, id),
            CancelRule::Operation { method, token, started_by, .. } => {
                (0..6).for_each(|_| methods.extend(started_by.iter().map(ToString::to_string)));
                (method, token)
            }
            _ => return,
        };
        let is_request = !matches!(dialect.cancel, CancelRule::Notification { .. });
        cancels.push(Cancel { method: method.to_string(), member: member.to_string(), is_request });
    }

    pub(super) fn method(&self, random: &mut Random) -> String {
        random.one_of(&self.methods)
    }

    /// Returns the id of a new request. There are few, so that some are in use.
    pub(super) fn new_id(&self, random: &mut Random) -> String {
        const ODD: [&str; 6] =
            ["null", "-1", "1.0", "\"\\u0031\"", "2147483647", "\"abababababab\""];
        match random.below(10) {
            0 => random.one_of(&ODD).into(),
            1 | 2 => format!("\"{}\"", random.below(4)),
            _ => random.below(6).to_string(),
        }
    }

    /// Returns an id in the form of ours, or one that is none of ours now and then.
    fn our_id(&self, random: &mut Random, targets: &Targets) -> String {
        let number = targets.call;
        match (self.envelope, random.once_in(20)) {
            (_, true) => self.new_id(random),
            (Envelope::Abp, false) => format!("\"{number}\""),
            (Envelope::JsonRpc | Envelope::Dap, false) => number.to_string(),
        }
    }

    /// Returns the id or the token that a cancel names.
    fn cancelled_id(&self, random: &mut Random, targets: &Targets) -> String {
        match random.below(8) {
            0 => token(random),
            1 => self.new_id(random),
            2 | 3 => self.our_id(random, targets),
            _ => targets.request.clone(),
        }
    }

    /// Returns params with some of the members that some dialect reads.
    pub(super) fn params(&self, random: &mut Random, targets: &Targets) -> String {
        let Cancel { member, .. } = self.cancel(random);
        self.params_with(random, targets, &member)
    }

    /// Returns params that name something in the member of this name.
    fn params_with(&self, random: &mut Random, targets: &Targets, name: &str) -> String {
        let (other, truth) = (random.below(3), random.one_of(&["true", "false"]));
        let target = self.cancelled_id(random, targets);
        let member = |index| match index {
            0 => format!(r#""_meta":{{"progressToken":{other}}}"#),
            1 => format!(r#""progressToken":{other},"token":{other},"sessionId":{other}"#),
            2 => format!(r#""workDoneToken":{other}"#),
            3 => format!(r#""progressId":{other}"#),
            4 => format!(r#""clientCapabilities":{{"cancellation":{{"request":{truth}}}}}"#),
            5 => format!(r#""capabilities":{{"supportsCancelRequest":{truth}}}"#),
            6 => r#""task":{}"#.into(),
            _ => r#""reason":"why""#.into(),
        };
        let mut params = vec![format!("\"{name}\":{target}")];
        params.extend((0..8).filter(|_| random.once_in(4)).map(member));
        if random.once_in(12) { "[]".into() } else { format!("{{{}}}", params.join(",")) }
    }

    /// Returns a result with some of the members that some dialect reads.
    pub(super) fn result(&self, random: &mut Random) -> String {
        let (truth, revision) = (random.one_of(&["true", "false"]), random.below(4));
        let member = |index| match index {
            0 => format!(r#""protocolVersion":"r{revision}","supportedVersions":["r{revision}"]"#),
            1 => r#""protocolVersion":"2025-11-25""#.into(),
            2 => r#""supportedVersions":["2025-03-26","2026-07-28"]"#.into(),
            3 => format!(r#""supportsCancelRequest":{truth}"#),
            _ => format!(r#""agentCapabilities":{{"cancellation":{{"request":{truth}}}}}"#),
        };
        let chosen = (0..5).filter(|_| random.once_in(3)).map(member);
        let mut members: Vec<String> = chosen.collect();
        if !random.once_in(4) {
            members.push(format!(r#""cancellationToken":{}"#, token(random)));
        }
        if random.once_in(6) { "1".into() } else { format!("{{{}}}", members.join(",")) }
    }

    /// Returns any message.
    pub(super) fn message(&self, random: &mut Random, targets: &Targets) -> String {
        const BROKEN: [&str; 6] = ["x", "{}", "1", "[1", "{\"id\":1}", "[]"];
        if random.once_in(40) {
            return random.one_of(&BROKEN).into();
        }
        if self.envelope == Envelope::JsonRpc && random.once_in(10) {
            let members = (0..random.below(5)).map(|_| self.single(random, targets));
            return format!("[{}]", members.collect::<Vec<_>>().join(","));
        }
        self.single(random, targets)
    }

    fn single(&self, random: &mut Random, targets: &Targets) -> String {
        let (id, own) = (self.our_id(random, targets), self.new_id(random));
        match random.below(15) {
            0..=2 => {
                let (method, params) = (self.method(random), self.params(random, targets));
                self.request(&own, &method, &params)
            }
            3 => {
                let (method, params) = (self.method(random), self.params(random, targets));
                self.notification(&method, &params)
            }
            4..=7 => {
                let Cancel { method, member, is_request } = self.cancel(random);
                let params = self.params_with(random, targets, &member);
                match is_request != random.once_in(8) {
                    true => self.request(&own, &method, &params),
                    false => self.notification(&method, &params),
                }
            }
            8..=10 => {
                let (method, result) = (self.any_method(random), self.result(random));
                self.response(&id, &method, &result)
            }
            11 | 12 => self.error(&id, &self.any_method(random), true),
            13 => self.error(&id, &self.any_method(random), false),
            _ => self.malformed(&id, &self.any_method(random)),
        }
    }

    fn any_method(&self, random: &mut Random) -> String {
        match random.once_in(2) {
            true => self.cancel(random).method,
            false => self.method(random),
        }
    }

    /// Returns a form of cancels, or one that the dialect does not know.
    fn cancel(&self, random: &mut Random) -> Cancel {
        match self.cancels.is_empty() || random.once_in(20) {
            true => {
                Cancel { method: "$/cancelRequest".into(), member: "id".into(), is_request: false }
            }
            false => random.one_of(&self.cancels),
        }
    }

    // The envelopes

    fn request(&self, id: &str, method: &str, params: &str) -> String {
        match self.envelope {
            Envelope::JsonRpc => {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
            }
            Envelope::Abp if method.contains('/') || method == "initialize" => {
                format!(r#"{{"type":"{method}","id":{id},"payload":{params}}}"#)
            }
            Envelope::Abp => format!(
                r#"{{"type":"capabilities/call","id":{id},"payload":{{"capability":"{method}","params":{params},"options":{{"callId":{id}}}}}}}"#
            ),
            Envelope::Dap => format!(
                r#"{{"seq":{id},"type":"request","command":"{method}","arguments":{params}}}"#
            ),
        }
    }

    fn notification(&self, method: &str, params: &str) -> String {
        match self.envelope {
            Envelope::JsonRpc => {
                format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
            }
            Envelope::Abp => format!(r#"{{"type":"{method}","payload":{params}}}"#),
            Envelope::Dap => {
                format!(r#"{{"seq":9,"type":"event","event":"{method}","body":{params}}}"#)
            }
        }
    }

    fn response(&self, id: &str, method: &str, result: &str) -> String {
        self.settling(
            id,
            method,
            &format!(r#""result":{result}"#),
            &[
                &format!(r#""success":true,"data":{result}"#),
                &format!(r#""success":true,"body":{result}"#),
            ],
        )
    }

    fn error(&self, id: &str, method: &str, is_cancelled: bool) -> String {
        let code = if is_cancelled { -32800 } else { -1 };
        let [abp, dap] = match is_cancelled {
            true => {
                [r#""success":false,"cancelled":true"#, r#""success":false,"message":"cancelled""#]
            }
            false => [
                r#""success":false,"error":{"code":"NO","message":"no"}"#,
                r#""success":false,"message":"no""#,
            ],
        };
        self.settling(
            id,
            method,
            &format!(r#""error":{{"code":{code},"message":"c"}}"#),
            &[abp, dap],
        )
    }

    fn malformed(&self, id: &str, method: &str) -> String {
        self.settling(id, method, r#""result":1,"error":2"#, &[r#""success":7"#, r#""success":7"#])
    }

    /// Returns a response that says this in JSON-RPC, or one of the others in ABP and DAP.
    fn settling(&self, id: &str, method: &str, rpc: &str, [abp, dap]: &[&str; 2]) -> String {
        match self.envelope {
            Envelope::JsonRpc => format!(r#"{{"jsonrpc":"2.0","id":{id},{rpc}}}"#),
            Envelope::Abp if method.contains('/') || method == "initialize" => {
                format!(r#"{{"type":"{method}-result","id":{id},"payload":{{{abp}}}}}"#)
            }
            Envelope::Abp => format!(
                r#"{{"type":"capabilities/call-result","id":{id},"payload":{{"callId":{id},{abp}}}}}"#
            ),
            Envelope::Dap => format!(
                r#"{{"seq":9,"type":"response","request_seq":{id},"command":"{method}",{dap}}}"#
            ),
        }
    }
}

/// Returns a token as it is written in a message.
pub(super) fn written(token: [u8; 16]) -> String {
    format!("\"{:032X}\"", u128::from_be_bytes(token))
}

/// Returns the token of an operation that may be ours.
fn token(random: &mut Random) -> String {
    written([random.one_of(&TOKENS); 16])
}

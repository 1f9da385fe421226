//! Tampers with the input and the output of a relay, with one fault each.

use std::time::Duration;

use protocol_relay::Side;
use serde_json::{Value, json};

/// The one thing that is wrong with the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// Passes on the bytes that it is given, as `tee` would.
    Tunnels,
    /// Renames ids, and forwards cancels as they came: as a published multiplexer does.
    CancelsUnrenamed,
    AnswersTwice,
    IdsAsTexts,
    TextsAsNumbers,
    RoundsIds,
    RefusesUsedIds,
    DropsReusedIds,
    DropsDuplicates,
    LosesCancels,
    LosesImmediateCancels,
    RepeatsCancels,
    CancelsTheirsToo,
    TrustsTheirIds,
    HidesResults,
    DropsNotesAfterCancel,
    DropsCrossingAnswers,
    PassesLateCancels,
    PassesUnknownCancels,
    RemembersEarlyCancels,
    PassesMalformedCancels,
    CancelsInitialize,
    PassesProgress,
    PassesLateAnswers,
    LosesProgress,
    PassesStrayAnswers,
    TakesTextForNumber,
    RewordsErrors,
    DropsMalformedAnswers,
    SwapsNotes,
    AddsToParams,
    LargeIds,
    MissesOddCancels,
    ReadsBytesAsText,
    UnpacksBatches,
    DiesOfGarbage,
    DiesOfBlankLines,
    KnowsOneSpelling,
    DropsLargeMessages,
    LosesBeyondHundred,
    OutlivesItsCaller,
    ForgetsTheDeserted,
    /// Reports to nobody what became of a cancel. This and the next ones are faults in the Debug Adapter
    /// Protocol.
    LosesAcknowledgements,
    /// Takes the acknowledgement for the response to the request that is cancelled.
    AcknowledgesOnly,
    LosesProgressCancels,
    /// Counts the numbers of messages anew, but not those that events name.
    MisnamesRequests,
    ForgetsCommands,
    /// Passes on the methods of its protocol, and no others. No check finds a fault in that.
    RefusesUnknown,
    /// Passes on all methods but those of its protocol.
    RefusesKnown,
    /// Passes no request on, so nothing can be tested.
    RefusesAll,
    /// Loses the requests of the server, so none of them can be tested.
    LosesTheirRequests,
    /// Passes on nothing but the opening, and says all the time that it is alive.
    OnlyBeats,
    /// Passes on nothing at all, and says all the time that it is alive.
    NeverOpens,
    /// Outlives both sides, and says all the time that it is alive, which is right.
    BeatsOn,
    /// Asks a side whether it is there before a response of its is passed on, which is right.
    Pings,
    /// Lists the tools of its server before the opening is passed on, which is right.
    ListsTools,
    /// Gives tokens of its own, which is right.
    RenamesTokens,
    /// Writes both headers of the Language Server Protocol, which is right.
    WritesContentType,
    /// Writes the name of a header as not every peer reads it.
    WritesSmallHeaders,
    /// Passes a request on whose id is in flight, as one of its own, which is right.
    PassesDuplicates,
}
use Fault::*;

/// The place that a message goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    /// Into the relay, from where it came.
    Relay,
    /// To this side, past the relay.
    To(Side),
}

/// A request that was seen, and what became of it.
#[derive(Debug)]
struct Call {
    from: Side,
    id: Value,
    /// The mark that the tester gave it.
    tag: Value,
    method: Value,
    /// The number of the read that it came in.
    chunk: usize,
    /// Its id on the other side, once it has left.
    far: Option<Value>,
    cancel: Option<Value>,
    is_answered: bool,
}

pub(crate) struct Tamper {
    pub(crate) fault: Fault,
    calls: Vec<Call>,
    chunk: usize,
    /// Cancels that came before their requests.
    early: Vec<Value>,
    /// By side, the messages that are passed on later.
    held: [Vec<Vec<u8>>; 2],
    /// The tokens or ids in whose place it gives its own.
    renamed: Vec<Value>,
}

/// The time between two signs of life.
pub(crate) const BEAT: Duration = Duration::from_millis(100);
/// The beginning of ids and tokens that the relay gives, before their number.
const OWN: &str = "own-";

/// Added to ids that are to be large.
const LARGE: u64 = 1 << 40;

impl Tamper {
    pub(crate) fn new(fault: Fault) -> Self {
        let (calls, early, renamed) = (Vec::new(), Vec::new(), Vec::new());
        Self { fault, calls, chunk: 0, early, held: [vec![], vec![]], renamed }
    }

    /// Returns whether the relay says from time to time that it is alive.
    pub(crate) fn beats(&self) -> bool {
        matches!(self.fault, OnlyBeats | NeverOpens | BeatsOn)
    }

    /// Returns a name of the relay's own for a token or an id.
    fn rename(&mut self, name: &Value) -> Value {
        self.renamed.push(name.clone());
        json!(format!("{OWN}{}", self.renamed.len() - 1))
    }

    /// Returns what the relay has renamed so.
    fn renamed(&self, own: &Value) -> Option<Value> {
        let number = own.as_str()?.strip_prefix(OWN)?.parse::<usize>().ok()?;
        self.renamed.get(number).cloned()
    }

    /// Returns what the relay reads of these bytes. `None` if it dies of them.
    pub(crate) fn chunk(&mut self, _: Side, bytes: &[u8]) -> Option<Vec<u8>> {
        self.chunk += 1;
        let text = String::from_utf8_lossy(bytes);
        let is_odd = |header: &str| text.contains(header);
        match self.fault {
            KnowsOneSpelling if is_odd("content-length:") || is_odd("CONTENT-LENGTH:") => None,
            // Each byte is a character.
            ReadsBytesAsText => {
                Some(bytes.iter().map(|&byte| if byte.is_ascii() { byte } else { b'?' }).collect())
            }
            _ => Some(bytes.to_vec()),
        }
    }

    /// Returns whether the end of a side is passed on. `None` if the relay ends by it.
    pub(crate) fn passes_end(&self, _: Side) -> Option<bool> {
        match self.fault {
            OutlivesItsCaller | BeatsOn => Some(false),
            ForgetsTheDeserted => None,
            _ => Some(true),
        }
    }

    /// Tampers with a message that came from a side. Returns `None` if the relay dies of it.
    pub(crate) fn incoming(&mut self, from: Side, line: Vec<u8>) -> Option<Vec<(Route, Vec<u8>)>> {
        let to = from.other();
        let Ok(message) = serde_json::from_slice::<Value>(&line) else {
            return match self.fault {
                DiesOfGarbage if !line.trim_ascii().is_empty() => None,
                DiesOfBlankLines if line.trim_ascii().is_empty() => None,
                Tunnels => Some(vec![(Route::To(to), line)]),
                _ => Some(vec![(Route::Relay, line)]),
            };
        };
        if self.fault == Tunnels {
            return Some(vec![(Route::To(to), line)]);
        }
        if let (UnpacksBatches, Value::Array(members)) = (self.fault, &message) {
            return Some(members.iter().map(|member| (Route::Relay, text(member))).collect());
        }
        if self.fault == DropsLargeMessages && line.len() > 1 << 20 {
            return Some(vec![]);
        }
        let method = message["method"].as_str().unwrap_or_default();
        let id = message.get("id");
        let opens = message["result"]["protocolVersion"].is_string();
        let asks = match self.fault {
            Pings if method.is_empty() => Some("ping"),
            ListsTools if opens || id == Some(&json!(OWN)) => Some("tools/list"),
            _ => None,
        };
        if let (Some(method), Some(id)) = (asks, id) {
            return self.ask_first(method, from, id, &message["result"], line);
        }
        Some(match id {
            _ if is_cancel(method) => self.cancel(from, &message, line),
            Some(id) if message.get("method").is_some() => {
                self.request(from, id.clone(), &message, line)
            }
            Some(id) => self.answer(from, id.clone(), &message, line),
            None => self.notification(from, method, &message, line),
        })
    }

    /// Holds a response until the side that gave it has responded to a request of the relay's own. `None` if that
    /// response is not right.
    fn ask_first(
        &mut self,
        method: &str,
        from: Side,
        id: &Value,
        result: &Value,
        line: Vec<u8>,
    ) -> Option<Vec<(Route, Vec<u8>)>> {
        let held = &mut self.held[from as usize];
        if *id == OWN {
            let is_right = result["tools"].is_array() || *result == json!({});
            let released = held.drain(..).map(|line| (Route::Relay, line)).collect();
            return is_right.then_some(released);
        }
        held.push(line);
        let own = json!({ "jsonrpc": "2.0", "id": OWN, "method": method });
        Some(if held.len() == 1 { vec![(Route::To(from), text(&own))] } else { vec![] })
    }

    /// Returns whether a request is kept back for its method.
    fn refuses(&self, message: &Value) -> bool {
        let method = message["method"].as_str().unwrap_or_default();
        match (self.fault, KNOWN.contains(&method)) {
            _ if method == "initialize" => false,
            (RefusesUnknown, is_known) => !is_known,
            (_, is_known) => is_known || self.fault == RefusesAll,
        }
    }

    fn request(
        &mut self,
        from: Side,
        id: Value,
        message: &Value,
        line: Vec<u8>,
    ) -> Vec<(Route, Vec<u8>)> {
        let of_id = |call: &&Call| call.from == from && call.id == id;
        let is_used = self.calls.iter().any(|call| of_id(&call) && call.is_answered);
        let open = self.calls.iter().find(|call| of_id(call) && !call.is_answered);
        let is_duplicate = open.is_some_and(|call| call.cancel.is_none());
        let is_reused = open.is_some_and(|call| call.cancel.is_some());
        let in_flight =
            self.calls.iter().filter(|call| call.from == from && !call.is_answered).count();
        match self.fault {
            LosesTheirRequests if from == Side::Down => return vec![],
            OnlyBeats if message["method"] != "initialize" => return vec![],
            NeverOpens => return vec![],
            PassesDuplicates if is_duplicate => {
                let mut message = message.clone();
                message["id"] = self.rename(&id);
                return vec![(Route::Relay, text(&message))];
            }
            RefusesUnknown | RefusesKnown | RefusesAll if self.refuses(message) => {
                let error = json!({ "code": -32601, "message": "Method not found" });
                let refusal = json!({ "jsonrpc": "2.0", "id": id, "error": error });
                return vec![(Route::To(from), text(&refusal))];
            }
            DropsDuplicates if is_duplicate => return vec![],
            DropsReusedIds if is_reused => return vec![],
            LosesBeyondHundred if in_flight >= 100 => return vec![],
            RefusesUsedIds if is_used => {
                let refusal = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32600, "message": "used" } });
                return vec![(Route::To(from), text(&refusal))];
            }
            _ => {}
        }
        let cancel = self.early.iter().find(|cancel| cancel["params"]["requestId"] == id).cloned();
        self.calls.push(Call {
            from,
            id,
            tag: tag(message),
            method: message["method"].clone(),
            chunk: self.chunk,
            far: None,
            cancel: None,
            is_answered: false,
        });
        let mut tampered = vec![(Route::Relay, line)];
        if self.fault == RemembersEarlyCancels {
            tampered.extend(cancel.map(|cancel| (Route::Relay, text(&cancel))));
        }
        tampered
    }

    fn cancel(&mut self, from: Side, message: &Value, line: Vec<u8>) -> Vec<(Route, Vec<u8>)> {
        let (to, fault) = (from.other(), self.fault);
        let target = message["params"].get("requestId").cloned().unwrap_or_default();
        if !target.is_string() && !target.is_i64() && !target.is_u64() {
            return match fault {
                PassesMalformedCancels | CancelsUnrenamed => vec![(Route::To(to), line)],
                _ => vec![(Route::Relay, line)],
            };
        }
        let is_far = |call: &&Call| call.from == to && call.far.as_ref() == Some(&target);
        let theirs = self.calls.iter().find(is_far).map(|_| target.clone());
        let both = self.calls.iter().find(|call| call.from == to && call.id == target);
        let same = both.and_then(|call| call.far.clone());
        let named = self.calls.iter_mut().rev().find(|call| call.from == from && call.id == target);
        let Some(call) = named else {
            self.early.push(message.clone());
            return match (fault, theirs) {
                (PassesUnknownCancels | CancelsUnrenamed, _) => vec![(Route::To(to), line)],
                // As if the other side had cancelled it.
                (TrustsTheirIds, Some(theirs)) => {
                    vec![(Route::To(from), text(&cancel_of(message, &theirs)))]
                }
                _ => vec![(Route::Relay, line)],
            };
        };
        let is_second = call.cancel.replace(target.clone()).is_some();
        let far = call.far.clone().map(|far| (Route::To(to), text(&cancel_of(message, &far))));
        let relayed = (Route::Relay, line.clone());
        match fault {
            CancelsUnrenamed => vec![(Route::To(to), line)],
            LosesCancels => vec![],
            LosesImmediateCancels if call.chunk == self.chunk => vec![],
            MissesOddCancels if !line.starts_with(br#"{"jsonrpc":"#) => vec![],
            RepeatsCancels if is_second && !call.is_answered => far.into_iter().collect(),
            CancelsTheirsToo => {
                let theirs = same.map(|far| (Route::To(from), text(&cancel_of(message, &far))));
                [relayed].into_iter().chain(theirs).collect()
            }
            DropsCrossingAnswers if call.is_answered => {
                vec![(Route::To(from), text(&cancelled(&target)))]
            }
            PassesLateCancels if call.is_answered => far.into_iter().collect(),
            CancelsInitialize if call.method == "initialize" => far.into_iter().collect(),
            _ => vec![relayed],
        }
    }

    fn answer(
        &mut self,
        from: Side,
        mut id: Value,
        message: &Value,
        line: Vec<u8>,
    ) -> Vec<(Route, Vec<u8>)> {
        let (to, fault) = (from.other(), self.fault);
        let mut message = message.clone();
        if fault == LargeIds {
            if let Some(large) = id.as_u64().and_then(|id| id.checked_sub(LARGE)) {
                id = large.into();
                message["id"] = id.clone();
                return vec![(Route::Relay, text(&message))];
            }
        }
        if fault == TakesTextForNumber {
            if let Some(number) = id.as_str().and_then(|id| id.parse::<u64>().ok()) {
                message["id"] = number.into();
                return vec![(Route::Relay, text(&message))];
            }
        }
        let error = message.get("error");
        let is_malformed = error.is_some_and(|error| {
            message.get("result").is_some()
                || !error["code"].is_i64()
                || !error["message"].is_string()
        });
        if fault == DropsMalformedAnswers && is_malformed {
            return vec![];
        }
        let far = Some(id);
        let named = self.calls.iter().rev().find(|call| call.from == to && call.far == far);
        match (fault, named) {
            (DropsCrossingAnswers, Some(call))
                if call.cancel.is_some() && message.get("result").is_some() =>
            {
                vec![]
            }
            (PassesStrayAnswers, None) => vec![(Route::To(to), line)],
            (PassesLateAnswers, Some(call)) if call.cancel.is_some() => {
                message["id"] = call.id.clone();
                vec![(Route::To(to), text(&message))]
            }
            _ => vec![(Route::Relay, line)],
        }
    }

    fn notification(
        &mut self,
        from: Side,
        method: &str,
        message: &Value,
        line: Vec<u8>,
    ) -> Vec<(Route, Vec<u8>)> {
        let to = from.other();
        let token = &message["params"]["progressToken"];
        let of_cancelled =
            self.calls.iter().any(|call| call.cancel.is_some() && call.tag == *token);
        let any_cancelled = self.calls.iter().any(|call| call.cancel.is_some());
        match self.fault {
            RenamesTokens if method == "notifications/progress" => {
                let mut message = message.clone();
                message["params"]["progressToken"] = self.renamed(token).unwrap_or_default();
                vec![(Route::Relay, text(&message))]
            }
            PassesProgress if of_cancelled => vec![(Route::To(to), line)],
            LosesProgress if any_cancelled && token.is_u64() => vec![],
            DropsNotesAfterCancel if any_cancelled && method == "$/progress" => vec![],
            SwapsNotes if method == "note" => match self.held[from as usize].pop() {
                Some(held) => vec![(Route::Relay, line), (Route::Relay, held)],
                None => {
                    self.held[from as usize].push(line);
                    vec![]
                }
            },
            _ => vec![(Route::Relay, line)],
        }
    }

    /// Tampers with a message that the relay has for a side.
    pub(crate) fn outgoing(&mut self, to: Side, line: Vec<u8>) -> Vec<(Side, Vec<u8>)> {
        let from = to.other();
        let Ok(mut message) = serde_json::from_slice::<Value>(&line) else {
            return vec![(to, line)];
        };
        let id = message.get("id").cloned();
        let is_request = message.get("method").is_some();
        if let (Some(id), true) = (&id, is_request) {
            let own = tag(&message);
            let sent =
                self.calls.iter_mut().rev().find(|call| call.from == from && call.tag == own);
            if let Some(call) = sent {
                call.far = Some(id.clone());
            }
            match self.fault {
                AddsToParams => message["params"]["relayed"] = json!(true),
                LargeIds => message["id"] = (id.as_u64().unwrap_or(0) + LARGE).into(),
                RenamesTokens => message["params"]["_meta"]["progressToken"] = self.rename(&own),
                _ => return vec![(to, line)],
            }
            return vec![(to, text(&message))];
        }
        if let (LargeIds, Some(far)) = (self.fault, message["params"]["requestId"].as_u64()) {
            message["params"]["requestId"] = (far + LARGE).into();
            return vec![(to, text(&message))];
        }
        let Some(id) = id else { return vec![(to, line)] };
        let answered = self
            .calls
            .iter_mut()
            .find(|call| call.from == to && call.id == id && !call.is_answered);
        let was_cancelled = answered.is_some_and(|call| {
            call.is_answered = true;
            call.cancel.is_some()
        });
        match (self.fault, &id) {
            (HidesResults, _) if was_cancelled && message.get("result").is_some() => {
                return vec![(to, text(&cancelled(&id)))];
            }
            (PassesDuplicates, own) if self.renamed(own).is_some() => {
                message["id"] = self.renamed(own).unwrap_or_default();
            }
            (AnswersTwice, _) => return vec![(to, line.clone()), (to, line)],
            (IdsAsTexts, Value::Number(number)) => message["id"] = number.to_string().into(),
            (TextsAsNumbers, Value::String(text)) => match text.parse::<u64>() {
                Ok(number) => message["id"] = number.into(),
                Err(_) => return vec![(to, line)],
            },
            (RoundsIds, Value::Number(number)) => {
                // Exact up to 2^53, as in a language that has no other numbers.
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                let rounded = number.as_f64().unwrap_or(0.0) as i64;
                message["id"] = rounded.into();
            }
            (RewordsErrors, _) if message.get("error").is_some() => {
                message["error"]["message"] = "it failed".into();
            }
            _ => return vec![(to, line)],
        }
        vec![(to, text(&message))]
    }
}

fn is_cancel(method: &str) -> bool {
    matches!(method, "$/cancel_request" | "notifications/cancelled")
}

/// Returns the same cancel of another id.
fn cancel_of(cancel: &Value, id: &Value) -> Value {
    let mut cancel = cancel.clone();
    cancel["params"]["requestId"] = id.clone();
    cancel
}

fn cancelled(id: &Value) -> Value {
    let error = json!({ "code": -32800, "message": "Request cancelled" });
    json!({ "jsonrpc": "2.0", "id": id, "error": error })
}

/// The methods that the tester asks for and the protocols have.
const KNOWN: [&str; 6] = [
    "session/prompt",
    "fs/read_text_file",
    "textDocument/hover",
    "workspace/configuration",
    "tools/call",
    "sampling/createMessage",
];

fn tag(message: &Value) -> Value {
    message["params"]["_meta"]["progressToken"].clone()
}

fn text(message: &Value) -> Vec<u8> {
    message.to_string().into_bytes()
}

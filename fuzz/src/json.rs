//! JSON as `serde_json` reads it, with every token as it was written: the oracle of envelopes.

use std::fmt;

use protocol_core::Envelope;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object in their order, repeated ones included, each value as its token.
pub(crate) struct Members<'m>(Vec<(Option<String>, &'m str)>);

impl<'m> Members<'m> {
    /// Reads an object; `None` if it is none.
    pub(crate) fn of(json: &'m [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }

    /// The last member of that name, as `serde_json::Value` has it.
    pub(crate) fn get(&self, name: &str) -> Option<&'m str> {
        self.all(name).last()
    }

    /// Returns the number of members of that name.
    pub(crate) fn times(&self, name: &str) -> usize {
        self.all(name).count()
    }

    /// The names, without those that can't be decoded.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|(name, _)| name.as_deref())
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'m str> {
        let those = self.0.iter().filter(move |(other, _)| other.as_deref() == Some(name));
        those.map(|&(_, token)| token)
    }
}

impl<'m> Deserialize<'m> for Members<'m> {
    fn deserialize<D: Deserializer<'m>>(json: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'m> Visitor<'m> for Object {
            type Value = Members<'m>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'m>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                    members.push((string(name.get()), value.get()));
                }
                Ok(Members(members))
            }
        }

        json.deserialize_map(Object)
    }
}

/// Decodes a string token; `None` for other tokens, and for a lone surrogate.
pub(crate) fn string(token: &str) -> Option<String> {
    serde_json::from_str(token).ok()
}

/// The message itself, or the members of a batch.
pub(crate) fn each_message(json: &[u8]) -> Vec<&[u8]> {
    match serde_json::from_slice::<Vec<&RawValue>>(json) {
        Ok(members) => members.into_iter().map(|member| member.get().as_bytes()).collect(),
        Err(_) => vec![json],
    }
}

/// Returns the id that a message responds to, if it is a response.
pub(crate) fn responded_id<'m>(message: &Members<'m>, envelope: Envelope) -> Option<&'m str> {
    match envelope {
        Envelope::JsonRpc if message.get("method").is_some() => None,
        Envelope::JsonRpc => {
            let is_response = message.get("result").or(message.get("error")).is_some();
            message.get("id").filter(|_| is_response)
        }
        Envelope::Abp => {
            let kind = string(message.get("type")?)?;
            message.get("id").filter(|_| kind.ends_with("-result"))
        }
        Envelope::Dap => message.get("request_seq"),
    }
}

/// Returns the id that a response to a message would have, if it may get one.
pub(crate) fn asked_id<'m>(message: &Members<'m>, envelope: Envelope) -> Option<&'m str> {
    let id = message.get(if envelope == Envelope::Dap { "seq" } else { "id" });
    id.filter(|_| responded_id(message, envelope).is_none())
}

/// Returns the depth to which arrays and objects are nested in valid JSON.
pub(crate) fn depth(json: &str) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth -= 1,
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

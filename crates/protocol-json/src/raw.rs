//! `RawValue`s of text that was checked.

use serde::de::value::{BorrowedStrDeserializer, Error, StrDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

/// Makes a `RawValue` of the token of one value, without checking it again.
///
/// Only this crate may call it. Of unchecked text it would make a `RawValue` that is no JSON, which serde then writes as it
/// is (F13).
#[inline]
pub(crate) fn raw(text: &str) -> &RawValue {
    <&RawValue>::deserialize(Checked { name: "", token: text }).unwrap_or_else(|_| reparsed(text))
}

/// Parses the token, in case a later `serde_json` builds its `RawValue`s in another way.
#[cold]
fn reparsed(token: &str) -> &RawValue {
    serde_json::from_str(token).expect("the scan accepts only JSON")
}

/// A deserializer that passes text to a `RawValue` as `serde_json`'s own does.
///
/// It is a newtype with a name that only `RawValue` asks for. Inside is a map with one entry, from that name to the text.
struct Checked<'de> {
    name: &'static str,
    token: &'de str,
}

impl<'de> Deserializer<'de> for Checked<'de> {
    type Error = Error;

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_map(Self { name, ..self })
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("a RawValue asks for nothing else"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

/// The map with one entry, which a `RawValue` reads once.
impl<'de> MapAccess<'de> for Checked<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        seed.deserialize(StrDeserializer::new(self.name)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(BorrowedStrDeserializer::new(self.token))
    }
}

//! Checked text as `RawValue`s.

use serde::de::value::{BorrowedStrDeserializer, Error, StrDeserializer};
use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::value::RawValue;

/// Text that was checked, as a `RawValue`, without checking it again: the token of one value.
///
/// For this crate alone: of any other text it would make a `RawValue` that is no JSON either, and that serde writes
/// as it is (F13).
#[inline]
pub(crate) fn raw(text: &str) -> &RawValue {
    <&RawValue>::deserialize(Checked { name: "", token: text }).unwrap_or_else(|_| reparsed(text))
}

/// Clears the buffer, writes a value into it as JSON and borrows it from there. This does what
/// `serde_json::value::to_raw_value` does, without an allocation for each value.
///
/// It needs the feature `std`, because `serde_json` writes into a buffer only with `std`.
///
/// ```
/// let mut buffer = Vec::new();
/// let value = protocol_json::write_value(&[1, 2], &mut buffer)?;
/// assert_eq!(value.get(), "[1,2]");
/// # Ok::<(), serde_json::Error>(())
/// ```
///
/// # Errors
///
/// What serde says about the value.
#[cfg(feature = "std")]
pub fn write_value<'b>(
    value: &(impl serde::Serialize + ?Sized),
    buffer: &'b mut alloc::vec::Vec<u8>,
) -> serde_json::Result<&'b RawValue> {
    buffer.clear();
    serde_json::to_writer(&mut *buffer, value)?;
    let text = core::str::from_utf8(buffer).map_err(serde::ser::Error::custom)?;
    debug_assert_eq!(crate::value(text).map(RawValue::get), Some(text), "serde_json writes JSON");
    Ok(raw(text))
}

/// Used if a later `serde_json` builds its `RawValue`s in another way.
#[cold]
fn reparsed(token: &str) -> &RawValue {
    serde_json::from_str(token).expect("the scan accepts only JSON")
}

/// Hands text over as `serde_json`'s own deserializer does: a newtype of a name that only `RawValue`
/// asks for, made of a map of that name to the text.
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

/// A `RawValue` asks for the one entry once.
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

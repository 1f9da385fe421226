//! Ids and tokens by their value. All testers compare them here, whoever wrote them and however.

use std::collections::HashMap;

use serde_json::value::RawValue;
use serde_json::{Value, json};

/// Up to here every integer is a floating-point number of its own.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns the one token that stands for the value of a token: `"a"` for `"\u0061"`, and `7` for `7.0`.
///
/// A value that is no number and no text stays as it is.
pub(crate) fn by_value(token: &str) -> String {
    if token.starts_with('"') {
        // A text that can't be decoded is only equal to itself.
        return serde_json::from_str::<String>(token)
            .map_or_else(|_| token.to_owned(), |text| json!(text).to_string());
    }
    let is_decimal = token.contains(['.', 'e', 'E']) || token == "-0";
    match token.parse::<f64>() {
        Ok(number) if is_decimal && number.fract() == 0.0 && number.abs() < EXACT => {
            format!("{:.0}", number + 0.0)
        }
        _ => token.to_owned(),
    }
}

/// The members of an object, each as it was written.
pub(crate) struct Members<'m>(HashMap<String, &'m RawValue>);

impl<'m> Members<'m> {
    pub(crate) fn of(object: &'m [u8]) -> Option<Self> {
        serde_json::from_slice(object).ok().map(Self)
    }

    /// Returns the token of a member, if it is not null.
    pub(crate) fn token(&self, name: &str) -> Option<&'m str> {
        self.0.get(name).map(|it| it.get()).filter(|it| *it != "null")
    }

    /// Returns a member, which may be null.
    pub(crate) fn value(&self, name: &str) -> Option<Value> {
        self.0.get(name).map(|it| serde_json::from_str(it.get()).unwrap_or_default())
    }

    /// Returns a member that should be a text, if it is not null. It is empty if it is none.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.token(name).map(|it| serde_json::from_str(it).unwrap_or_default())
    }

    /// Returns these members, as far as they are there. A value that can't be decoded is null.
    pub(crate) fn values(&self, names: &[&str]) -> Value {
        names.iter().filter_map(|name| Some(((*name).to_owned(), self.value(name)?))).collect()
    }

    /// Returns the value of a member of a member.
    pub(crate) fn within(&self, name: &str, inner: &str) -> Option<String> {
        Members::of(self.token(name)?.as_bytes())?.token(inner).map(by_value)
    }
}

/// Returns a number as the integer that it equals, and anything else as it is.
pub(crate) fn integer(value: Value) -> Value {
    match &value {
        Value::Number(number) => {
            serde_json::from_str(&by_value(&number.to_string())).unwrap_or(value)
        }
        _ => value,
    }
}

/// Returns whether an answer has what JSON-RPC wants: a result, or an error with a code and a message.
pub(crate) fn well_formed(answer: &Value) -> bool {
    match (answer.get("result"), answer.get("error")) {
        (Some(_), None) => true,
        (None, Some(error)) => error["code"].is_i64() && error["message"].is_string(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f117_tokens_of_one_value_are_one() {
        for (one, other) in [
            (r#""r\u00e9q""#, r#""réq""#),
            (r#""a\/b""#, r#""a/b""#),
            ("7.0", "7"),
            ("70e-1", "7"),
            ("-0", "0"),
        ] {
            assert_eq!(by_value(one), by_value(other), "{one}");
        }
    }

    #[test]
    fn f117_tokens_of_two_values_are_two() {
        for (one, other) in [
            ("7", r#""7""#),
            ("9007199254740993", "9007199254740992"),
            ("9007199254740993", "9007199254740992.0"),
            ("7.5", "7"),
            ("null", r#""null""#),
            (r#""""#, "null"),
            (r#""\ud800""#, r#""\ud801""#),
        ] {
            assert_ne!(by_value(one), by_value(other), "{one}");
        }
    }

    #[test]
    fn f117_a_relay_may_write_an_integer_as_it_likes() {
        assert_eq!(integer(json!(7.0)), json!(7));
        assert_eq!(integer(json!("7")), json!("7"));
        assert_eq!(integer(json!(u64::MAX)), json!(u64::MAX));
    }
}

//! Values in which one member is looked for. Everything else in them stays as its author wrote it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

use protocol_core::Refusal;
use protocol_json::Members;
use serde_json::value::RawValue;

/// Returns params with nothing but this member, unless it is missing or null.
pub(crate) fn only_member(params: &RawValue, name: &str) -> Option<Box<RawValue>> {
    let value = Members::of(params.get(), &[name])?.token(0)?;
    let object = Some(value).filter(|value| *value != "null")?;
    RawValue::from_string(format!("{{\"{name}\":{object}}}")).ok()
}

/// Returns a value in which the member at this path has another value, or is left out if the closure returns none.
/// Returns none if there is no such member.
///
/// # Errors
///
/// [`Refusal::InvalidParams`] if a member on the path is repeated: the receiver might read the one that is not
/// replaced. And the errors of the closure.
pub(crate) fn replace(
    value: &RawValue,
    path: &[&str],
    replacement: impl FnOnce(&str) -> Result<Option<String>, Refusal>,
) -> Result<Option<Box<RawValue>>, Refusal> {
    let text = value.get();
    let mut found = text;
    for &name in path {
        let Some(members) = Members::of(found, &[name]) else { return Ok(None) };
        if members.has_repeated() {
            return Err(Refusal::InvalidParams);
        }
        let Some(value) = members.token(0) else { return Ok(None) };
        found = value;
    }
    let begin = found.as_ptr().addr() - text.as_ptr().addr();
    let (before, after) = (&text[..begin], &text[begin + found.len()..]);
    let replaced = match replacement(found)? {
        Some(value) => [before, &value, after].concat(),
        None => without(before, after),
    };
    RawValue::from_string(replaced).map(Some).map_err(|_| Refusal::InvalidParams)
}

/// Joins what stands before and after a value, without its name and one comma beside it.
fn without(before: &str, after: &str) -> String {
    // A quote is always escaped in JSON, so the quotes around a name are the last two.
    let quote = |text: &str| text.rfind('"').unwrap_or_default();
    let before = &before[..quote(&before[..quote(before)])];
    match after.trim_start().strip_prefix(',') {
        Some(after) => [before, after.trim_start()].concat(),
        None => [before.trim_end().strip_suffix(',').unwrap_or(before), after].concat(),
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.into()).expect("it is JSON")
    }

    #[test]
    fn b25_a_member_is_replaced_or_left_out_wherever_it_stands() {
        let cases = [
            (r#"{"id":1}"#, r#"{"id":9}"#, "{}"),
            (r#"{"id":1,"a":2}"#, r#"{"id":9,"a":2}"#, r#"{"a":2}"#),
            (r#"{"a":2,"id":1}"#, r#"{"a":2,"id":9}"#, r#"{"a":2}"#),
            (r#"{ "a" : 2 , "id" : 1 }"#, r#"{ "a" : 2 , "id" : 9 }"#, r#"{ "a" : 2  }"#),
            (r#"{ "id" : 1 , "a":2}"#, r#"{ "id" : 9 , "a":2}"#, r#"{ "a":2}"#),
            (r#"{"\u0069d":1,"a":{"id":1}}"#, r#"{"\u0069d":9,"a":{"id":1}}"#, r#"{"a":{"id":1}}"#),
            (
                r#"{"a":"\"id\"","id":"\"x\"","b":0}"#,
                r#"{"a":"\"id\"","id":9,"b":0}"#,
                r#"{"a":"\"id\"","b":0}"#,
            ),
        ];
        for (params, replaced, removed) in cases {
            for (value, expected) in [(Some("9"), replaced), (None, removed)] {
                let found = replace(&raw(params), &["id"], |_| Ok(value.map(str::to_string)));
                assert_eq!(found.map(|it| it.map(|it| it.to_string())), Ok(Some(expected.into())));
            }
        }
    }

    #[test]
    fn b25_a_member_that_is_repeated_is_not_replaced() {
        for params in [r#"{"id":1,"id":2}"#, r#"{"id":1,"\u0069d":2}"#] {
            let found = replace(&raw(params), &["id"], |_| Ok(Some("9".into())));
            assert_eq!(found.map(|it| it.map(|it| it.to_string())), Err(Refusal::InvalidParams));
        }
    }

    #[test]
    fn b25_nothing_else_is_touched() {
        for params in ["[1]", r#"{"a":{"id":1}}"#, "{}"] {
            let found = replace(&raw(params), &["id"], |_| Ok(Some("9".into())));
            assert!(found.is_ok_and(|found| found.is_none()));
            assert!(only_member(&raw(params), "id").is_none());
        }
        assert!(only_member(&raw(r#"{"id":null}"#), "id").is_none());
        let only = only_member(&raw(r#"{"a":1,"id": "x" }"#), "id").map(|it| it.to_string());
        assert_eq!(only.as_deref(), Some(r#"{"id":"x"}"#));
    }
}

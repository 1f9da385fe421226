//! The form of results: the part of them that does not change each time somebody asks.

use serde_json::{Map, Value};

/// Returns a result without its numbers, the words that have digits in them, and the order of its lists.
///
/// Times, counters and generated names are gone then, and requests that are alike should have results of one form.
pub(crate) fn form(result: &Value) -> Value {
    match result {
        Value::Number(_) => Value::from(0),
        Value::String(text) => Value::from(without_digits(text)),
        Value::Array(items) => {
            let mut forms: Vec<Value> = items.iter().map(form).collect();
            forms.sort_by_cached_key(Value::to_string);
            Value::from(forms)
        }
        Value::Object(members) => {
            let all = members.iter().map(|(name, value)| (without_digits(name), form(value)));
            Value::from(all.collect::<Map<_, _>>())
        }
        Value::Null | Value::Bool(_) => result.clone(),
    }
}

fn without_digits(text: &str) -> String {
    let has_digits = |word: &str| word.contains(|it: char| it.is_ascii_digit());
    let words = text.split_whitespace().map(|word| if has_digits(word) { "#" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::form;

    #[test]
    fn what_changes_each_time_is_no_part_of_it() {
        let first =
            json!({ "content": ["slept 500 ms", "as 7f-a"], "at": 17, "by": { "id7": [] } });
        let again =
            json!({ "by": { "id8": [] }, "content": ["as 8e-b", "slept 501 ms"], "at": 18 });
        assert_eq!(form(&first), form(&again));
    }

    #[test]
    fn what_is_more_or_another_is() {
        for (one, other) in [
            (json!(["f1"]), json!(["f1", "f2"])),
            (json!("slept 5 ms"), json!("slept 5 s")),
            (json!({ "a": 1 }), json!({ "a": true })),
            (json!({ "a": 1 }), json!({ "b": 1 })),
            (json!(null), json!([])),
        ] {
            assert_ne!(form(&one), form(&other), "{one}");
        }
    }
}

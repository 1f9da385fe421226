//! Twenty cancels that name nothing.

use crate::wire::Wire;

/// Their params, as JSON; `None` is a cancel without params. The request with this id is in flight, and
/// none of them names it.
pub(crate) fn params(member: &str, id: &str) -> Vec<Option<String>> {
    let named = |value: &str| Some(format!(r#"{{"{member}":{value}}}"#));
    vec![
        None,
        Some("null".into()),
        Some("[]".into()),
        Some("[[]]".into()),
        Some("\"text\"".into()),
        Some("5".into()),
        Some("true".into()),
        Some("{}".into()),
        named("null"),
        named("true"),
        named("{}"),
        named(&format!("[{id}]")),
        named(&format!(r#"{{"id":{id}}}"#)),
        named("1.5"),
        named("-0.0"),
        named("1e400"),
        named("99999999999999999999999999"),
        named(r#""\ud800""#),
        Some(format!(r#"{{"{}":{id}}}"#, member.to_uppercase())),
        Some(format!(r#"{{"conformanceUnknown":{id}}}"#)),
    ]
}

/// A cancel with such params.
pub(crate) fn message(wire: &Wire, params: Option<&str>, own: &str) -> String {
    match params {
        Some(params) => wire.cancel_with(params, own),
        None => {
            let whole = wire.cancel_with("{}", own);
            whole.replace(r#","params":{}"#, "").replace(r#","payload":{}"#, "")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol_core::Dialect;

    #[test]
    fn there_are_twenty_and_all_of_them_are_json() {
        let all = params("requestId", "7");
        assert_eq!(all.len(), 20);
        for params in &all {
            let message = message(&Wire::new(Dialect::MCP_2025_11_25), params.as_deref(), "1");
            assert!(
                serde_json::from_str::<&serde_json::value::RawValue>(&message).is_ok(),
                "{message}"
            );
        }
    }
}

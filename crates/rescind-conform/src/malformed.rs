//! Twenty cancels that name nothing.

/// The params of those that JSON-RPC allows and that merely name nothing, as JSON; `None` is a cancel without
/// params. The request with this id is in flight, and none of them names it.
///
/// The member in capitals is none of them: no protocol forbids a server to read its members so.
pub(crate) fn plain(member: &str, id: &str) -> Vec<Option<String>> {
    let (in_list, in_object) = (format!("[{id}]"), format!(r#"{{"id":{id}}}"#));
    let large = "99999999999999999999999999";
    let values = ["null", "true", "{}", "[]", &in_list, &in_object, "1.5", "-0.0", large];
    let unknown = Some(format!(r#"{{"conformanceUnknown":{id}}}"#));
    let whole = ["[]", "[[]]", "{}"].map(|params| Some(params.into())).to_vec();
    [vec![None], whole, named(member, &values), vec![unknown]].concat()
}

/// The params of those that a server may refuse as a whole, with an answer under no id: JSON-RPC does not allow
/// them, or not everybody can read them.
pub(crate) fn refusable(member: &str) -> Vec<Option<String>> {
    let whole = ["null", "\"text\"", "5", "true"].map(|params| Some(params.into()));
    [whole.to_vec(), named(member, &["1e400", r#""\ud800""#])].concat()
}

/// Params in which a member has one of these values.
fn named(member: &str, values: &[&str]) -> Vec<Option<String>> {
    values.iter().map(|value| Some(format!(r#"{{"{member}":{value}}}"#))).collect()
}

/// A cancel with such params, by what writes one with any.
pub(crate) fn message(params: Option<&str>, cancel_with: impl Fn(&str) -> String) -> String {
    match params {
        Some(params) => cancel_with(params),
        None => {
            let members = [r#","params":{}"#, r#","payload":{}"#, r#","arguments":{}"#];
            members.iter().fold(cancel_with("{}"), |whole, member| whole.replace(member, ""))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Wire;
    use protocol_core::Dialect;

    #[test]
    fn there_are_twenty_and_all_of_them_are_json() {
        let all = [plain("requestId", "7"), refusable("requestId")].concat();
        assert_eq!(all.len(), 20);
        let wire = Wire::new(Dialect::MCP_2025_11_25);
        for params in &all {
            let message = message(params.as_deref(), |params| wire.cancel_with(params, "1"));
            assert!(
                serde_json::from_str::<&serde_json::value::RawValue>(&message).is_ok(),
                "{message}"
            );
        }
    }
}

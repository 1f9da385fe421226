//! JSON without white space.

/// Takes the white space between the tokens of valid JSON out; every token stays as it is, number
/// tokens and string escapes included.
pub(super) fn compact(json: &str) -> String {
    let mut compact = String::with_capacity(json.len());
    let (mut in_string, mut escaped) = (false, false);
    for character in json.chars() {
        if in_string {
            in_string = escaped || character != '"';
            escaped = !escaped && character == '\\';
        } else if matches!(character, ' ' | '\t' | '\n' | '\r') {
            continue;
        } else {
            in_string = character == '"';
        }
        compact.push(character);
    }
    compact
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_space_between_tokens_goes() {
        let json = "{ \"a b\" :\t[ 1.0 , 1e+3 ,\"\\\" \\\\\" , \" \\u00e9\" ] , \"c\" : -0 }";
        assert_eq!(compact(json), r#"{"a b":[1.0,1e+3,"\" \\"," \u00e9"],"c":-0}"#);
    }
}

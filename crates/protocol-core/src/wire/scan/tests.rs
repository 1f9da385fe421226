//! The scan against `serde_json`, which says what JSON is.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;
use crate::wire::raw;

/// Every form of every kind of token, well formed or not.
const TEXTS: [&str; 32] = [
    r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[1,-2.5e+3,{}],"b":"\u00e9\n"}}"#,
    r#" { "id" : "x" , "result" : [ [ ] , { } , null , true , false ] } "#,
    "\t\r\n[1 , 2,\n3]\t",
    r#""plain""#,
    r#""eight by""#,
    r#""as long as it takes to leave the first four times eight bytes behind, and \" more""#,
    r#""\"\\\/\b\f\n\r\t\u0041""#,
    r#""\ud83d\ude00 \ud800 \udc00 \uD800\u0041""#,
    "\"é ü \u{2028} \u{1f600} and forty more bytes that are not all of them ASCII: \u{fffd}\"",
    "\"\u{7f}\"",
    r#""\u12g4""#,
    r#""\u12"#,
    r#""\x""#,
    "0",
    "-0",
    "01",
    "-",
    "-a",
    "1.",
    ".5",
    "1.5e",
    "1e+",
    "1E-07",
    "123456789012345678901234567890",
    "1.0e308000",
    "nul",
    "True",
    "{\"a\":1,}",
    "{\"a\" 1}",
    "{a:1}",
    "[1,]",
    "\u{feff}{}",
];

/// What is put in, or put in the place of a byte.
pub(in crate::wire) const PIECES: [&str; 38] = [
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "0",
    "1",
    "-",
    "+",
    ".",
    "e",
    "E",
    "n",
    "t",
    "u",
    "\\u",
    "\\ud800",
    "\\n",
    "null",
    "true",
    "false",
    " ",
    "\n",
    "\t",
    "\r",
    "\u{0}",
    "\u{1f}",
    "\u{7f}",
    "\u{b}",
    "é",
    "\u{1f600}",
    "\"a\":",
    "[[",
    "{}",
    ",\"id\":2",
];

/// The members that are looked for.
const NAMES: [&str; 6] = ["a", "b", "id", "jsonrpc", "method", ""];

struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as usize % limit
    }

    /// Puts something in, takes something out, or doubles something.
    fn mutate(&mut self, text: &str) -> String {
        let chars: Vec<char> = text.chars().collect();
        let at = self.below(chars.len() + 1);
        let until = (at + self.below(4)).min(chars.len());
        let (before, after) = (&chars[..at], &chars[until..]);
        let piece: String = match self.below(3) {
            0 => String::new(),
            1 => PIECES[self.below(PIECES.len())].into(),
            _ => chars[at / 2..until].iter().collect(),
        };
        before.iter().copied().chain(piece.chars()).chain(after.iter().copied()).collect()
    }
}

type Each<'m> = Vec<(&'m str, &'m str)>;

/// The members of an object, and whether `serde_json` takes the text for one.
fn members_by_serde(text: &str) -> Option<Each<'_>> {
    struct Collect;

    impl<'m> Visitor<'m> for Collect {
        type Value = Each<'m>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'m>>(self, mut map: A) -> Result<Each<'m>, A::Error> {
            let mut members = Vec::new();
            while let Some((name, value)) = map.next_entry::<&RawValue, &RawValue>()? {
                members.push((name.get(), value.get()));
            }
            Ok(members)
        }
    }

    let mut json = serde_json::Deserializer::from_str(text);
    let members = json.deserialize_map(Collect).ok()?;
    json.end().ok().map(|()| members)
}

/// How deep a valid text nests.
fn depth_of(json: &str) -> usize {
    let (mut depth, mut deepest, mut bytes) = (0_usize, 0, json.bytes());
    while let Some(byte) = bytes.next() {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            b'"' => {
                while let Some(byte @ (0..=b'!' | b'#'..)) = bytes.next() {
                    if byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn agrees(text: &str) {
    let oracle = serde_json::from_str::<&RawValue>(text);
    assert_eq!(value(text), oracle.as_ref().ok().map(|value| value.get()), "{text:?}: {oracle:?}");

    let found = members(text, &NAMES);
    let oracle = members_by_serde(text);
    assert_eq!(found.is_some(), oracle.is_some(), "{text:?}");
    for (at, wanted) in NAMES.into_iter().enumerate() {
        let (Some(found), Some(oracle)) = (&found, &oracle) else { break };
        let is_wanted = |name| serde_json::from_str::<String>(name).is_ok_and(|it| it == wanted);
        let values = oracle.iter().filter(|(name, _)| is_wanted(name)).map(|(_, value)| *value);
        let values: Vec<&str> = values.collect();
        let value = found.get(at);
        assert_eq!(value, values.last().copied(), "{text:?}");
        assert_eq!(found.is_repeated(at), values.len() > 1, "{text:?}");
        let decoded = value.and_then(|value| serde_json::from_str::<String>(value).ok());
        assert_eq!(found.string(at).as_deref(), decoded.as_deref(), "{text:?}");
        if let Some(value) = value {
            assert_eq!(raw::of(value).get(), value);
        }
    }
    let depth = found.map(|found| found.depth);
    assert!(depth.is_none_or(|depth| depth == depth_of(text)), "{text:?}: {depth:?}");

    let mut elements = Vec::new();
    let is_array = array(text, |element| elements.push(element)).is_some();
    let oracle: Option<Vec<&RawValue>> = serde_json::from_str(text).ok();
    let oracle = oracle.map(|elements| elements.into_iter().map(RawValue::get).collect());
    assert_eq!(is_array.then_some(elements), oracle, "{text:?}");
}

#[test]
fn g09_it_accepts_what_serde_json_accepts() {
    let mut random = Random(1);
    for text in TEXTS {
        agrees(text);
        for member in [format!("{{\"a\":{text},\"b\":[{text}]}}"), format!("[0,{text} , {text}]")] {
            agrees(&member);
            for _ in 0..if cfg!(miri) { 5 } else { 1_500 } {
                let mut text = random.mutate(&member);
                agrees(&text);
                for _ in 0..random.below(3) {
                    text = random.mutate(&text);
                    agrees(&text);
                }
            }
        }
    }
}

#[test]
fn g09_it_is_cut_and_continued_anywhere() {
    for text in TEXTS {
        for (at, _) in text.char_indices() {
            agrees(&text[..at]);
            agrees(&text[at..]);
        }
        for garbage in PIECES {
            agrees(&format!("{text}{garbage}"));
            agrees(&format!("{garbage}{text}"));
        }
    }
}

#[test]
fn g09_a_control_character_is_found_anywhere_in_a_string() {
    for len in [0, 1, 7, 8, 9, 31, 32, 33, 40, 41, 100, 1_000] {
        let plain = "a".repeat(len);
        agrees(&format!("\"{plain}\""));
        for at in 0..=len {
            for special in ["\u{0}", "\u{1f}", "\n", " ", "\\", "\"", "é", "\u{7f}"] {
                agrees(&format!("\"{}{special}{}\"", &plain[..at], &plain[at..]));
            }
        }
    }
}

#[test]
fn g09_nesting_is_followed_however_deep() {
    for depth in [1, 2, 63, 64, 65, 127, 128, 129, 1_000, 20_000] {
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":[", "]}]")] {
            let inner = if open == "[" { "" } else { "1" };
            let (open, close) = (open.repeat(depth), close.repeat(depth));
            agrees(&format!("{open}{inner}{close}"));
            agrees(&format!("{{\"a\":{open}{inner}{close}}}"));
            agrees(&format!("{open}{inner}{}", &close[1..]));
            agrees(&format!("{open}{inner}{close}]"));
            agrees(&format!("{open}{inner}{}", close.replacen(']', "}", 1)));
        }
    }
}

#[test]
fn a_token_becomes_a_raw_value_without_being_read_again() {
    for token in ["null", "\"\"", "[1, 2]", "no JSON, which a second look would see"] {
        assert_eq!(raw::of(token).to_string(), token);
    }
}

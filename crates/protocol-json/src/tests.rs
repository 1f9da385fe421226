//! The scan against `serde_json`, which decides what is JSON.

extern crate std;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::*;
use crate::raw::raw;

/// Texts with every form of every kind of token, well formed or not.
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

/// Pieces that mutations insert.
const PIECES: [&str; 38] = [
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

/// The names of the wanted members.
const NAMES: [&str; 6] = ["a", "b", "id", "jsonrpc", "method", ""];
/// The names of the wanted members of a member.
const INNER: [&str; 2] = ["a", "id"];

struct Random(u32);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0 as usize % limit
    }

    /// Inserts, removes or doubles a piece.
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

type Pairs<'m> = Vec<(&'m str, &'m str)>;

/// Returns the members of an object in order, if `serde_json` accepts the text as one.
fn members_by_serde(text: &str) -> Option<Pairs<'_>> {
    struct Collect;

    impl<'m> Visitor<'m> for Collect {
        type Value = Pairs<'m>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'m>>(self, mut map: A) -> Result<Pairs<'m>, A::Error> {
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

/// Returns the depth of the nesting of valid JSON.
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

/// Reads an object, and in the same pass the members of one of its values. Asserts that values found in a broken text are
/// JSON too (F13).
fn with_inner<'m, const N: usize>(
    text: &'m str,
    begun: usize,
    names: &Names<N>,
    outer: usize,
) -> Option<(Members<'m, N>, Option<Members<'m, 2>>)> {
    let (mut members, mut inner) = (Members::NONE, None);
    let read = members.read(text, begun, names, outer, &mut inner, &Names::new(INNER));
    let found = (0..N).filter_map(|at| members.raw(at));
    let found = found.chain(inner.iter().flat_map(|inner| [inner.raw(0), inner.raw(1)]).flatten());
    found.for_each(|value| assert!(is_json(value), "{value} of {text:?}"));
    read.map(|()| (members, inner))
}

/// Returns the byte at which `serde_json` finds that a text is no JSON, or the end.
fn broken_by_serde(text: &str) -> usize {
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else { return text.len() };
    let lines = text.split_inclusive('\n').take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum();
    (before + error.column().saturating_sub(1)).min(text.len())
}

fn is_json(value: &RawValue) -> bool {
    serde_json::from_str::<IgnoredAny>(value.get()).is_ok()
}

fn agrees(text: &str) {
    let oracle = serde_json::from_str::<&RawValue>(text);
    let found = value(text).map(RawValue::get);
    assert_eq!(found, oracle.as_ref().ok().map(|value| value.get()), "{text:?}: {oracle:?}");

    assert_eq!(broken_at(text), broken_by_serde(text), "{text:?}");

    let found = Members::of(text, &NAMES);
    let oracle = members_by_serde(text);
    assert_eq!(found.is_some(), oracle.is_some(), "{text:?}");
    for (at, wanted) in NAMES.into_iter().enumerate() {
        let (Some(found), Some(oracle)) = (&found, &oracle) else { break };
        let is_wanted = |name| serde_json::from_str::<String>(name).is_ok_and(|it| it == wanted);
        let values = oracle.iter().filter(|(name, _)| is_wanted(name)).map(|(_, value)| *value);
        let values: Vec<&str> = values.collect();
        let token = found.token(at);
        assert_eq!(token, values.last().copied(), "{text:?}");
        let once = token.filter(|_| values.len() == 1);
        assert_eq!(found.once(at), once, "{text:?}");
        assert_eq!(found.values()[at].map(RawValue::get), once, "{text:?}");
        let decoded = token.and_then(|token| serde_json::from_str::<String>(token).ok());
        assert_eq!(token.and_then(string).as_deref(), decoded.as_deref(), "{text:?}");
        assert_eq!(found.string(at).as_deref(), decoded.as_deref(), "{text:?}");
    }
    if let Some(found) = found {
        assert_eq!(found.depth, depth_of(text), "{text:?}");
        let twice = (0..NAMES.len()).any(|at| found.token(at) != found.once(at));
        assert_eq!(found.has_repeated(), twice, "{text:?}");
    }
    for at in 0..NAMES.len() {
        let inner = found.and_then(|found| Members::of(found.token(at)?, &INNER));
        let oracle = found.map(|found| (found, inner));
        assert_eq!(with_inner(text, 0, &Names::new(NAMES), at), oracle, "{text:?}");
    }

    let mut elements = Vec::new();
    let is_array = array(text, |element| {
        assert!(is_json(element), "{element} of {text:?}");
        elements.push(element.get());
    })
    .is_some();
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
            agrees(&open);
            agrees(&format!("{open};"));
        }
    }
}

#[test]
fn a_known_beginning_is_skipped() {
    let names = &Names::new(["a", "b"]);
    for begun in [r#"{"a":1,"#, r#"{ "a" : {"a":2} , "#, r#"{"b":[], "a":0,"#] {
        assert_eq!(
            with_inner(&format!("{begun}}}"), begun.len(), names, 1),
            None,
            "a member has to follow the comma"
        );
        for text in TEXTS {
            for rest in ["'b':@}", " 'b' : {'a':@} } ", "'b':@}}", "{'b':@}", ",'b':@}"] {
                let rest = rest.replace('\'', "\"").replace('@', text);
                let alone = format!("{{{rest}");
                let whole = format!("{begun}{rest}");
                let found = with_inner(&whole, begun.len(), names, 1);
                assert_eq!(found, with_inner(&alone, 0, names, 1), "{whole:?}");
            }
        }
    }
}

#[test]
fn up_to_32_members_are_told_apart() {
    let names: [String; 32] = core::array::from_fn(|at| format!("{at}"));
    let names: [&str; 32] = core::array::from_fn(|at| &*names[at]);
    for twice in 0..32 {
        let members: Vec<String> = names.iter().map(|name| format!("\"{name}\":{name}")).collect();
        let text = format!("{{{},\"{twice}\":0}}", members.join(","));
        let found = Members::of(&text, &names).unwrap();
        for (at, name) in names.into_iter().enumerate() {
            assert_eq!(found.once(at), Some(name).filter(|_| at != twice));
        }
        assert_eq!(found.token(twice), Some("0"));
    }
}

#[test]
fn a_token_becomes_a_raw_value_without_being_read_again() {
    for token in ["null", "\"\"", "[1, 2]", "no JSON, which a second look would see"] {
        assert_eq!(raw(token).to_string(), token);
    }
}

fn escaped(text: &str) -> String {
    let mut json = Vec::from(b"\"");
    escape(text, |piece| json.extend_from_slice(piece));
    json.push(b'"');
    String::from_utf8(json).unwrap()
}

#[test]
fn w01_a_state_is_seen_however_it_is_escaped() {
    for text in ["idle", "a/b", "a\"b", "tab\t", "f\u{e9}e", "8"] {
        let long: String = text.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
        let one = text.replacen(|_| true, &long[..6], 1);
        let usual = serde_json::to_string(text).unwrap();
        for json in [&*usual, &*usual.replace('/', "\\/"), &format!("\"{long}\"")] {
            assert!(may_say(raw(json), &["other", text]), "{json} says {text}");
        }
        if text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            assert!(may_say(raw(&format!("\"{one}\"")), &[text]));
            assert!(!may_say(raw(r#"{"ide": "i\n\"dl\"e\/"}"#), &[text]));
        }
    }
}

#[test]
fn strings_are_escaped_as_json_asks() {
    for text in ["", "a\"b\\c", "\u{0}\n\u{1f}\u{e9}\u{2028}", "\u{7f}, and a backslash \\"] {
        assert_eq!(serde_json::from_str::<String>(&escaped(text)).unwrap(), text);
    }
    for len in 0..=40 {
        let plain = "a".repeat(len);
        assert_eq!(escaped(&plain), format!("\"{plain}\""));
        for special in ["\"", "\\", "\u{0}", "\u{1f}"] {
            for at in 0..=len {
                let text = format!("{}{special}{}", &plain[..at], &plain[at..]);
                let json = escaped(&text);
                let read = serde_json::from_str::<String>(&json);
                assert_eq!(read.ok().as_deref(), Some(&*text), "{json}");
            }
        }
    }
}

#[test]
fn numbers_are_decimal() {
    for number in [0, 7, 9, 10, 99, 100, u64::from(u32::MAX), u64::MAX] {
        let mut out = Vec::from(b"-");
        decimal(number, &mut out);
        assert_eq!(out, format!("-{number}").as_bytes());
    }
}

#[test]
fn every_line_end_becomes_a_space() {
    for (json, line) in [
        ("[1,\r2]", "[1, 2]"),
        ("{\"a\":\r\n\n1}\r", "{\"a\":   1} "),
        ("{\"a\":\n\"\\n\"}", "{\"a\": \"\\n\"}"),
        ("[\t1 ]", "[\t1 ]"),
    ] {
        let mut bytes = Vec::from(json);
        one_line(&mut bytes);
        assert_eq!(bytes, line.as_bytes());
    }
}

#[test]
fn broken_at_finds_where_a_text_stops_being_json() {
    for (text, at) in
        [("", 0), ("[1,\n2;]", 5), ("[1,\n\n  2,]", 9), ("{}x", 2), ("[1", 1), ("[]", 2)]
    {
        assert_eq!(broken_at(text), at, "{text:?}");
    }
}

#[test]
fn f13_names_that_need_escapes_are_no_names_to_read_by() {
    for name in ["x\":bogus,\"y", "a\\", "\n"] {
        assert!(std::panic::catch_unwind(|| Names::new([name])).is_err(), "{name:?}");
    }
}

#[test]
fn names_that_need_escapes_are_found_where_they_stand_and_nowhere_else() {
    let found = |text, name| Members::of(text, &[name]).map(|found| found.token(0));
    assert_eq!(found(r#"{"x\":1,"y":2}"#, "x\\"), None, "it is no JSON");
    assert_eq!(found(r#"{"x\\":1,"y":2}"#, "x\\"), Some(Some("1")));
    assert_eq!(found(r#"{"a":1,"b":2}"#, r#"a":1,"b"#), Some(None));
    assert_eq!(found(r#"{"a\":1,\"b":2}"#, r#"a":1,"b"#), Some(Some("2")));
    assert_eq!(found("{\"\\n\":3}", "\n"), Some(Some("3")));
}

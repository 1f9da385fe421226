//! The members of an object.

use alloc::borrow::Cow;

use serde_json::value::RawValue;

use crate::plain::{is_plain, is_special};
use crate::raw::raw;
use crate::scan::Json;
use crate::string::string;

/// The wanted members of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members<'m, const N: usize> {
    /// The value of each wanted name, as the token that the peer wrote. Invariant: each was checked to be one value, because
    /// `raw` does not check it again (F13).
    tokens: [Option<&'m str>; N],
    /// The depth of the nesting of arrays and objects, which is 1 for an object without any inside.
    pub depth: usize,
    /// A bit for each wanted member that occurs more than once, the lowest for the first name.
    repeated: u32,
    /// A bit for each wanted member that is a string with escapes. If the member is repeated, one such value sets it.
    escaped: u32,
}

/// Member names that need no JSON escaping: they have no quotes, backslashes or control characters.
#[derive(Clone, Copy, Debug)]
pub struct Names<const N: usize>([&'static str; N]);

impl<const N: usize> Names<N> {
    /// Checks the names. In a constant, a name that needs escaping does not compile.
    ///
    /// # Panics
    ///
    /// Panics if a name has a quote, a backslash or a control character.
    #[must_use]
    pub const fn new(names: [&'static str; N]) -> Self {
        let mut at = 0;
        while at < N {
            let mut rest = names[at].as_bytes();
            while let [byte, others @ ..] = rest {
                assert!(!is_special(byte), "the name needs escapes");
                rest = others;
            }
            at += 1;
        }
        Self(names)
    }
}

impl<'m, const N: usize> Members<'m, N> {
    /// The members before anything was read.
    pub const NONE: Self = Self { tokens: [None; N], depth: 0, repeated: 0, escaped: 0 };

    /// Reads a text that is one object, and finds the members with these names, of which there may be up to 32.
    ///
    /// Names that the peer wrote with escapes are found too. The first names of the list are found fastest. Returns `None`
    /// if the text is no object, or no JSON.
    ///
    /// ```
    /// use protocol_json::Members;
    ///
    /// let members = Members::of(r#" {"b":[{}], "\u0061":"x"} "#, &["a", "b", "c"]);
    /// let members = members.ok_or("it is an object")?;
    /// assert_eq!([0, 1, 2].map(|index| members.token(index)), [Some(r#""x""#), Some("[{}]"), None]);
    /// assert_eq!(members.depth, 3);
    /// # Ok::<(), &str>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn of(text: &'m str, names: &[&str; N]) -> Option<Self> {
        let json = Json::of(text);
        let first = json.open(json.space(0))?;
        // A name with a quote, compared byte by byte, could match across two members.
        let plain = if names.iter().all(|name| is_plain(name)) { &names[..] } else { &[] };
        let mut members = Self::NONE;
        let end = members.object(text, first, plain, names, |_, _, _| None)?;
        json.end(end).map(|()| members)
    }

    /// Reads as [`of`](Self::of) does but in less time, and reads the members of one value in the same pass.
    ///
    /// It reads into `self`, which has to be [`NONE`](Self::NONE), so that nothing is moved. If it returns `None`, the
    /// contents of `self` are unspecified.
    ///
    /// - `begun` is the length of a beginning that the caller has recognised, or 0. It ends with a comma between members. It
    ///   is skipped, and no member in it is found.
    /// - `outer` is the index of the name whose value is read too. If that value is an object, its members with
    ///   `inner_names` are in `inner` afterwards.
    ///
    /// ```
    /// use protocol_json::{Members, Names};
    ///
    /// const OPENING: &str = r#"{"jsonrpc":"2.0","#;
    /// const NAMES: Names<3> = Names::new(["id", "error", "jsonrpc"]);
    /// const ERROR: Names<1> = Names::new(["code"]);
    ///
    /// let text = r#"{"jsonrpc":"2.0","id":7,"error":{"code":-1,"message":"no"}}"#;
    /// let begun = if text.starts_with(OPENING) { OPENING.len() } else { 0 };
    /// let (mut members, mut error) = (Members::NONE, None);
    /// members.read(text, begun, &NAMES, 1, &mut error, &ERROR).ok_or("it is no object")?;
    /// assert_eq!((members.token(0), members.token(2)), (Some("7"), None));
    /// assert_eq!(members.token(1), Some(r#"{"code":-1,"message":"no"}"#));
    /// assert_eq!(error.ok_or("the error is no object")?.token(0), Some("-1"));
    /// # Ok::<(), &str>(())
    /// ```
    #[inline(always)]
    pub fn read<const M: usize>(
        &mut self,
        text: &'m str,
        begun: usize,
        Names(names): &Names<N>,
        outer: usize,
        inner: &mut Option<Members<'m, M>>,
        Names(inner_names): &Names<M>,
    ) -> Option<()> {
        *inner = None;
        let json = Json::of(text);
        let first = match begun {
            0 => json.open(json.space(0))?,
            _ => (b',', json.space(begun)),
        };
        let end = self.object(text, first, names, names, |member, at, deepest| {
            if member != outer {
                return None;
            }
            let found = inner.insert(Members::NONE);
            let end = json.open(at).and_then(|first| {
                found.object(text, first, inner_names, inner_names, |_, _, _| None)
            });
            *deepest = found.depth.max(*deepest);
            if end.is_none() {
                *inner = None;
            }
            end
        })?;
        json.end(end)
    }

    /// Reads an object from the first byte behind its brace that is no space, and returns its end.
    ///
    /// `inner` is called for each wanted member, with its index, the position of its value, and the deepest nesting so far.
    /// If it returns an end, it has read the value, which is not read again. `plain` are the names if each can stand in a
    /// string as it is, or none.
    #[inline(always)]
    fn object(
        &mut self,
        text: &'m str,
        (byte, mut at): (u8, usize),
        plain: &[&str],
        names: &[&str; N],
        mut inner: impl FnMut(usize, usize, &mut usize) -> Option<usize>,
    ) -> Option<usize> {
        const { assert!(N <= 32, "each member has a bit of a u32") }
        let json = Json::of(text);
        if byte == b'}' {
            self.depth = 1;
            return Some(at + 1);
        }
        loop {
            let (member, begin) = json.member(at, plain, names)?;
            let read = member.and_then(|member| inner(member, begin, &mut self.depth));
            let (end, is_escaped) = match read {
                Some(end) => (end, false),
                None => json.value(begin, &mut self.depth)?,
            };
            if let Some(member) = member {
                if self.tokens[member].replace(&text[begin..end]).is_some() {
                    self.repeated |= 1 << member;
                }
                if is_escaped {
                    self.escaped |= 1 << member;
                }
            }
            match json.next(end)? {
                (b',', comma) => at = json.space(comma + 1),
                (b'}', brace) => {
                    self.depth += 1;
                    return Some(brace + 1);
                }
                _ => return None,
            }
        }
    }

    /// Returns the value of the member at this index of the names, as the token that the peer wrote. That is its text
    /// without the space around it. If the member is repeated, the last one counts.
    #[inline]
    #[must_use]
    pub const fn token(&self, index: usize) -> Option<&'m str> {
        self.tokens[index]
    }

    /// Returns the same value as [`token`](Self::token), as a `RawValue`.
    #[must_use]
    pub fn raw(&self, index: usize) -> Option<&'m RawValue> {
        self.tokens[index].map(raw)
    }

    /// Returns the member at this index of the names unless it is null, as some peers write one that they leave out.
    #[inline]
    #[must_use]
    pub fn given(&self, index: usize) -> Option<&'m RawValue> {
        // No other value begins so.
        self.tokens[index].filter(|token| !token.starts_with('n')).map(raw)
    }

    /// Decodes the member at this index of the names, if it is a string that can be decoded.
    ///
    /// This returns the same as [`string`] of its token, without another scan if it has no escapes.
    #[inline]
    #[must_use]
    pub fn string(&self, index: usize) -> Option<Cow<'m, str>> {
        let token = self.tokens[index]?;
        if self.escaped & 1 << index != 0 {
            return string(token);
        }
        token.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed)
    }

    /// Returns whether any wanted member is repeated. JSON readers differ in which of its values they use.
    #[inline]
    #[must_use]
    pub const fn has_repeated(&self) -> bool {
        self.repeated != 0
    }

    /// Returns the token of the member at this index of the names, if it occurs exactly once.
    #[inline]
    #[must_use]
    pub fn once(&self, index: usize) -> Option<&'m str> {
        self.tokens[index].filter(|_| self.repeated & 1 << index == 0)
    }

    /// Returns the value of each member that occurs exactly once.
    #[inline]
    #[must_use]
    pub fn values(&self) -> [Option<&'m RawValue>; N] {
        core::array::from_fn(|index| self.once(index).map(raw))
    }
}

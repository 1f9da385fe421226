//! Objects, taken apart.

use alloc::borrow::Cow;

use serde_json::value::RawValue;

use crate::raw::raw;
use crate::scan::{Json, is_plain, is_special};
use crate::text::string;

/// The members that were looked for in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members<'m, const N: usize> {
    /// The value of each name that was looked for, as the token that the peer wrote. Invariant: each is one value,
    /// checked, or else a `RawValue` could be made of anything (F13).
    tokens: [Option<&'m str>; N],
    /// How deep arrays and objects are nested in the object, itself counted.
    pub depth: usize,
    /// A bit for each member that stands twice, the lowest for the first.
    repeated: u32,
    /// A bit for each member whose value is a string with escapes, or was one where it stands twice.
    escaped: u32,
}

/// Names of members that stand in every text as they are, unless a peer escapes what needs no escape: they have no quote,
/// no backslash and no control character.
#[derive(Clone, Copy, Debug)]
pub struct Names<const N: usize>([&'static str; N]);

impl<const N: usize> Names<N> {
    /// To be called in a constant, where a name that is none of those does not compile.
    ///
    /// # Panics
    ///
    /// If a name has a quote, a backslash or a control character.
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
    /// Nothing was found yet.
    pub const NONE: Self = Self { tokens: [None; N], depth: 0, repeated: 0, escaped: 0 };

    /// Reads a text that is one object, and finds the members of these names, of which there may be up to 32.
    /// They are found fastest in the order of the list, and names that the peer wrote with escapes are found too.
    /// Returns `None` if the text is no object, or no JSON.
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
        // As it stands, a name with a quote could be found where it is not.
        let plain = if names.iter().all(|name| is_plain(name)) { &names[..] } else { &[] };
        let mut members = Self::NONE;
        let end = members.object(text, first, plain, names, |_, _, _| None)?;
        json.end(end).map(|()| members)
    }

    /// Does the same as [`of`](Self::of) where more is known of the text, in less time: into members that are
    /// [`NONE`](Self::NONE), and are not moved. If it returns `None`, they mean nothing.
    ///
    /// - `begun` bytes are known to the caller: a brace, and members up to a comma. They are not looked at, and
    ///   nothing in them is found. 0 if nothing is known.
    /// - The members of one of the values are read in the same pass: of the member at the index `outer` of the
    ///   names, into `inner`, which is there afterwards if that value is an object.
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

    /// Reads an object from the first byte behind its brace that is no space, and where that is; gives its end.
    /// `inner` is called with each member that was looked for, where its value begins, and the deepest nesting
    /// in the object so far. If it reads the value and returns the end, the value is not read again. `plain` are
    /// the names if each can stand in a string as it is, or none.
    #[inline(always)]
    fn object(
        &mut self,
        text: &'m str,
        (byte, mut at): (u8, usize),
        plain: &[&str],
        names: &[&str; N],
        mut inner: impl FnMut(usize, usize, &mut usize) -> Option<usize>,
    ) -> Option<usize> {
        const { assert!(N <= 32, "a bit for each") }
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
            match json.token(end)? {
                (b',', comma) => at = json.space(comma + 1),
                (b'}', brace) => {
                    self.depth += 1;
                    return Some(brace + 1);
                }
                _ => return None,
            }
        }
    }

    /// The value of the member at this index of the names, if it is there, as the token that the peer wrote: its
    /// text, without the space around it. If the member stands twice, this is the last one.
    #[inline]
    #[must_use]
    pub const fn token(&self, index: usize) -> Option<&'m str> {
        self.tokens[index]
    }

    /// The same as a `RawValue`.
    #[must_use]
    pub fn raw(&self, index: usize) -> Option<&'m RawValue> {
        self.tokens[index].map(raw)
    }

    /// What the member at this index of the names says, if it is a string that can be decoded: the same as
    /// [`string`] of its token, without looking at it again if it has no escapes.
    #[inline]
    #[must_use]
    pub fn string(&self, index: usize) -> Option<Cow<'m, str>> {
        let token = self.tokens[index]?;
        if self.escaped & 1 << index != 0 {
            return string(token);
        }
        token.strip_prefix('"')?.strip_suffix('"').map(Cow::Borrowed)
    }

    /// Whether any member that was looked for stands twice. Readers differ in which one they take then.
    #[inline]
    #[must_use]
    pub const fn has_repeated(&self) -> bool {
        self.repeated != 0
    }

    /// The token of the member at this index of the names, if it stands there once.
    #[inline]
    #[must_use]
    pub fn once(&self, index: usize) -> Option<&'m str> {
        self.tokens[index].filter(|_| self.repeated & 1 << index == 0)
    }

    /// The values of all members that stand there once.
    #[inline]
    #[must_use]
    pub fn values(&self) -> [Option<&'m RawValue>; N] {
        core::array::from_fn(|index| self.once(index).map(raw))
    }
}

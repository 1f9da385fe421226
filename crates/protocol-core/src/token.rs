//! Tokens of operations.

use core::fmt;
use core::str::FromStr;

use crate::id::WireId;
use crate::index::Key;

/// Names an operation to whoever may cancel it: 128 random bits, so nobody can guess one.
///
/// On the wire it is 32 hexadecimal digits, written in upper case and read in either.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationToken(u128);

impl OperationToken {
    /// The token of these bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(bytes))
    }

    /// Its bytes.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// The id that a machine knows its operation by.
    pub(crate) fn wire_id(self) -> WireId {
        WireId::scanned(&alloc::format!("\"{self}\"")).expect("a string is an id")
    }
}

impl Key for OperationToken {
    /// Its own bits: they are random and ours, so hashing them again would only take time.
    fn spread(&self) -> u64 {
        self.0 as u64
    }
}

impl fmt::Display for OperationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032X}", self.0)
    }
}

/// Tokens are secrets: logs show only where they begin.
impl fmt::Debug for OperationToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationToken({:04X}…)", self.0 >> 112)
    }
}

/// The text is not 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidToken;

impl FromStr for OperationToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidToken);
        }
        u128::from_str_radix(text, 16).map(Self).map_err(|_| InvalidToken)
    }
}

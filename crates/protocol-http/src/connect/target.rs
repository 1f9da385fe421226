//! The address of a server.

use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use http::Uri;

/// The address of a server: `http://HOST[:PORT]/PATH`, or `https://` for the same over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    host: String,
    port: u16,
    authority: String,
    path: String,
    is_secure: bool,
}

impl Target {
    /// Returns the name or the address of the host, that of IPv6 without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port; unless the address has one, 80, or 443 over TLS.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the server is spoken to over TLS.
    #[must_use]
    pub const fn is_secure(&self) -> bool {
        self.is_secure
    }

    pub(super) fn authority(&self) -> &str {
        &self.authority
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the address that a request of HTTP/2 names.
    pub(super) fn url(&self) -> String {
        let scheme = if self.is_secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }
}

/// The error of an address that is none, or that this client can't reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidTarget(&'static str);

impl FromStr for Target {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        if !text.contains("://") {
            return Err(InvalidTarget("it has no scheme: write http://HOST:PORT/PATH"));
        }
        let uri: Uri = text.parse().map_err(|_| InvalidTarget("it is no address"))?;
        let (is_secure, usual_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(InvalidTarget("an address begins with http:// or https://")),
        };
        let authority = uri.authority().ok_or(InvalidTarget("there is no host"))?;
        let host = authority.host().trim_matches(['[', ']']);
        if host.is_empty() || authority.as_str().contains('@') {
            return Err(InvalidTarget("it is no HOST:PORT"));
        }
        // Some servers know themselves by their name alone.
        let usual = authority.as_str().strip_suffix(if is_secure { ":443" } else { ":80" });
        Ok(Self {
            host: host.into(),
            port: authority.port_u16().unwrap_or(usual_port),
            authority: usual.map_or_else(|| authority.to_string(), ToString::to_string),
            path: uri.path_and_query().map_or_else(|| "/".into(), ToString::to_string),
            is_secure,
        })
    }
}

impl fmt::Display for InvalidTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for InvalidTarget {}

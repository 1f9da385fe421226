//! The address of a server.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use http::Uri;

/// The address of a server: `http://HOST[:PORT]/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) authority: String,
    pub(super) path: String,
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
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => {
                return Err(InvalidTarget(
                    "there is no TLS here: https needs a proxy that speaks http",
                ));
            }
            _ => return Err(InvalidTarget("an address begins with http://")),
        }
        let authority = uri.authority().ok_or(InvalidTarget("there is no host"))?;
        let host = authority.host().trim_matches(['[', ']']);
        if host.is_empty() || authority.as_str().contains('@') {
            return Err(InvalidTarget("it is no HOST:PORT"));
        }
        Ok(Self {
            host: host.into(),
            port: authority.port_u16().unwrap_or(80),
            authority: authority.to_string(),
            path: uri.path_and_query().map_or_else(|| "/".into(), ToString::to_string),
        })
    }
}

impl fmt::Display for InvalidTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl core::error::Error for InvalidTarget {}

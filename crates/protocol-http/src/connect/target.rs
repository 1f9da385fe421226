//! The address of a server.

use std::io;
use std::str::FromStr;

use http::Uri;
use http::uri::{Authority, Scheme};

/// The address of a server: `http://HOST[:PORT]/PATH`, or `https://` for the same over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target(Uri);

impl Target {
    /// Returns the name or the address of the host, that of IPv6 without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_matches(['[', ']'])
    }

    /// Returns the port; unless the address has one, 80, or 443 over TLS.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_secure() { 443 } else { 80 })
    }

    /// Returns whether the server is spoken to over TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// Returns the address that a request of HTTP/2 names.
    pub(super) fn uri(&self) -> &Uri {
        &self.0
    }
}

impl FromStr for Target {
    type Err = io::Error;

    fn from_str(text: &str) -> io::Result<Self> {
        if !text.contains("://") {
            return Err(invalid("it has no scheme: write http://HOST:PORT/PATH"));
        }
        let uri: Uri = text.parse().map_err(|_| invalid("it is no address"))?;
        let usual = match uri.scheme_str() {
            Some("http") => ":80",
            Some("https") => ":443",
            _ => return Err(invalid("an address begins with http:// or https://")),
        };
        let mut parts = uri.into_parts();
        // An address with a query and without a path has the path `/`, which is only in its text.
        parts.path_and_query = parts.path_and_query.and_then(|it| it.to_string().parse().ok());
        let authority = parts.authority.as_ref().map_or("", Authority::as_str);
        // Some servers know themselves by their name alone.
        let authority = authority.strip_suffix(usual).unwrap_or(authority);
        let is_valid = |it: &Authority| !it.host().is_empty() && !it.as_str().contains('@');
        let authority = authority.parse().ok().filter(is_valid);
        parts.authority = Some(authority.ok_or_else(|| invalid("it is no HOST:PORT"))?);
        Uri::from_parts(parts).map(Self).map_err(|_| invalid("it is no address"))
    }
}

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

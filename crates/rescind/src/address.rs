//! The address of a WebSocket: `ws://HOST[:PORT][/PATH]`.

use std::fmt;
use std::str::FromStr;

use tungstenite::http::Uri;
use tungstenite::http::uri::{Authority, PathAndQuery};

/// Where a WebSocket is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// A name or an address, that of IPv6 without brackets.
    host: String,
    port: u16,
    /// Begins with a slash; what follows a question mark too.
    path: String,
}

impl Address {
    /// What a socket connects or binds to.
    pub(crate) fn socket(&self) -> (&str, u16) {
        (&self.host, self.port)
    }

    /// The path, if there is more to it than the first slash.
    pub(crate) fn path(&self) -> Option<&str> {
        Some(self.path.as_str()).filter(|path| *path != "/")
    }

    /// The same with the port that the system chose.
    pub(crate) fn with_port(&self, port: u16) -> Self {
        Self { port, ..self.clone() }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
        match uri.scheme_str() {
            Some("ws") => {}
            Some("wss") => return Err("TLS is not spoken here; a proxy in front can".into()),
            _ => return Err("an address begins with ws://".into()),
        }
        let authority = uri.authority().map_or("", Authority::as_str);
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("there is no host")?;
        let port = match authority[host.len()..].strip_prefix(':') {
            None if authority.len() == host.len() => 80,
            Some(port) if authority.starts_with(host) => {
                port.parse().map_err(|_| format!("{port:?} is no port"))?
            }
            _ => return Err(format!("{authority:?} is no HOST:PORT")),
        };
        Ok(Self {
            host: host.trim_matches(['[', ']']).into(),
            port,
            path: uri.path_and_query().map_or("/", PathAndQuery::as_str).into(),
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        let path = self.path().unwrap_or_default();
        write!(f, "ws://{open}{}{close}:{}{path}", self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for (text, written) in [
            ("ws://127.0.0.1:8080", "ws://127.0.0.1:8080"),
            ("ws://localhost", "ws://localhost:80"),
            ("ws://[::1]:0/abp?a=b", "ws://[::1]:0/abp?a=b"),
            ("ws://example.com:1/", "ws://example.com:1"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), written);
        }
        assert_eq!("ws://[::1]:9".parse::<Address>().unwrap().socket(), ("::1", 9));
    }

    #[test]
    fn others_say_what_is_wrong() {
        for (text, said) in [
            ("http://localhost", "begins with ws://"),
            ("localhost:80", "begins with ws://"),
            ("wss://localhost", "TLS"),
            ("ws://localhost:70000", "is no port"),
            ("ws://me@localhost:80", "is no HOST:PORT"),
            ("ws://", ""),
            ("", ""),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}

//! The address of a WebSocket: `ws://HOST[:PORT][/PATH]`, `wss://` for the same over TLS, or `unix:FILE`. That of MCP or ACP
//! over HTTP is `http://HOST[:PORT][/PATH]`, or `https://`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use protocol_http::Rules;
use tungstenite::http::Uri;
use tungstenite::http::uri::{Authority, PathAndQuery};

/// An address that a server listens on, and a client connects to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) place: Place,
    /// Whether it is that of MCP or ACP over HTTP. Otherwise it is that of a WebSocket.
    pub(crate) is_http: bool,
    /// Whether TLS is spoken there.
    pub(crate) is_secure: bool,
    /// Begins with a slash, unless it is empty; what follows a question mark too.
    path: String,
}

/// The place that a socket connects or binds to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A name or an address, that of IPv6 without brackets, and a port.
    Tcp(String, u16),
    /// A Unix socket.
    File(PathBuf),
}

impl Address {
    /// The path, if there is more to it than the first slash.
    pub(crate) fn path(&self) -> Option<&str> {
        Some(self.path.as_str()).filter(|path| !matches!(*path, "" | "/"))
    }

    /// The same with the port that the system chose.
    pub(crate) fn with_port(&self, port: u16) -> Self {
        let place = match &self.place {
            Place::Tcp(host, _) => Place::Tcp(host.clone(), port),
            file @ Place::File(_) => file.clone(),
        };
        Self { place, ..self.clone() }
    }

    /// The same at the path that these rules have, if it has none.
    pub(crate) fn of_rules(&self, rules: &Rules) -> Self {
        let usual = if rules.shares_streams { "/acp" } else { "/mcp" };
        let path = if self.path.is_empty() { usual } else { &self.path };
        Self { path: path.into(), ..self.clone() }
    }

    /// Returns the URL that a client asks for there.
    pub(crate) fn url(&self) -> String {
        match self.place {
            Place::Tcp(..) => self.to_string(),
            Place::File(_) => "ws://localhost/".into(),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(file) = text.strip_prefix("unix:") {
            return match file {
                _ if cfg!(not(unix)) => Err("there are no Unix sockets here".into()),
                "" => Err("there is no file".into()),
                file => {
                    let (place, path) = (Place::File(file.into()), String::new());
                    Ok(Self { place, is_http: false, is_secure: false, path })
                }
            };
        }
        let (is_http, is_secure, usual_port) = match text.split_once("://") {
            Some(("ws", _)) => (false, false, 80),
            Some(("wss", _)) => (false, true, 443),
            Some(("http", _)) => (true, false, 80),
            Some(("https", _)) => (true, true, 443),
            _ => {
                let said = "an address begins with ws://, wss://, http://, https:// or unix:";
                return Err(said.into());
            }
        };
        let uri: Uri = text.parse().map_err(|error| format!("{error}"))?;
        let authority = uri.authority().map_or("", Authority::as_str);
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("there is no host")?;
        let port = match authority[host.len()..].strip_prefix(':') {
            None if authority.len() == host.len() => usual_port,
            Some(port) if authority.starts_with(host) => {
                port.parse().map_err(|_| format!("{port:?} is no port"))?
            }
            _ => return Err(format!("{authority:?} is no HOST:PORT")),
        };
        let place = Place::Tcp(host.trim_matches(['[', ']']).into(), port);
        let path = uri.path_and_query().map_or("/", PathAndQuery::as_str);
        // One without a slash has that of its rules.
        let path = if path == "/" && !text.ends_with('/') { "" } else { path };
        Ok(Self { place, is_http, is_secure, path: path.into() })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (host, port) = match &self.place {
            Place::Tcp(host, port) => (host, port),
            Place::File(file) => return write!(f, "unix:{}", file.display()),
        };
        let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
        let scheme = if self.is_http { "http" } else { "ws" };
        let secure = if self.is_secure { "s" } else { "" };
        write!(
            f,
            "{scheme}{secure}://{open}{host}{close}:{port}{}",
            self.path().unwrap_or_default()
        )
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
            ("wss://example.com/abp", "wss://example.com:443/abp"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), written);
        }
        let place = "ws://[::1]:9".parse::<Address>().unwrap().place;
        assert_eq!(place, Place::Tcp("::1".into(), 9));
        #[cfg(unix)]
        assert_eq!("unix:/a b".parse::<Address>().unwrap().to_string(), "unix:/a b");
    }

    #[test]
    fn an_http_address_without_a_path_has_that_of_its_rules() {
        for (text, written) in [
            ("http://localhost:1", "http://localhost:1/acp"),
            ("http://localhost:1/", "http://localhost:1"),
            ("https://localhost/mcp?a=b", "https://localhost:443/mcp?a=b"),
        ] {
            let address: Address = text.parse().unwrap();
            assert!(address.is_http);
            assert_eq!(address.of_rules(&Rules::ACP_V1).to_string(), written);
        }
    }

    #[test]
    fn others_say_what_is_wrong() {
        for (text, said) in [
            ("ftp://localhost", "begins with ws://, wss://, http://, https:// or unix:"),
            ("unix:", ""),
            ("localhost:80", "begins with ws://"),
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

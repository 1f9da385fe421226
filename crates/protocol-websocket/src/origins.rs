//! The web pages that may connect.

use std::net::{Ipv4Addr, Ipv6Addr};

use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::http::header::ORIGIN;
use tungstenite::http::{StatusCode, Uri};

/// The web pages that may connect to a server.
///
/// A browser lets a page of any site open a WebSocket to any address, such as that of a server on the same
/// machine. It sends the page's origin, and nothing else keeps strangers out.
///
/// A reference to this is the callback of a handshake: `accept_hdr_async(stream, &origins)`. The response to a page that
/// may not connect is 403.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origins {
    /// Those that are admitted beside the local ones, in the form of the header.
    allowed: Vec<String>,
}

impl Origins {
    /// Admits pages that this machine serves under a loopback name or address, over HTTP or HTTPS. Clients without an
    /// origin are admitted too, because every browser sends one.
    ///
    /// The origin `null` is not admitted: a page of any site can have that, in a sandboxed frame.
    #[must_use]
    pub const fn local() -> Self {
        Self { allowed: Vec::new() }
    }

    /// Admits one more, as browsers write it, such as `https://example.com` or `https://example.com:8443`. Local files
    /// and sandboxed frames have `null`, and `*` is every page.
    #[must_use]
    pub fn allow(mut self, origin: impl Into<String>) -> Self {
        self.allowed.push(origin.into());
        self
    }

    /// Returns whether a page of this origin may connect.
    #[must_use]
    pub fn admit(&self, origin: &str) -> bool {
        is_local(origin) || self.allowed.iter().any(|allowed| allowed == origin || allowed == "*")
    }
}

impl Callback for &Origins {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        let mut origins = request.headers().get_all(ORIGIN).iter();
        if origins.all(|origin| origin.to_str().is_ok_and(|origin| self.admit(origin))) {
            return Ok(response);
        }
        let mut refusal = ErrorResponse::new(Some("pages of this origin may not connect\n".into()));
        *refusal.status_mut() = StatusCode::FORBIDDEN;
        Err(refusal)
    }
}

/// Returns whether an origin is a page that this machine serves.
fn is_local(origin: &str) -> bool {
    let Ok(uri) = origin.parse::<Uri>() else { return false };
    let (Some(scheme), Some(host)) = (uri.scheme_str(), uri.host()) else { return false };
    let port = uri.port().map_or_else(String::new, |port| format!(":{port}"));
    // An origin is these and nothing else: no path, no user, nothing between the host and its port.
    let is_origin = origin == format!("{scheme}://{host}{port}");
    is_origin && matches!(scheme, "http" | "https") && is_loopback(host)
}

/// Returns whether a host is this machine, by name or by address.
fn is_loopback(host: &str) -> bool {
    let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match in_brackets {
        Some(address) => address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback()),
        None => {
            host == "localhost"
                || host.ends_with(".localhost")
                || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_this_machine_are_local_and_those_that_look_so_are_not() {
        for origin in [
            "http://localhost",
            "https://localhost:8443",
            "http://app.localhost:80",
            "http://127.0.0.1:3000",
            "http://127.1.2.3",
            "http://[::1]",
            "http://[::1]:3000",
        ] {
            assert!(is_local(origin), "{origin}");
        }
        for origin in [
            "",
            "null",
            "localhost",
            "file://",
            "file://localhost",
            "http://localhost.example.com",
            "http://notlocalhost",
            "http://127.0.0.1.example.com",
            "http://192.168.0.1",
            "http://localhost:80@example.com",
            "http://[::2]:3000",
            "https://example.com/http://localhost",
            // F49
            "http://evil.com/.localhost",
            "http://evil.com?.localhost",
            "http://evil.com#.localhost",
            "http://evil.com\\.localhost",
            "http://localhost/",
            "http://user@localhost",
            "http://[::1].evil.com",
            "http://[::1]evil:80",
            "http://evil.com:80:.localhost",
            "http://127.0.0.1.",
            "http:localhost",
        ] {
            assert!(!is_local(origin), "{origin}");
        }
    }

    #[test]
    fn others_are_admitted_by_name_only() {
        let origins = Origins::local().allow("https://example.com");
        assert!(origins.admit("https://example.com") && origins.admit("http://localhost"));
        assert!(!origins.admit("https://example.com:8443") && !origins.admit("null"));
        assert!(Origins::local().allow("null").admit("null"));
        assert!(Origins::local().allow("*").admit("https://example.org"));
    }
}

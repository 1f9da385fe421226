//! Admission by a secret.

use std::fmt;

use subtle::ConstantTimeEq;
use tungstenite::handshake::server::{Callback, ErrorResponse, Request, Response};
use tungstenite::http::StatusCode;
use tungstenite::http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};

use crate::handshake::refusal;

/// A secret that a client has to know. Its request has `Authorization: Bearer SECRET` (RFC 6750). The response to any
/// other is 401.
///
/// The secret is compared in a time that depends on its length only. A web page can't send that header, so pages have
/// [`Origins`](crate::Origins).
#[derive(Clone)]
pub struct BearerToken(Box<[u8]>);

impl BearerToken {
    /// Creates the token of a secret, which it copies.
    #[must_use]
    pub fn new(secret: impl AsRef<[u8]>) -> Self {
        Self(secret.as_ref().into())
    }

    /// Returns whether a request has the secret, exactly once.
    #[must_use]
    pub fn admits(&self, request: &Request) -> bool {
        let mut said = request.headers().get_all(AUTHORIZATION).iter();
        let (Some(said), None) = (said.next(), said.next()) else { return false };
        let scheme_and_secret = said.as_bytes().split_at_checked("Bearer ".len());
        scheme_and_secret.is_some_and(|(scheme, secret)| {
            scheme.eq_ignore_ascii_case(b"Bearer ") && self.0.ct_eq(secret).into()
        })
    }
}

impl Callback for &BearerToken {
    fn on_request(self, request: &Request, response: Response) -> Result<Response, ErrorResponse> {
        if self.admits(request) {
            return Ok(response);
        }
        let mut refusal = refusal(StatusCode::UNAUTHORIZED);
        refusal.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        Err(refusal)
    }
}

/// It does not show the secret.
impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerToken").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f47_only_who_knows_the_secret_is_admitted() {
        let token = BearerToken::new("correct horse");
        let admits = |said: &[&str]| {
            let mut request = Request::new(());
            for said in said {
                request.headers_mut().append(AUTHORIZATION, HeaderValue::from_str(said).unwrap());
            }
            token.admits(&request)
        };
        for said in ["Bearer correct horse", "bearer correct horse"] {
            assert!(admits(&[said]), "{said}");
        }
        for said in [
            "",
            "Bearer",
            "Bearer ",
            "Bearer correct hors",
            "Bearer correct horses",
            "Bearer Correct horse",
            "Basic correct horse",
            "correct horse",
            "Bearer  correct horse",
        ] {
            assert!(!admits(&[said]), "{said}");
        }
        assert!(!admits(&[]));
        assert!(!admits(&["Bearer correct horse", "Bearer wrong"]), "said twice");
        assert_eq!(format!("{token:?}"), "BearerToken { .. }");
    }
}

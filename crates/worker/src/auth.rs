//! Who may call: the token, and the user a request names.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap};

/// The worker's token. It has no `Display`, and its `Debug` shows nothing.
pub(crate) struct Token(String);

impl Token {
    pub(crate) fn new(token: String) -> Self {
        Self(token)
    }

    /// The text, for computing signatures.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }

    /// Whether `headers` carry this token, as `X-Access-Token` or `Authorization: Bearer`.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let own = headers
            .get_all("x-access-token")
            .iter()
            .map(http::HeaderValue::as_bytes);
        let bearer = headers.get_all(AUTHORIZATION).iter().filter_map(|value| {
            let (scheme, token) = value.as_bytes().split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
        });
        own.chain(bearer)
            .any(|given| same(given, self.0.as_bytes()))
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

/// Compares in a time that depends on the lengths only.
fn same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0_u8, |seen, (a, b)| seen | (a ^ b));
    std::hint::black_box(differing) == 0 && a.len() == b.len()
}

/// How a request got past the door; an extension of every routed request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Access {
    /// A private stream, or the token was right.
    Granted,
    /// No token: only a signature may still open `/files`, and the handler must check it.
    SignatureOnly,
}

/// The user name of `Authorization: Basic`, if the request names one.
pub(crate) fn basic_user(headers: &HeaderMap) -> Option<String> {
    headers.get_all(AUTHORIZATION).iter().find_map(|value| {
        let (scheme, encoded) = value.as_bytes().split_at_checked(6)?;
        if !scheme.eq_ignore_ascii_case(b"Basic ") {
            return None;
        }
        let decoded = STANDARD.decode(encoded.trim_ascii()).ok()?;
        let user = decoded.split(|byte| *byte == b':').next()?;
        let user = String::from_utf8_lossy(user).into_owned();
        (!user.is_empty()).then_some(user)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(
            http::HeaderName::from_static(name),
            http::HeaderValue::from_static(value),
        )])
    }

    #[test]
    fn only_the_whole_token_is_admitted() {
        let token = Token::new("secret".into());
        assert!(token.admits(&headers("x-access-token", "secret")));
        assert!(token.admits(&headers("authorization", "bearer secret")));
        for wrong in ["", "secre", "secrets", "Secret", "Basic secret"] {
            assert!(!token.admits(&headers("x-access-token", wrong)));
            assert!(!token.admits(&headers("authorization", wrong)));
        }
        assert!(!token.admits(&HeaderMap::new()));
        assert!(!format!("{token:?}").contains("secret"));
    }

    #[test]
    fn a_basic_user_is_read() {
        assert_eq!(
            basic_user(&headers("authorization", "Basic dXNlcjo=")),
            Some("user".into())
        );
        assert_eq!(basic_user(&headers("authorization", "Basic Og==")), None);
        assert_eq!(basic_user(&headers("authorization", "Basic %%%")), None);
    }
}

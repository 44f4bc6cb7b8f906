//! The target of a request, in its four forms. Whatever can be read in two ways is refused.

use bytes::Bytes;
use http::uri::PathAndQuery;

use crate::host::{HostError, parse_authority_bytes};
use crate::{Authority, Reason, Scheme};

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// `http://host/path`: to a proxy.
    Absolute(Scheme, Authority, PathAndQuery),
    /// `/path`: to a server.
    Origin(PathAndQuery),
    /// `host:port`: of CONNECT; the port is there.
    Authority(Authority),
    /// `*`: of OPTIONS.
    Asterisk,
}

impl Target {
    /// Reads the target of CONNECT.
    ///
    /// # Errors
    ///
    /// [`Reason::NameMalformed`], [`Reason::PortMalformed`].
    pub(crate) fn of_connect(text: &[u8]) -> Result<Self, Reason> {
        let authority = authority(text)?;
        match authority.port {
            Some(_) => Ok(Self::Authority(authority)),
            None => Err(Reason::PortMalformed),
        }
    }

    /// Reads the target of any other method.
    ///
    /// # Errors
    ///
    /// [`Reason::RequestMalformed`], [`Reason::NameMalformed`], [`Reason::PortMalformed`].
    pub(crate) fn of_request(text: &Bytes) -> Result<Self, Reason> {
        if text.first() == Some(&b'/') {
            return path(text.clone()).map(Self::Origin);
        }
        if &text[..] == b"*" {
            return Ok(Self::Asterisk);
        }
        let (scheme, skipped) = scheme(text).ok_or(Reason::RequestMalformed)?;
        let rest = text.slice(skipped..);
        let end = rest
            .iter()
            .position(|byte| matches!(byte, b'/' | b'?'))
            .unwrap_or(rest.len());
        let authority = authority(&rest[..end])?;
        let path = match rest.get(end) {
            None => PathAndQuery::from_static("/"),
            Some(b'/') => path(rest.slice(end..))?,
            Some(_) => path(Bytes::from([b"/", &rest[end..]].concat()))?,
        };
        Ok(Self::Absolute(scheme, authority, path))
    }
}

/// The scheme, and how many bytes it takes with its `://`.
fn scheme(text: &[u8]) -> Option<(Scheme, usize)> {
    [
        (Scheme::Http, &b"http://"[..]),
        (Scheme::Https, b"https://"),
    ]
    .into_iter()
    .find(|(_, prefix)| {
        text.get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    })
    .map(|(scheme, prefix)| (scheme, prefix.len()))
}

/// Reads `host[:port]`.
///
/// # Errors
///
/// [`Reason::NameMalformed`], [`Reason::PortMalformed`].
pub(crate) fn authority(text: &[u8]) -> Result<Authority, Reason> {
    parse_authority_bytes(text).map_err(|error| {
        if error == HostError::Port {
            Reason::PortMalformed
        } else {
            Reason::NameMalformed
        }
    })
}

/// Reads a path with its query. A backslash in the path is refused: some servers take it for a slash, and
/// then a rule's path would not be the path that is served.
fn path(text: Bytes) -> Result<PathAndQuery, Reason> {
    if !text
        .iter()
        .all(|byte| matches!(byte, b'!'..=b'~') && *byte != b'#')
    {
        return Err(Reason::RequestMalformed);
    }
    let path = PathAndQuery::from_maybe_shared(text).map_err(|_| Reason::RequestMalformed)?;
    if path.path().contains('\\') {
        return Err(Reason::RequestMalformed);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &'static str) -> Result<Target, Reason> {
        Target::of_request(&Bytes::from_static(text.as_bytes()))
    }

    fn absolute(text: &'static str) -> (String, Option<u16>, String) {
        match read(text) {
            Ok(Target::Absolute(_, authority, path)) => {
                (authority.host.to_string(), authority.port, path.to_string())
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn an_absolute_target_gives_host_port_and_path() {
        assert_eq!(
            absolute("http://A.test"),
            ("a.test".into(), None, "/".into())
        );
        assert_eq!(
            absolute("HTTP://a.test:8080/x?y"),
            ("a.test".into(), Some(8080), "/x?y".into())
        );
        assert_eq!(
            absolute("http://a.test?y"),
            ("a.test".into(), None, "/?y".into())
        );
    }

    #[test]
    fn row_10_and_13_no_user_no_fragment_and_nothing_else_hides_a_host() {
        for text in [
            "http://evil.test@a.test/",
            "http://a.test:80@evil.test/",
            "http://a.test#evil.test/",
            "http://evil.test\\a.test/",
            "http://a%2etest/",
            "http:///a.test/",
            "http://",
            "http:a.test",
            "a.test/",
            "",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn row_93_no_scheme_but_http_is_forwarded() {
        for text in [
            "ftp://a.test/",
            "file:///etc/passwd",
            "gopher://a.test/",
            "ws://a.test/",
        ] {
            assert_eq!(read(text), Err(Reason::RequestMalformed), "{text}");
        }
    }

    #[test]
    fn row_24_and_25_a_port_is_a_port() {
        for text in [
            "http://a.test:0/",
            "http://a.test:65979/",
            "http://a.test:80abc/",
            "http://a.test:+80/",
        ] {
            assert_eq!(read(text), Err(Reason::PortMalformed), "{text}");
        }
    }

    #[test]
    fn connect_names_a_host_and_a_port_and_nothing_else() {
        assert!(matches!(
            Target::of_connect(b"a.test:443"),
            Ok(Target::Authority(_))
        ));
        assert_eq!(Target::of_connect(b"a.test"), Err(Reason::PortMalformed));
        for text in [
            &b"http://a.test:443"[..],
            b"http://a.test/",
            b"a.test:443/",
            b"a.test:0",
            b"a.test:443abc",
            b"a.test:65979",
            b"u@a.test:443",
            b"/",
            b"*",
            b"a\xfftest:443",
        ] {
            assert!(Target::of_connect(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_path_has_no_fragment_no_backslash_and_only_visible_ascii() {
        for text in ["/a#b", "/a\\b", "/a\tb", "/\u{e4}", "/\u{7f}"] {
            assert_eq!(read(text), Err(Reason::RequestMalformed), "{text}");
        }
        assert!(matches!(read("/a?b={c}"), Ok(Target::Origin(_))));
    }
}

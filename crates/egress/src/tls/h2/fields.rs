//! What of a head or of trailers goes on. The h2 crate has refused what concerns one connection.

use http::header::{
    ALT_SVC, AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, COOKIE,
    HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, SET_COOKIE, TE, TRAILER,
    TRANSFER_ENCODING,
};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderMap, Method, Request, Uri};

use crate::host::parse_authority_bytes;
use crate::http::host_field;
use crate::policy::is_never_forwarded;
use crate::{Host, Reason, Scheme};

/// What trailers must not say: what is decided by a head, and who somebody is.
const NOT_IN_TRAILERS: [HeaderName; 14] = [
    AUTHORIZATION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_RANGE,
    CONTENT_TYPE,
    COOKIE,
    HOST,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    SET_COOKIE,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    http::header::CACHE_CONTROL,
];

/// Checks that a request is one that is carried, and for `host` and `port`.
pub(super) fn check<B>(request: &Request<B>, host: &Host, port: u16) -> Result<(), Reason> {
    if is_never_forwarded(request.method().as_str()) {
        return Err(Reason::TraceRefused);
    }
    let uri = request.uri();
    // The crate drops the scheme where there is no authority.
    if uri.scheme_str().is_some_and(|scheme| scheme != "https") {
        return Err(Reason::RequestMalformed);
    }
    // A backslash is a slash to some servers: a rule's path would not be the path that is served.
    let path = uri.path();
    let whole = uri.path_and_query().map_or("", PathAndQuery::as_str);
    if path.contains('\\') || !whole.bytes().all(|byte| matches!(byte, b'!'..=b'~')) {
        return Err(Reason::RequestMalformed);
    }
    let of_server = path == "*" && *request.method() == Method::OPTIONS;
    if !of_server && !path.starts_with('/') {
        return Err(Reason::RequestMalformed);
    }
    let mut named = false;
    if let Some(authority) = uri.authority() {
        same(authority.as_str().as_bytes(), host, port)?;
        named = true;
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    if let Some(sent) = hosts.next() {
        same(sent.as_bytes(), host, port)?;
        named = true;
    }
    if !named || hosts.next().is_some() {
        return Err(Reason::RequestMalformed);
    }
    Ok(())
}

fn same(authority: &[u8], host: &Host, port: u16) -> Result<(), Reason> {
    let sent = parse_authority_bytes(authority).map_err(|_| Reason::RequestMalformed)?;
    // Without a port it means that of its connection: what goes out says it anyway.
    if sent.host == *host && sent.port.is_none_or(|sent| sent == port) {
        Ok(())
    } else {
        Err(Reason::HostMismatch)
    }
}

/// The address of a request outside: what was decided about, not what was sent.
pub(super) fn target(host: &Host, port: u16, path: Option<PathAndQuery>) -> Option<Uri> {
    let authority = host_field(host, port, Scheme::Https);
    Uri::builder()
        .scheme("https")
        .authority(Authority::try_from(authority).ok()?)
        .path_and_query(path?)
        .build()
        .ok()
}

/// Takes out of a request's head what is not for the outside. The authority says what `host` did.
pub(super) fn outgoing(headers: &mut HeaderMap) {
    for name in [HOST, PROXY_AUTHORIZATION] {
        headers.remove(name);
    }
}

/// Takes out of an answer's head what is not for inside: another way to the host would lead nowhere.
pub(super) fn incoming(headers: &mut HeaderMap) {
    for name in [ALT_SVC, PROXY_AUTHENTICATE] {
        headers.remove(name);
    }
}

/// Takes out of trailers what does not belong there.
pub(super) fn trailers(headers: &mut HeaderMap) {
    for name in &NOT_IN_TRAILERS {
        headers.remove(name);
    }
}

/// Bytes that headers take, for the quota.
pub(super) fn size(headers: &HeaderMap) -> u64 {
    let bytes: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    bytes.try_into().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Host {
        Host::parse("api.allowed.test").unwrap()
    }

    fn asked(method: &str, uri: &str, hosts: &[&str]) -> Result<(), Reason> {
        asked_at(443, method, uri, hosts)
    }

    fn asked_at(port: u16, method: &str, uri: &str, hosts: &[&str]) -> Result<(), Reason> {
        let mut request = Request::builder().method(method).uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        check(&request.body(()).unwrap(), &host(), port)
    }

    #[test]
    fn a_request_for_the_host_of_its_connection_passes() {
        for (uri, hosts) in [
            ("https://api.allowed.test/x", &[][..]),
            ("https://API.Allowed.Test/x", &[]),
            ("https://api.allowed.test:443/x", &["api.allowed.test"]),
            ("/x", &["api.allowed.test:443"]),
        ] {
            assert_eq!(asked("GET", uri, hosts), Ok(()), "{uri}");
        }
        assert_eq!(
            asked_at(8443, "GET", "https://api.allowed.test:8443/", &[]),
            Ok(())
        );
        assert_eq!(
            asked_at(8443, "GET", "https://api.allowed.test/", &[]),
            Ok(())
        );
        assert_eq!(asked("OPTIONS", "*", &["api.allowed.test"]), Ok(()));
    }

    #[test]
    fn a_request_for_another_host_or_port_is_misdirected() {
        for (uri, hosts) in [
            ("https://evil.test/", &[][..]),
            ("https://allowed.test/", &[]),
            ("https://api.allowed.test:8443/", &[]),
            ("https://api.allowed.test/", &["evil.test"]),
            ("https://evil.test/", &["api.allowed.test"]),
            ("/", &["api.allowed.test:80"]),
        ] {
            assert_eq!(
                asked("GET", uri, hosts),
                Err(Reason::HostMismatch),
                "{uri} {hosts:?}"
            );
        }
    }

    #[test]
    fn a_request_that_names_no_host_or_several_is_malformed() {
        for (uri, hosts) in [
            ("/", &[][..]),
            ("/", &["api.allowed.test", "api.allowed.test"]),
            ("https://evil@api.allowed.test/", &[]),
            ("/", &["api.allowed.test:"]),
            ("/", &["api%2eallowed.test"]),
            ("http://api.allowed.test/", &[]),
            ("*", &["api.allowed.test"]),
            ("https://api.allowed.test/a\\..\\b", &[]),
            ("https://api.allowed.test/\u{e4}", &[]),
        ] {
            assert_eq!(
                asked("GET", uri, hosts),
                Err(Reason::RequestMalformed),
                "{uri} {hosts:?}"
            );
        }
    }

    #[test]
    fn trace_and_connect_are_refused_whatever_they_are_for() {
        assert_eq!(
            asked("TRACE", "https://api.allowed.test/", &[]),
            Err(Reason::TraceRefused)
        );
        assert_eq!(
            asked("CONNECT", "evil.test:443", &[]),
            Err(Reason::TraceRefused)
        );
    }

    #[test]
    fn the_outside_is_told_the_name_that_was_decided_about() {
        let path = Some(PathAndQuery::from_static("/a?b"));
        let uri = target(&host(), 443, path.clone()).unwrap();
        assert_eq!(uri, "https://api.allowed.test/a?b");
        let uri = target(&host(), 8443, path).unwrap();
        assert_eq!(uri, "https://api.allowed.test:8443/a?b");
    }

    #[test]
    fn trailers_carry_a_status_but_nobody_s_identity() {
        let mut sent = HeaderMap::new();
        for name in [
            "grpc-status",
            "grpc-message",
            "authorization",
            "host",
            "content-length",
            "cookie",
        ] {
            sent.append(HeaderName::from_static(name), "1".parse().unwrap());
            sent.append(HeaderName::from_static(name), "2".parse().unwrap());
        }
        trailers(&mut sent);
        let mut left: Vec<_> = sent.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["grpc-message", "grpc-status"]);
    }
}

//! A second reading of HTTP/1.1 (RFC 9112), by somebody else than the boundary: slow, plain and strict.

/// How many requests for `host` are in `bytes` before something that makes no sense. One whose body is
/// not whole counts: its head may go out.
pub(super) fn requests(bytes: &[u8], host: &str, absolute: bool) -> usize {
    let (mut rest, mut count) = (bytes, 0);
    loop {
        while let Some(after) = rest.strip_prefix(b"\r\n") {
            rest = after;
        }
        let Some(end) = find(rest, b"\r\n\r\n") else {
            return count;
        };
        let Some((wanted, body)) = head(&rest[..end], host, absolute) else {
            return count;
        };
        // One for another host is refused, and those after it are read.
        count += usize::from(wanted);
        let after = &rest[end + 4..];
        let left = match body {
            Body::None => Some(after),
            Body::Length(length) => after.get(length..),
            Body::Chunks => chunks(after),
        };
        match left {
            Some(left) => rest = left,
            None => return count,
        }
    }
}

enum Body {
    None,
    Length(usize),
    Chunks,
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

/// Reads a head, and says whether it is for `host`; `None` where nothing after it may be read.
fn head(bytes: &[u8], host: &str, absolute: bool) -> Option<(bool, Body)> {
    let bad = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0c | 0x0e..=0x1f | 0x7f);
    if bytes.iter().any(bad) {
        return None;
    }
    let text: String = bytes.iter().copied().map(char::from).collect();
    let mut lines = text.split("\r\n");
    let first = lines.next()?;
    if text.replace("\r\n", "").contains(['\r', '\n']) {
        return None;
    }
    let (method, rest) = first.split_once(' ')?;
    let (target, version) = rest.split_once(' ')?;
    let old = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ => return None,
    };
    if !is_token(method) || method == "CONNECT" {
        return None;
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) || target.contains('#') {
        return None;
    }
    let mut wanted = is_for(target, host, absolute) && !["TRACE", "TRACK"].contains(&method);
    let (mut hosts, mut lengths, mut codings) = (Vec::new(), Vec::new(), Vec::new());
    for line in lines {
        let (name, value) = line.split_once(':')?;
        if !is_token(name) {
            return None;
        }
        let value = value.trim_matches([' ', '\t']);
        match name.to_ascii_lowercase().as_str() {
            "host" => hosts.push(value),
            "content-length" => lengths.push(value),
            "transfer-encoding" => codings.push(value),
            _ => {}
        }
    }
    match hosts.as_slice() {
        [named] => wanted &= absolute || is_host(named, host),
        // The target says it all.
        [] if absolute || old => {}
        _ => return None,
    }
    let body = match (lengths.as_slice(), codings.as_slice()) {
        ([], []) => Some(Body::None),
        ([length], []) if length.bytes().all(|byte| byte.is_ascii_digit()) => {
            length.parse().ok().map(Body::Length)
        }
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") && !old => Some(Body::Chunks),
        _ => None,
    };
    Some((wanted, body?))
}

fn is_host(text: &str, host: &str) -> bool {
    let name = text.split(':').next().unwrap_or_default();
    name.trim_end_matches('.').eq_ignore_ascii_case(host)
}

fn is_for(target: &str, host: &str, absolute: bool) -> bool {
    if !absolute && (target.starts_with('/') || target == "*") {
        return true;
    }
    let Some((scheme, rest)) = target.split_once("://") else {
        return false;
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    (scheme.eq_ignore_ascii_case("http") || !absolute) && is_host(authority, host)
}

/// Reads a body in chunks; `None` where it is malformed or not whole.
fn chunks(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let end = find(rest, b"\r\n")?;
        let line = std::str::from_utf8(&rest[..end]).ok()?;
        let digits = line.split(';').next()?.trim_end_matches([' ', '\t']);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let length = usize::from_str_radix(digits, 16).ok()?;
        rest = &rest[end + 2..];
        if length == 0 {
            break;
        }
        let after = rest.get(length..)?;
        rest = after.strip_prefix(b"\r\n")?;
    }
    loop {
        let end = find(rest, b"\r\n")?;
        let line = &rest[..end];
        rest = &rest[end + 2..];
        if line.is_empty() {
            return Some(rest);
        }
        let text = std::str::from_utf8(line).ok()?;
        if !is_token(text.split_once(':')?.0) {
            return None;
        }
    }
}

//! What policies say of credentials, as far as it is no secret.

use std::collections::{BTreeMap, BTreeSet};

use ::http::HeaderName;
use namzu_types::{EgressCredential, EgressRule};

use super::compile::Reasons;

const MAX_NAME: usize = 64;

/// Headers that say how a message is framed, where it goes or who speaks to the proxy: setting one of them
/// would make another request of it. With `_` for `-` too: to CGI and its heirs there is no difference.
const RESERVED: &[&str] = &[
    "accept-encoding",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "forwarded",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Variables that programs, or the boundary's own wiring, give a meaning to.
const TAKEN_ENV: &[&str] = &[
    "ALL_PROXY",
    "HOME",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "JAVA_TOOL_OPTIONS",
    "NODE_OPTIONS",
    "NO_PROXY",
    "PATH",
    "SHELL",
    "TMPDIR",
    "USER",
];

/// Checks all credentials, and that rules and credentials know each other.
pub(super) fn check(
    credentials: &BTreeMap<String, EgressCredential>,
    rules: &[EgressRule],
    reasons: &mut Reasons,
) {
    let mut used = BTreeSet::new();
    for (index, rule) in rules.iter().enumerate() {
        let Some(name) = rule.credential.as_deref() else {
            continue;
        };
        used.insert(name);
        if !credentials.contains_key(name) {
            let why = format!("`{}` is no credential of this policy", name.escape_debug());
            reasons.push(&format!("rules[{index}].credential"), &why);
        }
    }
    let mut envs = BTreeSet::new();
    for (name, credential) in credentials {
        let at = format!("credentials.{}", name.escape_debug());
        if !is_name(name) {
            let why = "a name has 1 to 64 letters, digits, `-`, `_` and `.`";
            reasons.push(&at, why);
        }
        if !used.contains(name.as_str()) {
            reasons.push(&at, "no rule uses it");
        }
        match credential {
            EgressCredential::Inject {
                source: _,
                header,
                format,
            } => inject(header, format, &at, reasons),
            EgressCredential::Sentinel { source: _, env } => {
                if let Some(why) = bad_env(env) {
                    reasons.push(&format!("{at}.env"), why);
                } else if !envs.insert(env) {
                    reasons.push(
                        &format!("{at}.env"),
                        "is the variable of another credential",
                    );
                }
            }
        }
    }
}

fn inject(header: &str, format: &str, at: &str, reasons: &mut Reasons) {
    if let Err(why) = header_name(header) {
        reasons.push(&format!("{at}.header"), why);
    }
    if let Err(why) = halves(format) {
        reasons.push(&format!("{at}.format"), why);
    }
}

/// Reads the name of the header that a secret is put in.
pub(crate) fn header_name(text: &str) -> Result<HeaderName, &'static str> {
    if text.len() > MAX_NAME {
        return Err("is longer than 64 bytes");
    }
    let name = HeaderName::from_bytes(text.as_bytes()).map_err(|_| "is no header's name")?;
    if RESERVED.contains(&name.as_str().replace('_', "-").as_str()) {
        return Err("is a header that no credential is carried in");
    }
    Ok(name)
}

/// Reads a format: what goes before the secret, and what after it.
pub(crate) fn halves(format: &str) -> Result<(&str, &str), &'static str> {
    if !format.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Err("holds what is no visible ASCII");
    }
    if format.starts_with(' ') || format.ends_with(' ') {
        return Err("begins or ends with a space, which servers drop");
    }
    match format.split_once("{}") {
        Some((before, after)) if !after.contains("{}") => Ok((before, after)),
        _ => Err("has to hold `{}` once, for the secret"),
    }
}

fn is_name(name: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(inside)
}

fn bad_env(env: &str) -> Option<&'static str> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if env.is_empty()
        || env.len() > MAX_NAME
        || env.starts_with(|first: char| first.is_ascii_digit())
        || !env.bytes().all(inside)
    {
        return Some("is no name of a variable: letters, digits and `_`, at most 64");
    }
    let upper = env.to_ascii_uppercase();
    let taken = TAKEN_ENV.contains(&upper.as_str())
        || upper.starts_with("LD_")
        || upper.starts_with("DYLD_")
        || upper.ends_with("_PROXY");
    taken.then_some("is a variable with a meaning of its own")
}

//! One rule, checked by itself.

use std::sync::Arc;

use ipnet::IpNet;
use namzu_types::{EgressRule, EgressTls};

use super::compile::Reasons;
use super::{MAX_PER_RULE, Pattern, Rule, is_never_forwarded, path, pattern};
use crate::Scheme;
use crate::http::scan::is_token;
use crate::screen::{covers_forbidden, is_private_range};

/// Checks a rule and compiles it, `None` where a reason was found.
pub(super) fn compile(
    rule: &EgressRule,
    at: &str,
    order: u32,
    reasons: &mut Reasons,
) -> Option<(Pattern, Rule)> {
    let before = reasons.count();
    few("methods", rule.methods.len(), at, reasons);
    few("paths", rule.paths.len(), at, reasons);
    few("inward", rule.inward.len(), at, reasons);
    methods(&rule.methods, at, reasons);
    paths(&rule.paths, at, reasons);
    let inward = inward(&rule.inward, at, reasons);
    let ports = ports(rule, at, reasons);
    let pattern = match host(&rule.host, &inward) {
        Ok(pattern) => Some(pattern),
        Err(reason) => {
            reasons.push(&format!("{at}.host"), &reason);
            None
        }
    };
    let terminate = tls(rule, pattern.as_ref(), at, reasons);
    if reasons.count() > before {
        return None;
    }
    let rule = Rule {
        id: at.into(),
        pattern: rule.host.as_str().into(),
        ports: ports.into(),
        scheme: rule.scheme,
        methods: boxed(&rule.methods),
        paths: boxed(&rule.paths),
        inward: inward.into(),
        credential: rule.credential.as_deref().map(Into::into),
        terminate,
        passthrough: rule.tls == EgressTls::Passthrough,
        order,
    };
    pattern.map(|pattern| (pattern, rule))
}

/// Reads the pattern of something that allows.
pub(super) fn host(text: &str, inward: &[IpNet]) -> Result<Pattern, String> {
    let pattern = Pattern::parse(text)?;
    match pattern.broadness().or_else(|| pattern.needs_inward(inward)) {
        Some(reason) => Err(reason),
        None => Ok(pattern),
    }
}

/// Whether TLS is ended for the rule.
fn tls(rule: &EgressRule, pattern: Option<&Pattern>, at: &str, reasons: &mut Reasons) -> bool {
    let credential = rule.credential.is_some();
    if credential && rule.scheme != Scheme::Https {
        let why = "a secret goes only over `https`, to a server that proved its name";
        reasons.push(&format!("{at}.credential"), why);
    }
    for (field, given) in [
        ("methods", !rule.methods.is_empty()),
        ("paths", !rule.paths.is_empty()),
    ] {
        if given && rule.scheme == Scheme::Tcp {
            let why = "means nothing with `scheme` `tcp`, into which nobody looks";
            reasons.push(&format!("{at}.{field}"), why);
        }
    }
    let at_tls = format!("{at}.tls");
    if rule.scheme != Scheme::Https {
        if rule.tls != EgressTls::Auto {
            reasons.push(&at_tls, "means nothing without `scheme` `https`");
        }
        return false;
    }
    let needed = credential || !rule.methods.is_empty() || !rule.paths.is_empty();
    if needed && rule.tls == EgressTls::Passthrough {
        let why = "is `passthrough`, but `credential`, `methods` and `paths` need to see requests";
        reasons.push(&at_tls, why);
    }
    let terminate = needed || rule.tls == EgressTls::Terminate;
    if terminate && matches!(pattern, Some(Pattern::Range(_))) {
        let why = "TLS ends only for names: `credential`, `methods`, `paths` and `tls` \
                   `terminate` need one";
        reasons.push(&format!("{at}.host"), why);
    }
    terminate
}

fn ports(rule: &EgressRule, at: &str, reasons: &mut Reasons) -> Vec<u16> {
    let at = format!("{at}.ports");
    if rule.ports.contains(&0) {
        reasons.push(&at, "0 is no port");
    }
    let mut ports = rule.ports.clone();
    if ports.is_empty() {
        match rule.scheme {
            Scheme::Https => ports.push(443),
            Scheme::Http => ports.push(80),
            Scheme::Tcp => reasons.push(&at, "is empty; `scheme` `tcp` needs its ports named"),
        }
    }
    ports.sort_unstable();
    ports.dedup();
    if ports.len() < rule.ports.len() {
        reasons.push(&at, "names a port twice");
    }
    ports
}

fn methods(methods: &[String], at: &str, reasons: &mut Reasons) {
    for (index, method) in methods.iter().enumerate() {
        let at = format!("{at}.methods[{index}]");
        if method.is_empty() || !method.bytes().all(is_token) {
            reasons.push(&at, "is no HTTP method");
        } else if is_never_forwarded(method) {
            reasons.push(&at, "is never forwarded");
        } else if method.bytes().any(|byte| byte.is_ascii_lowercase()) {
            reasons.push(
                &at,
                "is in lower case, which no method that servers know is",
            );
        } else if methods[..index].contains(method) {
            reasons.push(&at, "is there twice");
        }
    }
}

fn paths(paths: &[String], at: &str, reasons: &mut Reasons) {
    for (index, prefix) in paths.iter().enumerate() {
        let at = format!("{at}.paths[{index}]");
        if !prefix.starts_with('/') {
            reasons.push(&at, "does not start with `/`");
        } else if !path::is_plain(prefix) {
            let why = "is no plain path: no `//`, `.`, `..`, `\\`, query, nor their encodings";
            reasons.push(&at, why);
        } else if paths[..index].contains(prefix) {
            reasons.push(&at, "is there twice");
        }
    }
}

fn inward(ranges: &[String], at: &str, reasons: &mut Reasons) -> Vec<IpNet> {
    let mut read = Vec::new();
    for (index, text) in ranges.iter().enumerate() {
        match inward_range(text) {
            Ok(range) => read.push(range),
            Err(reason) => reasons.push(&format!("{at}.inward[{index}]"), &reason),
        }
    }
    read
}

fn inward_range(text: &str) -> Result<IpNet, String> {
    let range = pattern::range(text)?.ok_or("is no range of addresses, such as `10.1.0.0/16`")?;
    if let Some(forbidden) = covers_forbidden(&range) {
        return Err(format!(
            "touches `{forbidden}`, which nothing in a sandbox may reach; name narrower ranges"
        ));
    }
    if !is_private_range(&range) {
        return Err("is not private: loopback, RFC 1918, 100.64.0.0/10 or fc00::/7".to_owned());
    }
    Ok(range)
}

fn few(field: &str, count: usize, at: &str, reasons: &mut Reasons) {
    if count > MAX_PER_RULE {
        let why = format!("has {count} entries; there may be {MAX_PER_RULE}");
        reasons.push(&format!("{at}.{field}"), &why);
    }
}

fn boxed(texts: &[String]) -> Box<[Box<str>]> {
    texts.iter().map(|text| text.as_str().into()).collect()
}

/// A rule of nothing but a host.
pub(super) fn plain(
    id: &str,
    text: &str,
    scheme: Scheme,
    order: u32,
    nowhere: &Arc<[IpNet]>,
) -> Rule {
    let port = match scheme {
        Scheme::Https => Some(443),
        Scheme::Http => Some(80),
        Scheme::Tcp => None,
    };
    Rule {
        id: id.into(),
        pattern: text.into(),
        ports: port.into_iter().collect(),
        scheme,
        methods: Box::default(),
        paths: Box::default(),
        inward: Arc::clone(nowhere),
        credential: None,
        terminate: false,
        passthrough: false,
        order,
    }
}

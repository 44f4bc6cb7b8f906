//! `--allow`: what may be reached, as it is typed.

use std::str::FromStr;

use namzu_sandbox::egress::policy::Snapshot;
use namzu_sandbox::types::{EgressPolicy, EgressRule, EgressScheme};
use namzu_sandbox::{Error, ErrorCode, Phase};

/// `HOST`, `HOST:PORT` or `SCHEME://HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allow {
    /// A host pattern: `https` on 443 and `http` on 80.
    Host(String),
    /// One scheme on one port.
    Rule(EgressRule),
}

/// The port of SSH, which has a scheme of its own on the command line.
const SSH: u16 = 22;

impl FromStr for Allow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) => (Some(scheme), rest),
            None => (None, text),
        };
        if rest.is_empty() || rest.contains(['/', '@', '?', '#']) {
            return Err(
                "expected HOST, HOST:PORT or SCHEME://HOST[:PORT]; paths and methods are for --policy"
                    .to_owned(),
            );
        }
        let (host, port) = split_port(rest)?;
        let rule = |scheme, port| {
            Self::Rule(EgressRule {
                host: host.to_owned(),
                ports: vec![port],
                scheme,
                ..EgressRule::default()
            })
        };
        Ok(match (scheme, port) {
            (None, None) => Self::Host(host.to_owned()),
            (Some("https"), port) => rule(EgressScheme::Https, port.unwrap_or(443)),
            (Some("http"), port) => rule(EgressScheme::Http, port.unwrap_or(80)),
            (Some("ssh"), port) => rule(EgressScheme::Tcp, port.unwrap_or(SSH)),
            (Some("tcp"), Some(port)) => rule(EgressScheme::Tcp, port),
            (Some("tcp"), None) => return Err("tcp:// needs a port, e.g. tcp://db:5432".to_owned()),
            (None, Some(443)) => rule(EgressScheme::Https, 443),
            (None, Some(80)) => rule(EgressScheme::Http, 80),
            (None, Some(port)) => rule(EgressScheme::Tcp, port),
            (Some(other), _) => {
                return Err(format!(
                    "unknown scheme `{other}`: use https, http, ssh or tcp"
                ));
            }
        })
    }
}

/// Splits a port off, but not the last group of an IPv6 address: that one is in brackets, or has more
/// than one colon.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    let Some((host, port)) = text.rsplit_once(':') else {
        return Ok((text, None));
    };
    if port.ends_with(']') || (host.contains(':') && !host.ends_with(']')) {
        return Ok((text, None));
    }
    match port.parse() {
        Ok(0) | Err(_) => Err(format!("`{port}` is no port")),
        Ok(port) => Ok((host, Some(port))),
    }
}

/// The policy of these.
///
/// # Errors
///
/// Everything that is wrong with them, in the words that were typed.
pub(crate) fn checked(allow: &[Allow]) -> Result<EgressPolicy, Error> {
    let policy = policy(allow);
    match Snapshot::compile(&policy, 1) {
        Ok(_) => Ok(policy),
        Err(reasons) => Err(refused(allow, reasons)),
    }
}

fn refused(allow: &[Allow], reasons: Vec<String>) -> Error {
    let inward = reasons.iter().any(|reason| reason.contains("`inward`"));
    let mut typed = Vec::new();
    let (mut hosts, mut rules) = (0, 0);
    for allow in allow {
        typed.push(match allow {
            Allow::Host(host) => {
                hosts += 1;
                (format!("`allowedHosts[{}]`", hosts - 1), host)
            }
            Allow::Rule(rule) => {
                rules += 1;
                (format!("`rules[{}].host`", rules - 1), &rule.host)
            }
        });
    }
    let reasons: Vec<String> = reasons
        .into_iter()
        .map(|reason| {
            let found = typed.iter().find_map(|(place, text)| {
                Some(format!("`{text}`{}", reason.strip_prefix(place.as_str())?))
            });
            found.unwrap_or(reason)
        })
        .collect();
    let err = Error::new(ErrorCode::ConfigInvalid, "--allow cannot be taken so")
        .with_reasons(reasons)
        .during(Phase::Configure);
    if inward {
        err.with_hint("--policy FILE has rules with `inward`")
    } else {
        err
    }
}

fn policy(allow: &[Allow]) -> EgressPolicy {
    let mut policy = EgressPolicy::hosts([""; 0]);
    if let EgressPolicy::Static {
        allowed_hosts,
        rules: all,
        ..
    } = &mut policy
    {
        for allow in allow {
            match allow {
                Allow::Host(host) => allowed_hosts.push(host.clone()),
                Allow::Rule(rule) => all.push(rule.clone()),
            }
        }
    }
    policy
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> (String, Vec<u16>, EgressScheme) {
        match text.parse().unwrap() {
            Allow::Rule(rule) => (rule.host, rule.ports, rule.scheme),
            Allow::Host(host) => panic!("{host} has no port"),
        }
    }

    #[test]
    fn a_bare_host_is_left_to_the_policy() {
        for text in [
            "example.com",
            "*.example.com",
            "2001:db8::1",
            "[2001:db8::1]",
        ] {
            assert_eq!(text.parse(), Ok(Allow::Host(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn a_port_says_what_is_spoken_where_it_is_known() {
        use EgressScheme::{Http, Https, Tcp};
        for (text, host, port, scheme) in [
            ("a.test:443", "a.test", 443, Https),
            ("a.test:80", "a.test", 80, Http),
            ("a.test:22", "a.test", 22, Tcp),
            ("ssh://a.test", "a.test", 22, Tcp),
            ("https://a.test:8443", "a.test", 8443, Https),
            ("http://a.test:8080", "a.test", 8080, Http),
            ("tcp://[2001:db8::1]:5432", "[2001:db8::1]", 5432, Tcp),
        ] {
            assert_eq!(rule(text), (host.to_owned(), vec![port], scheme), "{text}");
        }
    }

    #[test]
    fn what_is_refused_is_named_as_it_was_typed() {
        let allow: Vec<Allow> = ["a.test", "a.test:443", "*.com", "[::1]:22"]
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        let err = checked(&allow).unwrap_err();
        let [private, broad] = err.reasons() else {
            panic!("{err}")
        };
        assert!(broad.starts_with("`*.com`: is too broad"), "{broad}");
        assert!(private.starts_with("`[::1]`: is private"), "{private}");
        assert!(err.hint().unwrap().contains("--policy"));
    }

    #[test]
    fn what_is_no_host_and_port_is_refused() {
        for text in [
            "",
            "a:0",
            "a:b",
            "a:65536",
            "ftp://a",
            "tcp://a",
            "https://a/b",
            "u@a",
        ] {
            assert!(text.parse::<Allow>().is_err(), "{text}");
        }
    }
}

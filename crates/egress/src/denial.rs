//! A refusal, in the words of each door.
//!
//! Whoever is refused, often a model, is told the same code everywhere, what it means and what can be
//! done about it. What somebody inside sent comes back only escaped and cut to a length.

use ::http::StatusCode;
use serde_json::json;

use crate::Reason;
use crate::door::dns::Code;
use crate::place::Ask;
use crate::policy::Verdict;

/// The header that has the code of the reason.
pub(crate) const HEADER: &str = "x-egress-reason";

/// The longest host that is shown; a name has at most 253.
const LONGEST: usize = 256;

/// A refusal.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) reason: Reason,
    /// What was asked for, as far as it could be understood.
    pub(crate) host: Option<Box<str>>,
    pub(crate) port: Option<u16>,
    /// The rule that denied, or that allowed it in principle.
    pub(crate) rule: Option<Box<str>>,
}

/// A refusal in the words of DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DnsDenial {
    pub(crate) code: Code,
    /// The INFO-CODE of an Extended DNS Error (RFC 8914).
    pub(crate) info: u16,
    /// Its EXTRA-TEXT.
    pub(crate) text: String,
}

impl Denial {
    pub(crate) fn of(ask: &Ask, reason: Reason) -> Self {
        Self {
            reason,
            host: Some(ask.host.to_string().into()),
            port: (ask.port != 0).then_some(ask.port),
            rule: None,
        }
    }

    /// Names the rule of `verdict`.
    pub(crate) fn by(mut self, verdict: &Verdict) -> Self {
        self.rule = verdict.rule.as_ref().map(|rule| rule.id.clone());
        self
    }

    pub(crate) const fn bare(reason: Reason) -> Self {
        Self {
            reason,
            host: None,
            port: None,
            rule: None,
        }
    }

    /// The status of an HTTP response.
    pub(crate) const fn status(&self) -> StatusCode {
        match self.reason {
            Reason::NameMalformed | Reason::PortMalformed | Reason::RequestMalformed => {
                StatusCode::BAD_REQUEST
            }
            Reason::RequestTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Reason::HostMismatch => StatusCode::MISDIRECTED_REQUEST,
            Reason::TraceRefused => StatusCode::METHOD_NOT_ALLOWED,
            Reason::UpgradeRefused | Reason::NotSupported => StatusCode::NOT_IMPLEMENTED,
            Reason::LookupFailed
            | Reason::DialFailed
            | Reason::UpstreamTls
            | Reason::UpstreamBroken => StatusCode::BAD_GATEWAY,
            // Whose fault it is, the host's or the program's, shows in whether there was a host yet.
            Reason::Deadline if self.host.is_some() => StatusCode::GATEWAY_TIMEOUT,
            Reason::Deadline => StatusCode::REQUEST_TIMEOUT,
            Reason::TooManyFlows | Reason::TooFast | Reason::QuotaUsed => {
                StatusCode::TOO_MANY_REQUESTS
            }
            Reason::ResolverFailed | Reason::AuditFailed | Reason::Closed => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Reason::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::FORBIDDEN,
        }
    }

    /// The body of an HTTP response: JSON and a line end.
    pub(crate) fn body(&self) -> Vec<u8> {
        let body = json!({ "error": {
            "code": "egress_denied",
            "reason": self.reason.code(),
            "text": self.reason.text(),
            "host": self.host.as_deref().map(shown),
            "port": self.port,
            "rule": self.rule.as_deref(),
            "hint": self.hint(),
        }});
        format!("{body}\n").into_bytes()
    }

    /// The REP of a SOCKS5 reply (RFC 1928 §6).
    pub(crate) const fn socks(&self) -> u8 {
        match self.reason {
            Reason::NameMalformed
            | Reason::PortMalformed
            | Reason::RequestMalformed
            | Reason::TooManyFlows
            | Reason::TooFast
            | Reason::Closed
            | Reason::AuditFailed
            | Reason::Internal => 1,
            Reason::LookupFailed | Reason::NameUnknown => 4,
            Reason::DialFailed => 5,
            Reason::Deadline => 6,
            Reason::NotSupported => 7,
            _ => 2,
        }
    }

    /// The answer to a look-up.
    pub(crate) fn dns(&self) -> DnsDenial {
        // EDE: 15 blocked, 18 prohibited, 22 no reachable authority, 0 other.
        let (code, info) = match self.reason {
            Reason::NameMalformed | Reason::RequestMalformed => (Code::FormErr, 0),
            Reason::TooFast | Reason::TooManyFlows | Reason::QuotaUsed | Reason::NotSupported => {
                (Code::Refused, 18)
            }
            Reason::LookupFailed | Reason::Deadline => (Code::ServFail, 22),
            Reason::ResolverFailed | Reason::AuditFailed | Reason::Closed | Reason::Internal => {
                (Code::ServFail, 0)
            }
            _ => (Code::NxDomain, 15),
        };
        let text = format!("{}: {}", self.reason.code(), self.reason.text());
        DnsDenial { code, info, text }
    }

    /// One line for a protocol that shows text to a person, without a line end: printable ASCII.
    pub(crate) fn line(&self) -> String {
        let mut line = format!("egress denied ({})", self.reason.code());
        if let Some(host) = &self.host {
            line.push(' ');
            line.push_str(&shown(host));
            if let Some(port) = self.port {
                line.push_str(&format!(":{port}"));
            }
        }
        format!("{line}: {} {}", self.reason.text(), self.hint())
    }

    /// What can be done about it.
    pub(crate) const fn hint(&self) -> &'static str {
        match self.reason {
            Reason::DenyAll
            | Reason::NotListed
            | Reason::PortNotListed
            | Reason::SchemeNotListed
            | Reason::MethodNotListed
            | Reason::PathNotListed
            | Reason::AddressPrivate
            | Reason::Narrowed => {
                "Trying again does not help. Whoever runs this sandbox can add a rule to its \
                 egress policy."
            }
            Reason::AddressLiteral => "Use the host's name instead of its address.",
            Reason::DeniedHost | Reason::AddressForbidden | Reason::Closed => {
                "Trying again does not help: do without it."
            }
            Reason::LookupFailed
            | Reason::DialFailed
            | Reason::UpstreamTls
            | Reason::UpstreamBroken
            | Reason::Deadline => "The policy allows it: the fault is on the way or at the host.",
            Reason::TooManyFlows => "Close connections, or open fewer at once.",
            Reason::TooFast => "Wait a second, then go slower.",
            Reason::QuotaUsed => "Whoever runs this sandbox can raise the limit.",
            Reason::ResolverFailed | Reason::AuditFailed | Reason::Internal => {
                "Try again in a while; whoever runs this sandbox finds the cause in its log."
            }
            Reason::CredentialMissing => "Whoever runs this sandbox must renew the credential.",
            Reason::CredentialMisuse => "Send the stand-in only to the host that it is for.",
            Reason::ServerNameMissing => "Use a client that sends a TLS server name (SNI).",
            Reason::NameUnknown => "Look the name up again: its address is given by the boundary.",
            _ => "Change what is sent.",
        }
    }
}

/// What came from inside, fit to be shown: printable ASCII of bounded length.
pub(crate) fn shown(raw: &str) -> String {
    let mut shown = String::new();
    for piece in raw.chars().take(LONGEST) {
        match piece {
            '"' | '\'' => shown.push(piece),
            _ => shown.extend(piece.escape_default()),
        }
        if shown.len() >= LONGEST {
            break;
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::refusal;

    fn denial(reason: Reason, host: &str) -> Denial {
        Denial {
            reason,
            host: Some(host.into()),
            port: Some(443),
            rule: Some("rules[3]".into()),
        }
    }

    #[test]
    fn a_response_says_code_meaning_rule_and_what_to_do() {
        let response = refusal(&denial(Reason::PortNotListed, "a.example"));
        let text = std::str::from_utf8(&response).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 403 Forbidden (egress: port_not_listed)\r\n"),
            "{head}"
        );
        assert!(head.contains("\r\nx-egress-reason: port_not_listed\r\n"));
        assert!(head.contains("\r\nconnection: close"));
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let error = &body["error"];
        assert_eq!(error["code"], "egress_denied");
        assert_eq!(error["reason"], "port_not_listed");
        assert_eq!(error["host"], "a.example");
        assert_eq!(error["port"], 443);
        assert_eq!(error["rule"], "rules[3]");
        assert!(error["hint"].as_str().unwrap().contains("policy"));
    }

    #[test]
    fn what_a_program_sent_comes_back_escaped_and_short() {
        let nasty = format!("a\r\nx: y\0\x1b[31m\u{202e}{}", "z".repeat(100_000));
        let denial = denial(Reason::NotListed, &nasty);
        let line = denial.line();
        assert!(line.bytes().all(|b| (b' '..=b'~').contains(&b)), "{line}");
        assert!(line.len() < 800);
        let http = refusal(&denial);
        assert!(http.is_ascii() && http.len() < 1500);
        assert_eq!(http.windows(4).filter(|w| w == b"\r\n\r\n").count(), 1);
    }

    #[test]
    fn each_kind_of_refusal_has_its_status() {
        for (reason, status) in [
            (Reason::NotListed, 403),
            (Reason::NameMalformed, 400),
            (Reason::HostMismatch, 421),
            (Reason::RequestTooLarge, 431),
            (Reason::TraceRefused, 405),
            (Reason::UpgradeRefused, 501),
            (Reason::DialFailed, 502),
            (Reason::Deadline, 504),
            (Reason::TooFast, 429),
            (Reason::AuditFailed, 503),
        ] {
            assert_eq!(denial(reason, "a.example").status(), status, "{reason}");
        }
        assert_eq!(Denial::bare(Reason::Deadline).status(), 408);
    }

    #[test]
    fn no_refusal_is_a_success_in_any_protocol() {
        for reason in Reason::ALL {
            let denial = denial(*reason, "a.example");
            assert!(denial.status().as_u16() >= 400, "{reason}");
            assert!((1..=8).contains(&denial.socks()), "{reason}");
            assert_ne!(denial.dns().code, Code::NoError, "{reason}");
        }
    }

    #[test]
    fn a_name_that_is_not_allowed_does_not_exist_and_says_why() {
        let dns = denial(Reason::NotListed, "a.example").dns();
        assert_eq!((dns.code, dns.info), (Code::NxDomain, 15));
        assert!(dns.text.starts_with("not_listed: "));
        assert_eq!(
            denial(Reason::LookupFailed, "a.example").dns().code,
            Code::ServFail
        );
    }
}

//! Why something is let through or not: stable codes, one vocabulary for every door, the audit and
//! the text that a model reads.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $code:literal, $text:literal;)*) => {
        /// Why something is let through or not.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Reason {
            $($(#[doc = $doc])* #[doc = $text] $variant,)*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its stable code, e.g. `not_listed`.
            #[must_use]
            pub const fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// What it means, for a person or a model inside.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

reasons! {
    Allowed = "allowed", "A rule allows it.";
    DenyAll = "deny_all", "The policy of this sandbox lets nothing out.";
    NotListed = "not_listed", "No rule of this sandbox's policy names this host.";
    DeniedHost = "denied_host", "The policy denies this host, whatever else allows it.";
    PortNotListed = "port_not_listed", "The host is allowed, but not on this port.";
    SchemeNotListed = "scheme_not_listed", "The host is allowed, but not for what is spoken here.";
    MethodNotListed = "method_not_listed", "The host is allowed, but not with this method.";
    PathNotListed = "path_not_listed", "The host is allowed, but not with this path.";
    AddressLiteral = "address_literal", "Addresses are reached only where a rule names the address.";
    AddressPrivate = "address_private", "The name leads to a private address that no rule lets it lead to.";
    AddressForbidden = "address_forbidden", "The address is one that nothing in a sandbox may reach.";
    NameMalformed = "name_malformed", "That is no host name.";
    NameTooLong = "name_too_long", "The name is longer than a wildcard may stand for.";
    PortMalformed = "port_malformed", "That is no port.";
    RequestMalformed = "request_malformed", "The request is malformed or ambiguous.";
    RequestTooLarge = "request_too_large", "The head of the request is too large.";
    HostMismatch = "host_mismatch", "The request names another host than its connection was opened for.";
    ServerNameMismatch = "server_name_mismatch", "The TLS server name is not the host that the connection was opened for.";
    ServerNameMissing = "server_name_missing", "TLS without a readable server name.";
    TraceRefused = "trace_refused", "TRACE and CONNECT are not forwarded.";
    UpgradeRefused = "upgrade_refused", "This upgrade is not forwarded.";
    ResolverFailed = "resolver_failed", "The policy could not be asked.";
    LookupFailed = "lookup_failed", "The name was allowed, but could not be resolved.";
    DialFailed = "dial_failed", "The host was allowed, but did not accept the connection.";
    UpstreamTls = "upstream_tls", "The host was allowed, but could not prove who it is.";
    ProgramTls = "program_tls", "The program did not accept the boundary's certificate, or broke off its TLS handshake.";
    UpstreamBroken = "upstream_broken", "The host was allowed, but its answer broke off or made no sense.";
    CredentialMissing = "credential_missing", "The rule's credential has no value now.";
    CredentialMisuse = "credential_misuse", "A credential's stand-in was sent where it does not belong.";
    TooManyFlows = "too_many_flows", "This sandbox has too many connections open.";
    TooFast = "too_fast", "This sandbox opens connections, or asks for names, too fast.";
    QuotaUsed = "quota_used", "This sandbox has used up the bytes that it may send or receive.";
    Deadline = "deadline", "What was needed did not come in time.";
    NameUnknown = "name_unknown", "This address stands for no name.";
    NotSupported = "not_supported", "The boundary does not carry this.";
    Narrowed = "narrowed", "The policy changed and no longer allows it.";
    Closed = "closed", "The sandbox ended.";
    AuditFailed = "audit_failed", "The boundary cannot record what it lets out, so it lets out nothing.";
    Internal = "internal", "The boundary failed.";
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

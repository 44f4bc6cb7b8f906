//! The egress boundary that the flags describe.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use namzu_sandbox::egress::{AuditFile, Boundary, BoundaryBuilder, Name};
use namzu_sandbox::types::EgressLimits;
use namzu_sandbox::{Error, ErrorCode, Phase};
use serde::Deserialize;

use crate::args::BoundaryArgs;
use crate::failure::{Failure, local};
use crate::settings::Host;

/// The port of a name server that names none.
const DNS: u16 = 53;

/// Lengths of a prefix that IPv4 is hidden under (RFC 6052).
const NAT64: [u8; 6] = [32, 40, 48, 56, 64, 96];

/// What `--boundary` holds. Whatever is left out is as on this host.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Document {
    /// Who is asked for names, in place of this host's: addresses, with a port or 53.
    name_servers: Vec<String>,
    /// Addresses of names that nobody is asked for.
    hosts: BTreeMap<String, Vec<IpAddr>>,
    /// Prefixes under which the network hides IPv4.
    nat64: Vec<String>,
    /// PEM files with further certificates to trust.
    roots: Vec<PathBuf>,
    /// Addresses that this host is known by outside.
    own_addresses: Vec<IpAddr>,
    /// What policies leave out.
    limits: EgressLimits,
}

/// Refuses the flags where no boundary has a part.
pub(crate) fn none(args: &BoundaryArgs) -> Result<(), Failure> {
    let BoundaryArgs {
        audit_log,
        boundary,
    } = args;
    match (audit_log, boundary) {
        (None, None) => Ok(()),
        _ => Err(Failure::Usage(
            "--audit-log and --boundary say how the egress boundary works, which has no part in this \
             sandbox: give --allow or --policy"
                .to_owned(),
        )),
    }
}

/// The boundary; `None` where nothing was said and the library's own will do.
pub(crate) fn of(args: &BoundaryArgs, host: &Host<'_>) -> Result<Option<Boundary>, Failure> {
    let BoundaryArgs {
        audit_log,
        boundary,
    } = args;
    if audit_log.is_none() && boundary.is_none() {
        return Ok(None);
    }
    let mut builder = match boundary {
        Some(path) => read(path, host)?,
        None => Boundary::builder(),
    };
    if let Some(path) = audit_log {
        let file = AuditFile::open(path).map_err(|err| unopened(path, err))?;
        builder = builder.audit(file);
    }
    Ok(Some(
        builder
            .build()
            .map_err(|err| err.during(Phase::Configure))?,
    ))
}

fn unopened(path: &Path, err: io::Error) -> Error {
    let err = if err.kind() == io::ErrorKind::WouldBlock {
        Error::new(
            ErrorCode::AlreadyExists,
            format!(
                "another process writes to the audit log `{}`",
                path.display()
            ),
        )
        .with_hint("give each process a file of its own")
    } else {
        local(format!("opening the audit log `{}`", path.display()), err)
    };
    err.during(Phase::Configure)
}

fn read(path: &Path, host: &Host<'_>) -> Result<BoundaryBuilder, Failure> {
    let text = (host.read)(path)?;
    let document = serde_json::from_str(&text).map_err(|err| vec![err.to_string()]);
    let built = document.and_then(builder).map_err(|reasons| {
        Error::new(
            ErrorCode::ConfigInvalid,
            format!("`{}` describes no boundary", path.display()),
        )
        .with_reasons(reasons)
        .during(Phase::Configure)
    })?;
    Ok(built)
}

fn builder(document: Document) -> Result<BoundaryBuilder, Vec<String>> {
    let Document {
        name_servers,
        hosts,
        nat64,
        roots,
        own_addresses,
        limits,
    } = document;
    let mut wrong = Vec::new();
    let mut all = |field: &str, text: &str, why: &dyn Display| {
        wrong.push(format!("`{field}`: `{text}`: {why}"));
    };
    let mut servers = Vec::new();
    for text in &name_servers {
        match server(text) {
            Some(server) => servers.push(server),
            None => all("nameServers", text, &"is no address"),
        }
    }
    let mut table = Vec::new();
    for (text, addresses) in hosts {
        match Name::parse(&text) {
            Ok(_) if addresses.is_empty() => all("hosts", &text, &"has no address"),
            Ok(name) => table.push((name, addresses)),
            Err(why) => all("hosts", &text, &why),
        }
    }
    let mut prefixes = Vec::new();
    for text in &nat64 {
        match text.parse::<IpNet>() {
            Ok(net) if net.addr().is_ipv6() && NAT64.contains(&net.prefix_len()) => {
                prefixes.push(net);
            }
            Ok(_) => all(
                "nat64",
                text,
                &"is no IPv6 prefix of 32, 40, 48, 56, 64 or 96 bits",
            ),
            Err(why) => all("nat64", text, &why),
        }
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let mut builder = Boundary::builder()
        .hosts(table)
        .nat64(prefixes)
        .own_addresses(own_addresses)
        .limits(limits);
    if !servers.is_empty() {
        builder = builder.name_servers(servers);
    }
    for file in roots {
        builder = builder.roots(file);
    }
    Ok(builder)
}

fn server(text: &str) -> Option<SocketAddr> {
    let port = |address: IpAddr| SocketAddr::new(address, DNS);
    text.parse().ok().or_else(|| text.parse().ok().map(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<BoundaryBuilder, Vec<String>> {
        builder(serde_json::from_str(text).map_err(|err| vec![err.to_string()])?)
    }

    #[test]
    fn everything_that_can_be_said_is_taken() {
        parse("{}").unwrap();
        let text = r#"{
            "nameServers": ["192.0.2.1", "[2001:db8::1]:5353"],
            "hosts": {"a.test": ["192.0.2.2", "2001:db8::2"]},
            "nat64": ["2001:db8:64::/96"],
            "roots": ["/etc/corp.pem"],
            "ownAddresses": ["192.0.2.3"],
            "limits": {"flows": 8}
        }"#;
        parse(text).unwrap();
    }

    #[test]
    fn what_is_wrong_is_said_at_once() {
        let text = r#"{
            "nameServers": ["dns.test", "192.0.2.1:0x35"],
            "hosts": {"a..test": ["192.0.2.2"], "b.test": []},
            "nat64": ["2001:db8::/95", "10.0.0.0/8", "x"]
        }"#;
        let reasons = parse(text).unwrap_err();
        assert_eq!(reasons.len(), 7, "{reasons:?}");
        for text in [r#"{"nameservers": []}"#, r#"{"limits": {"flow": 1}}"#] {
            let reasons = parse(text).unwrap_err();
            assert!(reasons[0].contains("unknown field"), "{reasons:?}");
        }
    }

    #[test]
    fn a_name_server_has_port_53_unless_it_says_another() {
        assert_eq!(server("::1"), Some("[::1]:53".parse().unwrap()));
        assert_eq!(
            server("127.0.0.1:5353"),
            Some("127.0.0.1:5353".parse().unwrap())
        );
    }
}

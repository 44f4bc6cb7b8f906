//! Setting a boundary up.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use ipnet::IpNet;
use namzu_core::{Error, ErrorCode, Result};
use namzu_types::EgressLimits;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::own::Own;
use super::{Boundary, Outside};
use crate::audit::{Audit, AuditSink};
use crate::lookup::{First, Lookup, Static, System};
use crate::relay::stock::Stock;
use crate::screen::Screen;
use crate::tls::trust;
use crate::{Name, Reason};

/// Sets up a [`Boundary`]. Without settings it resolves names as this host does, trusts the roots that
/// this host trusts, keeps no audit log, and has the limits that are documented with
/// [`EgressLimits`].
#[derive(Debug, Default)]
pub struct BoundaryBuilder {
    lookup: Option<Arc<dyn Lookup>>,
    hosts: Vec<(Name, Vec<IpAddr>)>,
    roots: Vec<PathBuf>,
    audit: Option<Arc<dyn AuditSink>>,
    limits: EgressLimits,
    own: Vec<IpAddr>,
    only_own: bool,
    nat64: Vec<IpNet>,
}

impl BoundaryBuilder {
    /// Resolves names by `lookup`.
    #[must_use]
    pub fn lookup(mut self, lookup: impl Lookup + 'static) -> Self {
        self.lookup = Some(Arc::new(lookup));
        self
    }

    /// Resolves names by asking these servers; the hosts file is not read then.
    #[must_use]
    pub fn name_servers(mut self, servers: impl IntoIterator<Item = SocketAddr>) -> Self {
        self.lookup = Some(Arc::new(System::servers(servers.into_iter().collect())));
        self
    }

    /// Resolves names by this table and nothing else.
    #[must_use]
    pub fn names(mut self, names: impl IntoIterator<Item = (Name, Vec<IpAddr>)>) -> Self {
        self.lookup = Some(Arc::new(Static::new(names)));
        self
    }

    /// Looks into this table before it resolves a name in any other way.
    #[must_use]
    pub fn hosts(mut self, names: impl IntoIterator<Item = (Name, Vec<IpAddr>)>) -> Self {
        self.hosts.extend(names);
        self
    }

    /// Trusts the certificates of a PEM file too, when it verifies the outside; sandboxes are told to.
    #[must_use]
    pub fn roots(mut self, file: impl Into<PathBuf>) -> Self {
        self.roots.push(file.into());
        self
    }

    /// Writes an audit log, e.g. to an [`AuditFile`](crate::AuditFile).
    #[must_use]
    pub fn audit(mut self, sink: impl AuditSink + 'static) -> Self {
        self.audit = Some(Arc::new(sink));
        self
    }

    /// What policies leave out.
    #[must_use]
    pub fn limits(mut self, limits: EgressLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Addresses that this host is known by outside, e.g. behind 1:1 NAT. Those of its interfaces are
    /// found by themselves.
    #[must_use]
    pub fn own_addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.own.extend(addresses);
        self
    }

    /// All addresses of this host: those of its interfaces are not looked up.
    #[must_use]
    pub fn only_own_addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.only_own = true;
        self.own = addresses.into_iter().collect();
        self
    }

    /// Prefixes under which this host's network hides IPv4 (RFC 6052), beside the well-known one.
    #[must_use]
    pub fn nat64(mut self, prefixes: impl IntoIterator<Item = IpNet>) -> Self {
        self.nat64.extend(prefixes);
        self
    }

    /// Sets it up. Reads the host's roots, so it may block for some milliseconds.
    ///
    /// # Errors
    ///
    /// `config_invalid` for roots that cannot be read, or an audit log that cannot be gone on with.
    pub fn build(self) -> Result<Boundary> {
        let mut extra = Vec::new();
        for file in &self.roots {
            extra.extend(certificates(file)?);
        }
        let (roots, bundle) = trust::load(extra);
        let (source, own) = match self.only_own {
            true => (Own::fixed(), self.own),
            false => Own::looked_up(self.own),
        };
        let nat64 = self.nat64;
        let metrics = Arc::default();
        let audit = match self.audit {
            None => Audit::default(),
            Some(sink) => Audit::start(sink, Arc::clone(&metrics)).map_err(|why| {
                Error::new(ErrorCode::ConfigInvalid, Reason::AuditFailed.text()).with_source(why)
            })?,
        };
        let mut lookup = self.lookup.unwrap_or_else(|| Arc::new(System::host()));
        if !self.hosts.is_empty() {
            lookup = Arc::new(First {
                table: Static::new(self.hosts),
                then: lookup,
            });
        }
        Ok(Boundary {
            outside: Arc::new(Outside {
                lookup,
                screen: ArcSwap::from_pointee(Screen { own, nat64 }),
                own: source,
                audit,
                metrics,
                roots,
                bundle,
                stock: Stock::default(),
                limits: self.limits,
            }),
        })
    }
}

fn certificates(file: &PathBuf) -> Result<Vec<CertificateDer<'static>>> {
    let failed = |why| {
        let what = format!("cannot read certificates from `{}`", file.display());
        Error::new(ErrorCode::ConfigInvalid, what).with_source(why)
    };
    let found = CertificateDer::pem_file_iter(file).map_err(failed)?;
    let found: Vec<_> = found
        .collect::<std::result::Result<_, _>>()
        .map_err(failed)?;
    if found.is_empty() {
        let what = format!("`{}` has no certificate", file.display());
        return Err(Error::new(ErrorCode::ConfigInvalid, what));
    }
    Ok(found)
}

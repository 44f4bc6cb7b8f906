//! What may leave: rules compiled to a snapshot, and the one function that decides. No I/O.

mod compile;
mod confusable;
pub(crate) mod credential;
mod decide;
mod path;
mod pattern;
mod rule;
mod special;
mod table;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use namzu_types::{EgressLimits, EgressPolicy};

pub use self::decide::{decide, is_never_forwarded};
pub use self::pattern::Pattern;
pub(crate) use self::pattern::overfills;
use self::table::Table;
use crate::{Host, Reason, Scheme, screen};

/// Hosts and rules of one policy together.
pub const MAX_ENTRIES: usize = 20_000;
/// Rules that say the same of the host. Only these are looked at one by one.
pub const MAX_RULES_PER_HOST: usize = 64;
/// Different ports of all rules together; each is a door inside.
pub const MAX_PORTS: usize = 64;
/// Methods, paths and inward ranges of one rule, each.
pub const MAX_PER_RULE: usize = 64;

/// The ports of programs that ignore proxies under a policy that allows everything.
const COMMON_PORTS: &[u16] = &[22, 80, 443];

/// A set of schemes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schemes(u8);

impl Schemes {
    /// None.
    pub const NONE: Self = Self(0);
    /// Every one.
    pub const ALL: Self = Self::NONE
        .with(Scheme::Https)
        .with(Scheme::Http)
        .with(Scheme::Tcp);

    /// With `scheme` too.
    #[must_use]
    pub const fn with(self, scheme: Scheme) -> Self {
        Self(self.0 | 1 << scheme as u8)
    }

    /// Whether it is `tcp` alone, into which nobody looks.
    #[must_use]
    pub const fn is_opaque(self) -> bool {
        self.0 == Self::NONE.with(Scheme::Tcp).0
    }

    /// Whether `scheme` is one of them.
    #[must_use]
    pub const fn has(self, scheme: Scheme) -> bool {
        self.0 & 1 << scheme as u8 != 0
    }
}

/// One rule, compiled.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its place in the policy, e.g. `rules[3]` or `allowedHosts[0]`.
    pub id: Box<str>,
    /// The host pattern as it was written.
    pub pattern: Box<str>,
    /// Ports, sorted.
    pub ports: Box<[u16]>,
    /// What is spoken.
    pub scheme: Scheme,
    /// Case matters; empty: all that are forwarded at all.
    pub methods: Box<[Box<str>]>,
    /// Path prefixes; empty: all.
    pub paths: Box<[Box<str>]>,
    /// Private ranges that the name may resolve into.
    pub inward: Arc<[IpNet]>,
    /// Name of the credential.
    pub credential: Option<Box<str>>,
    /// TLS is ended at the boundary: asked for, or needed by what the rule says.
    pub terminate: bool,
    /// TLS is never ended at the boundary, as the rule asks.
    pub passthrough: bool,
    /// Its place among all rules: of two that are as close, the earlier wins.
    pub(crate) order: u32,
}

/// A policy, compiled. Immutable.
#[derive(Debug)]
pub struct Snapshot {
    /// Counts up with each change of the policy.
    pub generation: u64,
    /// What limits the policy names.
    pub limits: EgressLimits,
    mode: Mode,
    /// Shared by all verdicts that open no private range.
    nowhere: Arc<[IpNet]>,
}

#[derive(Debug)]
enum Mode {
    DenyAll,
    AllowAll,
    Listed(Box<Listed>),
}

#[derive(Debug, Default)]
struct Listed {
    allowed: Table,
    denied: Table,
    ports: Vec<u16>,
    terminates: bool,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The host.
    pub host: &'a Host,
    /// The port. `None`: any, as a look-up of a name asks.
    pub port: Option<u16>,
    /// What is spoken, once that is known.
    pub scheme: Option<Scheme>,
    /// Method and path, once they are known. The path is decoded no further than it was sent, and has no
    /// query.
    pub request: Option<(&'a str, &'a str)>,
}

/// What was decided.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// [`Reason::Allowed`], or why not.
    pub reason: Reason,
    /// The rule that allows; of a denial the rule that denies, or that came closest to allowing.
    pub rule: Option<Arc<Rule>>,
    /// What may be spoken, as far as host and port tell.
    pub schemes: Schemes,
    /// TLS must be ended here: a rule for `https` that applies needs to see requests, and no rule that is
    /// closer asks for passthrough.
    pub terminate: bool,
    /// The ranges of private addresses, of all rules that allow it, that the name may resolve into. Empty in
    /// a denial.
    pub inward: Arc<[IpNet]>,
    /// Of the snapshot.
    pub generation: u64,
}

impl Verdict {
    /// Whether it may pass.
    #[must_use]
    pub fn allows(&self) -> bool {
        self.reason == Reason::Allowed
    }
}

impl Snapshot {
    /// Compiles a policy other than a resolver's, whose answers [`Self::from_hosts`] compiles.
    ///
    /// # Errors
    ///
    /// Every reason (of very many, the first), each with the path of what it is about.
    pub fn compile(policy: &EgressPolicy, generation: u64) -> Result<Self, Vec<String>> {
        let nothing = || (EgressLimits::default(), Mode::DenyAll);
        let (limits, mode) = match policy {
            EgressPolicy::DenyAll => nothing(),
            EgressPolicy::AllowAll => (EgressLimits::default(), Mode::AllowAll),
            EgressPolicy::Static {
                allowed_hosts,
                rules,
                denied_hosts,
                credentials,
                limits,
            } => {
                let listed = compile::listed(
                    &compile::Lists {
                        allowed_hosts,
                        rules,
                        denied_hosts,
                        credentials,
                    },
                    limits,
                )?;
                (limits.clone(), Mode::Listed(Box::new(listed)))
            }
            EgressPolicy::Resolver { .. } => {
                return Err(vec![
                    "`resolve`: has to be asked before there is a policy".to_owned(),
                ]);
            }
        };
        Ok(Self::new(generation, limits, mode))
    }

    /// Compiles what a resolver answered: host patterns, each as in `allowedHosts`. Empty lines are
    /// passed over, and a pattern may come twice.
    ///
    /// # Errors
    ///
    /// Every reason; nothing of an answer with a fault is used.
    pub fn from_hosts(hosts: &[String], generation: u64) -> Result<Self, Vec<String>> {
        let listed = compile::answer(hosts)?;
        Ok(Self::new(
            generation,
            EgressLimits::default(),
            Mode::Listed(Box::new(listed)),
        ))
    }

    fn new(generation: u64, limits: EgressLimits, mode: Mode) -> Self {
        Self {
            generation,
            limits,
            mode,
            nowhere: Arc::from([]),
        }
    }

    /// The ports that rules name, sorted: the doors that programs which ignore proxies need. A policy that
    /// allows everything gives the most common ones.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        match &self.mode {
            Mode::DenyAll => Vec::new(),
            Mode::AllowAll => COMMON_PORTS.to_vec(),
            Mode::Listed(listed) => listed.ports.clone(),
        }
    }

    /// Whether a rule ends TLS at the boundary, so that a sandbox has to trust its CA.
    #[must_use]
    pub fn terminates(&self) -> bool {
        matches!(&self.mode, Mode::Listed(listed) if listed.terminates)
    }

    /// Whether `deniedHosts` names this address. To be asked of each address that a name resolved to,
    /// beside [`Screen::check_all`](crate::screen::Screen::check_all). `nat64` are the prefixes under which
    /// the network hides IPv4, beside the well-known one.
    #[must_use]
    pub fn denies_address(&self, address: IpAddr, nat64: &[IpNet]) -> bool {
        let mut denied = false;
        if let Mode::Listed(listed) = &self.mode {
            // What may not be dialled anyway hides nothing that has to be named.
            let hidden = screen::spellings(address, nat64).into_iter().flatten();
            for spelling in std::iter::once(screen::unwrap(address)).chain(hidden) {
                let host = Host::Address(spelling);
                listed.denied.visit(&host, |_, _| denied = true);
            }
        }
        denied
    }
}

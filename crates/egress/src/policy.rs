//! What may leave: rules compiled to a snapshot, and the one function that decides. No I/O.

use std::sync::Arc;

use ipnet::IpNet;
use namzu_types::{EgressLimits, EgressPolicy};

use crate::{Host, Reason, Scheme};

/// A set of schemes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schemes(u8);

impl Schemes {
    /// None.
    pub const NONE: Self = Self(0);

    /// With `scheme` too.
    #[must_use]
    pub const fn with(self, scheme: Scheme) -> Self {
        Self(self.0 | 1 << scheme as u8)
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
    /// Upper case; empty: all that are forwarded at all.
    pub methods: Box<[Box<str>]>,
    /// Path prefixes; empty: all.
    pub paths: Box<[Box<str>]>,
    /// Private ranges that the name may resolve into.
    pub inward: Box<[IpNet]>,
    /// Name of the credential.
    pub credential: Option<Box<str>>,
    /// TLS is ended at the boundary: asked for, or needed by what the rule says.
    pub terminate: bool,
}

/// A policy, compiled. Immutable.
#[derive(Debug)]
pub struct Snapshot {
    /// Counts up with each change of the policy.
    pub generation: u64,
    /// What limits the policy names.
    pub limits: EgressLimits,
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
    /// The rule that allows or denies: the most specific of those that apply.
    pub rule: Option<Arc<Rule>>,
    /// What may be spoken, as far as host and port tell.
    pub schemes: Schemes,
    /// TLS must be ended here: a rule for `https` that applies needs to see requests.
    pub terminate: bool,
    /// The ranges of private addresses, of all rules that apply, that the name may resolve into.
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
    /// Compiles a policy other than a resolver's.
    ///
    /// # Errors
    ///
    /// Every reason, each with the path of what it is about.
    pub fn compile(policy: &EgressPolicy, generation: u64) -> Result<Self, Vec<String>> {
        let _ = policy;
        Ok(Self {
            generation,
            limits: EgressLimits::default(),
        })
    }

    /// The ports that rules name, sorted: the doors that programs which ignore proxies need.
    #[must_use]
    pub fn ports(&self) -> Vec<u16> {
        Vec::new()
    }

    /// Whether a rule ends TLS at the boundary, so that a sandbox has to trust its CA.
    #[must_use]
    pub fn terminates(&self) -> bool {
        false
    }
}

/// Decides. The only function that lets anything out.
#[must_use]
pub fn decide(snapshot: &Snapshot, question: &Question<'_>) -> Verdict {
    let _ = question;
    Verdict {
        reason: Reason::DenyAll,
        rule: None,
        schemes: Schemes::NONE,
        terminate: false,
        inward: Arc::from([]),
        generation: snapshot.generation,
    }
}

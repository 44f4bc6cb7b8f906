//! One sandbox at the boundary: its policy, its flows, its names, its secrets.
//!
//! A door turns what somebody inside asks for into an [`Ask`], has it admitted, dials, and carries. It
//! never decides, resolves or connects by itself.

mod flow;
mod registry;
#[cfg(test)]
pub(crate) mod testing;

use std::sync::Arc;

use arc_swap::ArcSwap;
use namzu_types::SandboxId;

use crate::boundary::Outside;
use crate::broker::Broker;
use crate::denial::Denial;
use crate::door::names::Names;
use crate::http::pool::Pool;
use crate::limits::Limiter;
use crate::policy::{self, Question, Snapshot};
use crate::tls::ca::Ca;
use crate::tls::upstream::Upstream;
use crate::{Host, Reason, Scheme};

pub(crate) use self::flow::Flow;
use self::registry::{Entry, Registry};

/// By which way something was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Via {
    /// CONNECT on the proxy port.
    Connect,
    /// An absolute request on the proxy port.
    Forward,
    /// SOCKS5 on the proxy port.
    Socks,
    /// A connection to the address of a name.
    Named,
    /// A look-up of a name.
    Dns,
    /// A request inside TLS that ends here.
    Intercepted,
}

impl Via {
    pub(crate) const ALL: &'static [Self] = &[
        Self::Connect,
        Self::Forward,
        Self::Socks,
        Self::Named,
        Self::Dns,
        Self::Intercepted,
    ];

    /// As audit and metrics have it.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Forward => "forward",
            Self::Socks => "socks",
            Self::Named => "named",
            Self::Dns => "dns",
            Self::Intercepted => "intercepted",
        }
    }

    /// Whether what is asked for by it is a request on a connection that was counted, so that it counts
    /// only when it needs a connection of its own.
    pub(crate) const fn is_request(self) -> bool {
        matches!(self, Self::Forward | Self::Intercepted)
    }
}

/// What somebody inside asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) via: Via,
    pub(crate) host: Host,
    /// 0 for a look-up, which asks for none.
    pub(crate) port: u16,
    /// What is spoken, once that is known.
    pub(crate) scheme: Option<Scheme>,
    /// Method and path without query, once they are known.
    pub(crate) request: Option<(Box<str>, Box<str>)>,
}

/// A policy in force and all that changes with it.
pub(crate) struct Regime {
    pub(crate) snapshot: Snapshot,
    pub(crate) broker: Broker,
}

/// One sandbox at the boundary.
pub(crate) struct Place {
    pub(crate) id: SandboxId,
    pub(crate) outside: Arc<Outside>,
    pub(crate) regime: ArcSwap<Regime>,
    pub(crate) limiter: Arc<Limiter>,
    pub(crate) names: Names,
    pub(crate) pool: Pool,
    /// Absent where no rule ended TLS when the sandbox was made: nothing inside would trust it.
    pub(crate) ca: Option<Ca>,
    /// What its TLS connections to the outside share.
    pub(crate) upstream: Upstream,
    flows: Registry,
}

impl Ask {
    pub(crate) fn question(&self) -> Question<'_> {
        Question {
            host: &self.host,
            port: (self.via != Via::Dns).then_some(self.port),
            scheme: self.scheme,
            request: self
                .request
                .as_ref()
                .map(|(method, path)| (&**method, &**path)),
        }
    }
}

impl Place {
    /// A connection counts against the sandbox's flows and rate; a request, whose connection was admitted
    /// already, does when it dials.
    ///
    /// Decides about `ask`, and enters what is admitted in the books: from then on a change of policy
    /// that no longer allows it [cuts](Flow::cut) it. A resolver is asked where the policy is one.
    pub(crate) async fn admit(self: &Arc<Self>, ask: Ask) -> Result<Flow, Denial> {
        let mut regime = self.regime.load_full();
        let mut verdict = policy::decide(&regime.snapshot, &ask.question());
        if !verdict.allows() {
            return Err(Denial::decided(&ask, &verdict));
        }
        let Some(entry) = self.flows.enter(&ask) else {
            return Err(Denial::of(&ask, Reason::Closed));
        };
        // A change that began before this was in the books did not see it.
        loop {
            let now = self.regime.load_full();
            if Arc::ptr_eq(&now, &regime) {
                break;
            }
            regime = now;
            verdict = policy::decide(&regime.snapshot, &ask.question());
            if !verdict.allows() {
                self.flows.leave(&entry);
                return Err(Denial::decided(&ask, &verdict));
            }
        }
        Ok(Flow::new(Arc::clone(self), ask, verdict, regime, entry))
    }

    /// Records a denial that was found out before there was a question to decide: malformed bytes.
    pub(crate) fn refuse(&self, via: Via, raw: &str, reason: Reason) -> Denial {
        let _ = (via, raw);
        Denial::bare(reason)
    }
}

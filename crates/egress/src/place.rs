//! One sandbox at the boundary: its policy, its flows, its names, its secrets.
//!
//! A door turns what somebody inside asks for into an [`Ask`], has it admitted, dials, and carries. It
//! never decides, resolves or connects by itself.

mod change;
mod flow;
mod record;
mod regime;
mod registry;
mod source;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
mod watch;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arc_swap::ArcSwap;
use namzu_types::SandboxId;
use tokio::sync::Mutex;

pub(crate) use self::flow::Flow;
pub(crate) use self::regime::Regime;
use self::registry::Registry;
use crate::audit::Audit;
use crate::boundary::Outside;
use crate::denial::Denial;
use crate::door::names::Names;
use crate::http::pool::Pool;
use crate::limits::{Limiter, Permit};
use crate::policy::{self, Question, Verdict};
use crate::relay::stock::Lent;
use crate::tls::ca::Ca;
use crate::tls::upstream::Upstream;
use crate::{Host, Reason, Scheme};

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

/// One sandbox at the boundary.
pub(crate) struct Place {
    pub(crate) id: SandboxId,
    pub(crate) outside: Arc<Outside>,
    pub(crate) audit: Audit,
    pub(crate) regime: ArcSwap<Regime>,
    pub(crate) limiter: Arc<Limiter>,
    /// Pipes that its flows have.
    pub(crate) lent: Lent,
    pub(crate) names: Names,
    pub(crate) pool: Pool,
    pub(crate) upstream: Upstream,
    /// Absent where no rule ended TLS when the sandbox was made: nothing inside would trust it.
    pub(crate) ca: Option<Ca>,
    flows: Registry,
    /// Held while a policy is put in force: one at a time.
    changing: Mutex<()>,
    /// Somebody asks the resolver while something is open.
    watched: AtomicBool,
}

impl Ask {
    /// Of which no more is known.
    pub(crate) const fn new(via: Via, host: Host, port: u16) -> Self {
        Self {
            via,
            host,
            port,
            scheme: None,
            request: None,
        }
    }

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
    pub(crate) fn new(
        id: SandboxId,
        outside: Arc<Outside>,
        regime: Regime,
        ca: Option<Ca>,
    ) -> Arc<Self> {
        Arc::new(Self {
            id,
            audit: outside.audit.share(),
            outside,
            limiter: Arc::new(Limiter::new(&regime.limits)),
            regime: ArcSwap::from_pointee(regime),
            lent: Lent::default(),
            names: Names::default(),
            pool: Pool::default(),
            upstream: Upstream::default(),
            ca,
            flows: Registry::default(),
            changing: Mutex::default(),
            watched: AtomicBool::default(),
        })
    }

    /// Decides about `ask`, and enters what is admitted in the books: from then on a change of policy
    /// that no longer allows it [cuts](Flow::cut) it. A resolver is asked where the policy is one.
    ///
    /// A connection counts against the sandbox's flows and rate; a request, whose connection was admitted
    /// already, does when it dials; a look-up does not.
    ///
    /// # Cancel safety
    ///
    /// Nothing was admitted.
    pub(crate) async fn admit(self: &Arc<Self>, ask: Ask) -> Result<Flow, Denial> {
        match self.prepare(ask.via).await {
            Ok(permit) => self.enter(ask, permit),
            Err(reason) => Err(self.denied(&ask, reason, None)),
        }
    }

    /// All that may have to be waited for before a decision; and what the flow will count as.
    async fn prepare(self: &Arc<Self>, via: Via) -> Result<Option<Permit>, Reason> {
        self.audit.turn().await;
        self.audit.ready().await?;
        if self.flows.closed() {
            return Err(Reason::Closed);
        }
        let permit = self.permit(via)?;
        if self.regime.load().asks() {
            Box::pin(self.consult()).await?;
        }
        Ok(permit)
    }

    /// Decides, and enters in the books what is allowed. Never waits.
    fn enter(self: &Arc<Self>, ask: Ask, permit: Option<Permit>) -> Result<Flow, Denial> {
        let regime = self.regime.load_full();
        let verdict = policy::decide(&regime.snapshot, &ask.question());
        if !verdict.allows() {
            return Err(self.denied(&ask, verdict.reason, Some(&verdict)));
        }
        let Some(entry) = self.flows.enter(&ask) else {
            return Err(self.denied(&ask, Reason::Closed, None));
        };
        // From here on the flow leaves the books whatever happens.
        let mut flow = Flow::new(Arc::clone(self), ask, verdict, regime, entry, permit);
        // A change that had looked through the books before this was in them did not see it.
        if !flow.is_current()
            && let Err(verdict) = flow.decide()
        {
            flow.forget();
            return Err(self.denied(&flow.ask, verdict.reason, Some(&verdict)));
        }
        self.admitted(&flow);
        // A look-up is over by the time that anything could be found out.
        if flow.ask.via != Via::Dns {
            self.watch();
        }
        Ok(flow)
    }

    fn permit(self: &Arc<Self>, via: Via) -> Result<Option<Permit>, Reason> {
        if via.is_request() || via == Via::Dns {
            return Ok(None);
        }
        self.limiter.flow().map(Some)
    }

    /// What the policy says to a host, without admitting or recording anything.
    ///
    /// # Errors
    ///
    /// [`Reason::ResolverFailed`].
    pub(crate) async fn would(self: &Arc<Self>, host: &Host, port: u16) -> Result<Verdict, Reason> {
        self.consult().await?;
        let question = Question {
            host,
            port: Some(port),
            scheme: None,
            request: None,
        };
        Ok(policy::decide(&self.regime.load().snapshot, &question))
    }

    /// Ends the sandbox: all flows are cut, and nothing is admitted any more.
    pub(crate) fn close(&self) {
        self.flows.close(Reason::Closed);
    }
}

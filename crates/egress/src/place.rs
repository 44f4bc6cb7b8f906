//! One sandbox at the boundary: its policy, its flows, its names, its secrets.
//!
//! A door turns what somebody inside asks for into an [`Ask`], has it admitted, dials, and carries. It
//! never decides, resolves or connects by itself.

use std::sync::Arc;

use arc_swap::ArcSwap;
use namzu_types::SandboxId;
use tokio::net::TcpStream;

use crate::boundary::Outside;
use crate::broker::Broker;
use crate::denial::Denial;
use crate::door::names::Names;
use crate::http::pool::Pool;
use crate::limits::Limiter;
use crate::policy::{Snapshot, Verdict};
use crate::tls::ca::Ca;
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

/// What somebody inside asks for.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) via: Via,
    pub(crate) host: Host,
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
    pub(crate) limiter: Limiter,
    pub(crate) names: Names,
    pub(crate) pool: Pool,
    /// Absent where no rule ended TLS when the sandbox was made: nothing inside would trust it.
    pub(crate) ca: Option<Ca>,
}

/// Something that was admitted and is not over yet. Dropping it ends it in the books.
pub(crate) struct Flow {
    pub(crate) place: Arc<Place>,
    pub(crate) ask: Ask,
    pub(crate) verdict: Verdict,
    /// What decided it: the secrets it is given are of the same policy as the rule.
    pub(crate) regime: Arc<Regime>,
}

impl Place {
    /// A connection counts against the sandbox's flows and rate; a request, whose connection was admitted
    /// already, does when it dials.
    ///
    /// Decides about `ask`, and enters what is admitted in the books: from then on a change of policy
    /// that no longer allows it [cuts](Flow::cut) it. A resolver is asked where the policy is one.
    pub(crate) async fn admit(self: &Arc<Self>, ask: Ask) -> Result<Flow, Denial> {
        Err(Denial::of(&ask, Reason::DenyAll))
    }

    /// Records a denial that was found out before there was a question to decide: malformed bytes.
    pub(crate) fn refuse(&self, via: Via, raw: &str, reason: Reason) -> Denial {
        let _ = (via, raw);
        Denial::bare(reason)
    }
}

impl Flow {
    /// Decides anew with what is now known of it: the scheme, or method and path.
    pub(crate) fn refine(&mut self, scheme: Scheme) -> Result<(), Denial> {
        self.ask.scheme = Some(scheme);
        Err(Denial::of(&self.ask, Reason::DenyAll))
    }

    /// Resolves, screens all addresses, dials one of them and checks that it is who answered.
    pub(crate) async fn dial(&self) -> Result<TcpStream, Denial> {
        Err(Denial::of(&self.ask, Reason::DialFailed))
    }

    /// Waits until the flow must end: the policy changed, or the sandbox ended.
    pub(crate) async fn cut(&self) -> Reason {
        std::future::pending().await
    }

    /// Counts bytes that went out of the sandbox, and says when they were too many.
    pub(crate) fn up(&self, bytes: u64) -> Result<(), Reason> {
        let _ = bytes;
        Ok(())
    }

    /// Counts bytes that went into the sandbox, and says when they were too many.
    pub(crate) fn down(&self, bytes: u64) -> Result<(), Reason> {
        let _ = bytes;
        Ok(())
    }

    /// Ends it in the books, with the reason if it was not of its own accord.
    pub(crate) fn end(self, why: Option<Reason>) {
        let _ = why;
    }
}

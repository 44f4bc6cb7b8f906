//! The boundary as a proxy by itself, for programs that are not in a sandbox of ours.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};

use namzu_core::egress::Doors;
use namzu_core::{Error, ErrorCode, Result};
use namzu_types::{EgressPolicy, SandboxId};

use crate::{Boundary, BoundaryBuilder, Change, Egress, Explanation};

/// What the audit calls whoever uses it.
const ID: &str = "proxy";

/// A plain allowlisting proxy: HTTP and SOCKS5 on one port, for whoever reaches it.
///
/// It is a wall only where something else makes it the only way out, such as a network namespace, a
/// container network without a route, or a firewall. A program that does not use it is not held by it. It
/// asks for no password: whoever can connect to its port is let out as the policy says, so it listens on
/// the loopback unless told otherwise.
///
/// A rule that needs to see requests inside TLS works for programs that trust its
/// [CA](Self::ca_pem).
pub struct EgressProxy {
    egress: Egress,
    address: SocketAddr,
}

/// Sets up an [`EgressProxy`].
#[derive(Debug, Default)]
pub struct EgressProxyBuilder {
    policy: EgressPolicy,
    bind: Option<SocketAddr>,
    boundary: Option<Boundary>,
}

impl EgressProxyBuilder {
    /// What may leave. Without it nothing does.
    #[must_use]
    pub fn policy(mut self, policy: EgressPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Where it listens. Without it a free port of 127.0.0.1.
    #[must_use]
    pub const fn bind(mut self, address: SocketAddr) -> Self {
        self.bind = Some(address);
        self
    }

    /// The boundary that it is a door of, for other name servers, roots, limits or an audit log.
    #[must_use]
    pub fn boundary(mut self, boundary: Boundary) -> Self {
        self.boundary = Some(boundary);
        self
    }

    /// Starts it, in the Tokio runtime that this is called in.
    ///
    /// # Errors
    ///
    /// `config_invalid` with every reason for a policy that is none; `invalid_argument` where the address
    /// cannot be listened on.
    pub async fn start(self) -> Result<EgressProxy> {
        let boundary = match self.boundary {
            Some(boundary) => boundary,
            // It reads files.
            None => tokio::task::spawn_blocking(|| BoundaryBuilder::default().build())
                .await
                .map_err(|why| internal(why.into()))??,
        };
        let id: SandboxId = ID.parse().map_err(|why| internal(Box::new(why)))?;
        let egress = boundary.admit(&id, &self.policy).await?;
        let bind = self.bind.unwrap_or((Ipv4Addr::LOCALHOST, 0).into());
        let listen = || {
            let listener = std::net::TcpListener::bind(bind)?;
            let address = listener.local_addr()?;
            egress.serve(Doors {
                proxy: vec![listener],
                ..Doors::default()
            })?;
            Ok(address)
        };
        let address = listen().map_err(|why: std::io::Error| {
            Error::new(
                ErrorCode::InvalidArgument,
                format!("cannot listen on `{bind}`"),
            )
            .with_source(why)
        })?;
        Ok(EgressProxy { egress, address })
    }
}

fn internal(why: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::new(ErrorCode::Internal, "cannot start the proxy").with_source(why)
}

impl EgressProxy {
    /// Starts to set one up.
    #[must_use]
    pub fn builder() -> EgressProxyBuilder {
        EgressProxyBuilder::default()
    }

    /// Where it listens.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The certificate that programs must trust where a rule needs to see requests inside TLS, as PEM;
    /// `None` where the first policy has no such rule.
    #[must_use]
    pub fn ca_pem(&self) -> Option<String> {
        self.egress.ca_pem()
    }

    /// Puts another policy in force, as [`Egress::set_policy`] does.
    ///
    /// # Errors
    ///
    /// `config_invalid` with every reason; the old policy stays.
    pub async fn set_policy(&self, policy: &EgressPolicy) -> Result<Change> {
        self.egress.set_policy(policy).await
    }

    /// What the policy now says to `host[:port]` (without a port: 443).
    ///
    /// # Errors
    ///
    /// `invalid_argument` for what is no host.
    pub async fn explain(&self, authority: &str) -> Result<Explanation> {
        self.egress.explain(authority).await
    }

    /// Closes its port and ends what it carries, as dropping it does.
    pub fn stop(self) {
        drop(self);
    }
}

impl fmt::Debug for EgressProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EgressProxy")
            .field("address", &self.address)
            .field("egress", &self.egress)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::Name;

    /// One request over a connection of its own, and all that came back.
    async fn talk(proxy: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(proxy).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn it_lets_out_what_the_policy_names_until_it_is_stopped() {
        let upstream = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = upstream.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = upstream.accept().await.unwrap();
                stream.write_all(b"hello").await.unwrap();
            }
        });
        let names = [(
            Name::parse("a.test").unwrap(),
            vec![Ipv4Addr::LOCALHOST.into()],
        )];
        let policy = format!(
            r#"{{"kind": "static", "rules": [{{"host": "a.test", "ports": [{port}], "scheme": "tcp", "inward": ["127.0.0.1/32"]}}]}}"#
        );
        let proxy = EgressProxy::builder()
            .policy(serde_json::from_str(&policy).unwrap())
            .boundary(Boundary::builder().names(names).build().unwrap())
            .start()
            .await
            .unwrap();
        let at = proxy.local_addr();
        assert!(at.ip().is_loopback());

        let connect =
            |host: &str| format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
        let answer = talk(at, &connect("a.test")).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.ends_with("hello"), "{answer}");
        let answer = talk(at, &connect("b.test")).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains("x-egress-reason: not_listed"), "{answer}");

        let explained = proxy.explain(&format!("a.test:{port}")).await.unwrap();
        assert!(explained.allowed);
        proxy.set_policy(&EgressPolicy::DenyAll).await.unwrap();
        let answer = talk(at, &connect("a.test")).await;
        assert!(answer.contains("x-egress-reason: deny_all"), "{answer}");

        proxy.stop();
        // The task that listened ends when the runtime next comes by.
        while TcpStream::connect(at).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_policy_with_a_fault_does_not_start() {
        let started = EgressProxy::builder()
            .policy(EgressPolicy::hosts(["*"]))
            .boundary(Boundary::builder().names([]).build().unwrap())
            .start()
            .await;
        let why = started.unwrap_err();
        assert_eq!(why.code(), ErrorCode::ConfigInvalid);
        assert_eq!(why.reasons().len(), 1, "{why:?}");
    }
}

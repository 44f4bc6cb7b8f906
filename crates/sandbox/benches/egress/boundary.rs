//! The boundary in a process of its own: as a proxy, and as the way out of a real sandbox.

use std::io::BufRead;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use namzu_sandbox::egress::{Boundary, EgressProxy, Name};
use namzu_sandbox::types::{Access, Workspace};
use namzu_sandbox::{
    EgressPolicy, ExecRequest, SandboxProviderConfig, SandboxSpec, create_sandbox_provider,
};
use serde_json::json;

use crate::Result;

/// The name of the server.
pub(crate) const NAME: &str = "up.test";
/// It has as many others. Each leads to an address of its own inside: to one, a program may connect some
/// 28,000 times a minute, and then its kernel lacks ports.
pub(crate) const ALIASES: usize = 16;

/// One of the others.
pub(crate) fn alias(at: usize) -> String {
    format!("n{at}.{NAME}")
}

/// The ports of the server, and how to verify it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Served {
    pub(crate) tcp: Vec<u16>,
    pub(crate) http: Option<u16>,
    pub(crate) https: Option<u16>,
    /// PEM file of who vouches for it.
    pub(crate) roots: Option<PathBuf>,
}

impl Served {
    fn policy(&self) -> Result<EgressPolicy> {
        let rule = |ports: &[u16], scheme: &str| json!({"host": format!("**.{NAME}"), "ports": ports, "scheme": scheme, "inward": ["127.0.0.1/32"]});
        let mut rules = Vec::new();
        if !self.tcp.is_empty() {
            rules.push(rule(&self.tcp, "tcp"));
        }
        if let Some(port) = self.http {
            rules.push(rule(&[port], "http"));
        }
        if let Some(port) = self.https {
            let mut rule = rule(&[port], "https");
            rule["tls"] = "terminate".into();
            rules.push(rule);
        }
        Ok(serde_json::from_value(json!({
            "kind": "static",
            "rules": rules,
            "limits": {"flows": 100_000, "flowsPerSecond": 1_000_000},
        }))?)
    }

    /// As the arguments of a role.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let tcp = self.tcp.iter().map(|port| format!("tcp={port}"));
        let http = self.http.iter().map(|port| format!("http={port}"));
        let https = self.https.iter().map(|port| format!("https={port}"));
        let roots = self
            .roots
            .iter()
            .map(|at| format!("roots={}", at.display()));
        tcp.chain(http).chain(https).chain(roots).collect()
    }

    fn read(arguments: &[String]) -> Result<Self> {
        let mut read = Self::default();
        for argument in arguments {
            match argument.split_once('=') {
                Some(("tcp", port)) => read.tcp.push(port.parse()?),
                Some(("http", port)) => read.http = Some(port.parse()?),
                Some(("https", port)) => read.https = Some(port.parse()?),
                Some(("roots", at)) => read.roots = Some(at.into()),
                _ => return Err(format!("`{argument}` is not understood").into()),
            }
        }
        Ok(read)
    }

    fn boundary(&self) -> Result<Boundary> {
        let mut names = Vec::new();
        for name in (0..ALIASES).map(alias).chain([NAME.to_owned()]) {
            names.push((Name::parse(&name)?, vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]));
        }
        let mut builder = Boundary::builder().names(names);
        if let Some(roots) = &self.roots {
            builder = builder.roots(roots);
        }
        Ok(builder.build()?)
    }
}

/// A proxy by itself. Says its port; told `narrow`, it lets nothing but the first port through, told `widen`
/// all again, and says what that did.
pub(crate) fn act_proxy(arguments: &[String]) -> Result<()> {
    let served = Served::read(arguments)?;
    let mut narrow = served.clone();
    narrow.tcp.truncate(1);
    let (wide, narrow) = (served.policy()?, narrow.policy()?);
    crate::runtime()?.block_on(async {
        let proxy = EgressProxy::builder()
            .policy(wide.clone())
            .boundary(served.boundary()?)
            .start()
            .await?;
        println!("{}", proxy.local_addr().port());
        while let Some(line) = told().await? {
            let policy = if line == "narrow" { &narrow } else { &wide };
            let change = proxy.set_policy(policy).await?;
            println!("{}", serde_json::to_string(&change)?);
        }
        Ok(())
    })
}

/// A sandbox that finds this program in its workspace. Says when it is there; runs the command lines that it
/// is told, and says what they print.
pub(crate) fn act_sandbox(arguments: &[String]) -> Result<()> {
    let served = Served::read(arguments)?;
    let program = std::env::current_exe()?;
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join("bench");
    std::fs::copy(&program, &copy)?;
    crate::runtime()?.block_on(async {
        let config = SandboxProviderConfig::from_json_str(
            r#"{"backend": {"tier": "process", "engine": "bubblewrap"}}"#,
        )?;
        let provider = create_sandbox_provider(&config)?.with_boundary(served.boundary()?);
        let sandbox = provider
            .create(SandboxSpec {
                egress: Some(served.policy()?),
                workspace: Workspace::Host {
                    path: folder.path().to_owned(),
                    access: Access::ReadOnly,
                },
                ..SandboxSpec::default()
            })
            .await?;
        println!("ready");
        while let Some(line) = told().await? {
            let program = format!("{}/bench", sandbox.workspace());
            let words = line.split(' ').map(str::to_owned);
            let argv: Vec<String> = std::iter::once(program).chain(words).collect();
            let output = sandbox.exec(ExecRequest::new(argv)).await?;
            let said = output.stdout.text_lossy().trim().to_owned();
            println!(
                "{said}{}",
                output.stderr.text_lossy().trim().replace('\n', " ")
            );
        }
        sandbox.destroy().await?;
        Ok(())
    })
}

/// The next line, without keeping a thread of the runtime from its work.
async fn told() -> Result<Option<String>> {
    let read = tokio::task::spawn_blocking(|| std::io::stdin().lock().lines().next()).await?;
    Ok(read.transpose()?)
}

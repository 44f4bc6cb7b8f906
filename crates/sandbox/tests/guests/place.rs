//! A sandbox at a boundary of its own, and what is asserted of them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use namzu_sandbox::egress::{AuditSink, Boundary};
use namzu_sandbox::types::{
    Access, EgressCredential, EgressRule, EgressScheme, Secret, ValueSource, Workspace,
};
use namzu_sandbox::{
    Chain, EgressPolicy, ExecRequest, ExitStatus, Sandbox, SandboxProvider, SandboxSpec,
};
use serde_json::Value;

use crate::bench::{Bench, backend};
use crate::guest::Way;
use crate::outside::{DENIED, PLAIN, TOKEN, WITH_TOKEN};

/// Nothing takes longer: a hang is a failure.
const DEADLINE: Duration = Duration::from_secs(180);

/// Less than any deadline of the boundary, so that whoever is answered within it waited for none of them.
pub(crate) const AT_ONCE: Duration = Duration::from_secs(9);

fn policy(way: Way) -> EgressPolicy {
    let below = |host: &str| {
        [
            host.to_owned(),
            format!("ws.{host}"),
            format!("grpc.{host}"),
        ]
    };
    let mut policy = EgressPolicy::hosts(below(PLAIN));
    let EgressPolicy::Static {
        allowed_hosts,
        rules,
        credentials,
        ..
    } = &mut policy
    else {
        unreachable!("`hosts` makes a static one");
    };
    if way == Way::Ended {
        allowed_hosts.clear();
        rules.extend(below(WITH_TOKEN).map(|host| EgressRule {
            host,
            credential: Some("token".to_owned()),
            ..EgressRule::default()
        }));
        let inject = EgressCredential::Inject {
            source: ValueSource::Value(Secret::new(TOKEN)),
            header: "x-guest-token".to_owned(),
            format: "{}".to_owned(),
        };
        *credentials = BTreeMap::from([("token".to_owned(), inject)]);
    } else {
        rules.push(EgressRule {
            host: PLAIN.to_owned(),
            ports: vec![22],
            scheme: EgressScheme::Tcp,
            ..EgressRule::default()
        });
    }
    policy
}

/// Lines of the audit.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<Value>>>);

impl AuditSink for Lines {
    fn write(&self, line: &[u8]) -> io::Result<()> {
        let line = serde_json::from_slice(line)?;
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(line);
        Ok(())
    }
}

/// A sandbox.
pub(crate) struct Place {
    bench: Arc<Bench>,
    sandbox: Sandbox,
    audit: Lines,
    way: Way,
    host: &'static str,
}

/// How a script ended, and both of its outputs as one.
#[derive(Debug)]
pub(crate) struct Ran {
    status: ExitStatus,
    pub(crate) took: Duration,
    text: String,
    audit: Vec<Value>,
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert!(self.status.success(), "{self}");
        self.text
    }

    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert!(!self.status.success(), "it worked: {self}");
        self.text
    }
}

impl fmt::Display for Ran {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?} after {:?}\n{}", self.status, self.took, self.text)?;
        self.audit.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Place {
    /// A sandbox for this way.
    pub(crate) fn open(bench: &Arc<Bench>, way: Way) -> Self {
        Self::try_open(bench, way).expect("a sandbox")
    }

    /// The same, if this host can hold one.
    pub(crate) fn try_open(bench: &Arc<Bench>, way: Way) -> Result<Self, String> {
        let _inside = bench.runtime.enter();
        let audit = Lines::default();
        let boundary = Boundary::builder()
            .lookup(bench.outside.zone.clone())
            .roots(&bench.root)
            .audit(audit.clone())
            .build()
            .expect("a boundary");
        let backend = backend()?;
        let host = match way {
            Way::Passthrough => PLAIN,
            Way::Ended => WITH_TOKEN,
            Way::Denied => DENIED,
        };
        let at = |path: &Path| {
            let below = path
                .strip_prefix(&bench.installed)
                .expect("a path in the workspace");
            format!("/workspace/{}", below.display())
        };
        let env = [
            ("HOST", host.to_owned()),
            ("GUEST", at(&bench.folder.path().join("guest"))),
            ("PYTHON", at(&bench.installed.join("python/bin/python"))),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ];
        let spec = SandboxSpec {
            workspace: Workspace::Host {
                path: bench.installed.clone(),
                access: Access::ReadOnly,
            },
            egress: Some(policy(way)),
            env: env.map(|(name, value)| (name.to_owned(), value)).into(),
            ..SandboxSpec::default()
        };
        let provider =
            SandboxProvider::new(Arc::new(backend), SandboxSpec::default()).with_boundary(boundary);
        let sandbox = bench.runtime.block_on(provider.create(spec));
        Ok(Self {
            bench: Arc::clone(bench),
            sandbox: sandbox.map_err(|why| Chain(&why).to_string())?,
            audit,
            way,
            host,
        })
    }

    /// Runs a script in an empty folder that the next one finds again.
    pub(crate) fn run(&self, script: &str) -> Ran {
        let script = format!("mkdir -p ~/work; cd ~/work\n{script}");
        let request = ExecRequest {
            timeout: Some(DEADLINE),
            ..ExecRequest::new(["/bin/sh", "-ec", &script])
        };
        let begun = Instant::now();
        let output = self.bench.runtime.block_on(self.sandbox.exec(request));
        let output = output.expect("a script that ends");
        Ran {
            status: output.status,
            took: begun.elapsed(),
            text: format!(
                "{}{}",
                output.stdout.text_lossy(),
                output.stderr.text_lossy()
            ),
            audit: self.lines(),
        }
    }

    fn lines(&self) -> Vec<Value> {
        self.audit
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The lines about whom it went to, and what is below.
    fn mine(&self) -> Vec<Value> {
        self.settle();
        let mut lines = self.lines();
        lines.retain(|line| {
            line["host"]
                .as_str()
                .is_some_and(|host| host.ends_with(self.host))
        });
        lines
    }

    /// Returns once all that was decided is written down: a change of policy, from it to itself, is written
    /// behind it.
    fn settle(&self) {
        let change = self.sandbox.set_network_policy(policy(self.way));
        let change = self.bench.runtime.block_on(change);
        change.expect("the same policy again");
        let begun = Instant::now();
        while !self.lines().iter().any(|line| line["event"] == "policy") {
            assert!(begun.elapsed() < DEADLINE, "{:#?}", self.lines());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// All that left was allowed, and nobody looked into it.
    pub(crate) fn was_passed_through(&self) {
        let lines = self.mine();
        assert!(
            lines.iter().any(|line| line["verdict"] == "allow"),
            "{lines:#?}"
        );
        for line in lines {
            assert!(
                line["verdict"] != "deny" && line["via"] != "intercepted",
                "{line}"
            );
        }
    }

    /// All that left was allowed, request by request, with the secret.
    pub(crate) fn was_ended(&self) {
        let lines = self.mine();
        let ended = |line: &Value| line["via"] == "intercepted" && line["credential"] == "token";
        assert!(lines.iter().any(ended), "{lines:#?}");
        for line in lines {
            assert!(line["verdict"] != "deny", "{line}");
        }
    }

    /// Nothing left, and it is written down why.
    pub(crate) fn was_denied(&self) {
        let lines = self.mine();
        assert!(!lines.is_empty(), "nothing was written down");
        for line in lines {
            assert!(
                line["verdict"] == "deny" && line["reason"] == "not_listed",
                "{line}"
            );
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What could not be removed is gone with this process.
        let _ = self.bench.runtime.block_on(self.sandbox.destroy());
    }
}

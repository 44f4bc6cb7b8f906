//! A provider over the backend, and shell scripts in its sandboxes.

mod wired;

use std::sync::Arc;

use namzu_backend_process::{Config, ProcessBackend};
use namzu_client::{ExecRequest, ExitStatus, Sandbox, SandboxProvider};
use namzu_core::Guarded;
use namzu_types::SandboxSpec;

pub(crate) use self::wired::{Host, Wired, doors, provider_with_doors, wired};

pub(crate) fn provider() -> SandboxProvider {
    let backend = ProcessBackend::new(&Config::default()).expect("this host carries the tier");
    SandboxProvider::new(Arc::new(Guarded(backend)), SandboxSpec::default())
}

pub(crate) async fn sandbox(spec: SandboxSpec) -> Sandbox {
    provider().create(spec).await.expect("a sandbox")
}

/// How a script ended, and both of its outputs as one.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) text: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert!(self.status.success(), "{self:?}");
        self.text
    }

    #[track_caller]
    pub(crate) fn refused(self) -> String {
        assert!(!self.status.success(), "it worked: {self:?}");
        self.text
    }
}

pub(crate) async fn run<S: Into<Vec<u8>>>(
    sandbox: &Sandbox,
    argv: impl IntoIterator<Item = S>,
) -> Ran {
    let output = sandbox.exec(ExecRequest::new(argv)).await.expect("exec");
    Ran {
        status: output.status,
        text: format!(
            "{}{}",
            output.stdout.text_lossy(),
            output.stderr.text_lossy()
        ),
    }
}

pub(crate) async fn sh(sandbox: &Sandbox, script: &str) -> Ran {
    run(sandbox, ["/bin/sh", "-c", script]).await
}

pub(crate) async fn python(sandbox: &Sandbox, script: &str) -> Ran {
    run(sandbox, ["python3", "-c", script]).await
}

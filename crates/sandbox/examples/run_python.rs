//! Create a sandbox, run one program, read what held it, take it down.

use namzu_sandbox::{
    ExecRequest, Result, SandboxProviderConfig, SandboxSpec, create_sandbox_provider,
};

#[tokio::main]
async fn main() -> Result<()> {
    // The process tier, its best engine on this host, and nothing leaves.
    let provider = create_sandbox_provider(&SandboxProviderConfig::default())?;
    let sandbox = provider.create(SandboxSpec::default()).await?;
    print(&sandbox.receipt().to_string());

    let output = sandbox
        .exec(ExecRequest::new(["python3", "-c", "print(2**64)"]))
        .await?;
    print(&output.stdout.text_lossy());
    sandbox.destroy().await
}

#[expect(clippy::print_stdout, reason = "an example has something to show")]
fn print(text: &str) {
    print!("{text}");
}

//! Follow a long command as it prints, and stop it when it takes too long.

use std::time::Duration;

use namzu_sandbox::client::Event;
use namzu_sandbox::{
    ExecRequest, Result, SandboxCreateConfig, SandboxProviderConfig, create_sandbox_provider,
};
use serde_json::json;

#[tokio::main]
async fn main() -> Result<()> {
    let config = SandboxProviderConfig::from_value(&json!({
        "backend": {"tier": "process"},
        "defaultMemoryLimitMb": 256,
    }))?;
    let provider = create_sandbox_provider(&config)?;
    // What is not asked for here is the configuration's.
    let options = SandboxCreateConfig::from_value(&json!({"env": {"WHO": "world"}}))?;
    let sandbox = provider.create(options.on(&config.defaults())).await?;

    let mut request = ExecRequest::new(["sh", "-c", "while sleep 1; do echo hello $WHO; done"]);
    request.timeout = Some(Duration::from_secs(5));
    // Dropping `process` would end the command and everything it started.
    let mut process = sandbox.spawn(request).await?;
    while let Some(event) = process.next().await? {
        match event {
            Event::Stdout(bytes) => print(&String::from_utf8_lossy(&bytes)),
            Event::End(ended) if ended.timed_out => print("it ran longer than it may\n"),
            _ => {}
        }
    }
    sandbox.destroy().await
}

#[expect(clippy::print_stdout, reason = "an example has something to show")]
fn print(text: &str) {
    print!("{text}");
}

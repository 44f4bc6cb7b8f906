//! One sandbox for a whole session: files in and out, several commands, a port opened to the host.

use namzu_sandbox::{
    ExecRequest, Result, SandboxProviderConfig, SandboxSpec, create_sandbox_provider,
};

const PROGRAM: &str = "import json; json.dump({'answer': 42}, open('result.json', 'w'))";

#[tokio::main]
async fn main() -> Result<()> {
    let provider = create_sandbox_provider(&SandboxProviderConfig::default())?;
    let sandbox = provider.create(SandboxSpec::default()).await?;

    let files = sandbox.files();
    files.write("main.py", PROGRAM).await?;
    let ran = sandbox
        .exec(ExecRequest::new(["python3", "main.py"]))
        .await?;
    if ran.status.success() {
        // At most 1 MiB of it: whatever comes out of a sandbox is capped.
        let result = files.read("result.json", 1 << 20).await?;
        print(&String::from_utf8_lossy(&result));
    } else {
        print(&ran.stderr.text_lossy());
    }

    // A server inside, reached from here though nothing leaves the sandbox.
    let server = [
        "python3",
        "-m",
        "http.server",
        "--bind",
        "127.0.0.1",
        "8000",
    ];
    let _server = sandbox.spawn(ExecRequest::new(server)).await?;
    // `expose` gives a byte stream to the port, once something listens there.
    match sandbox.expose(8000).await {
        Ok(_stream) => print("\nconnected\n"),
        Err(err) => print(&format!("\nnot listening yet: {err}\n")),
    }
    sandbox.destroy().await
}

#[expect(clippy::print_stdout, reason = "an example has something to show")]
fn print(text: &str) {
    print!("{text}");
}

//! One sandbox for a whole session: files in and out, several commands, a port opened to the host.

use namzu_sandbox::client::Event;
use namzu_sandbox::{ExecRequest, SandboxProviderConfig, SandboxSpec, create_sandbox_provider};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PROGRAM: &str = "import json; json.dump({'answer': 42}, open('result.json', 'w'))";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
        "-u",
        "-m",
        "http.server",
        "--bind",
        "127.0.0.1",
        "8000",
    ];
    let mut server = sandbox.spawn(ExecRequest::new(server)).await?;
    // It says so when it listens.
    while !matches!(server.next().await?, Some(Event::Stdout(_)) | None) {}
    let mut stream = sandbox.expose(8000).await?;
    stream
        .write_all(b"GET /result.json HTTP/1.0\r\n\r\n")
        .await?;
    let mut answer = String::new();
    stream.take(1 << 20).read_to_string(&mut answer).await?;
    print(&format!("\n{answer}\n"));
    server.kill().await?;
    sandbox.destroy().await?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "an example has something to show")]
fn print(text: &str) {
    print!("{text}");
}

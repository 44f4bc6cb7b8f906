//! What guests talk to: servers in a process of their own, in the network outside.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use namzu_sandbox::core::spawn;
use namzu_testkit::network::{Block, Network, Zone};

/// What every request to `token.test` has to bring.
pub(crate) const TOKEN: &str = "guest-token-0123456789abcdef";

/// The hosts of the three ways; below each there are `ws` and `grpc`.
pub(crate) const PLAIN: &str = "plain.test";
pub(crate) const WITH_TOKEN: &str = "token.test";
pub(crate) const DENIED: &str = "denied.test";

/// The servers. They end when this is dropped, or this process is gone: their standard input ends.
#[derive(Debug)]
pub(crate) struct Outside {
    servers: Child,
    /// Keeps the network.
    _network: Network,
    pub(crate) zone: Zone,
}

impl Outside {
    /// Starts them with this Python. What guests are to find is put into `folder`/guest.
    pub(crate) fn start(python: &Path, folder: &Path) -> io::Result<Self> {
        let network = Network::without_servers()?;
        let block = network.block();
        let zone = Zone::default();
        let mut names = Vec::new();
        for (host, grpc) in [(PLAIN, 3), (WITH_TOKEN, 4), (DENIED, 3)] {
            for (name, last) in [
                (host.to_owned(), 1),
                (format!("ws.{host}"), 2),
                (format!("grpc.{host}"), grpc),
            ] {
                zone.host(&name, block.v4(last));
                names.push(name);
            }
        }
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let (certificate, key) = network.certificate(&names)?;
        std::fs::create_dir_all(folder.join("guest"))?;
        std::fs::write(folder.join("cert.pem"), certificate)?;
        std::fs::write(folder.join("key.pem"), key)?;
        std::fs::write(folder.join("guest/ca.pem"), network.root_pem())?;
        let servers = spawn_servers(&network, block, python, folder.to_owned())?;
        Ok(Self {
            servers,
            _network: network,
            zone,
        })
    }
}

fn spawn_servers(
    network: &Network,
    block: Block,
    python: &Path,
    folder: PathBuf,
) -> io::Result<Child> {
    let python = python.to_owned();
    let mut servers = network.outside(move || {
        let mut command = spawn::command(python);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/guests/outside/main.py");
        let kept = ["PATH", "HOME"].map(|name| (name, std::env::var_os(name).unwrap_or_default()));
        command
            .arg("-B")
            .arg(script)
            .arg(folder)
            .arg(TOKEN)
            .args([1, 2, 3, 4].map(|last| block.v4(last).to_string()))
            .envs(kept)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        command.as_std_mut().spawn()
    })?;
    let mut said = String::new();
    if let Some(output) = servers.stdout.take() {
        BufReader::new(output).take(64).read_line(&mut said)?;
    }
    if said.trim() != "ready" {
        let how = servers.wait()?;
        return Err(io::Error::other(format!(
            "the servers outside do not start: {how}"
        )));
    }
    Ok(servers)
}

impl Drop for Outside {
    fn drop(&mut self) {
        drop(self.servers.stdin.take());
        let _ = self.servers.wait();
    }
}

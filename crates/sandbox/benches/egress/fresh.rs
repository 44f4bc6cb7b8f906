//! New tunnels, one after the other, each for one round trip.

use std::path::Path;
use std::time::Duration;

use crate::Result;
use crate::boundary::NAME;
use crate::client::Opened;
use crate::measure::Row;
use crate::peers::{squid, srt, tinyproxy};
use crate::proc::{Process, command, cpu, role};
use crate::sample::{middle, whole};
use crate::subject::{Ground, Kind, Subject};

const ROUNDS: usize = 5;
const SECONDS: u64 = 3;
const WORKERS: usize = 8;

/// Several rounds of one.
#[derive(Default)]
struct Rounds {
    each_second: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
    count: f64,
    cpu: Duration,
}

impl Rounds {
    fn add(&mut self, opened: &Opened, cpu: Duration) {
        self.each_second.push(opened.each_second);
        self.p50.push(opened.p50);
        self.p99.push(opened.p99);
        self.count += opened.count;
        self.cpu += cpu;
    }

    fn rate(&self) -> f64 {
        middle(&self.each_second)
    }

    /// Microseconds of the proxy for one tunnel.
    fn cost(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.count
    }

    fn told(&self, name: &str) -> String {
        let latency = |seconds: &[f64]| middle(seconds) * 1e3;
        format!(
            "{name}{}/s ({:.0} µs CPU; p50 {:.2} ms, p99 {:.1} ms)",
            whole(self.rate()),
            self.cost(),
            latency(&self.p50),
            latency(&self.p99)
        )
    }
}

pub(crate) fn rows(ground: &Ground) -> Result<Vec<Row>> {
    let served = ground.served();
    let port = ground.raw.port;
    let arguments = served.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut sandbox = role("sandbox", &arguments)?;
    if sandbox.line()? != "ready" {
        return Err("there is no sandbox".into());
    }
    let direct = Subject::direct();
    let proxy = Subject::ours(&served)?;
    let squid = squid(ground.folder())?;
    let tinyproxy = tinyproxy(ground.folder())?;
    let mut srt = srt(ground.folder(), None)?;
    let program = std::env::current_exe()?;
    let line =
        |door: &str, host: &str| format!("role=client {door} {host}:{port} {WORKERS} {SECONDS}");
    let mut inside = Rounds::default();
    let mut named = Rounds::default();
    let mut bridge = Rounds::default();
    let mut host =
        [&direct, &proxy, &squid, &tinyproxy].map(|subject| (subject, Rounds::default()));
    for _ in 0..ROUNDS {
        told(&mut sandbox, &line("proxy", NAME), &mut inside)?;
        told(&mut sandbox, &line("named", NAME), &mut named)?;
        if let Some(process) = &mut srt.process {
            let command = format!("{} {}", program.display(), line("proxy", "127.0.0.1"));
            told(process, &command, &mut bridge)?;
        }
        for (subject, rounds) in &mut host {
            let before = subject.cpu();
            let opened = from_host(subject, &program, port)?;
            rounds.add(&opened, subject.cpu() - before);
        }
    }
    let [(_, direct), (_, proxy), (_, squid), (_, tinyproxy)] = &host;
    let row = |figure, ours: &Rounds| {
        let (over_squid, over_srt) = (ours.rate() / squid.rate(), ours.rate() / bridge.rate());
        Row {
            figure,
            ours: ours.told(""),
            peer: [
                squid.told("squid, from the host, "),
                bridge.told("srt, from inside, "),
                tinyproxy.told("tinyproxy, from the host, "),
                direct.told("direct "),
            ]
            .join("; "),
            ratio: format!("{over_squid:.2} × squid, {over_srt:.1} × srt"),
            bound: "≥ 1.5 × squid, ≥ 8 × srt, ≤ 150 µs CPU",
            met: over_squid >= 1.5 && over_srt >= 8.0 && ours.cost() <= 150.0,
        }
    };
    Ok(vec![
        row("new tunnels from inside, 8 at once, by CONNECT", &inside),
        row("new tunnels from inside, by the address of a name", &named),
        Row {
            figure: "new tunnels from the host, by CONNECT",
            ours: proxy.told(""),
            peer: "as above".to_owned(),
            ratio: format!("{:.2} × squid", proxy.rate() / squid.rate()),
            bound: "–",
            met: true,
        },
    ])
}

/// Has a client run on the host. In a session of its own, as those in sandboxes have, or the kernel would
/// share the processors otherwise between them and the rest.
fn from_host(subject: &Subject, program: &Path, port: u16) -> Result<Opened> {
    let door = match subject.kind {
        Kind::Direct => "direct",
        _ => "proxy",
    };
    let host = subject.kind.host();
    let mut command = command("setsid");
    command
        .arg("--wait")
        .arg(program)
        .args(["role=client", door, &format!("{host}:{port}")])
        .args([WORKERS.to_string(), SECONDS.to_string()])
        .env("HTTP_PROXY", format!("http://127.0.0.1:{}", subject.port));
    let output = command.output()?;
    Opened::read(String::from_utf8_lossy(&output.stdout).trim())
}

/// Has a client run inside, and counts what it cost the process that holds the sandbox.
fn told(process: &mut Process, line: &str, rounds: &mut Rounds) -> Result<()> {
    let before = cpu(process.pid());
    let opened = Opened::read(&process.ask(line)?)?;
    rounds.add(&opened, cpu(process.pid()) - before);
    Ok(())
}

//! Requests in the clear, on connections that stay.

use std::path::Path;
use std::time::Duration;

use crate::Result;
use crate::measure::Row;
use crate::peers::{squid, srt};
use crate::proc::command;
use crate::sample::{middle, whole};
use crate::subject::{Ground, Kind, Subject};

const ROUNDS: usize = 5;
const SECONDS: u64 = 4;

/// Several rounds of one.
struct Served {
    kind: Kind,
    each_second: Vec<f64>,
    cpu: Duration,
    count: f64,
}

pub(crate) fn row(ground: &Ground) -> Result<Row> {
    let subjects = [
        Subject::direct(),
        Subject::ours(&ground.served())?,
        squid(ground.folder())?,
        srt(ground.folder(), None)?,
    ];
    let mut all = Vec::new();
    for subject in &subjects {
        all.push(Served {
            kind: subject.kind,
            each_second: Vec::new(),
            cpu: Duration::ZERO,
            count: 0.0,
        });
    }
    for _ in 0..ROUNDS {
        for (subject, served) in subjects.iter().zip(&mut all) {
            let before = subject.cpu();
            let rate = wrk(subject, ground.web.http, ground.folder())?;
            served.each_second.push(rate);
            served.cpu += subject.cpu() - before;
            served.count += rate * SECONDS as f64;
        }
    }
    let of = |kind: Kind| all.iter().find(|served| served.kind == kind);
    let rate = |kind: Kind| of(kind).map_or(0.0, |served| middle(&served.each_second));
    let cost = |kind: Kind| of(kind).map_or(0.0, |s| s.cpu.as_secs_f64() * 1e6 / s.count);
    let told = |kind: Kind| format!("{}/s ({:.0} µs CPU)", whole(rate(kind)), cost(kind));
    // tinyproxy lets no connection stay.
    let peers = [Kind::Squid, Kind::Srt];
    let peers = peers.map(|kind| format!("{} {}", kind.name(), told(kind)));
    let direct = whole(rate(Kind::Direct));
    let ratio = rate(Kind::Ours) / rate(Kind::Squid);
    Ok(Row {
        figure: "plain HTTP, 1 KiB pages, 32 connections that stay",
        ours: told(Kind::Ours),
        peer: format!("direct {direct}/s, {}", peers.join(", ")),
        ratio: format!("{ratio:.2} × squid"),
        bound: "≥ 2 × squid, ≤ 25 µs CPU",
        met: ratio >= 2.0 && cost(Kind::Ours) <= 25.0,
    })
}

/// Requests a second that wrk gets answered.
fn wrk(subject: &Subject, web: u16, folder: &Path) -> Result<f64> {
    let mut command = command("wrk");
    command.args(["--threads", "1", "--connections", "32", "--duration"]);
    command.arg(format!("{SECONDS}s"));
    let host = format!("{}:{web}", subject.kind.host());
    if subject.kind == Kind::Direct {
        command.arg(format!("http://127.0.0.1:{web}/page"));
    } else {
        let script = folder.join("wrk.lua");
        std::fs::write(&script, format!("wrk.path = \"http://{host}/page\"\n"))?;
        command.arg("--script").arg(script);
        command.args(["--header", &format!("Host: {host}")]);
        if let Some(password) = &subject.password {
            let field = format!("Proxy-Authorization: {password}");
            command.args(["--header", &field]);
        }
        command.arg(format!("http://127.0.0.1:{}/", subject.port));
    }
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if said.contains("Non-2xx") || said.contains("Socket errors") {
        return Err(format!("{}: {said}", subject.kind.name()).into());
    }
    let rate = said
        .lines()
        .find_map(|line| line.strip_prefix("Requests/sec:"));
    Ok(rate.ok_or_else(|| said.to_string())?.trim().parse()?)
}

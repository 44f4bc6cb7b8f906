//! A gibibyte through one tunnel.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use crate::Result;
use crate::measure::Row;
use crate::peers::{mitmproxy, squid, srt};
use crate::sample::middle;
use crate::subject::{Ground, Kind, Subject};
use crate::upstream::{CHUNK, DOWN, GIB, UP};

const ROUNDS: usize = 5;

/// Rate and cost of one way through one proxy, over all rounds.
struct Carried {
    kind: Kind,
    /// Gigabytes a second.
    rates: Vec<f64>,
    /// Seconds of processor time.
    costs: Vec<f64>,
}

pub(crate) fn rows(ground: &Ground) -> Result<Vec<Row>> {
    let subjects = [
        Subject::direct(),
        Subject::ours(&ground.served())?,
        squid(ground.folder())?,
        srt(ground.folder(), None)?,
        mitmproxy(ground.folder(), false)?,
    ];
    Ok(vec![
        row("tunnel of 1 GiB, down", &subjects, ground.raw.port, down)?,
        row("tunnel of 1 GiB, up", &subjects, ground.raw.port, up)?,
    ])
}

fn row(
    figure: &'static str,
    subjects: &[Subject],
    port: u16,
    carry: fn(TcpStream) -> Result<()>,
) -> Result<Row> {
    let mut all: Vec<Carried> = subjects
        .iter()
        .map(|subject| Carried {
            kind: subject.kind,
            rates: Vec::new(),
            costs: Vec::new(),
        })
        .collect();
    for _ in 0..ROUNDS {
        for (subject, carried) in subjects.iter().zip(&mut all) {
            let stream = subject.door(port).open()?;
            let (before, began) = (subject.cpu(), Instant::now());
            carry(stream).map_err(|why| format!("{}: {why}", subject.kind.name()))?;
            let took = began.elapsed().as_secs_f64();
            carried.rates.push(GIB as f64 / took / 1e9);
            carried.costs.push((subject.cpu() - before).as_secs_f64());
        }
    }
    let of = |kind: Kind| all.iter().find(|carried| carried.kind == kind);
    let rate = |kind: Kind| of(kind).map_or(0.0, |carried| middle(&carried.rates));
    let cost = |kind: Kind| of(kind).map_or(0.0, |carried| mean(&carried.costs));
    let peers = all.iter().filter(|carried| carried.kind != Kind::Ours);
    let peers: Vec<String> = peers
        .map(|carried| match carried.kind {
            Kind::Direct => format!("direct {:.2} GB/s", rate(carried.kind)),
            kind => format!("{} {:.2} ({:.2})", kind.name(), rate(kind), cost(kind)),
        })
        .collect();
    let (ours, direct) = (rate(Kind::Ours), rate(Kind::Direct));
    Ok(Row {
        figure,
        ours: format!("{ours:.2} GB/s; {:.2} CPU-s/GiB", cost(Kind::Ours)),
        peer: peers.join(", "),
        ratio: format!(
            "{:.2} × direct, {:.2} × squid",
            ours / direct,
            ours / rate(Kind::Squid)
        ),
        bound: "≥ 0.55 × direct, ≤ 0.25 CPU-s/GiB",
        met: ours >= 0.55 * direct && cost(Kind::Ours) <= 0.25,
    })
}

/// The kernel counts in hundredths of a second: over all rounds that is precise enough.
fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len() as f64
}

fn down(mut stream: TcpStream) -> Result<()> {
    stream.write_all(&[DOWN])?;
    let mut chunk = vec![0; CHUNK];
    let mut seen = 0;
    while seen < GIB {
        match stream.read(&mut chunk)? {
            0 => return Err(format!("it ended after {seen} bytes").into()),
            read => seen += read as u64,
        }
    }
    Ok(())
}

fn up(mut stream: TcpStream) -> Result<()> {
    stream.write_all(&[UP])?;
    let chunk = vec![0x5a; CHUNK];
    for _ in 0..GIB / CHUNK as u64 {
        stream.write_all(&chunk)?;
    }
    let mut answer = [0];
    stream.read_exact(&mut answer)?;
    Ok(())
}

//! What tunnels cost while nothing flows.

use std::time::Duration;

use crate::Result;
use crate::boundary::Served;
use crate::client::trip;
use crate::measure::Row;
use crate::peers::squid;
use crate::proc::{children, mib, rss};
use crate::subject::{Raw, Subject};

const TUNNELS: usize = 1_000;
/// For what was needed to open them to be given back.
const SETTLED: Duration = Duration::from_secs(2);

pub(crate) fn row() -> Result<Row> {
    let raw = Raw::start()?;
    let folder = tempfile::tempdir()?;
    let served = Served {
        tcp: vec![raw.port],
        ..Served::default()
    };
    let ours = Subject::ours(&served)?;
    let before = children(ours.pid());
    let (idle, held) = held(&ours, raw.port)?;
    let more = children(ours.pid()).saturating_sub(before);
    let (squid_idle, squid_held) = self::held(&squid(folder.path())?, raw.port)?;
    let grew = held.saturating_sub(idle);
    let squid_grew = squid_held.saturating_sub(squid_idle);
    Ok(Row {
        figure: "1,000 idle tunnels",
        ours: format!(
            "{} → {} resident (+{}), {more} more processes",
            mib(idle),
            mib(held),
            mib(grew)
        ),
        peer: format!(
            "squid {} → {} (+{})",
            mib(squid_idle),
            mib(squid_held),
            mib(squid_grew)
        ),
        ratio: format!("{:.2} ×", grew as f64 / squid_grew as f64),
        bound: "≤ +8 MiB, no process",
        met: grew <= 8 << 20 && more == 0,
    })
}

/// Resident bytes without tunnels and with them; each had one round trip.
fn held(subject: &Subject, port: u16) -> Result<(u64, u64)> {
    let idle = rss(subject.pid());
    let door = subject.door(port);
    let mut open = Vec::new();
    for _ in 0..TUNNELS {
        let mut stream = door.open()?;
        trip(&mut stream)?;
        open.push(stream);
    }
    std::thread::sleep(SETTLED);
    let held = rss(subject.pid());
    // They were there all the time.
    for stream in &mut open {
        trip(stream)?;
    }
    Ok((idle, held))
}

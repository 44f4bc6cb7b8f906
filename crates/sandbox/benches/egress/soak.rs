//! Hours in minutes: tunnels come, and go in every way that there is.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::Result;
use crate::boundary::Served;
use crate::client::Door;
use crate::measure::Row;
use crate::proc::{descriptors, mib, rss};
use crate::sample::Dice;
use crate::subject::{Raw, Subject};
use crate::upstream::{ECHO, RESET};

const EACH_SECOND: u32 = 200;
/// Before what is there at first is written down: caches have filled by then.
const WARM: Duration = Duration::from_secs(5);
/// For what is over to be gone.
const SETTLED: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(10);
/// What may be more at the end: pipes that wait to be used again, and an allocator's way of keeping pages.
const MORE_DESCRIPTORS: usize = 16;
const MORE_MEMORY: u64 = 2 << 20;

/// How a tunnel ends.
#[derive(Clone, Copy)]
enum Ending {
    Closed,
    HalfClosed,
    ResetByClient,
    ResetByServer,
    /// In the middle of being asked for.
    Abandoned,
}

pub(crate) fn row(time: Duration) -> Result<Row> {
    let raw = Raw::start()?;
    let served = Served {
        tcp: vec![raw.port],
        ..Served::default()
    };
    let ours = Subject::ours(&served)?;
    let (door, pid) = (ours.door(raw.port), ours.pid());
    let runtime = crate::runtime()?;
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    runtime.block_on(storm(&door, WARM, &mut dice))?;
    let start = (descriptors(pid), rss(pid));
    let broken = runtime.block_on(storm(&door, time, &mut dice))?;
    let end = (descriptors(pid), rss(pid));
    let flat = end.0 <= start.0 + MORE_DESCRIPTORS && end.1 <= start.1 + MORE_MEMORY;
    let count = u64::from(EACH_SECOND) * time.as_secs();
    Ok(Row {
        figure: "soak: 200 new tunnels a second, two in five reset",
        ours: format!(
            "{} s: descriptors {} → {}, resident {} → {}",
            time.as_secs(),
            start.0,
            end.0,
            mib(start.1),
            mib(end.1)
        ),
        peer: "–".to_owned(),
        ratio: format!("{broken} of {count} failed"),
        bound: "both flat, none fails",
        met: flat && broken == 0,
    })
}

/// Opens tunnels for `time`, and waits until all are over. How many did not do what they should.
async fn storm(door: &Door, time: Duration, dice: &mut Dice) -> Result<usize> {
    let mut open = JoinSet::new();
    let mut failed = 0;
    let began = Instant::now();
    let mut next = Duration::ZERO;
    let pause = Duration::from_secs(1) / EACH_SECOND;
    while next < time {
        sleep(next.saturating_sub(began.elapsed())).await;
        next += pause;
        let ending = match dice.below(5) {
            0 => Ending::Closed,
            1 => Ending::HalfClosed,
            2 => Ending::ResetByClient,
            3 => Ending::ResetByServer,
            _ => Ending::Abandoned,
        };
        let (door, lives) = (door.clone(), Duration::from_millis(dice.below(500)));
        open.spawn(async move { timeout(PATIENCE, life(&door, ending, lives)).await });
        while let Some(done) = open.try_join_next() {
            failed += usize::from(!matches!(done?, Ok(Ok(()))));
        }
    }
    while let Some(done) = open.join_next().await {
        failed += usize::from(!matches!(done?, Ok(Ok(()))));
    }
    sleep(SETTLED).await;
    Ok(failed)
}

async fn life(door: &Door, ending: Ending, lives: Duration) -> std::io::Result<()> {
    if let (Ending::Abandoned, Door::Proxy { at, .. }) = (ending, door) {
        let head = door.head();
        let mut stream = TcpStream::connect(at).await?;
        stream.write_all(&head.as_bytes()[..head.len() / 2]).await?;
        sleep(lives).await;
        return Ok(());
    }
    let opening = door.clone();
    let stream = tokio::task::spawn_blocking(move || opening.open()).await??;
    stream.set_nonblocking(true)?;
    let mut stream = TcpStream::from_std(stream)?;
    for _ in 0..2 {
        stream.write_u8(ECHO).await?;
        if stream.read_u8().await? != ECHO {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        sleep(lives / 2).await;
    }
    match ending {
        Ending::Closed | Ending::Abandoned => Ok(()),
        Ending::ResetByClient => stream.set_zero_linger(),
        Ending::HalfClosed => {
            stream.shutdown().await?;
            match stream.read_u8().await {
                Err(why) if why.kind() == std::io::ErrorKind::UnexpectedEof => Ok(()),
                _ => Err(std::io::ErrorKind::InvalidData.into()),
            }
        }
        Ending::ResetByServer => {
            stream.write_u8(RESET).await?;
            match stream.read_u8().await {
                Err(why) if why.kind() == std::io::ErrorKind::ConnectionReset => Ok(()),
                _ => Err(std::io::ErrorKind::InvalidData.into()),
            }
        }
    }
}

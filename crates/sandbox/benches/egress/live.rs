//! How soon a change of policy is felt.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;

use crate::Result;
use crate::boundary::Served;
use crate::measure::{Row, human};
use crate::sample::percentile;
use crate::subject::{Raw, Subject};
use crate::upstream::ECHO;

const FLOWS: usize = 1_000;
const ROUNDS: usize = 20;
/// A flow that lives as long was not cut.
const NEVER: Duration = Duration::from_secs(5);

pub(crate) fn row() -> Result<Row> {
    let raw = Raw::start()?;
    let served = Served {
        tcp: vec![raw.port, raw.other],
        ..Served::default()
    };
    let mut ours = Subject::ours(&served)?;
    let runtime = crate::runtime()?;
    let (mut cut, mut whole) = (Vec::new(), Vec::new());
    let (mut survivors, mut kept) = (0, 0);
    for _ in 0..ROUNDS {
        let open = |port: u16| {
            let door = ours.door(port);
            let streams = (0..FLOWS / 2).map(|_| door.open()).collect::<Vec<_>>();
            streams.into_iter().collect::<std::io::Result<Vec<_>>>()
        };
        let (staying, losing) = (open(raw.port)?, open(raw.other)?);
        let mut watched = JoinSet::new();
        {
            let _runtime = runtime.enter();
            for stream in losing {
                stream.set_nonblocking(true)?;
                let mut stream = tokio::net::TcpStream::from_std(stream)?;
                watched.spawn_on(
                    async move {
                        let ended = tokio::time::timeout(NEVER, stream.read_u8()).await;
                        ended.is_ok().then(Instant::now)
                    },
                    runtime.handle(),
                );
            }
        }
        let process = ours.process.as_mut().ok_or("no process")?;
        let began = Instant::now();
        let change: serde_json::Value = serde_json::from_str(&process.ask("narrow")?)?;
        whole.push(began.elapsed());
        if change["cut"] != FLOWS / 2 || change["kept"] != FLOWS / 2 {
            return Err(format!("the change did something else: {change}").into());
        }
        let ended = runtime.block_on(watched.join_all());
        for ended in ended {
            match ended {
                Some(at) => cut.push(at.duration_since(began)),
                None => survivors += 1,
            }
        }
        kept += runtime.block_on(alive(staying))?;
        let process = ours.process.as_mut().ok_or("no process")?;
        process.ask("widen")?;
    }
    let (p50, p99) = (percentile(&mut cut, 50), percentile(&mut cut, 99));
    let worst = percentile(&mut cut, 100);
    let all_kept = kept == ROUNDS * FLOWS / 2;
    Ok(Row {
        figure: "policy change with 1,000 live flows, until the 500 losers are cut",
        ours: format!(
            "p50 {}, p99 {}, worst {}; the call {}",
            human(p50),
            human(p99),
            human(worst),
            human(percentile(&mut whole, 50))
        ),
        peer: "–".to_owned(),
        ratio: format!(
            "{survivors} survivors, {} of {} others kept",
            kept,
            ROUNDS * FLOWS / 2
        ),
        bound: "p99 ≤ 50 ms, none survives, all others kept",
        met: p99 <= Duration::from_millis(50) && survivors == 0 && all_kept,
    })
}

/// How many still carry bytes.
async fn alive(streams: Vec<std::net::TcpStream>) -> Result<usize> {
    let mut alive = 0;
    for stream in streams {
        stream.set_nonblocking(true)?;
        let mut stream = tokio::net::TcpStream::from_std(stream)?;
        let carried = async {
            stream.write_u8(ECHO).await?;
            stream.read_u8().await
        };
        if let Ok(Ok(ECHO)) = tokio::time::timeout(NEVER, carried).await {
            alive += 1;
        }
    }
    Ok(alive)
}

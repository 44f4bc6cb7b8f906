//! Paired samples: what is compared is measured in turn, so that a noisy machine disturbs both.

use std::time::{Duration, Instant};

/// Middle of the samples.
pub(crate) fn median(samples: &mut [Duration]) -> Duration {
    samples.sort_unstable();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}

/// How long one future takes, and what it gives.
pub(crate) async fn timed<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let began = Instant::now();
    let value = work.await;
    (began.elapsed(), value)
}

/// `1.23 ms`, `456 µs`, `2.10 s`.
pub(crate) fn human(time: Duration) -> String {
    let micros = time.as_secs_f64() * 1e6;
    if micros < 1e3 {
        format!("{micros:.0} µs")
    } else if micros < 1e6 {
        format!("{:.2} ms", micros / 1e3)
    } else {
        format!("{:.2} s", micros / 1e6)
    }
}

/// One line of the printed table.
pub(crate) struct Row {
    pub(crate) figure: &'static str,
    pub(crate) ours: String,
    pub(crate) peer: String,
    pub(crate) ratio: String,
    pub(crate) bound: &'static str,
    pub(crate) met: bool,
}

pub(crate) fn print(rows: &[Row]) {
    println!("| figure | ours | peer, same run | ratio | bound | met |");
    println!("|---|---|---|---|---|---|");
    for row in rows {
        let Row {
            figure,
            ours,
            peer,
            ratio,
            bound,
            met,
        } = row;
        println!(
            "| {figure} | {ours} | {peer} | {ratio} | {bound} | {} |",
            if *met { "yes" } else { "**no**" }
        );
    }
}

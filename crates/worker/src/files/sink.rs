//! Request bodies that are written with blocking calls: one batch is gathered while the one before is written.

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;

use super::fail::{Fail, Kind, Outcome};

/// How much is gathered before it is written, in bytes.
const BATCH: usize = 512 << 10;

/// Something that takes bytes in order and may block.
pub(crate) trait Sink: Send + Sized + 'static {
    /// Takes the next bytes.
    fn write(&mut self, bytes: &[u8]) -> Outcome<()>;
}

/// Pumps a body into a sink and gives the sink back.
///
/// # Cancel safety
/// Dropping the future leaves the sink with some prefix of the body.
pub(crate) async fn pump<B, S>(mut body: B, sink: S) -> Outcome<S>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
    S: Sink,
{
    let (mut batch, mut spare) = (Vec::new(), Some(Vec::new()));
    let mut idle = Some(sink);
    let mut turn: Option<Turn<S>> = None;
    loop {
        let rest = gather(&mut body, &mut batch).await?;
        if let Some(running) = turn.take() {
            let (sink, written) = ended(running).await?;
            (idle, spare) = (Some(sink), Some(written));
        }
        let Some(mut sink) = idle.take() else {
            return Err(Fail::new(Kind::Internal, "the upload lost its sink"));
        };
        let is_end = rest == Rest::Nothing;
        if is_end && batch.is_empty() {
            return Ok(sink);
        }
        let full = std::mem::replace(&mut batch, spare.take().unwrap_or_default());
        let running = tokio::task::spawn_blocking(move || {
            let outcome = sink.write(&full);
            let mut batch = full;
            batch.clear();
            (sink, batch, outcome)
        });
        if is_end {
            return ended(running).await.map(|(sink, _)| sink);
        }
        turn = Some(running);
    }
}

type Turn<S> = tokio::task::JoinHandle<(S, Vec<u8>, Outcome<()>)>;

async fn ended<S>(turn: Turn<S>) -> Outcome<(S, Vec<u8>)> {
    match turn.await {
        Ok((sink, batch, outcome)) => outcome.map(|()| (sink, batch)),
        Err(error) => Err(Fail::new(
            Kind::Internal,
            format!("the write failed: {error}"),
        )),
    }
}

/// What is left of a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Rest {
    Something,
    Nothing,
}

/// Fills the batch. Frames are copied, not kept: whoever made them can use their memory for the next
/// ones, which costs less than fresh memory for each.
async fn gather<B>(body: &mut B, batch: &mut Vec<u8>) -> Outcome<Rest>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    while batch.len() < BATCH {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    batch.extend_from_slice(&data);
                }
            }
            Some(Err(error)) => {
                return Err(Fail::invalid(format!(
                    "the request body ended early: {error}"
                )));
            }
            None => return Ok(Rest::Nothing),
        }
    }
    Ok(Rest::Something)
}

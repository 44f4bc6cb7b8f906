//! Request bodies that are written with blocking calls: one batch is gathered while the one before is written.

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;

use super::fail::{Fail, Kind, Outcome};

/// How much is gathered before it is written, in bytes.
const BATCH: usize = 512 << 10;
/// The most pieces of one batch, so that tiny frames do not gather into a long list.
const MAX_PIECES: usize = 1024;

/// Something that takes bytes in order and may block.
pub(crate) trait Sink: Send + Sized + 'static {
    /// Takes the next bytes.
    fn write(&mut self, bytes: &[u8]) -> Outcome<()>;

    /// Takes the next pieces; a sink that can take many at once overrides it.
    fn write_batch(&mut self, pieces: &[Bytes]) -> Outcome<()> {
        pieces.iter().try_for_each(|piece| self.write(piece))
    }
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
    let mut turn = None;
    let mut idle = Some(sink);
    loop {
        let (batch, end) = gather(&mut body).await?;
        if let Some(running) = turn.take() {
            idle = Some(ended(running).await?);
        }
        let Some(mut sink) = idle.take() else {
            return Err(Fail::new(Kind::Internal, "the upload lost its sink"));
        };
        if end && batch.is_empty() {
            return Ok(sink);
        }
        let running = tokio::task::spawn_blocking(move || {
            let outcome = sink.write_batch(&batch);
            (sink, outcome)
        });
        if end {
            return ended(running).await;
        }
        turn = Some(running);
    }
}

type Turn<S> = tokio::task::JoinHandle<(S, Outcome<()>)>;

async fn ended<S>(turn: Turn<S>) -> Outcome<S> {
    match turn.await {
        Ok((sink, outcome)) => outcome.map(|()| sink),
        Err(error) => Err(Fail::new(
            Kind::Internal,
            format!("the write failed: {error}"),
        )),
    }
}

/// The next batch, and whether the body ended.
async fn gather<B>(body: &mut B) -> Outcome<(Vec<Bytes>, bool)>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let (mut batch, mut size) = (Vec::new(), 0);
    while size < BATCH && batch.len() < MAX_PIECES {
        match body.frame().await {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data()
                    && !data.is_empty()
                {
                    size += data.len();
                    batch.push(data);
                }
            }
            Some(Err(error)) => {
                return Err(Fail::invalid(format!(
                    "the request body ended early: {error}"
                )));
            }
            None => return Ok((batch, true)),
        }
    }
    Ok((batch, false))
}

//! One body, from one side to the other, no faster than the slower of them.

use std::future::poll_fn;
use std::task::Poll;

use ::h2::{RecvStream, SendStream};
use bytes::Bytes;
use http::HeaderMap;

use super::fields;
use crate::Reason;

/// What is done with a body on its way.
pub(super) trait Pass: Send {
    /// Counts what came, and says when it was too much.
    fn count(&mut self, bytes: u64) -> Result<(), Reason>;
    /// What goes on of a piece that came.
    fn piece(&mut self, piece: Bytes) -> Bytes;
    /// What goes on after the last piece.
    fn rest(&mut self) -> Bytes;
    /// Judges trailers and makes them what goes on.
    fn trailers(
        &mut self,
        trailers: &mut HeaderMap,
    ) -> impl Future<Output = Result<(), Reason>> + Send;
}

/// Why a body did not come to its end.
#[derive(Debug)]
pub(super) enum Stop {
    /// Who sends it broke off.
    From(::h2::Error),
    /// Who gets it does not want it any more.
    To,
    /// It may not go on.
    Denied(Reason),
}

/// Carries a body and its trailers to the end.
pub(super) async fn carry(
    from: &mut RecvStream,
    to: &mut SendStream<Bytes>,
    pass: &mut impl Pass,
) -> Result<(), Stop> {
    while let Some(piece) = next(from, to).await? {
        let size = piece.len();
        pass.count(u64::try_from(size).unwrap_or(u64::MAX))
            .map_err(Stop::Denied)?;
        let piece = pass.piece(piece);
        if from.is_end_stream() {
            let rest = pass.rest();
            if rest.is_empty() {
                return send(to, piece, true).await;
            }
            send(to, piece, false).await?;
            return send(to, rest, true).await;
        }
        send(to, piece, false).await?;
        // Only now may as much come again.
        from.flow_control()
            .release_capacity(size)
            .map_err(Stop::From)?;
    }
    finish(from, to, pass).await
}

async fn finish(
    from: &mut RecvStream,
    to: &mut SendStream<Bytes>,
    pass: &mut impl Pass,
) -> Result<(), Stop> {
    let Some(mut trailers) = from.trailers().await.map_err(Stop::From)? else {
        return send(to, pass.rest(), true).await;
    };
    pass.count(fields::size(&trailers)).map_err(Stop::Denied)?;
    pass.trailers(&mut trailers).await.map_err(Stop::Denied)?;
    send(to, pass.rest(), false).await?;
    to.send_trailers(trailers).map_err(|_| Stop::To)
}

/// The next piece, unless whoever would get it goes away meanwhile.
async fn next(from: &mut RecvStream, to: &mut SendStream<Bytes>) -> Result<Option<Bytes>, Stop> {
    poll_fn(|cx| {
        if let Poll::Ready(piece) = from.poll_data(cx) {
            return Poll::Ready(piece.transpose().map_err(Stop::From));
        }
        to.poll_reset(cx).map(|_| Err(Stop::To))
    })
    .await
}

/// Sends `piece` as there is room for it.
async fn send(to: &mut SendStream<Bytes>, mut piece: Bytes, last: bool) -> Result<(), Stop> {
    if piece.is_empty() {
        // An empty frame says nothing but the end.
        return if last {
            to.send_data(piece, true).map_err(|_| Stop::To)
        } else {
            Ok(())
        };
    }
    while !piece.is_empty() {
        to.reserve_capacity(piece.len());
        let room = match poll_fn(|cx| to.poll_capacity(cx)).await {
            Some(Ok(room)) => room.min(piece.len()),
            Some(Err(_)) | None => return Err(Stop::To),
        };
        let part = piece.split_to(room);
        let end = last && piece.is_empty();
        to.send_data(part, end).map_err(|_| Stop::To)?;
    }
    Ok(())
}

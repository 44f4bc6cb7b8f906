//! A watch as the replies of `WatchDir`.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use namzu_protocol::filesystem::{WatchDirResponse, WatchStart, watch_dir_response};

use super::Watch;
use crate::rpc;

/// First the start, then what happens, until it is dropped or events were lost.
#[derive(Debug)]
pub(crate) struct WatchStream {
    watch: Option<Watch>,
    started: bool,
}

impl WatchStream {
    pub(crate) fn new(watch: Watch) -> Self {
        Self {
            watch: Some(watch),
            started: false,
        }
    }
}

impl Stream for WatchStream {
    type Item = Result<WatchDirResponse, rpc::Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.started {
            self.started = true;
            let start = watch_dir_response::Event::Start(WatchStart {});
            return Poll::Ready(Some(Ok(start.into())));
        }
        let Some(watch) = &mut self.watch else {
            return Poll::Ready(None);
        };
        watch.poll_next(cx).map(|outcome| {
            Some(match outcome {
                Ok(event) => Ok(watch_dir_response::Event::Filesystem(event).into()),
                Err(fail) => {
                    self.watch = None;
                    Err(fail.into())
                }
            })
        })
    }
}

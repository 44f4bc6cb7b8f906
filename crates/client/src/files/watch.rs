//! Changes below a directory, as they happen.

use namzu_core::{Phase, Result};
use namzu_protocol::filesystem::watch_dir_response::Event;
use namzu_protocol::filesystem::{self as wire, WatchDirRequest, WatchDirResponse};

use super::WatchEvent;
use crate::fault;
use crate::messages::Messages;
use crate::worker::Worker;

const WHAT: &str = "watch the directory";

/// Changes below a directory, until dropped.
#[derive(Debug)]
pub struct Watch {
    worker: Worker,
    messages: Messages<WatchDirResponse>,
}

impl Watch {
    pub(super) async fn open(worker: &Worker, path: String, recursive: bool) -> Result<Self> {
        let request = WatchDirRequest {
            path,
            recursive,
            include_entry: false,
            allow_network_mounts: false,
        };
        let mut messages = Messages::<WatchDirResponse>::open(
            worker,
            Phase::Files,
            WHAT,
            wire::WATCH_DIR,
            &request,
        )
        .await?;
        let first = tokio::time::timeout(worker.request(), messages.next(worker))
            .await
            .map_err(|_| worker.late(Phase::Files, WHAT))??;
        match first.and_then(|message| message.event) {
            Some(Event::Start(_)) => Ok(Self {
                worker: worker.clone(),
                messages,
            }),
            _ => {
                Err(fault::violation(WHAT, "the first event is not the start").during(Phase::Files))
            }
        }
    }

    /// The next change; `None` when the worker ended the watch.
    ///
    /// # Errors
    ///
    /// `sandbox_lost`, `protocol_violation`.
    ///
    /// # Cancel safety
    ///
    /// Safe: no event is lost.
    pub async fn next(&mut self) -> Result<Option<WatchEvent>> {
        while let Some(message) = self.messages.next(&self.worker).await? {
            // A worker that sends nothing that is given out must not hold the thread.
            tokio::task::coop::consume_budget().await;
            let Some(Event::Filesystem(event)) = message.event else {
                continue;
            };
            let event = WatchEvent::from_wire(&event)
                .map_err(|err| fault::violation(WHAT, err).during(Phase::Files))?;
            if event.is_some() {
                return Ok(event);
            }
        }
        Ok(None)
    }
}

//! Doors that the worker serves inside and forwards over the channel, to the boundary here.
//!
//! What the worker says of a connection is a claim of somebody inside; the boundary takes it for one.

use std::sync::Arc;
use std::time::Duration;

use namzu_core::{Error, ErrorCode, Phase, Result};
use namzu_egress::{Egress, Forwarded, ForwardedDoor};
use namzu_protocol::ext::{self, Door, DoorsRequest, DoorsResponse};
use namzu_protocol::query;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::conn::{Conn, Opened};
use crate::fault;
use crate::worker::Worker;

/// Accepts that wait at each door for somebody to come by it.
const PARKED: usize = 8;

/// Connections that are carried at once; further ones wait inside. They leave streams of the channel to
/// everything else. The boundary has a limit of its own, of the policy.
const CARRIED: usize = 2048;

/// What is waited after the worker refused an accept, or could not be reached: the first time, and at
/// most.
const PAUSE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Lines of what the worker could not do that are passed on.
const FAILURES: usize = 16;

/// Carries what the worker forwards to the boundary, until dropped.
pub(crate) struct Forwarding {
    worker: Worker,
    /// Aborted when dropped.
    _accepts: JoinSet<()>,
}

impl Forwarding {
    /// Has the worker open the loopback's doors and those of `ports`; says what it could not open
    /// beside the proxy's, without which there is no way out.
    pub(crate) async fn start(
        worker: &Worker,
        egress: &Arc<Egress>,
        ports: &[u16],
    ) -> Result<(Self, Vec<String>)> {
        let room = Arc::new(Semaphore::new(CARRIED));
        let mut accepts = JoinSet::new();
        for door in Door::ALL {
            for _ in 0..PARKED {
                accepts.spawn(accept(
                    worker.conn().clone(),
                    door,
                    Arc::clone(egress),
                    Arc::clone(&room),
                ));
            }
        }
        let forwarding = Self {
            worker: worker.clone(),
            _accepts: accepts,
        };
        let missing = forwarding.open(ports).await?;
        Ok((forwarding, missing))
    }

    /// Has the worker open doors for more ports; says what it could not open.
    pub(crate) async fn open(&self, ports: &[u16]) -> Result<Vec<String>> {
        let mut chunks = ports.chunks(ext::MAX_DOOR_PORTS);
        // The loopback's doors are asked for without any port, too.
        let mut chunk = chunks.next().unwrap_or_default();
        let mut missing = Vec::new();
        loop {
            missing.extend(self.ask(chunk).await?);
            match chunks.next() {
                Some(next) => chunk = next,
                None => break,
            }
        }
        missing.truncate(FAILURES);
        Ok(missing)
    }

    async fn ask(&self, ports: &[u16]) -> Result<Vec<String>> {
        let request = DoorsRequest {
            ports: ports.to_vec(),
        };
        let answer: DoorsResponse = self
            .worker
            .ext(Phase::Tunnel, "open doors inside", ext::DOORS, &request)
            .await?;
        let said: Vec<String> = answer
            .failures
            .iter()
            .take(FAILURES)
            .map(|line| fault::words(line))
            .collect();
        if answer.proxy {
            // Whoever asks by proxy gets out; whoever knows none may not.
            for failure in &said {
                tracing::warn!(%failure, "a door of a sandbox could not be opened");
            }
            return Ok(said);
        }
        Err(Error::new(
            ErrorCode::BackendFailed,
            "the worker could not open the doors of its sandbox",
        )
        .with_reasons(said)
        .during(Phase::Tunnel))
    }
}

/// Parks accepts at one door, one after the other, and hands on each connection that comes of one.
async fn accept(conn: Conn, door: Door, egress: Arc<Egress>, room: Arc<Semaphore>) {
    let path = format!(
        "{}?{}",
        ext::ACCEPT,
        query::build(&[("door", door.as_str())])
    );
    let mut served = JoinSet::new();
    let mut pause = PAUSE.0;
    loop {
        while served.try_join_next().is_some() {}
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else {
            return;
        };
        let Ok(Ok(opened)) = conn.open_stream(path.clone()).await else {
            // The line may come back; if it does not, this ends with the sandbox.
            drop(permit);
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
            continue;
        };
        pause = PAUSE.0;
        let Some((by, stream)) = arrival(door, opened) else {
            continue;
        };
        let egress = Arc::clone(&egress);
        served.spawn(async move {
            egress.serve_forwarded(by, stream).await;
            drop(permit);
        });
    }
}

/// Who came, by what the worker says; `None` where it makes no sense.
fn arrival(door: Door, opened: Opened) -> Option<(ForwardedDoor, Box<dyn Forwarded>)> {
    let said = |name| opened.headers.get(name)?.to_str().ok();
    if said(ext::DOOR_HEADER) != Some(door.as_str()) {
        return None;
    }
    let by = match door {
        Door::Proxy => ForwardedDoor::Proxy,
        Door::Dns => ForwardedDoor::Dns,
        Door::Named => ForwardedDoor::Named(said(ext::LOCAL_HEADER).and_then(ext::parse_local)?),
    };
    Some((by, opened.io))
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn opened(headers: &[(&'static str, &'static str)]) -> Opened {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, HeaderValue::from_static(value));
        }
        let (io, _) = tokio::io::duplex(1);
        Opened {
            headers: map,
            io: Box::new(io),
        }
    }

    fn by(door: Door, headers: &[(&'static str, &'static str)]) -> Option<ForwardedDoor> {
        arrival(door, opened(headers)).map(|(by, _)| by)
    }

    #[test]
    fn a_connection_is_taken_for_the_door_that_was_asked() {
        let proxy = [("namzu-door", "proxy")];
        assert_eq!(by(Door::Proxy, &proxy), Some(ForwardedDoor::Proxy));
        assert_eq!(by(Door::Dns, &proxy), None);
        assert_eq!(by(Door::Dns, &[]), None);
    }

    #[test]
    fn a_named_door_needs_its_address() {
        let local = |value| [("namzu-door", "named"), ("namzu-local", value)];
        let at = "198.18.0.1:443".parse().unwrap();
        let named = by(Door::Named, &local("198.18.0.1:443"));
        assert_eq!(named, Some(ForwardedDoor::Named(at)));
        for wrong in ["", "198.18.0.1", "[::1]:443", "a.test:443"] {
            assert_eq!(by(Door::Named, &local(wrong)), None, "{wrong}");
        }
        assert_eq!(by(Door::Named, &[("namzu-door", "named")]), None);
    }
}

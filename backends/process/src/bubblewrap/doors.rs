//! The egress boundary's doors: listening sockets in the sandbox's network, held by this process.

mod helper;

use std::collections::BTreeSet;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use namzu_core::egress::{DNS_PORT, Doors, OpenDoors, PROXY_PORT};
use namzu_core::{Phase, Result};
use rustix::process::Pid;
use tokio::sync::Mutex;

use self::helper::Helper;
use super::running::Init;
use crate::error::Error;

/// How long the helper may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens doors in one sandbox. Keeps nothing of it alive.
#[derive(Debug)]
pub(crate) struct Gatekeeper {
    pid: Pid,
    init: Init,
    worker: Arc<OwnedFd>,
    open: Mutex<Open>,
}

/// What is open, and who opens the next.
#[derive(Debug, Default)]
struct Open {
    loopback: bool,
    ports: BTreeSet<u16>,
    /// Started in advance.
    helper: Option<Helper>,
}

impl Gatekeeper {
    /// Of the sandbox whose PID 1 is `init`, as the host numbers it `pid`.
    pub(crate) fn new(pid: Pid, init: Init, worker: Arc<OwnedFd>) -> Self {
        Self {
            pid,
            init,
            worker,
            open: Mutex::default(),
        }
    }

    /// Has somebody stand ready for the first call, while the sandbox is still being built.
    pub(crate) fn stand_ready(&mut self) {
        // Where it cannot be done yet, it is done then, or then it is said why not.
        self.open.get_mut().helper = self.helper().ok();
    }

    fn helper(&self) -> Result<Helper, Error> {
        let netns = File::open(format!("/proc/{}/ns/net", self.pid.as_raw_nonzero()));
        // Only now: while PID 1 was not reaped, its number was nobody else's.
        if self.init.has_ended() {
            return Err(ended());
        }
        let netns = netns.map_err(|err| Error::Doors(format!("cannot see its network: {err}")))?;
        Helper::start(&self.worker, netns.into()).map_err(Error::StartHelper)
    }

    async fn open(&self, ports: &[u16]) -> Result<Doors, Error> {
        let mut open = self.open.lock().await;
        if self.init.has_ended() {
            return Err(ended());
        }
        if ports.contains(&0) {
            return Err(Error::Doors("there is no port 0".to_owned()));
        }
        let in_the_way = [PROXY_PORT, DNS_PORT];
        let new: BTreeSet<u16> = ports
            .iter()
            .copied()
            .filter(|port| !open.ports.contains(port) && !in_the_way.contains(port))
            .collect();
        if open.loopback && new.is_empty() {
            return Ok(Doors::default());
        }
        let helper = match open.helper.take() {
            Some(helper) => helper,
            None => self.helper()?,
        };
        let asked = tokio::time::timeout(PATIENCE, helper.ask(!open.loopback, &new)).await;
        let doors = asked
            .unwrap_or_else(|_| Err(Error::Doors("the helper hangs".to_owned())))
            .map_err(|err| if self.init.has_ended() { ended() } else { err })?;
        open.loopback = true;
        open.ports.extend(new);
        Ok(doors)
    }
}

#[async_trait]
impl OpenDoors for Gatekeeper {
    async fn open(&self, ports: &[u16]) -> Result<Doors> {
        let opened = Self::open(self, ports).await;
        opened.map_err(|err| err.during(Phase::Tunnel))
    }
}

fn ended() -> Error {
    Error::Lost("PID 1 is gone".to_owned())
}

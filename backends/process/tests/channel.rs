//! The conformance suite's cases of egress over the process tier where the worker serves the boundary's
//! doors, as it does in places that the host cannot have sockets in.

use std::process::ExitCode;
use std::sync::Arc;

use namzu_backend_process::{ChannelDoors, Config, ProcessBackend};
use namzu_core::{Backend, Chain};

fn backend() -> Result<Arc<dyn Backend>, String> {
    match ProcessBackend::new(&Config::default()) {
        Ok(backend) => Ok(Arc::new(
            backend.with_channel_doors(ChannelDoors::WithRights),
        )),
        Err(err) => Err(Chain(&err).to_string()),
    }
}

fn main() -> ExitCode {
    namzu_testkit::conformance::main_of("process-channel", &["egress::", "isolation::"], backend())
}

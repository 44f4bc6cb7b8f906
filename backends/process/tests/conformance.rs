//! The conformance suite over the process tier, with whatever engine this host has.

use std::process::ExitCode;
use std::sync::Arc;

use namzu_backend_process::{Config, ProcessBackend};
use namzu_core::{Backend, Chain};

fn backend() -> Result<Arc<dyn Backend>, String> {
    match ProcessBackend::new(&Config::default()) {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(err) => Err(Chain(&err).to_string()),
    }
}

fn main() -> ExitCode {
    namzu_testkit::conformance::main("process", backend())
}

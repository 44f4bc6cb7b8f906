//! The conformance suite over the passthrough tier.

use std::process::ExitCode;
use std::sync::Arc;

use namzu_backend_passthrough::PassthroughBackend;
use namzu_core::{Backend, Chain};

fn backend() -> Result<Arc<dyn Backend>, String> {
    match PassthroughBackend::new() {
        Ok(backend) => Ok(Arc::new(backend)),
        Err(err) => Err(Chain(&err).to_string()),
    }
}

fn main() -> ExitCode {
    namzu_testkit::conformance::main("passthrough", backend())
}

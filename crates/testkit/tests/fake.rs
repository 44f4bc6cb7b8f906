//! The suite over the backend in memory, as every backend runs it.

use std::process::ExitCode;
use std::sync::Arc;

use namzu_testkit::{conformance, fake::Fake};

fn main() -> ExitCode {
    conformance::main("fake", Ok(Arc::new(Fake::new())))
}

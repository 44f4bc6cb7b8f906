//! The `namzu-sandbox` binary.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    namzu_sandbox_cli::main()
}

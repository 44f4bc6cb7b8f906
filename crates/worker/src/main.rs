//! The worker: the one program inside a sandbox, serving the four wires of `docs/protocol.md`.

mod accounts;
mod auth;
mod config;
mod control;
mod door;
mod doors;
mod faults;
mod fd;
mod files;
mod http;
mod io;
mod janitor;
mod lane;
mod listener;
mod metrics;
mod netns;
mod pool;
mod probe;
mod process;
mod random;
mod reaper;
mod router;
mod rpc;
mod run;
mod serve;
mod tunnel;
mod user;
mod v1;
mod vsock;
mod worker;

use std::io::Write;
use std::process::ExitCode;

/// The arguments or the environment make no sense.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    faults::take_the_default_action();
    // What the host runs beside itself.
    let done = match std::env::args_os().nth(1) {
        Some(word) if word == "janitor" => Some(janitor::run(std::io::stdin().lock())),
        Some(word) if word == "doors" => Some(netns::run()),
        _ => None,
    };
    match done {
        Some(Ok(())) => return ExitCode::SUCCESS,
        Some(Err(_)) => return ExitCode::FAILURE,
        None => {}
    }
    let config = match config::Config::parse(std::env::args_os().skip(1), std::env::vars_os()) {
        Ok(config) => config,
        Err(error) => return complain(&error, USAGE),
    };
    match run::run(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => complain(&error, 1),
    }
}

fn complain(error: &dyn std::error::Error, code: u8) -> ExitCode {
    // Without standard error there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "namzu-worker: {error}");
    ExitCode::from(code)
}

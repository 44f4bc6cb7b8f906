//! The worker: the one program inside a sandbox, serving the four wires of `docs/protocol.md`.

mod auth;
mod config;
mod files;
mod http;
mod janitor;
mod lane;
mod process;
mod reaper;
mod router;
mod rpc;
mod user;
mod v1;
mod worker;

fn main() -> std::process::ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "janitor")
    {
        return match janitor::run(std::io::stdin().lock()) {
            Ok(()) => std::process::ExitCode::SUCCESS,
            Err(_) => std::process::ExitCode::FAILURE,
        };
    }
    std::process::ExitCode::SUCCESS
}

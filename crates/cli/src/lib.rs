//! The `namzu-sandbox` command line: what was typed, what it means, and one verb a file.
//!
//! It holds no isolation logic: every wall is the library's.
#![forbid(unsafe_code)]

pub mod allow;
pub mod args;
mod backend;
mod boundary;
mod commands;
mod context;
mod escape;
pub mod exit;
pub mod failure;
mod hint;
mod host_path;
mod keeper;
mod output;
pub mod parse;
mod report;
mod session;
mod settings;
mod signals;
mod stdio;
mod table;
mod teardown;
mod terminal;
mod transfer;

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::args::{Cli, Common, Verb};
use crate::context::Context;
use crate::failure::{Failure, local};
use crate::output::Output;

/// How long work that was given up may take to clean up.
const END: Duration = Duration::from_secs(2);

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let Cli { verb, common } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(err) => {
            // Help and version are data and success; all else is a mistake.
            let code = if err.use_stderr() { exit::USAGE } else { 0 };
            let _ = err.print();
            return ExitCode::from(code);
        }
    };
    // What the keeper of a sandbox is to do is what was typed.
    let (verb, common, kept) = match verb {
        Verb::Keep(args) => match keeper::typed(args) {
            Some(Cli { verb, common }) => (verb, common, true),
            None => return ExitCode::from(exit::USAGE),
        },
        verb => (verb, common, false),
    };
    let out = Output::new(common.json, context::var);
    match run(&verb, &common, out, kept) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            out.failure(&failure);
            if let Failure::Interrupted(signal) = failure {
                signals::end_by(signal);
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(verb: &Verb, common: &Common, out: Output, kept: bool) -> Result<u8, Failure> {
    // Each connection through a boundary is a descriptor of this process.
    if matches!(verb, Verb::Run(_) | Verb::Shell(_) | Verb::Egress(_)) {
        namzu_sandbox::core::spawn::raise_open_files();
    }
    // One thread: the work is waiting for one worker, and a pool costs each start.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|err| local("starting", err))?;
    let outcome = runtime.block_on(async {
        let mut cx = Context::new(common, out)?;
        match verb {
            Verb::Run(args) if kept => commands::run::keep(&mut cx, args).await,
            Verb::Run(args) => commands::run::run(&mut cx, args).await,
            Verb::Shell(args) => commands::shell::run(&mut cx, args).await,
            Verb::Exec(args) => commands::exec::run(&mut cx, args).await,
            Verb::Cp(args) => commands::cp::run(&mut cx, args).await,
            Verb::Ls(args) => commands::ls::run(&mut cx, args).await,
            Verb::Rm(args) => commands::rm::run(&mut cx, args).await,
            Verb::Plan(args) => commands::plan::run(&mut cx, args).await,
            Verb::Doctor => commands::doctor::run(&mut cx).await,
            Verb::Backends => commands::backends::run(&cx),
            Verb::Policy(args) => commands::policy::run(&mut cx, args).await,
            Verb::Egress(args) => commands::egress::run(&mut cx, args).await,
            // It was taken apart before.
            Verb::Keep(_) => Ok(exit::USAGE),
            Verb::Completions(args) => commands::completions::run(out, *args),
        }
    });
    // A copy that was given up removes what it had written so far; nothing else may hold up the end.
    runtime.shutdown_timeout(END);
    outcome
}

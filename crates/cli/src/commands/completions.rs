//! `completions`: a shell's completion script.

use clap::CommandFactory;

use crate::args::{Cli, CompletionsArgs};
use crate::failure::Failure;
use crate::output::Output;

pub(crate) fn run(out: Output, args: CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut Cli::command(),
        "namzu-sandbox",
        &mut script,
    );
    out.data(&script)?;
    Ok(0)
}

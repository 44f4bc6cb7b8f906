//! The workspace's own chores: `cargo xtask VERB`.
#![forbid(unsafe_code)]

mod bench;
mod codegen;
mod quickstart;
mod system;
mod test;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};

const USAGE: &str = "\
cargo xtask VERB

  quickstart           build the command line and run one program in a sandbox
  test [ARGUMENTS]     run every test; the arguments go to `cargo test`
  bench GROUP          measure: `bench process`, `bench egress [--soak]`
  codegen [--check]    write (or compare) the schema and the pages made from the code
  tidy                 check what neither the compiler nor clippy checks
";

#[expect(clippy::print_stderr, reason = "xtask talks to a person")]
fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            eprintln!("xtask: {err:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let Some((verb, rest)) = arguments.split_first() else {
        bail!("which verb?\n\n{USAGE}");
    };
    match (verb.as_str(), rest) {
        ("quickstart", []) => quickstart::run(),
        ("test", rest) => test::run(rest),
        ("bench", rest) => bench::run(rest),
        ("codegen", []) => codegen::run(codegen::Mode::Write),
        ("codegen", [flag]) if flag == "--check" => codegen::run(codegen::Mode::Check),
        ("tidy", []) => tidy::run(),
        ("help" | "--help" | "-h", []) => {
            help();
            Ok(())
        }
        _ => bail!("`{}` is not understood\n\n{USAGE}", arguments.join(" ")),
    }
}

/// The root of the workspace, wherever xtask is started.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

#[expect(clippy::print_stdout, reason = "the help is what was asked for")]
fn help() {
    print!("{USAGE}");
}

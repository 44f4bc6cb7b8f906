//! The conformance suite.
//!
//! The cases are chosen by what the backend declares, and each declaration is tested on both
//! sides: declared, it works and bites; undeclared, asking for it is refused with `unsupported`.

mod bench;
mod case;
mod certificate;
mod check;
mod crash;
mod host;
mod suite;
mod world;

mod egress;
mod exec;
mod files;
mod isolation;
mod lifecycle;
mod limits;
mod output;
mod processes;
mod receipt;
mod tar;
mod terminal;
mod tunnels;
mod watch;
mod workspace;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use namzu_core::{Backend, Chain};
use tokio::runtime::Runtime;

pub use self::suite::{Outcome, Planned, Suite};

/// Names the backends that must be testable here: a comma list, e.g. `process,passthrough`.
pub const REQUIRE: &str = "NAMZU_REQUIRE";

/// Whether `NAMZU_REQUIRE` lists `name`: not to be able to test it is a failure then.
#[must_use]
pub fn is_required(name: &str) -> bool {
    std::env::var(REQUIRE).is_ok_and(|names| names.split(',').any(|other| other.trim() == name))
}

/// Runs the whole suite over a backend: the body of `main` of a test with `harness = false`.
///
/// `name` is the backend's name in the test names and in `NAMZU_REQUIRE`. An `Err` says why the
/// backend cannot run on this host: it shows as one ignored test with that reason in its name,
/// unless `NAMZU_REQUIRE` lists `name`, which turns it into a failure. The same goes for each case
/// that applies but lacks something here to be tested with; a case that does not apply, because
/// the backend does not declare the thing, is always ignored.
///
/// Arguments are those of the standard test harness: a filter, `--list`, `--test-threads`.
///
/// The test binary starts itself again as the host process of the crash cases, so nothing but
/// building the backend may happen before this call.
#[must_use]
pub fn main(name: &str, backend: Result<Arc<dyn Backend>, String>) -> ExitCode {
    main_of(name, &[""], backend)
}

/// As [`main`], of the cases whose names start with one of `themes`.
#[must_use]
pub fn main_of(name: &str, themes: &[&str], backend: Result<Arc<dyn Backend>, String>) -> ExitCode {
    if let Some(role) = crash::role() {
        return crash::play(&role, backend);
    }
    let arguments = Arguments::from_args();
    let required = is_required(name);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
    {
        Ok(runtime) => Arc::new(runtime),
        Err(err) => return refuse(&arguments, name, format!("no runtime: {err}"), true),
    };
    let backend = match backend {
        Ok(backend) => backend,
        Err(why) => return refuse(&arguments, name, why, required),
    };
    let suite = match runtime.block_on(Suite::open(backend)) {
        Ok(suite) => suite,
        // It said that it can run here, so this is no reason to look away.
        Err(err) => return refuse(&arguments, name, Chain(&err).to_string(), true),
    };
    let trials = suite
        .plan()
        .into_iter()
        .filter(|planned| {
            let begins = |theme: &&str| planned.name.starts_with(*theme);
            themes.iter().any(begins)
        })
        .map(|planned| trial(name, &suite, planned, &runtime, required))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(
    name: &str,
    suite: &Suite,
    planned: Planned,
    runtime: &Arc<Runtime>,
    required: bool,
) -> Trial {
    let case = planned.name;
    match planned.outcome {
        None => {
            let (suite, runtime) = (suite.clone(), Arc::clone(runtime));
            Trial::test(format!("{name}::{case}"), move || {
                match runtime.block_on(suite.run(case)) {
                    Outcome::Passed => Ok(()),
                    Outcome::Failed(why)
                    | Outcome::NotApplicable(why)
                    | Outcome::Unavailable(why) => Err(Failed::from(why)),
                }
            })
        }
        Some(Outcome::Unavailable(why)) => {
            Trial::test(format!("{name}::{case} (unavailable: {why})"), move || {
                Err(Failed::from(why))
            })
            .with_ignored_flag(!required)
        }
        Some(Outcome::NotApplicable(why) | Outcome::Failed(why)) => {
            Trial::test(format!("{name}::{case} (n/a: {why})"), move || {
                Err(Failed::from(why))
            })
            .with_ignored_flag(true)
        }
        Some(Outcome::Passed) => Trial::test(format!("{name}::{case}"), || Ok(())),
    }
}

fn refuse(arguments: &Arguments, name: &str, why: String, fails: bool) -> ExitCode {
    let trial = Trial::test(format!("{name}::is_available ({why})"), move || {
        Err(Failed::from(why))
    })
    .with_ignored_flag(!fails);
    libtest_mimic::run(&unavoidable(arguments, fails), vec![trial]).exit_code()
}

/// The arguments for the one trial that stands for all cases: a filter that would have chosen some
/// of them must not leave out that they cannot run.
fn unavoidable(arguments: &Arguments, fails: bool) -> Arguments {
    let mut arguments = arguments.clone();
    if fails {
        arguments.filter = None;
        arguments.skip.clear();
        arguments.include_ignored = true;
        arguments.ignored = false;
        arguments.bench = false;
    }
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(typed: &[&str], fails: bool) -> ExitCode {
        // Its own report would read like a failure of this test.
        let quiet = ["conformance", "--logfile", "/dev/null"];
        let arguments = Arguments::from_iter([&quiet[..], typed].concat());
        refuse(&arguments, "mine", "no engine".to_owned(), fails)
    }

    #[test]
    fn a_required_backend_that_cannot_run_fails_whatever_is_chosen() {
        for typed in [
            &[][..],
            &["exec::"],
            &["--exact", "mine::exec::x"],
            &["--skip", "is_available"],
            &["--ignored"],
            &["--bench"],
        ] {
            assert_ne!(refused(typed, true), ExitCode::SUCCESS, "{typed:?}");
        }
        for typed in [&[][..], &["exec::"]] {
            assert_eq!(refused(typed, false), ExitCode::SUCCESS, "{typed:?}");
        }
    }
}

//! The real binary, over every backend that this host carries.
//!
//! A backend that cannot be used here shows its cases as ignored, with the reason; named in
//! `NAMZU_REQUIRE` (a comma-separated list of `process`, `passthrough`) it fails them instead.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cases;
mod cli;
mod detached;
mod egress;
mod files;
mod host;
mod isolation;
mod pty;
mod races;
mod signals;
mod streams;
mod verbs;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::cli::Cli;

/// A claim about the binary over one backend.
pub(crate) type Case = (&'static str, fn(&Cli));

fn main() -> ExitCode {
    let mut trials: Vec<_> = verbs::CASES
        .iter()
        .chain(egress::VERBS)
        .map(|case| trial("cli", *case, ""))
        .collect();
    for backend in ["passthrough", "process"] {
        let cases = [
            cases::CASES,
            host::CASES,
            streams::CASES,
            signals::CASES,
            pty::CASES,
        ];
        let isolating = [isolation::CASES, egress::CASES];
        let isolating = isolating.into_iter().flatten();
        let isolating = isolating.filter(|_| backend == "process");
        let cases = cases.into_iter().flatten().chain(isolating);
        let absent = unusable(backend, &[]);
        let gate = |case: &Case| gated(backend, *case, absent.as_deref());
        trials.extend(cases.map(gate));
        let detached = [detached::CASES, files::CASES, races::CASES]
            .into_iter()
            .flatten();
        // What a backend does not declare is not required of it.
        match unusable(backend, &["-d"]).filter(|_| absent.is_none()) {
            Some(reason) => trials.extend(detached.map(|case| ignored(backend, *case, &reason))),
            None => trials.extend(detached.map(gate)),
        }
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial(group: &str, (name, case): Case, backend: &'static str) -> Trial {
    Trial::test(format!("{group}::{name}"), move || {
        case(&Cli::new(backend));
        Ok(())
    })
}

fn gated(backend: &'static str, case: Case, unusable: Option<&str>) -> Trial {
    let Some(reason) = unusable else {
        return trial(backend, case, backend);
    };
    if required(backend) {
        let reason = reason.to_owned();
        let name = format!("{backend}::{}", case.0);
        return Trial::test(name, move || Err(Failed::from(reason)));
    }
    ignored(backend, case, reason)
}

fn ignored(backend: &str, case: Case, reason: &str) -> Trial {
    Trial::test(format!("{backend}::{} ({reason})", case.0), || Ok(())).with_ignored_flag(true)
}

/// Why the backend cannot be used here.
fn unusable(backend: &'static str, flags: &[&str]) -> Option<String> {
    let out = Cli::new(backend).run(&[&["plan", "--json"], flags].concat());
    if out.code == 0 {
        return None;
    }
    let error: serde_json::Value = serde_json::from_str(&out.stderr).unwrap_or_default();
    let message = error["error"]["message"].as_str().unwrap_or(&out.stderr);
    Some(message.replace('\n', " "))
}

fn required(backend: &str) -> bool {
    std::env::var("NAMZU_REQUIRE")
        .is_ok_and(|names| names.split(',').any(|name| name.trim() == backend))
}

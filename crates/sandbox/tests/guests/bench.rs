//! What every test stands on: the outside, and who can run here.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use namzu_backend_process::{Config, ProcessBackend};
use namzu_sandbox::Chain;
use namzu_testkit::conformance::is_required;
use namzu_testkit::network;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::guest::{Guest, Way};
use crate::outside::Outside;
use crate::place::Place;
use crate::{packages, streams, web};

/// What `$GUEST` has of programs.
const PROGRAMS: &[(&str, &str)] = &[
    ("Get.java", include_str!("programs/Get.java")),
    ("main.go", include_str!("programs/main.go")),
    ("fetch.mjs", include_str!("programs/fetch.mjs")),
    ("requests_get.py", include_str!("programs/requests_get.py")),
    ("httpx_get.py", include_str!("programs/httpx_get.py")),
    ("aiohttp_get.py", include_str!("programs/aiohttp_get.py")),
    ("websocket.py", include_str!("programs/websocket.py")),
    ("call.py", include_str!("programs/call.py")),
];

/// What all tests share.
pub(crate) struct Bench {
    // Dropped in this order.
    pub(crate) outside: Outside,
    pub(crate) runtime: Runtime,
    /// Inside the workspace of all sandboxes; `guest` in it is `$GUEST`.
    pub(crate) folder: TempDir,
    /// What `cargo xtask test` installed.
    pub(crate) installed: PathBuf,
    pub(crate) root: PathBuf,
}

type Test = Box<dyn FnOnce(&Arc<Bench>) + Send>;

/// A test, and what must be there for it.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) needs: Vec<&'static str>,
    pub(crate) modules: Vec<&'static str>,
    pub(crate) test: Test,
}

pub(crate) fn main() -> ExitCode {
    // Before there is a second thread.
    let entered = network::enter();
    let arguments = Arguments::from_args();
    let required = is_required("guests");
    let mut cases = streams::cases();
    for guest in web::GUESTS.iter().chain(packages::GUESTS) {
        cases.extend(guest.ways.iter().map(|way| case(guest, *way)));
    }
    let opened = entered.map_err(|why| why.to_string()).and_then(|()| {
        let bench = Arc::new(Bench::open()?);
        let missing = bench.missing(&cases)?;
        Ok((bench, missing))
    });
    let (bench, missing) = match opened {
        Ok(opened) => opened,
        Err(why) => {
            let name = format!("unavailable: {why}");
            let trial = Trial::test(name, move || Err(Failed::from(why)));
            let trials = vec![trial.with_ignored_flag(!required)];
            return libtest_mimic::run(&arguments, trials).exit_code();
        }
    };
    let trials = cases
        .into_iter()
        .map(|case| trial(case, &bench, &missing, required))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn case(guest: &'static Guest, way: Way) -> Case {
    Case {
        name: format!("{}::{}", guest.name, way.name()),
        needs: guest.needs.to_vec(),
        modules: guest.modules.to_vec(),
        test: Box::new(move |bench| guest.go(bench, way)),
    }
}

fn trial(case: Case, bench: &Arc<Bench>, missing: &[String], required: bool) -> Trial {
    let mut wanted = case.needs.iter().chain(&case.modules);
    if let Some(lacks) = wanted.find(|need| missing.iter().any(|lacks| lacks == **need)) {
        let why = format!("`{lacks}` is not there: run `cargo xtask test`");
        return Trial::test(format!("{} ({why})", case.name), move || {
            Err(Failed::from(why))
        })
        .with_ignored_flag(!required);
    }
    let (bench, test) = (Arc::clone(bench), case.test);
    Trial::test(case.name, move || {
        test(&bench);
        Ok(())
    })
}

impl Bench {
    fn open() -> Result<Self, String> {
        let said = |why: io::Error| why.to_string();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(said)?;
        // Whether this host can hold a sandbox is seen before anything else is done.
        let _ = backend()?;
        let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("guests");
        std::fs::create_dir_all(&installed).map_err(said)?;
        let folder = TempDir::with_prefix_in("run-", &installed).map_err(said)?;
        let mut python = installed.join("python/bin/python");
        if !python.exists() {
            python = "python3".into();
        }
        let outside = Outside::start(&python, folder.path()).map_err(said)?;
        let root = folder.path().join("guest/ca.pem");
        for (name, text) in PROGRAMS {
            std::fs::write(folder.path().join("guest").join(name), text).map_err(said)?;
        }
        Ok(Self {
            outside,
            runtime,
            folder,
            installed,
            root,
        })
    }

    /// What of what `cases` need is not there in a sandbox.
    ///
    /// # Errors
    ///
    /// There can be no sandbox.
    fn missing(self: &Arc<Self>, cases: &[Case]) -> Result<Vec<String>, String> {
        let mut script = String::new();
        for case in cases {
            for program in &case.needs {
                // Of the servers outside, not of the sandbox.
                let there = match *program {
                    "sshd" => "test -e $GUEST/ssh_user".to_owned(),
                    other => format!("command -v {other} >/dev/null"),
                };
                script.push_str(&format!("{there} || echo {program}\n"));
            }
            for module in &case.modules {
                script.push_str(&format!(
                    "$PYTHON -c 'import {module}' 2>/dev/null || echo {module}\n"
                ));
            }
        }
        let mut lines: Vec<&str> = script.lines().collect();
        lines.sort_unstable();
        lines.dedup();
        let place = Place::try_open(self, Way::Denied)?;
        let said = place.run(&lines.join("\n")).ok();
        Ok(said.lines().map(str::to_owned).collect())
    }
}

pub(crate) fn backend() -> Result<ProcessBackend, String> {
    ProcessBackend::new(&Config::default()).map_err(|why| Chain(&why).to_string())
}

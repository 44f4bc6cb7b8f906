//! The test of the suite: on a backend with one fault, the case that is there to find it fails.
//!
//! That every case passes on the same backend without a fault is `fake.rs`.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};
use namzu_testkit::conformance::{Outcome, Suite};
use namzu_testkit::fake::{Fake, Fault};

/// A fault may show as a hang; nothing in memory takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> ExitCode {
    let trials = Fault::ALL
        .iter()
        .map(|fault| {
            let name = format!("{fault:?}_is_found_by_{}", fault.found_by());
            Trial::test(name, move || is_found(*fault).map_err(Failed::from))
        })
        .collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn is_found(fault: Fault) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|err| err.to_string())?;
    let outcome = runtime.block_on(async {
        let suite = Suite::open_with(Arc::new(Fake::broken(fault)), PATIENCE)
            .await
            .map_err(|err| err.to_string())?;
        Ok::<_, String>(suite.run(fault.found_by()).await)
    })?;
    // Whatever hangs must not keep the test from ending.
    runtime.shutdown_background();
    match outcome {
        Outcome::Failed(why) => {
            // Found for what it is: a case that cannot run on a fake at all fails on every fault.
            let broken_case = why.contains("unimplemented") || why.contains("only simple commands");
            if broken_case { Err(why) } else { Ok(()) }
        }
        other => Err(format!("{other:?}")),
    }
}

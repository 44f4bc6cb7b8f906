//! A foreign judge: the official E2B SDKs, unchanged, drive the worker's envd wire in a bubblewrap
//! sandbox. `cargo xtask test` installs the SDKs; without them the cases are ignored, or failed
//! where `NAMZU_REQUIRE` names `e2b-sdk`.

#[path = "e2b_sdk/control_plane.rs"]
mod control_plane;

use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::Duration;

use control_plane::ControlPlane;
use libtest_mimic::{Arguments, Failed, Trial};
use namzu_backend_process::{Config, Engine, ProcessBackend};
use namzu_core::Backend;
use namzu_testkit::conformance::is_required;

/// No case takes longer: a hang is a failure.
const DEADLINE: Duration = Duration::from_secs(120);

const PYTHON_CASES: &[&str] = &[
    "commands_give_output_and_exit_code",
    "commands_see_env_and_cwd",
    "multi_byte_output_survives_chunk_edges",
    "background_commands_are_listed_killed_and_rejoined",
    "stdin_reaches_the_command",
    "a_timeout_is_a_timeout",
    "an_async_timeout_is_a_timeout",
    "a_pty_is_a_terminal",
    "files_round_trip",
    "many_files_in_one_request",
    "a_watched_directory_reports_create_chmod_write",
    "an_async_watch_streams",
    "signed_urls_open_without_a_token",
    "a_killed_sandbox_is_not_running",
    "twenty_commands_at_once",
];

/// Only newer SDKs have these calls.
const PYTHON_263_CASES: &[&str] = &["a_stream_of_input_reaches_the_command"];

const NODE_CASES: &[&str] = &[
    "commands_give_output_and_exit_code",
    "commands_see_env_and_cwd",
    "background_commands_are_listed_and_killed",
    "stdin_reaches_the_command",
    "a_timeout_is_a_timeout",
    "a_pty_is_a_terminal",
    "files_round_trip",
    "a_watched_directory_reports_create_chmod_write",
    "signed_urls_open_without_a_token",
];

struct Sdk {
    name: &'static str,
    /// The interpreter, inside the folder where the SDKs are installed, or by name.
    interpreter: &'static str,
    script: &'static str,
    cases: Vec<&'static str>,
}

fn main() -> std::io::Result<ExitCode> {
    let arguments = Arguments::from_args();
    let installed = sdk_folder();
    let required = is_required("e2b-sdk");
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2b_sdk");
    // Node resolves packages from where the script lies, so it lies beside them.
    let node = installed.join("node-2.51.0");
    if node.is_dir() {
        std::fs::copy(here.join("judge.mjs"), node.join("judge.mjs"))?;
    }
    let sdks = [
        Sdk {
            name: "python-2.63.0",
            interpreter: "python-2.63.0/bin/python",
            script: "judge.py",
            cases: [PYTHON_CASES, PYTHON_263_CASES].concat(),
        },
        Sdk {
            name: "python-2.37.1",
            interpreter: "python-2.37.1/bin/python",
            script: "judge.py",
            cases: PYTHON_CASES.to_vec(),
        },
        Sdk {
            name: "node-2.51.0",
            interpreter: "node",
            script: "node-2.51.0/judge.mjs",
            cases: NODE_CASES.to_vec(),
        },
    ];
    let trials = sdks
        .into_iter()
        .flat_map(|sdk| trials(&installed, required, sdk))
        .collect();
    Ok(libtest_mimic::run(&arguments, trials).exit_code())
}

fn sdk_folder() -> PathBuf {
    std::env::var_os("NAMZU_E2B_SDKS").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).join("e2b-sdk"),
        PathBuf::from,
    )
}

fn trials(installed: &Path, required: bool, sdk: Sdk) -> Vec<Trial> {
    let folder = installed.join(sdk.name);
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2b_sdk");
    sdk.cases
        .into_iter()
        .map(|case| {
            if !folder.is_dir() {
                let why = format!(
                    "{} is not installed in {}: run `cargo xtask test`",
                    sdk.name,
                    installed.display()
                );
                return Trial::test(format!("{}::{case} ({why})", sdk.name), move || {
                    Err(Failed::from(why))
                })
                .with_ignored_flag(!required);
            }
            let interpreter = match sdk.interpreter {
                "node" => PathBuf::from("node"),
                inside => installed.join(inside),
            };
            let script = match sdk.script {
                "judge.py" => here.join("judge.py"),
                beside => installed.join(beside),
            };
            Trial::test(format!("{}::{case}", sdk.name), move || {
                judge(&interpreter, &script, case)
            })
        })
        .collect()
}

fn judge(interpreter: &Path, script: &Path, case: &str) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let config = Config {
            engine: Engine::Bubblewrap,
        };
        let backend: Arc<dyn Backend> = Arc::new(ProcessBackend::new(&config)?);
        let plane = ControlPlane::start(backend).await?;
        let mut command = namzu_core::spawn::command(interpreter);
        command
            .arg(script)
            .arg(case)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env(
                "E2B_API_KEY",
                "e2b_0000000000000000000000000000000000000000",
            )
            .env("E2B_API_URL", format!("http://{}", plane.api))
            .env("E2B_SANDBOX_URL", format!("http://{}", plane.data))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let verdict = tokio::time::timeout(DEADLINE, command.output()).await;
        plane.sweep().await?;
        let output = verdict.map_err(|_| "the script hangs")??;
        if output.status.success() {
            return Ok(());
        }
        Err(format!(
            "{}\n{}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
        .into())
    })
}

//! Asks a [`ValueSource`] for its value: an environment variable, a file, a program or a closure.
//!
//! No error shows a value, nor a program's arguments or output: a token may be in any of them.

use std::fs::File;
use std::io::{self, Read};
use std::process::Stdio;
use std::time::Duration;

use namzu_types::{ErrorCode, Secret, ValueSource};
use tokio::io::AsyncReadExt;

use crate::{Error, Result, spawn};

/// The longest value.
const MAX_BYTES: u64 = 1 << 20;

/// Asks `source` for its value, which is neither empty nor longer than 1 MiB. One line ending at
/// its end is dropped.
///
/// A program runs on the host with the host's environment, no input, and the host's standard
/// error.
///
/// # Errors
///
/// `config_invalid` for a variable that is not set, a file that cannot be read or a value that is
/// none; `backend_failed` when the program or the closure fails; `request_timeout` after
/// `deadline`.
///
/// # Cancel safety
///
/// Dropping the future kills the program that it started (not what that started in turn), and
/// drops the closure's future.
pub async fn resolve(source: &ValueSource, deadline: Duration) -> Result<Secret> {
    let what = describe(source);
    let value = match tokio::time::timeout(deadline, ask(source)).await {
        Ok(answer) => answer.map_err(|why| why.into_error(&what))?,
        Err(_) => {
            return Err(Error::new(
                ErrorCode::RequestTimeout,
                format!("{what} gave no value within {} ms", deadline.as_millis()),
            ));
        }
    };
    let value = match value.strip_suffix('\n') {
        Some(line) => line.strip_suffix('\r').unwrap_or(line),
        None => &value,
    };
    if value.is_empty() {
        return Err(Failure::Value("an empty value").into_error(&what));
    }
    Ok(Secret::new(value))
}

/// Names the source without its value.
fn describe(source: &ValueSource) -> String {
    match source {
        ValueSource::Value(_) => "the literal".to_owned(),
        ValueSource::Env(name) => format!("environment variable `{name}`"),
        ValueSource::File(path) => format!("file `{path}`"),
        ValueSource::Command(argv) => {
            format!("program `{}`", argv.first().map_or("", String::as_str))
        }
        ValueSource::Callback(_) => "the closure".to_owned(),
        _ => "the source".to_owned(),
    }
}

enum Failure {
    /// What it gave is no value.
    Value(&'static str),
    /// It could not be read.
    Read(io::Error),
    /// It failed by itself.
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl Failure {
    fn into_error(self, what: &str) -> Error {
        match self {
            Self::Value(why) => Error::new(ErrorCode::ConfigInvalid, format!("{what} gave {why}")),
            Self::Read(err) => {
                Error::new(ErrorCode::ConfigInvalid, format!("cannot read {what}")).with_source(err)
            }
            Self::Failed(err) => {
                Error::new(ErrorCode::BackendFailed, format!("{what} failed")).with_source(err)
            }
        }
    }
}

const TOO_LONG: Failure = Failure::Value("more than 1 MiB");
const NOT_TEXT: Failure = Failure::Value("bytes that are no UTF-8");

async fn ask(source: &ValueSource) -> Result<String, Failure> {
    match source {
        ValueSource::Value(secret) => Ok(secret.expose().to_owned()),
        ValueSource::Env(name) => variable(name),
        ValueSource::File(path) => {
            let path = path.clone();
            let read = tokio::task::spawn_blocking(move || file(&path)).await;
            text(read.map_err(|err| Failure::Failed(err.into()))??)
        }
        ValueSource::Command(argv) => program(argv).await,
        ValueSource::Callback(callback) => callback.ask().await.map_err(Failure::Failed),
        _ => Err(Failure::Value("a kind of source that is not known here")),
    }
}

fn variable(name: &str) -> Result<String, Failure> {
    // `var_os` panics on neither, but what it says of such a name is of no use.
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(Failure::Value("no value: that is no variable's name"));
    }
    match std::env::var_os(name) {
        Some(value) => value.into_string().map_err(|_| NOT_TEXT),
        None => Err(Failure::Value("no value: it is not set")),
    }
}

fn file(path: &str) -> Result<Vec<u8>, Failure> {
    let found = std::fs::metadata(path).map_err(Failure::Read)?;
    // Opening a pipe or a device may wait for ever, beyond the reach of the deadline.
    if !found.is_file() {
        return Err(Failure::Value("nothing: it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes))
        .map_err(Failure::Read)?;
    Ok(bytes)
}

async fn program(argv: &[String]) -> Result<String, Failure> {
    let Some((program, arguments)) = argv.split_first() else {
        return Err(Failure::Value("no value: it has no name"));
    };
    let mut child = spawn::command(program)
        .args(arguments)
        // It is the host's own helper, e.g. `az`, which finds its login through HOME.
        .envs(std::env::vars_os())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(Failure::Read)?;
    let mut bytes = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout
            .take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .await
            .map_err(Failure::Read)?;
    }
    if bytes.len() as u64 > MAX_BYTES {
        return Err(TOO_LONG);
    }
    let status = child.wait().await.map_err(Failure::Read)?;
    if !status.success() {
        return Err(Failure::Failed(status.to_string().into()));
    }
    text(bytes)
}

fn text(bytes: Vec<u8>) -> Result<String, Failure> {
    if bytes.len() as u64 > MAX_BYTES {
        return Err(TOO_LONG);
    }
    String::from_utf8(bytes).map_err(|_| NOT_TEXT)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use namzu_types::Callback;

    use super::*;
    use crate::Chain;

    const LONG: Duration = Duration::from_secs(60);

    fn sh(script: &str) -> ValueSource {
        ValueSource::Command(vec![
            "/bin/sh".to_owned(),
            "-c".to_owned(),
            script.to_owned(),
        ])
    }

    async fn refused(source: &ValueSource, code: ErrorCode) -> String {
        let err = resolve(source, LONG).await.unwrap_err();
        assert_eq!(err.code(), code, "{err:?}");
        let shown = format!("{err:?} {}", Chain(&err));
        assert!(!shown.contains("s3cret"), "{shown}");
        shown
    }

    fn written(bytes: &[u8]) -> (tempfile::NamedTempFile, ValueSource) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let source = ValueSource::File(file.path().to_str().unwrap().to_owned());
        (file, source)
    }

    #[tokio::test]
    async fn every_kind_gives_its_value_without_one_line_ending() {
        let (_file, crlf) = written(b"token\r\n");
        let (_other, two) = written(b"token\n\n");
        let sources = [
            (ValueSource::Value(Secret::new("token")), "token"),
            (crlf, "token"),
            (two, "token\n"),
            (sh("echo token"), "token"),
            (
                ValueSource::Callback(Callback::new(|| async { Ok("token".to_owned()) })),
                "token",
            ),
        ];
        for (source, wanted) in sources {
            let value = resolve(&source, LONG).await.unwrap();
            assert_eq!(value.expose(), wanted, "{source:?}");
        }
    }

    #[tokio::test]
    async fn a_variable_is_read_from_the_host() {
        let source = ValueSource::Env("PATH".to_owned());
        let value = resolve(&source, LONG).await.unwrap();
        assert_eq!(value.expose(), std::env::var("PATH").unwrap());
    }

    #[tokio::test]
    async fn a_program_has_the_hosts_environment() {
        let value = resolve(&sh("echo \"$PATH\""), LONG).await.unwrap();
        assert_eq!(value.expose(), std::env::var("PATH").unwrap());
    }

    #[tokio::test]
    async fn what_is_missing_is_named() {
        let source = ValueSource::Env("NAMZU_TEST_NOT_SET".to_owned());
        let shown = refused(&source, ErrorCode::ConfigInvalid).await;
        assert!(shown.contains("NAMZU_TEST_NOT_SET"), "{shown}");
        for name in ["", "A=B", "A\0"] {
            refused(&ValueSource::Env(name.to_owned()), ErrorCode::ConfigInvalid).await;
        }
        let source = ValueSource::File("/nonexistent/token".to_owned());
        let shown = refused(&source, ErrorCode::ConfigInvalid).await;
        assert!(shown.contains("/nonexistent/token"), "{shown}");
        let source = ValueSource::Command(vec!["/nonexistent/az".to_owned()]);
        refused(&source, ErrorCode::ConfigInvalid).await;
    }

    #[tokio::test]
    async fn what_is_no_value_is_refused() {
        let (_one, empty) = written(b"\n");
        let (_two, binary) = written(b"s3cret\xff");
        let (_three, huge) = written(&vec![b'x'; (1 << 20) + 1]);
        let device = ValueSource::File("/dev/zero".to_owned());
        let folder = ValueSource::File("/".to_owned());
        for source in [empty, binary, huge, device, folder] {
            refused(&source, ErrorCode::ConfigInvalid).await;
        }
        refused(&sh("yes s3cret"), ErrorCode::ConfigInvalid).await;
        refused(&sh("true"), ErrorCode::ConfigInvalid).await;
    }

    #[tokio::test]
    async fn a_failing_program_shows_neither_output_nor_arguments() {
        let shown = refused(&sh("echo s3cret; exit 3"), ErrorCode::BackendFailed).await;
        assert!(shown.contains("exit status: 3"), "{shown}");
    }

    #[tokio::test]
    async fn a_failing_closure_is_the_cause() {
        let source = ValueSource::Callback(Callback::new(|| async { Err("no login".into()) }));
        let shown = refused(&source, ErrorCode::BackendFailed).await;
        assert!(shown.contains("no login"), "{shown}");
    }

    #[tokio::test]
    async fn nothing_is_waited_for_beyond_the_deadline() {
        let never = ValueSource::Callback(Callback::new(std::future::pending));
        for source in [never, sh("exec sleep 1000")] {
            let err = resolve(&source, Duration::from_millis(1))
                .await
                .unwrap_err();
            assert_eq!(err.code(), ErrorCode::RequestTimeout, "{err:?}");
        }
    }
}

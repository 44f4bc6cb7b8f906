//! The same claims where the host process is an ordinary user, when these tests run as root.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::process::Stdio;

/// `nobody`.
const USER: u32 = 65534;

#[tokio::test]
async fn the_same_holds_for_an_ordinary_user() {
    if !rustix::process::geteuid().is_root() {
        // Then every other test has just shown it.
        return;
    }
    let home = tempfile::tempdir().unwrap();
    chown(home.path(), Some(USER), Some(USER)).unwrap();
    // The build directory may be out of that user's sight.
    let tests = home.path().join("live");
    fs::copy(std::env::current_exe().unwrap(), &tests).unwrap();
    fs::set_permissions(&tests, fs::Permissions::from_mode(0o755)).unwrap();
    let mut run = namzu_core::spawn::command("setpriv");
    run.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&tests)
        .args(["--test-threads", "2"])
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home.path())
        .current_dir("/")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = run.output().await.unwrap();
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

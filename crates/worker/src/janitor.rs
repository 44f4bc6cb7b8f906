//! `namzu-worker janitor`: removes what a host process cannot remove itself: because it is dead, or
//! must not wait.
//!
//! It runs on the host, outside every sandbox, and only ever sees what its host process writes.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// How often, at most, a busy cgroup is tried again.
const ATTEMPTS: u32 = 500;
/// Between two tries: the kernel does not say when the last process of a v1 cgroup is gone.
const PAUSE: Duration = Duration::from_millis(10);

/// Reads records from `input` until it ends, then removes what is left.
pub(crate) fn run(input: impl Read) -> io::Result<()> {
    let left = read(input);
    let mut result = Ok(());
    for path in left.iter().rev() {
        if let Err(err) = remove(path) {
            result = Err(err);
        }
    }
    result
}

fn read(input: impl Read) -> Vec<PathBuf> {
    let mut left: Vec<PathBuf> = Vec::new();
    let mut record = Vec::new();
    // An error is an end: whoever wrote is gone.
    for byte in io::BufReader::new(input).bytes().map_while(Result::ok) {
        if byte != 0 {
            record.push(byte);
            continue;
        }
        if let Some((sign, path)) = record.split_first() {
            let path = Path::new(OsStr::from_bytes(path));
            match sign {
                b'+' if path.is_absolute() => left.push(path.to_owned()),
                b'-' => left.retain(|kept| kept != path),
                b'!' if path.is_absolute() => {
                    left.retain(|kept| kept != path);
                    if remove(path).is_err() {
                        // Perhaps later.
                        left.push(path.to_owned());
                    }
                }
                _ => {}
            }
        }
        record.clear();
    }
    left
}

fn remove(path: &Path) -> io::Result<()> {
    let result = match fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => fs::remove_file(path),
        Ok(_) if path.join("cgroup.procs").exists() => remove_cgroup(path),
        Ok(_) => fs::remove_dir_all(path),
        Err(err) => Err(err),
    };
    match result {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The process backend ends its groups in its own, asynchronous way while its host lives; this is what
/// is left to do when it does not, and a program that depends on no backend does it.
fn remove_cgroup(path: &Path) -> io::Result<()> {
    let mut result = Ok(());
    for _ in 0..ATTEMPTS {
        result = fs::remove_dir(path);
        match &result {
            Err(err) if err.kind() == io::ErrorKind::ResourceBusy => kill_all(path)?,
            _ => break,
        }
        thread::sleep(PAUSE);
    }
    result
}

fn kill_all(cgroup: &Path) -> io::Result<()> {
    // Linux 5.14 and newer, v2: without a race against forks.
    if fs::write(cgroup.join("cgroup.kill"), "1").is_ok() {
        return Ok(());
    }
    for line in fs::read_to_string(cgroup.join("cgroup.procs"))?.lines() {
        if let Some(pid) = line.parse().ok().and_then(Pid::from_raw) {
            // It may have ended meanwhile; the caller looks again anyway.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_taken_back_is_removed_and_nothing_behind_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let [kept, gone, outside] = ["kept", "gone", "outside"].map(|name| dir.path().join(name));
        for path in [&kept, &gone, &outside] {
            fs::create_dir(path).unwrap();
        }
        fs::write(outside.join("file"), "precious").unwrap();
        std::os::unix::fs::symlink(&outside, gone.join("link")).unwrap();
        let input = format!(
            "+{}\0+{}\0-{}\0+relative\0+/cut-",
            kept.display(),
            gone.display(),
            kept.display()
        );
        run(input.as_bytes()).unwrap();
        assert!(kept.exists());
        assert!(!gone.exists());
        assert_eq!(fs::read(outside.join("file")).unwrap(), b"precious");
    }

    #[test]
    fn what_is_to_go_at_once_goes_before_the_input_ends() {
        let dir = tempfile::tempdir().unwrap();
        let gone = dir.path().join("gone");
        fs::create_dir(&gone).unwrap();
        let input = format!("+{0}\0!{0}\0", gone.display());
        assert_eq!(read(input.as_bytes()), Vec::<PathBuf>::new());
        assert!(!gone.exists());
    }

    #[test]
    fn what_is_gone_already_is_no_failure() {
        run(&b"+/nonexistent/namzu\0"[..]).unwrap();
    }
}

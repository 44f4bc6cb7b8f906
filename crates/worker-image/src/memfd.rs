//! The worker as a file that exists only in memory.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, SealFlags, fchmod, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use crate::WORKER;

/// A sealed memfd with the worker's bytes: nothing is left on disk, and nobody who is handed the
/// descriptor, a sandbox included, can change what the next sandbox runs. Close-on-exec.
///
/// # Errors
///
/// Those of `memfd_create`, `write` and `fcntl`; `Unsupported` if this build has no worker.
pub fn memfd() -> io::Result<OwnedFd> {
    if WORKER.is_empty() {
        return Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this build carries no worker",
        ));
    }
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Linux 6.3 and newer want to be told that it will be executed, and may be set up
    // (vm.memfd_noexec) to refuse without; older ones refuse the flag.
    let fd = match memfd_create("namzu-worker", flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create("namzu-worker", flags)?,
        other => other?,
    };
    let mut file = File::from(fd);
    file.write_all(WORKER)?;
    let fd = OwnedFd::from(file);
    // Whoever runs in a sandbox under another user must be able to execute it.
    fchmod(&fd, rustix::fs::Mode::from_raw_mode(0o555))?;
    fcntl_add_seals(
        &fd,
        SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL,
    )?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    #[test]
    fn memfd_has_the_workers_bytes_and_cannot_be_changed() {
        let file = File::from(memfd().unwrap());
        let mut bytes = Vec::new();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, WORKER);
        assert!(file.write_at(b"x", 0).is_err());
        assert!(file.set_len(0).is_err());
        let reopened = File::options().write(true).open(&path);
        assert!(reopened.is_err() || reopened.unwrap().write_at(b"x", 0).is_err());
    }

    #[test]
    fn the_worker_is_a_static_executable() {
        assert_eq!(&WORKER[..4], b"\x7fELF");
        // A dynamic executable names its loader.
        let interpreter = b"/lib64/ld-linux";
        assert!(
            !WORKER
                .windows(interpreter.len())
                .any(|window| window == interpreter)
        );
    }
}

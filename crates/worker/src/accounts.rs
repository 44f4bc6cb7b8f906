//! The tables of users and groups, which commands may be able to write.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;

/// The users.
pub(crate) const USERS: &str = "/etc/passwd";
/// The groups.
pub(crate) const GROUPS: &str = "/etc/group";

/// More of a table is not read.
const MAX_TABLE: u64 = 4 << 20;

/// Reads a table. One that is missing or unreadable holds nobody. May block.
pub(crate) fn read(path: &str) -> Vec<u8> {
    let mut table = Vec::new();
    let opened = File::options()
        .read(true)
        // A command may have put a pipe there.
        .custom_flags(libc::O_NONBLOCK)
        .open(path);
    if let Ok(file) = opened {
        let _ = file.take(MAX_TABLE).read_to_end(&mut table);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_in_place_of_a_table_holds_nobody_and_nobody_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("passwd");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert_eq!(read(path.to_str().unwrap()), b"");
        assert_eq!(read("/nonexistent"), b"");
    }

    #[test]
    fn an_endless_table_is_cut() {
        assert_eq!(read("/dev/zero").len() as u64, MAX_TABLE);
    }
}

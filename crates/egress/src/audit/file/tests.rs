//! What becomes of the files of a log.

use std::io::BufReader;

use super::*;
use crate::audit::chain::Link;
use crate::audit::{verify, verify_rest};

/// Writes lines as the thread that writes them does.
struct Pen {
    sink: AuditFile,
    link: Link,
}

impl Pen {
    /// On files that take two lines each.
    fn new(path: &Path, keep: u32) -> Self {
        let keep = NonZeroU32::new(keep).unwrap();
        let sink = AuditFile::open(path).unwrap().rotate(300, keep);
        let link = match sink.last().unwrap() {
            Some(line) => Link::after(&line).unwrap(),
            None => Link::start(),
        };
        Self { sink, link }
    }

    fn write(&mut self) -> io::Result<()> {
        let line = self.link.close(r#"{"ts":1,"event":"policy""#);
        self.sink.write(line.as_bytes())?;
        self.link.advance(line.as_bytes());
        Ok(())
    }
}

/// All files, the oldest first.
fn log(path: &Path, oldest: u32) -> impl io::BufRead {
    let mut whole = Vec::new();
    for age in (1..=oldest).rev() {
        whole.extend(std::fs::read(before(path, age)).unwrap());
    }
    whole.extend(std::fs::read(path).unwrap());
    BufReader::new(io::Cursor::new(whole))
}

#[test]
fn the_chain_goes_on_from_file_to_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut pen = Pen::new(&path, 10);
    for _ in 0..6 {
        pen.write().unwrap();
    }
    assert!(std::fs::metadata(&path).unwrap().len() <= 300);
    assert!(!before(&path, 3).exists(), "two lines a file");
    assert_eq!(verify(log(&path, 2)).unwrap(), 6);
    verify(log(&path, 1)).unwrap_err();
}

#[test]
fn no_more_files_are_kept_than_may_be_and_the_rest_is_still_a_chain() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut pen = Pen::new(&path, 2);
    for _ in 0..20 {
        pen.write().unwrap();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);
    assert_eq!(verify_rest(log(&path, 2)).unwrap(), 15..=20);
    let mut gap = std::fs::read(before(&path, 2)).unwrap();
    gap.extend(std::fs::read(&path).unwrap());
    verify_rest(&*gap).unwrap_err();
}

#[test]
fn a_log_that_ended_between_two_files_is_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut pen = Pen::new(&path, 2);
    pen.write().unwrap();
    drop(pen);
    // As it is after the file was renamed, with and without the next.
    std::fs::rename(&path, before(&path, 1)).unwrap();
    for _ in 0..2 {
        let pen = Pen::new(&path, 2);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
        drop(pen);
    }
    Pen::new(&path, 2).write().unwrap();
    assert_eq!(verify(log(&path, 1)).unwrap(), 2);
}

#[test]
fn a_file_that_cannot_be_followed_is_said_and_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut pen = Pen::new(&path, 2);
    pen.write().unwrap();
    pen.write().unwrap();
    // Not even root makes a file where a folder is.
    let obstacle = folder.path().join("audit.jsonl.new");
    std::fs::create_dir(&obstacle).unwrap();
    pen.write().unwrap_err();
    pen.write().unwrap_err();
    std::fs::remove_dir(&obstacle).unwrap();
    pen.write().unwrap();
    assert_eq!(verify(log(&path, 1)).unwrap(), 3);
}

#[test]
fn nobody_else_writes_to_the_file_that_follows() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let mut pen = Pen::new(&path, 2);
    for _ in 0..5 {
        pen.write().unwrap();
    }
    let busy = AuditFile::open(&path).unwrap_err();
    assert_eq!(busy.kind(), io::ErrorKind::WouldBlock);
}

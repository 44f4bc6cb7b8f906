//! A hostile tar stream, unpacked on the host, changes nothing outside its directory.
#![no_main]
#![allow(
    dead_code,
    reason = "the CLI uses more of this file than the entry point"
)]

use std::fs;
use std::os::fd::AsFd as _;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use namzu_fuzz::{take, with_tar_checksums};

#[rustfmt::skip]
#[path = "../../crates/cli/src/transfer/depth.rs"]
mod depth;
#[rustfmt::skip]
#[path = "../../crates/cli/src/host_path/fresh.rs"]
mod fresh;
#[rustfmt::skip]
#[path = "../../crates/cli/src/transfer/sparse.rs"]
mod sparse;
#[rustfmt::skip]
#[path = "../../crates/cli/src/transfer/unpack.rs"]
mod unpack;

/// Where the CLI keeps it.
mod host_path {
    pub(crate) use crate::fresh::Fresh;
}

/// Stands in for the CLI's own `failure`, which knows all its commands.
mod failure {
    use namzu_sandbox::{Error, ErrorCode};

    pub(crate) fn local(what: impl Into<String>, source: impl Into<std::io::Error>) -> Error {
        Error::new(ErrorCode::Internal, what).with_source(source.into())
    }
}

/// Names that a hostile stream would try; the input picks.
const NAMES: [&str; 12] = [
    "a",
    "b",
    "a/b",
    "b/a",
    "..",
    "../out",
    "a/../../out",
    "/tmp/namzu-fuzz-out",
    ".",
    "a/",
    "./b",
    "../out/file",
];

/// A tar stream whose entries are picked by `data`, byte by byte.
fn picked(mut data: &[u8]) -> Vec<u8> {
    let mut tar = Vec::new();
    while !data.is_empty() {
        let mut block = [0; 512];
        let name = NAMES[usize::from(take(&mut data)) % NAMES.len()];
        let link = NAMES[usize::from(take(&mut data)) % NAMES.len()];
        let kind = b"0123567LKxg"[usize::from(take(&mut data)) % 11];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[157..157 + link.len()].copy_from_slice(link.as_bytes());
        block[100..107].copy_from_slice(b"0000755");
        let content = match kind {
            b'L' | b'K' => link.as_bytes(),
            b'0' => b"content".as_slice(),
            _ => b"",
        };
        block[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar\x0000");
        let block = with_tar_checksums(&block.to_vec().into());
        tar.extend_from_slice(&block);
        if !content.is_empty() {
            let mut padded = content.to_vec();
            padded.resize(512, 0);
            tar.extend_from_slice(&padded);
        }
    }
    tar
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .expect("our own directory")
        .map(|entry| {
            entry
                .expect("readable")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

fuzz_target!(|data: &[u8]| {
    let mut data = data;
    let tar = match take(&mut data) % 4 {
        0 => data.to_vec(),
        1 => with_tar_checksums(&data.to_vec().into()).to_vec(),
        _ => picked(data),
    };
    let outer = tempfile::tempdir_in("/dev/shm").expect("a directory in memory");
    let below = outer.path().join("in");
    fs::create_dir(&below).expect("a new directory");
    fs::create_dir(outer.path().join("out")).expect("a new directory");
    fs::write(outer.path().join("out/file"), "untouched").expect("a new file");
    let root = fs::File::open(&below).expect("our own directory");

    let _ = unpack::unpack(
        tar.as_slice(),
        root.as_fd(),
        unpack::Limits { bytes: 1 << 20 },
    );

    assert_eq!(names(outer.path()), ["in", "out"]);
    assert_eq!(names(&outer.path().join("out")), ["file"]);
    let file = fs::read(outer.path().join("out/file")).expect("still there");
    assert_eq!(file, b"untouched");
    assert!(!Path::new("/tmp/namzu-fuzz-out").exists());
});

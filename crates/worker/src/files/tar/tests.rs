//! Round trips, and streams made to get out.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{Mode, OFlags};

use super::format::{BLOCK, Header, Type, pad};
use super::*;
use crate::files::fail::{Kind, Outcome};
use crate::files::jail::{Access, Jail};
use crate::files::sink::Sink;
use crate::files::source::Source;

fn unpack(stream: &[u8], dir: &Path, cut: usize) -> Outcome<()> {
    let fd = rustix::fs::open(dir, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap();
    let top = dir.canonicalize().unwrap().as_os_str().as_bytes().to_vec();
    let mut unpack = Unpack::below(fd, top);
    for piece in stream.chunks(cut) {
        unpack.write(piece)?;
    }
    unpack.finish()
}

fn pack(path: &Path) -> Vec<u8> {
    let jail = Jail::open([], []).unwrap();
    let path = path.as_os_str().as_bytes();
    let place = jail.existing(path, Access::Read).unwrap();
    let mut source = Pack::open(&place, path).unwrap();
    let mut stream = Vec::new();
    while let Some(chunk) = source.next().unwrap() {
        stream.extend_from_slice(&chunk);
    }
    stream
}

fn entry(name: &[u8], kind: Type, link: &[u8], content: &[u8]) -> Vec<u8> {
    let header = Header {
        name: name.to_vec(),
        link: link.to_vec(),
        kind,
        mode: 0o755,
        size: content.len() as u64,
        mtime: 1_000_000_000,
    };
    let mut out = Vec::new();
    header.encode(&mut out);
    out.extend_from_slice(content);
    pad(&mut out, content.len() as u64);
    out
}

/// A header with one byte changed and its checksum set right again.
fn forged(name: &[u8], change: impl Fn(&mut [u8])) -> Vec<u8> {
    let mut block = entry(name, Type::File, b"", b"");
    change(&mut block[..BLOCK]);
    block[148..156].fill(b' ');
    let sum: u64 = block[..BLOCK].iter().map(|byte| u64::from(*byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[test]
fn a_tree_comes_back_as_it_was() {
    let from = tempfile::tempdir().unwrap();
    let top = from.path();
    let deep = top
        .join("d".repeat(90))
        .join("e".repeat(90))
        .join("f".repeat(90));
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::write(deep.join("long"), "long").unwrap();
    let odd = std::ffi::OsStr::from_bytes(b"\xff \n\t");
    std::fs::write(top.join(odd), "odd").unwrap();
    std::fs::write(top.join("big"), vec![7; 700_001]).unwrap();
    std::fs::write(top.join("empty"), "").unwrap();
    std::fs::set_permissions(top.join("empty"), PermissionsExt::from_mode(0o640)).unwrap();
    std::fs::hard_link(top.join("big"), top.join("second")).unwrap();
    symlink("/nowhere/at/all", top.join("link")).unwrap();
    std::fs::create_dir(top.join("closed")).unwrap();
    std::fs::write(top.join("closed/in"), "in").unwrap();
    std::fs::set_permissions(top.join("closed"), PermissionsExt::from_mode(0o555)).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        top.join("fifo"),
        rustix::fs::FileType::Fifo,
        Mode::RUSR,
        0,
    )
    .unwrap();

    let stream = pack(top);
    assert_eq!(stream.len() % BLOCK, 0);
    for cut in [1, 511, 512, 513, stream.len()] {
        let to = tempfile::tempdir().unwrap();
        let new = to.path();
        unpack(&stream, new, cut).unwrap();
        let below = |path: &Path| new.join(path.strip_prefix(top).unwrap());
        assert_eq!(
            std::fs::read_to_string(below(&deep).join("long")).unwrap(),
            "long"
        );
        assert_eq!(std::fs::read_to_string(new.join(odd)).unwrap(), "odd");
        assert_eq!(std::fs::read(new.join("big")).unwrap(), vec![7; 700_001]);
        let (big, second) = (
            new.join("big").metadata().unwrap(),
            new.join("second").metadata().unwrap(),
        );
        assert_eq!(big.ino(), second.ino());
        assert_eq!(big.mtime(), top.join("big").metadata().unwrap().mtime());
        assert_eq!(new.join("empty").metadata().unwrap().mode() & 0o7777, 0o640);
        assert_eq!(
            new.join("closed").metadata().unwrap().mode() & 0o7777,
            0o555
        );
        assert_eq!(
            std::fs::read_link(new.join("link")).unwrap(),
            Path::new("/nowhere/at/all")
        );
        assert!(!new.join("fifo").exists());
    }
}

#[test]
fn the_systems_tar_reads_ours_and_ours_reads_its() {
    let from = tempfile::tempdir().unwrap();
    let long = "n".repeat(180);
    std::fs::write(from.path().join(&long), "content").unwrap();
    symlink("t".repeat(150), from.path().join("link")).unwrap();
    for format in ["gnu", "pax", "ustar"] {
        let archive = tempfile::NamedTempFile::new().unwrap();
        run(
            &[
                "tar",
                "--format",
                format,
                "-cf",
                text(archive.path()),
                "-C",
                text(from.path()),
                ".",
            ],
            format != "ustar",
        );
        if format == "ustar" {
            continue;
        }
        let to = tempfile::tempdir().unwrap();
        unpack(&std::fs::read(archive.path()).unwrap(), to.path(), 1000).unwrap();
        assert_eq!(
            std::fs::read_to_string(to.path().join(&long)).unwrap(),
            "content"
        );
        assert_eq!(
            std::fs::read_link(to.path().join("link")).unwrap(),
            Path::new(&"t".repeat(150))
        );
    }
    let archive = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(archive.path(), pack(from.path())).unwrap();
    let to = tempfile::tempdir().unwrap();
    run(
        &["tar", "-xf", text(archive.path()), "-C", text(to.path())],
        true,
    );
    assert_eq!(
        std::fs::read_to_string(to.path().join(&long)).unwrap(),
        "content"
    );
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the system's tar is the judge")]
fn run(command: &[&str], must: bool) {
    let status = std::process::Command::new(command[0])
        .args(&command[1..])
        .stderr(std::process::Stdio::null())
        .status();
    assert!(status.unwrap().success() || !must);
}

#[test]
fn nothing_leaves_the_directory() {
    let outer = tempfile::tempdir().unwrap();
    let victim = outer.path().join("victim");
    let victim_text = text(&victim).as_bytes();
    let streams: Vec<(&str, Vec<u8>)> = vec![
        ("dot dot", entry(b"../victim", Type::File, b"", b"x")),
        (
            "dot dot inside",
            entry(b"a/../../victim", Type::File, b"", b"x"),
        ),
        ("absolute", entry(victim_text, Type::File, b"", b"x")),
        (
            "link, then a file below it",
            [
                entry(b"l", Type::Symlink, b"..", b""),
                entry(b"l/victim", Type::File, b"", b"x"),
            ]
            .concat(),
        ),
        (
            "absolute link, then a file below it",
            [
                entry(b"l", Type::Symlink, text(outer.path()).as_bytes(), b""),
                entry(b"l/victim", Type::File, b"", b"x"),
            ]
            .concat(),
        ),
        (
            "link, then a directory over it, then a file",
            [
                entry(b"l", Type::Symlink, b"..", b""),
                entry(b"l/", Type::Directory, b"", b""),
                entry(b"l/victim", Type::File, b"", b"x"),
            ]
            .concat(),
        ),
        (
            "hard link out",
            entry(b"l", Type::HardLink, b"../secret", b""),
        ),
        (
            "hard link to an absolute name",
            entry(b"l", Type::HardLink, b"/etc/passwd", b""),
        ),
        (
            "hard link through a link",
            [
                entry(b"d", Type::Symlink, b"..", b""),
                entry(b"l", Type::HardLink, b"d/secret", b""),
            ]
            .concat(),
        ),
    ];
    for (what, stream) in streams {
        let dir = tempfile::tempdir_in(outer.path()).unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        let outcome = unpack(&stream, dir.path(), 700);
        assert!(outcome.is_err(), "{what}");
        assert!(!victim.exists(), "{what}");
        assert_eq!(
            std::fs::read_to_string(outer.path().join("secret")).unwrap(),
            "secret",
            "{what}"
        );
    }
}

#[test]
fn a_file_is_not_written_through_a_link_of_its_name() {
    let outer = tempfile::tempdir().unwrap();
    std::fs::write(outer.path().join("secret"), "secret").unwrap();
    let dir = tempfile::tempdir_in(outer.path()).unwrap();
    let stream = [
        entry(b"l", Type::Symlink, b"../secret", b""),
        entry(b"l", Type::File, b"", b"replaced"),
    ]
    .concat();
    unpack(&stream, dir.path(), 512).unwrap();
    assert_eq!(
        std::fs::read_to_string(outer.path().join("secret")).unwrap(),
        "secret"
    );
    assert_eq!(
        std::fs::read_to_string(dir.path().join("l")).unwrap(),
        "replaced"
    );
}

#[test]
fn devices_pipes_sparse_and_set_id_are_refused() {
    for kind in *b"346SV" {
        let dir = tempfile::tempdir().unwrap();
        let stream = forged(b"x", |block| block[156] = kind);
        assert_eq!(
            unpack(&stream, dir.path(), 512).unwrap_err().kind,
            Kind::InvalidArgument
        );
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
    for mode in [*b"0004755", *b"0002755"] {
        let dir = tempfile::tempdir().unwrap();
        let stream = forged(b"x", |block| block[100..107].copy_from_slice(&mode));
        assert!(unpack(&stream, dir.path(), 512).is_err());
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}

#[test]
fn claims_of_size_allocate_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for kind in *b"LKx" {
        let stream = forged(b"x", |block| {
            block[156] = kind;
            block[124..136].copy_from_slice(b"77777777777\0");
        });
        assert_eq!(
            unpack(&stream, dir.path(), 512).unwrap_err().kind,
            Kind::TooMuch
        );
    }
    let huge = forged(b"huge", |block| {
        block[124..136].copy_from_slice(b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff");
    });
    assert_eq!(
        unpack(&huge, dir.path(), 512).unwrap_err().kind,
        Kind::InvalidArgument
    );
    assert_eq!(dir.path().join("huge").metadata().unwrap().len(), 0);
}

#[test]
fn a_torn_or_malformed_stream_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let whole = [entry(b"a", Type::File, b"", b"hello"), vec![0; 1024]].concat();
    for end in (1..512).step_by(17).chain([513, 516, 600]) {
        assert!(unpack(&whole[..end], dir.path(), 100).is_err(), "{end}");
    }
    let mut broken = whole;
    broken[0] ^= 1;
    assert!(unpack(&broken, dir.path(), 512).is_err());
    let records = [entry(b"x", Type::File, b"", b"99 path=x\n"), vec![0; 1024]].concat();
    let mut records = records;
    records[156] = b'x';
    records[148..156].fill(b' ');
    let sum: u64 = records[..BLOCK].iter().map(|byte| u64::from(*byte)).sum();
    records[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert!(unpack(&records, dir.path(), 512).is_err());
}

#[test]
fn noise_never_panics() {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let dir = tempfile::tempdir().unwrap();
    let base = [
        entry(b"a/b", Type::File, b"", b"hello"),
        entry(b"l", Type::Symlink, b"t", b""),
    ]
    .concat();
    for _ in 0..3000 {
        let mut stream = base.clone();
        for _ in 0..4 {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(seed >> 33).unwrap() % stream.len();
            stream[at] = seed.to_le_bytes()[1];
        }
        let sum: u64 = stream[..BLOCK]
            .iter()
            .enumerate()
            .map(|(at, byte)| {
                u64::from(if (148..156).contains(&at) {
                    b' '
                } else {
                    *byte
                })
            })
            .sum();
        stream[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        let _ = unpack(&stream, dir.path(), 333);
    }
}

#[test]
fn pipes_and_sockets_are_left_out_and_named() {
    let from = tempfile::tempdir().unwrap();
    let top = std::fs::File::open(from.path()).unwrap();
    for name in ["pipe", "odd\nname"] {
        rustix::fs::mkfifoat(&top, name, Mode::RWXU).unwrap();
    }
    let _socket = std::os::unix::net::UnixListener::bind(from.path().join("sock")).unwrap();
    std::fs::write(from.path().join("file"), "x").unwrap();
    let stream = pack(from.path());
    for record in [
        "22 NAMZU.skipped=pipe\n",
        "22 NAMZU.skipped=sock\n",
        "27 NAMZU.skipped=odd\\nname\n",
    ] {
        let holds = stream
            .windows(record.len())
            .any(|part| part == record.as_bytes());
        assert!(holds, "{record}");
    }
    // Our own reader passes over them.
    let to = tempfile::tempdir().unwrap();
    unpack(&stream, to.path(), 1000).unwrap();
    let names: Vec<_> = std::fs::read_dir(to.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["file"]);
}

#[test]
fn a_record_counts_its_own_length() {
    use super::format::record;
    for length in [1, 80, 90, 91, 92, 93, 980, 990, 991, 992] {
        let record = record("k", &"v".repeat(length));
        let stated = record.split(' ').next().unwrap();
        assert_eq!(stated, record.len().to_string());
    }
}

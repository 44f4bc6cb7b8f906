//! Attacks on the host through a tar stream.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use namzu_sandbox::ErrorCode;
use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use super::{Limits, Unpacked, unpack};

const LIMITS: Limits = Limits { bytes: 1 << 20 };

/// An outer directory with a file to attack, and the place to unpack in it.
struct Host {
    outer: TempDir,
}

impl Host {
    fn new() -> Self {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("dst")).unwrap();
        fs::write(outer.path().join("secret"), "safe").unwrap();
        Self { outer }
    }

    fn dst(&self) -> std::path::PathBuf {
        self.outer.path().join("dst")
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dst()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    fn unpack(&self, tar: &[u8]) -> Result<Unpacked, namzu_sandbox::Error> {
        let root = File::open(self.dst()).unwrap();
        unpack(tar, root.as_fd(), LIMITS)
    }

    /// Unpacks what must be refused once and must not touch the outer directory.
    #[track_caller]
    fn refuses(&self, tar: &[u8], why: &str) {
        let done = self.unpack(tar).unwrap();
        assert_eq!(done.refused, 1, "{:?}", done.reasons);
        assert!(done.reasons[0].contains(why), "{:?}", done.reasons);
        self.is_unharmed();
    }

    #[track_caller]
    fn is_unharmed(&self) {
        let mut names: Vec<_> = fs::read_dir(self.outer.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["dst", "secret"]);
        let secret = self.outer.path().join("secret");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "safe");
        assert_eq!(secret.metadata().unwrap().nlink(), 1);
    }
}

/// A tar stream, written without the checks of a well-meaning writer.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn entry(mut self, kind: EntryType, name: &str, link: &str, mode: u32, body: &[u8]) -> Self {
        let mut header = Header::new_gnu();
        let raw = header.as_old_mut();
        raw.name[..name.len()].copy_from_slice(name.as_bytes());
        raw.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_size(body.len() as u64);
        header.set_cksum();
        self.0.extend_from_slice(header.as_bytes());
        self.0.extend_from_slice(body);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, name: &str, body: &str) -> Self {
        self.entry(EntryType::Regular, name, "", 0o644, body.as_bytes())
    }

    fn symlink(self, name: &str, target: &str) -> Self {
        self.entry(EntryType::Symlink, name, target, 0o777, b"")
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

#[test]
fn an_honest_tree_arrives_whole() {
    let host = Host::new();
    let tar = Tar::default()
        .entry(EntryType::Directory, "./", "", 0o755, b"")
        .entry(EntryType::Directory, "./bin", "", 0o555, b"")
        .entry(EntryType::Regular, "./bin/tool", "", 0o755, b"#!/bin/sh\n")
        .symlink("./link", "bin/tool")
        .symlink("./bin/up", "../link")
        .entry(EntryType::Link, "./again", "./bin/tool", 0o755, b"")
        .file("deep/er/file name\n", "x")
        .end();
    let done = host.unpack(&tar).unwrap();
    assert_eq!(
        done,
        Unpacked {
            bytes: 11,
            ..Unpacked::default()
        }
    );
    let dst = host.dst();
    assert_eq!(
        fs::read_to_string(dst.join("bin/up")).unwrap(),
        "#!/bin/sh\n"
    );
    assert_eq!(
        fs::read_to_string(dst.join("again")).unwrap(),
        "#!/bin/sh\n"
    );
    assert_eq!(
        fs::read_to_string(dst.join("deep/er/file name\n")).unwrap(),
        "x"
    );
    assert_eq!(
        dst.join("bin/tool").metadata().unwrap().mode() & 0o111,
        0o111
    );
    assert_eq!(dst.join("bin").metadata().unwrap().mode() & 0o700, 0o700);
}

#[test]
fn a_name_with_dotdot_is_refused() {
    for name in ["../evil", "a/../../evil", "a/..", ".."] {
        Host::new().refuses(&Tar::default().file(name, "x").end(), "`..`");
    }
}

#[test]
fn an_absolute_name_is_refused() {
    Host::new().refuses(&Tar::default().file("/tmp/evil", "x").end(), "absolute");
}

#[test]
fn a_symlink_that_leads_out_is_refused() {
    for (name, target, why) in [
        ("l", "/etc", "absolute"),
        ("l", "..", "leads out"),
        ("l", "../secret", "leads out"),
        ("a/l", "../../secret", "leads out"),
        ("l", "a/../../secret", "down and up"),
        ("l", "", "target"),
    ] {
        Host::new().refuses(&Tar::default().symlink(name, target).end(), why);
    }
}

#[test]
fn two_links_that_lead_out_together_are_refused() {
    // `up` is harmless where it lies; through it, `x/y/up/..` would be above the root.
    let tar = Tar::default()
        .symlink("x/y/up", "../..")
        .symlink("l", "x/y/up/../secret")
        .end();
    Host::new().refuses(&tar, "down and up");
}

#[test]
fn a_file_behind_a_symlink_is_refused() {
    let tar = Tar::default().symlink("l", ".").file("l/f", "x").end();
    Host::new().refuses(&tar, "in the way");
}

#[test]
fn a_symlink_that_was_there_is_neither_followed_nor_written_through() {
    let host = Host::new();
    std::os::unix::fs::symlink("../", host.dst().join("dir")).unwrap();
    std::os::unix::fs::symlink("../secret", host.dst().join("file")).unwrap();
    host.refuses(&Tar::default().file("dir/secret", "x").end(), "in the way");
    let dir = Tar::default()
        .entry(EntryType::Directory, "dir", "", 0o755, b"")
        .end();
    host.refuses(&dir, "in the way");
    // A file takes the place of the link itself.
    let done = host
        .unpack(&Tar::default().file("file", "new").end())
        .unwrap();
    assert_eq!(done.refused, 0);
    assert!(
        !host
            .dst()
            .join("file")
            .symlink_metadata()
            .unwrap()
            .is_symlink()
    );
    host.is_unharmed();
}

#[test]
fn a_hard_link_to_the_outside_is_refused() {
    for (target, why) in [("../secret", "`..`"), ("/etc/passwd", "absolute")] {
        let tar = Tar::default()
            .entry(EntryType::Link, "l", target, 0o644, b"")
            .end();
        Host::new().refuses(&tar, why);
    }
}

#[test]
fn a_hard_link_through_or_to_a_symlink_is_refused() {
    let host = Host::new();
    std::os::unix::fs::symlink("..", host.dst().join("dir")).unwrap();
    let through = Tar::default()
        .entry(EntryType::Link, "l", "dir/secret", 0o644, b"")
        .end();
    host.refuses(&through, "in the way");
    // Moved one up by its second name, a harmless symlink would lead out.
    let moved = Tar::default()
        .symlink("a/b/up", "../..")
        .entry(EntryType::Link, "up", "a/b/up", 0o644, b"")
        .end();
    Host::new().refuses(&moved, "other than a file");
}

#[test]
fn devices_and_pipes_are_refused() {
    for (kind, why) in [
        (EntryType::Char, "device"),
        (EntryType::Block, "device"),
        (EntryType::Fifo, "pipe"),
        (EntryType::GNUSparse, "unknown"),
        (EntryType::new(b'V'), "unknown"),
    ] {
        let tar = Tar::default().entry(kind, "x", "", 0o644, b"").end();
        let host = Host::new();
        host.refuses(&tar, why);
        assert!(host.dst().join("x").symlink_metadata().is_err());
    }
}

#[test]
fn setuid_never_arrives() {
    let host = Host::new();
    for mode in [0o4755, 0o2755, 0o6755] {
        let tar = Tar::default()
            .entry(EntryType::Regular, "su", "", mode, b"x")
            .end();
        host.refuses(&tar, "set-user-id");
        assert!(!host.dst().join("su").exists());
    }
    let tar = Tar::default()
        .entry(EntryType::Directory, "d", "", 0o7777, b"")
        .end();
    assert_eq!(host.unpack(&tar).unwrap().refused, 0);
    assert_eq!(host.dst().join("d").metadata().unwrap().mode() & 0o7000, 0);
}

#[test]
fn a_directory_is_never_replaced_by_a_file() {
    let host = Host::new();
    fs::create_dir(host.dst().join("d")).unwrap();
    fs::write(host.dst().join("d/kept"), "").unwrap();
    host.refuses(&Tar::default().file("d", "x").end(), "in the way");
    assert!(host.dst().join("d/kept").exists());
    assert_eq!(host.names(), ["d"]);
}

#[test]
fn a_file_that_was_there_keeps_its_other_names() {
    let host = Host::new();
    fs::hard_link(host.outer.path().join("secret"), host.dst().join("f")).unwrap();
    let done = host
        .unpack(&Tar::default().file("f", "evil").end())
        .unwrap();
    assert_eq!(done.refused, 0);
    host.is_unharmed();
}

#[test]
fn more_than_the_limit_stops_before_it_is_written() {
    let host = Host::new();
    let tar = Tar::default().file("a", "x").entry(
        EntryType::Regular,
        "big",
        "",
        0o644,
        &vec![0; 1 << 20],
    );
    let err = host.unpack(&tar.end()).unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
    assert_eq!(host.names(), ["a"]);
}

#[test]
fn a_size_that_only_the_header_claims_is_no_allocation() {
    // 2^62 bytes of a file, and of each kind of extended header.
    for kind in [
        EntryType::Regular,
        EntryType::XHeader,
        EntryType::GNULongName,
        EntryType::GNULongLink,
    ] {
        let mut header = Header::new_gnu();
        header.set_path("x").unwrap();
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(1 << 62);
        header.set_cksum();
        let err = Host::new().unpack(header.as_bytes()).unwrap_err();
        assert!(
            matches!(
                err.code(),
                ErrorCode::InvalidArgument | ErrorCode::ProtocolViolation
            ),
            "{err}"
        );
    }
}

#[test]
fn a_stream_that_ends_early_is_a_violation() {
    let tar = Tar::default().file("a", &"x".repeat(2000)).end();
    for cut in [1, 511, 513, 1500] {
        let host = Host::new();
        let err = host.unpack(&tar[..cut]).unwrap_err();
        assert_eq!(err.code(), ErrorCode::ProtocolViolation, "{cut}");
        assert!(host.names().is_empty(), "{:?}", host.names());
    }
}

#[test]
fn a_long_name_by_either_extension_is_held_to_the_same_rules() {
    let long = format!("{}/../../evil", "d/".repeat(80));
    let gnu = Tar::default()
        .entry(
            EntryType::GNULongName,
            "././@LongLink",
            "",
            0o644,
            long.as_bytes(),
        )
        .file("x", "x")
        .end();
    Host::new().refuses(&gnu, "`..`");
    let record = |key: &str, value: &str| {
        let body = format!(" {key}={value}\n");
        let len = body.len() + 3;
        assert!((100..1000).contains(&len));
        format!("{len}{body}")
    };
    let pax = Tar::default()
        .entry(
            EntryType::XHeader,
            "pax",
            "",
            0o644,
            record("path", &long).as_bytes(),
        )
        .file("x", "x")
        .end();
    Host::new().refuses(&pax, "`..`");
    let link = format!("{}..", "../".repeat(60));
    let pax = Tar::default()
        .entry(
            EntryType::XHeader,
            "pax",
            "",
            0o644,
            record("linkpath", &link).as_bytes(),
        )
        .symlink("x", "ok")
        .end();
    Host::new().refuses(&pax, "leads out");
}

#[test]
fn two_stated_sizes_are_a_violation() {
    let pax = Tar::default()
        .entry(EntryType::XHeader, "pax", "", 0o644, b"12 size=512\n")
        .file("x", "x")
        .end();
    let err = Host::new().unpack(&pax).unwrap_err();
    assert_eq!(err.code(), ErrorCode::ProtocolViolation);
}

#[test]
fn an_ordinary_writer_is_understood() {
    let mut builder = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_size(3);
    header.set_mode(0o600);
    let name = format!("{}name", "long/".repeat(40));
    builder
        .append_data(&mut header, &name, &b"abc"[..])
        .unwrap();
    builder.get_mut().flush().unwrap();
    let host = Host::new();
    assert_eq!(
        host.unpack(&builder.into_inner().unwrap()).unwrap().bytes,
        3
    );
    let file = host.dst().join(Path::new(&name));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn many_refusals_are_counted_and_few_are_named() {
    let mut tar = Tar::default();
    for _ in 0..100 {
        tar = tar.file("../x", "");
    }
    let done = Host::new().unpack(&tar.end()).unwrap();
    assert_eq!((done.refused, done.reasons.len()), (100, 20));
}

#[test]
fn a_tree_that_is_too_deep_stops_with_a_word() {
    let long = |levels: usize| {
        let name = format!("{}f", "d/".repeat(levels));
        let tar = Tar::default().entry(EntryType::GNULongName, "long", "", 0o644, name.as_bytes());
        tar.file("x", "x").end()
    };
    assert_eq!(Host::new().unpack(&long(200)).unwrap().bytes, 1);
    let err = Host::new().unpack(&long(202)).unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
    assert!(err.to_string().contains("levels deep"), "{err}");
}

#[test]
fn what_the_worker_left_out_is_named() {
    let host = Host::new();
    let mut tar = Builder::new(Vec::new());
    for record in ["21 NAMZU.skipped=d/p\n", "15 comment=xyz\n"] {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::XGlobalHeader);
        header.set_size(record.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, "pax_global_header", record.as_bytes())
            .unwrap();
    }
    let done = host.unpack(&tar.into_inner().unwrap()).unwrap();
    assert_eq!(done.refused, 1);
    assert_eq!(done.reasons, ["`d/p`: it is a pipe, a socket or a device"]);
    assert!(host.names().is_empty());
}

//! Files: exact bytes, exact names, and no way out through a path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namzu_client::{ExecRequest, FileKind, Sandbox};
use namzu_core::ErrorCode;
use namzu_core::types::Strength;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::conformance::bench::{Bench, run, sh};
use crate::conformance::case::{Case, When, always, case};
use crate::conformance::check::{Failure, Verdict, ensure, ensure_eq, refused_with, shown};
use crate::conformance::exec::pattern;
use crate::conformance::host;

pub(crate) const CASES: &[Case] = &[
    case!("files", bytes_come_back_at_every_size, always),
    case!("files", host_and_commands_see_the_same_file, always),
    case!("files", ranges_are_exact, always),
    case!("files", names_are_bytes, always),
    case!("files", names_that_are_no_text_work, |b| b.system()),
    case!("files", parents_are_made_and_old_content_is_cut, always),
    case!("files", failures_are_told_apart, always),
    case!("files", list_stat_rename_remove, always),
    case!("files", modes_and_links_are_reported, |b| b.system()),
    case!("files", a_cap_is_kept_against_endless_files, |b| b.system()),
    case!("files", a_fifo_does_not_hang, |b| b.system()),
    case!("files", five_gibibytes_are_addressed, |b| b.system()),
    case!(
        "files",
        a_large_file_is_flat_in_memory,
        |b| b.system(),
        alone
    ),
    case!("files", no_path_leads_to_the_host, walled),
    case!("files", no_link_leads_a_write_out, |b| walled(b)
        .and(b.system())),
];

fn walled(bench: &Bench) -> When {
    When::declared(
        bench.capabilities.filesystem == Strength::Enforced,
        "a filesystem view",
    )
}

async fn bytes_come_back_at_every_size(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    for len in [0, 1, 4_095, 65_536, 65_537, (3 << 20) + 1] {
        let bytes = pattern(len);
        files.write("sized.bin", &bytes).await?;
        ensure_eq!(
            files.stat("sized.bin").await?.size,
            len as u64,
            "size of {len} bytes"
        );
        let back = files.read("sized.bin", 16 << 20).await?;
        ensure!(
            back == bytes,
            "of {len} bytes {} came, or others",
            back.len()
        );
        let count = files.write_from("streamed.bin", bytes.as_slice()).await?;
        ensure_eq!(count, len as u64, "bytes streamed in");
        let mut reader = files.reader("streamed.bin").await?;
        let mut back = Vec::new();
        reader.read_to_end(&mut back).await?;
        ensure!(back == bytes, "of {len} bytes {} came out", back.len());
    }
    Ok(())
}

async fn host_and_commands_see_the_same_file(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let bytes = pattern(70_000);
    sandbox.files().write("shared.bin", &bytes).await?;
    let printed = run(&sandbox, ExecRequest::new(["cat", "shared.bin"])).await?;
    ensure!(printed == bytes, "a command read {} bytes", printed.len());
    run(&sandbox, sh("printf 'by a command' > made")).await?;
    let back = sandbox.files().read("made", 1000).await?;
    ensure_eq!(back, b"by a command".to_vec(), "what a command wrote");
    let absolute = format!("{}/made", sandbox.workspace());
    ensure_eq!(
        sandbox.files().stat(&absolute).await?.path,
        PathBuf::from(&absolute),
        "the absolute path of a relative one"
    );
    Ok(())
}

async fn ranges_are_exact(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    let bytes = pattern(10_000);
    files.write("ranged", &bytes).await?;
    for (from, to) in [
        (0, 1),
        (0, 10_000),
        (1, 2),
        (4_000, 4_000),
        (9_999, 10_000),
        (255, 8_193),
    ] {
        let part = files.read_range("ranged", from..to).await?;
        let (from, to) = (usize::try_from(from)?, usize::try_from(to)?);
        ensure!(
            part == bytes[from..to],
            "{from}..{to} gave {} bytes, or others",
            part.len()
        );
    }
    let part = files.read_range("ranged", 9_990..20_000).await?;
    ensure!(part == bytes[9_990..], "past the end: {} bytes", part.len());
    let part = files.read_range("ranged", 10_000..10_001).await?;
    ensure!(part.is_empty(), "at the end: {} bytes", part.len());
    Ok(())
}

/// Writes, lists, reads, renames and removes under a name, and lets a command read it too.
async fn round_trip(sandbox: &Sandbox, name: &[u8]) -> Verdict {
    let files = sandbox.files();
    let what = shown(name);
    let path = Path::new("names").join(OsStr::from_bytes(name));
    files.write(&path, name).await?;
    let listed = files.list("names", 1).await?;
    ensure!(
        listed
            .iter()
            .any(|info| info.path.file_name() == Some(OsStr::from_bytes(name))),
        "{what} is not in the list: {listed:?}"
    );
    ensure_eq!(
        files.read(&path, 1000).await?,
        name.to_vec(),
        "{what}: its bytes"
    );
    ensure_eq!(
        files.stat(&path).await?.size,
        name.len() as u64,
        "{what}: its size"
    );
    let inside = [b"names/".as_slice(), name].concat();
    let argv = [b"cat".to_vec(), b"--".to_vec(), inside];
    let printed = run(sandbox, ExecRequest::new(argv)).await?;
    ensure_eq!(printed, name.to_vec(), "{what}: what a command reads");
    let moved = Path::new("moved").join(OsStr::from_bytes(name));
    files.rename(&path, &moved).await?;
    ensure_eq!(
        files.read(&moved, 1000).await?,
        name.to_vec(),
        "{what}: renamed"
    );
    files.remove(&moved).await?;
    refused_with(
        files.stat(&moved).await,
        ErrorCode::NotFound,
        &format!("{what}: removed"),
    )?;
    Ok(())
}

async fn names_are_bytes(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let long = "n".repeat(255);
    for name in [
        " ",
        " leading and trailing ",
        "new\nline",
        "tab\there",
        "quote'\"",
        "back\\slash",
        "a?b&c=d#e%2F%00",
        "+plus+",
        "-rf",
        "…",
        "ünï 🦀",
        "e\u{301} is not é",
        "\u{1}\u{7f}",
        "$(id)",
        "*",
        "c:drive",
        &long,
    ] {
        round_trip(&sandbox, name.as_bytes()).await?;
    }
    Ok(())
}

async fn names_that_are_no_text_work(bench: Arc<Bench>) -> Verdict {
    const NAME: &[u8] = b"\xff\xfe latin \xe9";
    let sandbox = bench.sandbox().await?;
    round_trip(&sandbox, NAME).await?;
    // By tar as well, whoever made the file.
    let files = sandbox.files();
    let argv = [b"mkdir".to_vec(), b"-p".to_vec(), [b"odd/", NAME].concat()];
    run(&sandbox, ExecRequest::new(argv)).await?;
    let mut packed = Vec::new();
    files.tar_out("odd").await?.read_to_end(&mut packed).await?;
    files.make_dir("to").await?;
    files.tar_in("to", packed.as_slice()).await?;
    let found = run(&sandbox, sh("find to -type d")).await?;
    ensure!(
        found.windows(NAME.len()).any(|window| window == NAME),
        "unpacked as {}",
        shown(&found)
    );
    Ok(())
}

async fn parents_are_made_and_old_content_is_cut(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    files.write("a/b/c/file", "a long first content").await?;
    files.write("a/b/c/file", "short").await?;
    ensure_eq!(
        files.read("a/b/c/file", 100).await?,
        b"short".to_vec(),
        "the second content"
    );
    Ok(())
}

async fn failures_are_told_apart(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    files.make_dir("dir").await?;
    files.write("file", "0123456789").await?;
    refused_with(
        files.read("absent", 1).await,
        ErrorCode::NotFound,
        "reading what is absent",
    )?;
    refused_with(
        files.stat("absent").await,
        ErrorCode::NotFound,
        "stat of what is absent",
    )?;
    refused_with(
        files.list("absent", 1).await,
        ErrorCode::NotFound,
        "listing what is absent",
    )?;
    refused_with(
        files.rename("absent", "b").await,
        ErrorCode::NotFound,
        "renaming what is absent",
    )?;
    refused_with(
        files.read("file", 9).await,
        ErrorCode::InvalidArgument,
        "reading past the cap",
    )?;
    ensure_eq!(
        files.read("file", 10).await?.len(),
        10,
        "reading up to the cap"
    );
    refused_with(
        files.read("dir", 9).await,
        ErrorCode::InvalidArgument,
        "reading a directory",
    )?;
    refused_with(
        files.write("dir", "x").await,
        ErrorCode::InvalidArgument,
        "writing to a directory",
    )?;
    refused_with(
        files.list("file", 1).await,
        ErrorCode::InvalidArgument,
        "listing a file",
    )?;
    refused_with(
        files.make_dir("dir").await,
        ErrorCode::AlreadyExists,
        "making a directory twice",
    )?;
    files.remove("absent").await?;
    Ok(())
}

fn relative(sandbox: &Sandbox, path: &Path) -> PathBuf {
    path.strip_prefix(sandbox.workspace())
        .unwrap_or(path)
        .to_owned()
}

async fn list_stat_rename_remove(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    files.write("top/one", "1").await?;
    files.write("top/sub/two", "22").await?;
    files.make_dir("top/sub/deep/empty").await?;
    let names = async |depth| -> Verdict<Vec<String>> {
        let mut names: Vec<_> = files
            .list("top", depth)
            .await?
            .into_iter()
            .map(|info| relative(&sandbox, &info.path).display().to_string())
            .collect();
        names.sort();
        Ok(names)
    };
    ensure_eq!(names(1).await?, ["top/one", "top/sub"], "one level");
    ensure_eq!(
        names(2).await?,
        ["top/one", "top/sub", "top/sub/deep", "top/sub/two"],
        "two levels"
    );
    let info = files.stat("top/sub/two").await?;
    ensure_eq!(info.kind, FileKind::File, "a file's kind");
    ensure_eq!(info.size, 2, "a file's size");
    ensure_eq!(
        files.stat("top/sub").await?.kind,
        FileKind::Directory,
        "a directory's kind"
    );
    files.rename("top/sub", "new/place").await?;
    ensure_eq!(names(1).await?, ["top/one"], "after the rename");
    ensure_eq!(
        files.read("new/place/two", 10).await?,
        b"22".to_vec(),
        "renamed with what is below"
    );
    files.remove("new").await?;
    refused_with(
        files.stat("new/place/two").await,
        ErrorCode::NotFound,
        "removed",
    )?;
    Ok(())
}

async fn modes_and_links_are_reported(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    run(
        &sandbox,
        sh(
            "echo x > private; chmod 0640 private; echo '#!/bin/sh' > program; chmod 0755 program; \
            ln -s private link; ln -s nowhere dangling",
        ),
    )
    .await?;
    let files = sandbox.files();
    ensure_eq!(
        files.stat("private").await?.mode & 0o7777,
        0o640,
        "mode of a file"
    );
    ensure_eq!(
        files.stat("program").await?.mode & 0o7777,
        0o755,
        "mode of a program"
    );
    let link = files.stat("link").await?;
    ensure_eq!(
        link.link.map(|to| relative(&sandbox, &to)),
        Some("private".into()),
        "a link"
    );
    ensure_eq!(
        files.read("link", 10).await?,
        b"x\n".to_vec(),
        "through a link"
    );
    ensure_eq!(
        files.stat("dangling").await?.kind,
        FileKind::Symlink,
        "a link to nowhere"
    );
    // Writing keeps the mode.
    files.write("program", "#!/bin/sh\nexit 4\n").await?;
    ensure_eq!(
        files.stat("program").await?.mode & 0o7777,
        0o755,
        "mode after a write"
    );
    if !bench.guest.root {
        run(&sandbox, sh("echo x > closed; chmod 0 closed")).await?;
        refused_with(
            files.read("closed", 10).await,
            ErrorCode::PermissionDenied,
            "a file nobody may read",
        )?;
    }
    Ok(())
}

async fn a_cap_is_kept_against_endless_files(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    match sandbox.files().read("/dev/zero", 1 << 20).await {
        Err(_) => {}
        Ok(bytes) => ensure!(bytes.len() <= 1 << 20, "{} bytes came", bytes.len()),
    }
    run(&sandbox, ExecRequest::new(["true"])).await?;
    Ok(())
}

async fn a_fifo_does_not_hang(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    run(&sandbox, sh("mkfifo pipe")).await?;
    let read = sandbox.files();
    let call = Box::pin(read.read("pipe", 100));
    let answer = tokio::time::timeout(bench.patience, call)
        .await
        .map_err(|_| Failure::new("reading a pipe nobody writes to hangs"))?;
    if let Ok(bytes) = answer {
        ensure!(bytes.is_empty(), "bytes came from nowhere");
    }
    run(&sandbox, ExecRequest::new(["true"])).await?;
    Ok(())
}

async fn five_gibibytes_are_addressed(bench: Arc<Bench>) -> Verdict {
    const SIZE: u64 = 5 << 30;
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    // Sparse: what is tested is that no length or offset passes through 32 bits.
    run(
        &sandbox,
        sh(&format!("truncate -s {SIZE} huge; printf end >> huge")),
    )
    .await?;
    ensure_eq!(files.stat("huge").await?.size, SIZE + 3, "its size");
    ensure_eq!(
        files.read_range("huge", SIZE - 2..SIZE + 3).await?,
        b"\0\0end".to_vec(),
        "its end"
    );
    ensure_eq!(
        files.reader("huge").await?.len(),
        Some(SIZE + 3),
        "the length announced"
    );
    Ok(())
}

async fn a_large_file_is_flat_in_memory(bench: Arc<Bench>) -> Verdict {
    const SIZE: u64 = 256 << 20;
    const GROWTH: u64 = 16 << 20;
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    files
        .write_from("warm", tokio::io::repeat(7).take(1 << 20))
        .await?;
    let before = host::resident()?;
    host::forget_peak()?;
    let count = files
        .write_from("large", tokio::io::repeat(7).take(SIZE))
        .await?;
    ensure_eq!(count, SIZE, "bytes up");
    let down = drain(files.reader("large").await?).await?;
    ensure_eq!(down, SIZE, "bytes down");
    let grown = host::peak()?.saturating_sub(before);
    ensure!(grown <= GROWTH, "the host process grew by {grown} bytes");
    files.remove("large").await?;
    Ok(())
}

async fn drain(mut reader: impl AsyncRead + Unpin) -> Verdict<u64> {
    let mut buffer = vec![0; 65_536];
    let mut total = 0;
    loop {
        let count = reader.read(&mut buffer).await?;
        if count == 0 {
            return Ok(total);
        }
        ensure!(
            buffer[..count].iter().all(|byte| *byte == 7),
            "other bytes came after {total}"
        );
        total += count as u64;
    }
}

async fn no_path_leads_to_the_host(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let secret = host::scratch("files")?;
    let path = secret.join("secret");
    std::fs::write(&path, "of the host")?;
    let climb = format!("{}{}", "../".repeat(40), path.display());
    let inside = format!(
        "{}/../../../../../..{}",
        sandbox.workspace(),
        path.display()
    );
    let root = format!("/proc/1/root{}", path.display());
    for way in [path.display().to_string(), climb, inside, root] {
        if let Ok(bytes) = sandbox.files().read(&way, 100).await {
            ensure!(bytes != b"of the host", "{way} leads to the host's file");
        }
    }
    Ok(())
}

async fn no_link_leads_a_write_out(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let place = host::scratch("target")?;
    let name = host::marker("planted")?;
    let script = format!(
        "ln -s {} out; ln -s /usr usr; ln -s /etc etc; ln -s ../../../../../.. up; ln -s /proc/1/root root",
        place.path().display()
    );
    run(&sandbox, sh(&script)).await?;
    for way in ["out", "usr", "etc", "up/usr", "root/usr"] {
        let path = format!("{way}/{name}");
        // It may succeed where the sandbox has a place of its own by that name; what counts is
        // the host.
        let _ = sandbox.files().write(&path, "planted").await;
    }
    for dir in [place.path(), Path::new("/usr"), Path::new("/etc")] {
        ensure!(
            !dir.join(&name).exists(),
            "a write through a link landed in the host's {}",
            dir.display()
        );
    }
    Ok(())
}

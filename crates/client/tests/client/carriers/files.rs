//! Files, trees and connections.

use std::time::Duration;

use namzu_client::{Sandbox, WatchKind};
use namzu_core::ErrorCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::stdout_of;
use crate::real::{Carrier, Real};

over_every_carrier! {
    files_come_back_as_they_were_written
    a_large_file_travels_both_ways
    ranges_of_a_file_are_read
    names_are_bytes
    a_path_too_long_is_the_requests_fault
    directories_are_made_listed_moved_and_removed
    changes_are_seen
    trees_travel_as_tar
    a_port_inside_is_reached
    a_port_of_ours_is_reached_from_inside
}

#[tokio::test]
async fn a_directory_is_listed_whole_or_refused_as_too_large() {
    let sandbox = Real::sandbox(Carrier::Pair).await;
    stdout_of(&sandbox, "mkdir many; cd many; seq 70000 | xargs touch").await;
    let entries = sandbox.files().list("many", 1).await.unwrap();
    assert_eq!(entries.len(), 70_000);
    stdout_of(&sandbox, "cd many; seq 140000 | xargs touch").await;
    let err = sandbox.files().list("many", 1).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument, "{err:?}");
}

async fn files_come_back_as_they_were_written(sandbox: Sandbox) {
    let files = sandbox.files();
    let bytes: Vec<u8> = (0..=255).collect();
    files.write("a/b/file", &bytes).await.unwrap();
    assert_eq!(files.read("a/b/file", 256).await.unwrap(), bytes);
    files.write("a/b/file", "").await.unwrap();
    assert_eq!(files.read("a/b/file", 256).await.unwrap(), b"");
    files.write("a/b/file", "12345").await.unwrap();
    let err = files.read("a/b/file", 4).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
    let err = files.read("none", 4).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
    let err = files.read("a", 4).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
    let info = files.stat("a/b/file").await.unwrap();
    assert_eq!(info.size, 5);
    assert_eq!(
        info.path,
        std::path::Path::new(sandbox.workspace()).join("a/b/file")
    );
}

async fn a_large_file_travels_both_ways(sandbox: Sandbox) {
    let bytes: Vec<u8> = (0_u32..3 << 20).flat_map(u32::to_le_bytes).collect();
    let files = sandbox.files();
    let sent = files.write_from("large", &mut &bytes[..]).await.unwrap();
    assert_eq!(sent, bytes.len() as u64);
    let mut reader = files.reader("large").await.unwrap();
    assert_eq!(reader.len(), Some(bytes.len() as u64));
    let mut back = Vec::new();
    reader.read_to_end(&mut back).await.unwrap();
    assert!(back == bytes, "the bytes differ");
}

async fn ranges_of_a_file_are_read(sandbox: Sandbox) {
    let files = sandbox.files();
    files.write("digits", "0123456789").await.unwrap();
    for (range, expected) in [(0..3, "012"), (8..20, "89"), (10..12, ""), (3..3, "")] {
        let read = files.read_range("digits", range).await.unwrap();
        assert_eq!(read, expected.as_bytes());
    }
    files.write("empty", "").await.unwrap();
    assert_eq!(files.read_range("empty", 0..5).await.unwrap(), b"");
    let err = files.read_range("none", 0..0).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn names_are_bytes(sandbox: Sandbox) {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let files = sandbox.files();
    let odd = OsStr::from_bytes(b"dir/a \n\t\xff%41+&=?#\xc3\xa9");
    files.write(odd, "x").await.unwrap();
    assert_eq!(files.read(odd, 9).await.unwrap(), b"x");
    let listed = files.list("dir", 1).await.unwrap();
    let path = std::path::Path::new(sandbox.workspace()).join(odd);
    assert_eq!(listed[0].path, path);
    assert_eq!(files.stat(odd).await.unwrap().path, path);
    files.rename(odd, "dir/plain").await.unwrap();
    assert_eq!(files.read("dir/plain", 9).await.unwrap(), b"x");
    let err = files.stat("a\0b").await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
}

async fn a_path_too_long_is_the_requests_fault(sandbox: Sandbox) {
    let files = sandbox.files();
    for length in [4_096, 1 << 17] {
        let path = format!("/{}", "x/".repeat(length / 2));
        let refused = [
            files.stat(&path).await.unwrap_err(),
            files.read(&path, 1).await.unwrap_err(),
            files.write(&path, "x").await.unwrap_err(),
            files.list(&path, 1).await.unwrap_err(),
            files.rename("/tmp", &path).await.unwrap_err(),
        ];
        for err in refused {
            assert_eq!(err.code(), ErrorCode::InvalidArgument, "{err:?}");
        }
    }
    // The longest that may be: it is only not there.
    let path = format!("/{}", "\u{fffd}/".repeat(1023));
    let err = files.read(&path, 1).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound, "{err:?}");
}

async fn directories_are_made_listed_moved_and_removed(sandbox: Sandbox) {
    let files = sandbox.files();
    files.make_dir("d/e").await.unwrap();
    let err = files.make_dir("d/e").await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::AlreadyExists);
    files.write("d/e/f", "x").await.unwrap();
    let names = |listed: Vec<namzu_client::FileInfo>| {
        let mut names: Vec<_> = listed
            .into_iter()
            .map(|info| info.path.file_name().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names(files.list("d", 1).await.unwrap()), ["e"]);
    assert_eq!(names(files.list("d", 2).await.unwrap()), ["e", "f"]);
    files.rename("d/e", "g/h").await.unwrap();
    assert_eq!(files.read("g/h/f", 9).await.unwrap(), b"x");
    files.remove("g").await.unwrap();
    files.remove("g").await.unwrap();
    let err = files.stat("g").await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
    let err = files.list("g", 1).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn changes_are_seen(sandbox: Sandbox) {
    let files = sandbox.files();
    files.make_dir("watched").await.unwrap();
    let mut watch = files.watch("watched", true).await.unwrap();
    files.write("watched/new", "x").await.unwrap();
    loop {
        let event = watch.next().await.unwrap().unwrap();
        assert_eq!(event.path, std::path::Path::new("new"));
        if event.kind == WatchKind::Write {
            break;
        }
    }
    let err = files.watch("none", false).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn trees_travel_as_tar(sandbox: Sandbox) {
    let files = sandbox.files();
    files.write("tree/a/b", "x").await.unwrap();
    files.write("tree/c", vec![7; 1 << 20]).await.unwrap();
    let mut tar = files.tar_out("tree").await.unwrap();
    let mut bytes = Vec::new();
    tar.read_to_end(&mut bytes).await.unwrap();
    let sent = files.tar_in("copy", &mut &bytes[..]).await.unwrap();
    assert_eq!(sent, bytes.len() as u64);
    let same = stdout_of(
        &sandbox,
        "diff -r tree copy || diff -r tree copy/tree && echo same",
    )
    .await;
    assert!(same.ends_with("same\n"), "{same}");
    let err = files
        .tar_in("copy", &mut &b"this is no tar stream"[..])
        .await
        .unwrap_err();
    assert_eq!(err.code(), ErrorCode::InvalidArgument);
    let err = files.tar_out("none").await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn a_port_inside_is_reached(sandbox: Sandbox) {
    // No wall here: a port of the host is a port inside.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tunnel = sandbox.expose(port).await.unwrap();
    let (mut inside, _) = listener.accept().await.unwrap();
    let bytes = vec![9; 3 << 20];
    let (sent, received) = tokio::join!(
        async {
            tunnel.write_all(&bytes).await?;
            tunnel.shutdown().await
        },
        async {
            let mut received = Vec::new();
            inside.read_to_end(&mut received).await?;
            inside.write_all(&received).await?;
            inside.shutdown().await?;
            Ok::<_, std::io::Error>(received)
        }
    );
    sent.unwrap();
    assert!(received.unwrap() == bytes, "the bytes differ");
    let mut back = Vec::new();
    tunnel.read_to_end(&mut back).await.unwrap();
    assert!(back == bytes, "the bytes differ");
    drop(listener);
    let err = sandbox.expose(port).await.unwrap_err();
    assert_eq!(err.code(), ErrorCode::NotFound);
}

async fn a_port_of_ours_is_reached_from_inside(sandbox: Sandbox) {
    let reach = sandbox
        .reach(0, || async {
            let (ours, mut theirs) = tokio::io::duplex(1024);
            tokio::spawn(async move {
                let mut line = [0; 5];
                theirs.read_exact(&mut line).await.unwrap();
                theirs.write_all(b"hello ").await.unwrap();
                theirs.write_all(&line).await.unwrap();
            });
            Ok(ours)
        })
        .await
        .unwrap();
    for _ in 0..10 {
        let mut inside = tokio::net::TcpStream::connect(("127.0.0.1", reach.port()))
            .await
            .unwrap();
        inside.write_all(b"world").await.unwrap();
        let mut answer = String::new();
        inside.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "hello world");
    }
    let port = reach.port();
    drop(reach);
    let closed = async {
        while tokio::net::TcpStream::connect(("127.0.0.1", port))
            .await
            .is_ok()
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), closed)
        .await
        .expect("it listens on");
}

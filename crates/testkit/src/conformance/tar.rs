//! Trees as tar streams: whole both ways, and no entry that leaves its place.

use std::path::Path;
use std::sync::Arc;

use namzu_core::ErrorCode;
use tokio::io::AsyncReadExt;

use crate::archive::{Archive, Entry};
use crate::conformance::bench::{Bench, line, run, sh};
use crate::conformance::case::{Case, case};
use crate::conformance::check::{Verdict, ensure, ensure_eq, refused_with, shown};

pub(crate) const CASES: &[Case] = &[
    case!("tar", a_tree_survives_the_round_trip, |b| b.system()),
    case!("tar", unpacked_files_have_content_mode_and_links, |b| b
        .system()),
    case!("tar", an_entry_that_leaves_is_refused, |b| b.system()),
    case!("tar", a_link_cannot_carry_a_later_entry_out, |b| b.system()),
    case!("tar", devices_and_privileged_bits_do_not_come_out, |b| b
        .system()),
    case!("tar", a_broken_stream_is_refused, |b| b.system()),
    case!("tar", packing_what_is_absent_is_not_found, |b| b.system()),
];

async fn a_tree_survives_the_round_trip(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    run(
        &sandbox,
        sh("mkdir -p from/sub/empty from/deep/er; \
            head -c 300000 /dev/urandom > from/sub/random.bin; : > from/nothing; \
            printf x > 'from/a name with spaces'; printf y > \"$(printf 'from/new\\nline')\"; \
            printf z > from/deep/er/ü; printf p > from/private; chmod 0600 from/private; \
            printf r > from/run; chmod 0755 from/run; ln -s private from/link; \
            printf l > \"from/$(printf 'n%.0s' $(seq 200))\""),
    )
    .await?;
    let mut packed = Vec::new();
    files
        .tar_out("from")
        .await?
        .read_to_end(&mut packed)
        .await?;
    files.make_dir("to").await?;
    files.tar_in("to", packed.as_slice()).await?;
    let digest = |root: &str| {
        format!(
            "cd {root} && find . | LC_ALL=C sort | while IFS= read -r f; do \
             stat -c '%n %F %a' \"$f\" 2>/dev/null; test -f \"$f\" && cksum < \"$f\"; \
             test -L \"$f\" && readlink \"$f\"; done; true"
        )
    };
    let from = line(&sandbox, &digest("from")).await?;
    // The tree's own name may or may not be part of the stream.
    let to = line(
        &sandbox,
        &digest("\"$(test -d to/from && echo to/from || echo to)\""),
    )
    .await?;
    ensure!(from.lines().count() > 15, "the tree was not made: {from}");
    ensure_eq!(to, from, "the tree after the round trip");
    Ok(())
}

async fn unpacked_files_have_content_mode_and_links(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let stream = Archive::new()
        .with(Entry::directory("d"))
        .with(Entry::file("d/file", b"content").mode(0o640))
        .with(Entry::symlink("d/link", "file"))
        .with(Entry::hard_link("d/hard", "d/file"))
        .with(Entry::file("no/parent/entry", b"deep"))
        .finish();
    let files = sandbox.files();
    files.make_dir("to").await?;
    let count = files.tar_in("to", stream.as_slice()).await?;
    ensure_eq!(count, stream.len() as u64, "bytes of the stream");
    ensure_eq!(
        files.read("to/d/file", 100).await?,
        b"content".to_vec(),
        "a file"
    );
    ensure_eq!(
        files.stat("to/d/file").await?.mode & 0o777,
        0o640,
        "its mode"
    );
    ensure_eq!(
        files.read("to/d/link", 100).await?,
        b"content".to_vec(),
        "a link"
    );
    ensure_eq!(
        files.read("to/d/hard", 100).await?,
        b"content".to_vec(),
        "a hard link"
    );
    ensure_eq!(
        files.read("to/no/parent/entry", 100).await?,
        b"deep".to_vec(),
        "a file whose directory is not in the stream"
    );
    Ok(())
}

async fn an_entry_that_leaves_is_refused(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    files.write("victim", "untouched").await?;
    let absolute = format!("{}/victim", sandbox.workspace());
    let attacks = [
        Entry::file("../victim", b"hit"),
        Entry::file("a/../../victim", b"hit"),
        Entry::file("./../victim", b"hit"),
        Entry::file(&absolute, b"hit"),
        Entry::hard_link("inside", "../victim"),
        Entry::hard_link("inside", &absolute),
    ];
    for (number, attack) in attacks.into_iter().enumerate() {
        let to = format!("to{number}");
        files.make_dir(&to).await?;
        let stream = Archive::new()
            .with(attack)
            .with(Entry::file("inside", b"hit"))
            .finish();
        let result = files.tar_in(&to, stream.as_slice()).await;
        let left = files.read("victim", 100).await?;
        ensure!(
            left == b"untouched",
            "attack {number} wrote {} outside",
            shown(&left)
        );
        refused_with(result, ErrorCode::PathRefused, &format!("attack {number}"))?;
    }
    Ok(())
}

async fn a_link_cannot_carry_a_later_entry_out(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    files.make_dir("outside").await?;
    files.write("outside/victim", "untouched").await?;
    let absolute = format!("{}/outside", sandbox.workspace());
    for (number, target) in ["../outside", absolute.as_str(), "x/../../outside"]
        .into_iter()
        .enumerate()
    {
        let to = format!("to{number}");
        files.make_dir(&to).await?;
        let through = Archive::new()
            .with(Entry::directory("x"))
            .with(Entry::symlink("way", target))
            .with(Entry::file("way/victim", b"hit"))
            .with(Entry::file("way/planted", b"hit"))
            .finish();
        // Refused or unpacked without following: either way nothing lands outside.
        let _ = files.tar_in(&to, through.as_slice()).await;
        let onto = Archive::new()
            .with(Entry::symlink("leaf", &format!("{target}/victim")))
            .with(Entry::file("leaf", b"hit"))
            .finish();
        let _ = files.tar_in(&to, onto.as_slice()).await;
        ensure_eq!(
            files.read("outside/victim", 100).await?,
            b"untouched".to_vec(),
            "the file behind {target}"
        );
        ensure_eq!(
            files.list("outside", 1).await?.len(),
            1,
            "files behind {target}"
        );
    }
    // A link that was there before, made by a command.
    run(&sandbox, sh("mkdir planted; ln -s ../outside planted/way")).await?;
    let through = Archive::new().with(Entry::file("way/new", b"hit")).finish();
    let _ = files.tar_in("planted", through.as_slice()).await;
    ensure_eq!(
        files.list("outside", 1).await?.len(),
        1,
        "files behind a planted link"
    );
    Ok(())
}

async fn devices_and_privileged_bits_do_not_come_out(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    files.make_dir("to").await?;
    for device in [
        Entry::device("to/../node", false),
        Entry::device("disk", true),
        Entry::device("memory", false),
    ] {
        let stream = Archive::new().with(device).finish();
        let _ = files.tar_in("to", stream.as_slice()).await;
    }
    let found = line(&sandbox, "find . -type b -o -type c | wc -l").await?;
    ensure_eq!(found.trim(), "0", "device nodes made");
    let stream = Archive::new()
        .with(Entry::file("su", b"#!/bin/sh\n").mode(0o6755))
        .finish();
    // Refused, or unpacked without them.
    if files.tar_in("to", stream.as_slice()).await.is_ok() {
        let mode = files.stat(Path::new("to/su")).await?.mode & 0o7777;
        ensure_eq!(mode & 0o6000, 0, "set-user-id bits of an unpacked file");
    }
    let found = line(&sandbox, "find . -perm -4000 -o -perm -2000 | wc -l").await?;
    ensure_eq!(found.trim(), "0", "files with set-user-id bits");
    Ok(())
}

async fn a_broken_stream_is_refused(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let files = sandbox.files();
    files.make_dir("to").await?;
    let whole = Archive::new()
        .with(Entry::file("file", &[7; 100_000]))
        .finish();
    let mut wrong_sum = whole.clone();
    wrong_sum[0] ^= 1;
    let lying = Archive::new()
        .with(Entry::file("file", b"x").claiming(1 << 40))
        .finish();
    for (what, stream) in [
        ("a cut stream", &whole[..50_000]),
        ("a cut header", &whole[..100]),
        ("a wrong checksum", &wrong_sum),
        ("a size that is not there", &lying),
        ("no tar at all", &[b'x'; 5_000]),
    ] {
        refused_with(
            files.tar_in("to", stream).await,
            ErrorCode::InvalidArgument,
            what,
        )?;
    }
    run(&sandbox, sh("true")).await?;
    Ok(())
}

async fn packing_what_is_absent_is_not_found(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    refused_with(
        sandbox.files().tar_out("absent").await,
        ErrorCode::NotFound,
        "packing what is absent",
    )?;
    Ok(())
}

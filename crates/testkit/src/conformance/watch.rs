//! Watches: every change below a directory, told once it is armed.

use std::path::Path;
use std::sync::Arc;

use namzu_client::{Sandbox, Watch, WatchEvent, WatchKind};
use namzu_core::ErrorCode;

use crate::conformance::bench::{Bench, run, sh};
use crate::conformance::case::{Case, case};
use crate::conformance::check::{Failure, Verdict, ensure, refused_with};

pub(crate) const CASES: &[Case] = &[
    case!("watch", changes_by_commands_are_told, |b| b.system()),
    case!("watch", changes_below_are_told_when_recursive, |b| b
        .system()),
    case!("watch", a_storm_of_changes_is_survived, |b| b.system()),
    case!("watch", what_cannot_be_watched_is_refused, |b| b.system()),
];

/// Reads events until the wanted one comes; others may come between.
async fn until(watch: &mut Watch, path: &str, kind: WatchKind) -> Verdict {
    let mut seen = Vec::new();
    while let Some(event) = watch.next().await? {
        if event.path == Path::new(path) && event.kind == kind {
            return Ok(());
        }
        seen.push(event);
    }
    Err(Failure::new(format!(
        "waiting for {kind:?} of {path} the watch ended after {seen:?}"
    )))
}

async fn watched(sandbox: &Sandbox, recursive: bool) -> Verdict<Watch> {
    sandbox.files().make_dir("watched/sub").await?;
    Ok(sandbox.files().watch("watched", recursive).await?)
}

async fn changes_by_commands_are_told(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut watch = watched(&sandbox, false).await?;
    run(&sandbox, sh("echo 1 > watched/new")).await?;
    until(&mut watch, "new", WatchKind::Create).await?;
    run(&sandbox, sh("echo 2 >> watched/new")).await?;
    until(&mut watch, "new", WatchKind::Write).await?;
    run(&sandbox, sh("chmod 600 watched/new")).await?;
    until(&mut watch, "new", WatchKind::Chmod).await?;
    run(&sandbox, sh("mv watched/new watched/moved")).await?;
    until(&mut watch, "new", WatchKind::Rename).await?;
    run(&sandbox, sh("rm watched/moved")).await?;
    until(&mut watch, "moved", WatchKind::Remove).await?;
    // One by the file calls, under a name that needs care.
    sandbox.files().write("watched/ü\nx", "1").await?;
    until(&mut watch, "ü\nx", WatchKind::Create).await?;
    Ok(())
}

async fn changes_below_are_told_when_recursive(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut flat = watched(&sandbox, false).await?;
    let mut deep = sandbox.files().watch("watched", true).await?;
    run(&sandbox, sh("echo 1 > watched/sub/below")).await?;
    until(&mut deep, "sub/below", WatchKind::Create).await?;
    // A directory made after the watch was armed counts too.
    run(&sandbox, sh("mkdir watched/later")).await?;
    until(&mut deep, "later", WatchKind::Create).await?;
    run(&sandbox, sh("echo 1 > watched/later/file")).await?;
    until(&mut deep, "later/file", WatchKind::Create).await?;
    run(&sandbox, sh("echo 1 > watched/last")).await?;
    loop {
        let Some(WatchEvent { path, .. }) = flat.next().await? else {
            return Err(Failure::new("the flat watch ended"));
        };
        ensure!(
            path.components().count() == 1,
            "a flat watch told of {}",
            path.display()
        );
        if path == Path::new("last") {
            return Ok(());
        }
    }
}

async fn a_storm_of_changes_is_survived(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let mut watch = watched(&sandbox, false).await?;
    run(
        &sandbox,
        sh("i=0; while [ $i -lt 5000 ]; do : > watched/f$i; i=$((i+1)); done; : > watched/z"),
    )
    .await?;
    // Events may be dropped under pressure, but the watch must end or go on, not hang.
    let mut count = 0_u32;
    let go_on = async {
        while let Some(event) = watch.next().await? {
            count += 1;
            if event.path == Path::new("z") {
                break;
            }
        }
        Ok::<(), Failure>(())
    };
    // An error here is the worker saying that it lost events: also an answer.
    let _ = tokio::time::timeout(bench.patience, Box::pin(go_on))
        .await
        .map_err(|_| Failure::new("the watch hangs after 5000 changes"))?;
    ensure!(count > 0, "no event came");
    run(&sandbox, sh("true")).await?;
    Ok(())
}

async fn what_cannot_be_watched_is_refused(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    sandbox.files().write("file", "x").await?;
    refused_with(
        sandbox.files().watch("absent", false).await,
        ErrorCode::NotFound,
        "watching what is absent",
    )?;
    refused_with(
        sandbox.files().watch("file", false).await,
        ErrorCode::InvalidArgument,
        "watching a file",
    )?;
    Ok(())
}

//! The workspace: a host directory as asked, and nothing of it without asking.

use std::path::PathBuf;
use std::sync::Arc;

use namzu_core::ErrorCode;
use namzu_core::types::{Access, Workspace};

use crate::conformance::bench::{Bench, run, sh, spec};
use crate::conformance::case::{Case, When, always, case};
use crate::conformance::check::{Verdict, ensure, ensure_eq, refused_with};
use crate::conformance::host;
use crate::conformance::limits::is_refused;

pub(crate) const CASES: &[Case] = &[
    case!("workspace", private_is_empty_and_writable, always),
    case!("workspace", a_host_directory_is_shared_both_ways, |b| {
        mounted(b).and(b.system())
    }),
    case!("workspace", read_only_is_read_only, |b| When::declared(
        b.capabilities.read_only_workspace,
        "a read-only workspace"
    )
    .and(b.system())),
    case!("workspace", no_litter_is_left_in_it, |b| mounted(b)
        .and(b.system())),
    case!("workspace", a_path_that_is_not_there_is_refused, mounted),
    case!("workspace", a_host_directory_undeclared_is_refused, |b| {
        When::undeclared(b.capabilities.host_workspace, "a host directory")
    }),
    case!("workspace", read_only_undeclared_is_refused, |b| {
        When::undeclared(b.capabilities.read_only_workspace, "a read-only workspace")
    }),
];

fn mounted(bench: &Bench) -> When {
    When::declared(bench.capabilities.host_workspace, "a host directory")
}

fn host_directory(path: impl Into<PathBuf>, access: Access) -> Workspace {
    Workspace::Host {
        path: path.into(),
        access,
    }
}

async fn private_is_empty_and_writable(bench: Arc<Bench>) -> Verdict {
    let sandbox = bench.sandbox().await?;
    let found = sandbox.files().list(sandbox.workspace(), 1).await?;
    ensure!(found.is_empty(), "a private workspace holds {found:?}");
    sandbox.files().write("made", "x").await?;
    Ok(())
}

async fn a_host_directory_is_shared_both_ways(bench: Arc<Bench>) -> Verdict {
    let place = host::scratch("shared")?;
    std::fs::write(place.join("from-host"), "host")?;
    let path = place.path().to_owned();
    let sandbox = bench
        .sandbox_with(|s| s.workspace = host_directory(path, Access::ReadWrite))
        .await?;
    let seen = run(&sandbox, sh("cat from-host; printf inside > from-command")).await?;
    ensure_eq!(seen, b"host".to_vec(), "a file of the host");
    sandbox.files().write("from-call", "call").await?;
    for (name, content) in [("from-command", "inside"), ("from-call", "call")] {
        let found = std::fs::read_to_string(place.join(name))?;
        ensure_eq!(found, content, "{name}, seen by the host");
    }
    Ok(())
}

async fn read_only_is_read_only(bench: Arc<Bench>) -> Verdict {
    let place = host::scratch("read-only")?;
    std::fs::write(place.join("kept"), "kept")?;
    let path = place.path().to_owned();
    let sandbox = bench
        .sandbox_with(|s| s.workspace = host_directory(path, Access::ReadOnly))
        .await?;
    let attack = sh(
        "cat kept || exit 9; (echo x > new; echo x > kept; rm -f kept; mv kept moved; mkdir d; \
         ln kept hard; chmod 777 kept; touch kept; cd /proc/self/cwd && echo x > new) 2>/dev/null; \
         exit 0",
    );
    run(&sandbox, attack).await?;
    ensure!(
        sandbox.files().write("new", "x").await.is_err(),
        "a file call wrote to a read-only workspace"
    );
    let _ = sandbox.files().remove("kept").await;
    let names: Vec<_> = std::fs::read_dir(place.path())?
        .map(|entry| entry.map(|e| e.file_name()))
        .collect::<Result<_, _>>()?;
    ensure_eq!(names, ["kept"], "what the host has");
    ensure_eq!(
        std::fs::read_to_string(place.join("kept"))?,
        "kept",
        "its content"
    );
    Ok(())
}

async fn no_litter_is_left_in_it(bench: Arc<Bench>) -> Verdict {
    let place = host::scratch("tidy")?;
    let path = place.path().to_owned();
    let sandbox = bench
        .sandbox_with(|s| s.workspace = host_directory(path, Access::ReadWrite))
        .await?;
    run(&sandbox, sh("ls -la; cat .gitconfig 2>/dev/null; true")).await?;
    sandbox.destroy().await?;
    let left = std::fs::read_dir(place.path())?.count();
    ensure_eq!(left, 0, "files that nobody made");
    Ok(())
}

async fn a_path_that_is_not_there_is_refused(bench: Arc<Bench>) -> Verdict {
    let place = host::scratch("absent")?;
    let file = place.join("file");
    std::fs::write(&file, "x")?;
    for (path, code) in [
        (place.join("absent"), ErrorCode::ConfigInvalid),
        (file, ErrorCode::ConfigInvalid),
        (PathBuf::from("relative/path"), ErrorCode::InvalidArgument),
    ] {
        let what = path.display().to_string();
        let asked = spec(|s| s.workspace = host_directory(path, Access::ReadWrite));
        refused_with(bench.provider.plan(&asked).await, code, &what)?;
    }
    Ok(())
}

async fn a_host_directory_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    is_refused(&bench, "a host directory", |s| {
        s.workspace = host_directory("/tmp", Access::ReadWrite);
    })
    .await?;
    Ok(())
}

async fn read_only_undeclared_is_refused(bench: Arc<Bench>) -> Verdict {
    is_refused(&bench, "a read-only workspace", |s| {
        s.workspace = host_directory("/tmp", Access::ReadOnly);
    })
    .await?;
    Ok(())
}

//! What `doctor` shows of this tier.

use std::process::Stdio;

use namzu_core::egress::Wiring;
use namzu_core::spawn::command;
use namzu_core::{Backend as _, Chain, Error, Finding, Verdict};
use namzu_types::{SandboxSpec, Strength};

use crate::backend::ProcessBackend;
use crate::bubblewrap::locate::{Bwrap, find};
use crate::config::{Config, LABEL};
use crate::error::DOCTOR;
use crate::limits::Means;
use crate::probe;

/// Looks at this host, and in the end makes a sandbox and takes it down again.
pub async fn diagnose() -> Vec<Finding> {
    let mut findings = vec![bwrap().await, namespaces().await];
    findings.extend(limits(&Means::find()));
    findings.push(sandbox().await);
    findings
}

fn finding(subject: &str, verdict: Verdict, found: String, fix: Option<String>) -> Finding {
    Finding {
        backend: LABEL.to_owned(),
        subject: subject.to_owned(),
        verdict,
        found,
        fix,
    }
}

fn problem(subject: &str, err: &Error) -> Finding {
    finding(
        subject,
        Verdict::Problem,
        Chain(err).to_string(),
        err.hint().filter(|hint| *hint != DOCTOR).map(str::to_owned),
    )
}

async fn bwrap() -> Finding {
    const SUBJECT: &str = "bubblewrap";
    let during = namzu_core::Phase::Plan;
    let path = match find() {
        Ok(path) => path,
        Err(err) => return problem(SUBJECT, &err.during(during)),
    };
    let found = match Bwrap::ask(&path).await {
        Ok(found) => found,
        Err(err) => return problem(SUBJECT, &err.during(during)),
    };
    let version = command(&path)
        .arg("--version")
        .stdout(Stdio::piped())
        .output()
        .await;
    let version = version.map_or_else(
        |_| String::new(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    let text = format!("{version} at {}", path.display());
    if found.size {
        finding(SUBJECT, Verdict::Ok, text, None)
    } else {
        finding(
            SUBJECT,
            Verdict::Warning,
            format!("{text}; it cannot hold a disk limit"),
            Some("install bubblewrap 0.7 or newer".to_owned()),
        )
    }
}

async fn namespaces() -> Finding {
    const SUBJECT: &str = "user namespaces";
    if let Some(err) = probe::obstacle() {
        return problem(SUBJECT, &err.during(namzu_core::Phase::Plan));
    }
    match probe::unshare(libc::CLONE_NEWUSER).await {
        Ok(()) => finding(SUBJECT, Verdict::Ok, "they can be made".to_owned(), None),
        // `bwrap` may still be permitted by name; the sandbox below decides.
        Err(err) => finding(
            SUBJECT,
            Verdict::Warning,
            format!("this program cannot make any: {err}"),
            None,
        ),
    }
}

fn limits(means: &Means) -> Vec<Finding> {
    let how = means
        .cgroups
        .as_ref()
        .map_or("no cgroup can be made", |found| found.version());
    [
        ("memory limits", means.memory()),
        ("process limits", means.pids()),
        ("processor limits", means.cpu()),
    ]
    .into_iter()
    .map(|(subject, strength)| {
        let found = format!("{strength} ({how})");
        if strength == Strength::Enforced {
            return finding(subject, Verdict::Ok, found, None);
        }
        let fix = "run as root, or with a delegated cgroup v2 subtree: \
                   `systemd-run --user --scope -p Delegate=yes COMMAND`";
        finding(subject, Verdict::Warning, found, Some(fix.to_owned()))
    })
    .collect()
}

async fn sandbox() -> Finding {
    const SUBJECT: &str = "a sandbox";
    let made = async {
        let backend = ProcessBackend::new(&Config::default())?;
        let spec = SandboxSpec {
            id: format!("doctor-{}", std::process::id()).parse().ok(),
            ..SandboxSpec::default()
        };
        let mut launched = backend.launch(&spec, &Wiring::default()).await?;
        launched.teardown.destroy().await
    };
    match made.await {
        Ok(()) => finding(
            SUBJECT,
            Verdict::Ok,
            "a sandbox can be built: one was made, and taken down".to_owned(),
            None,
        ),
        Err(err) => problem(SUBJECT, &err),
    }
}

//! The jail that confines the network and nothing else: the host's files, user and directory, in a
//! network namespace with nothing but `lo`.
//!
//! It is for a program of one's own that is to reach only what a policy allows. It is no wall to
//! one that wants out: whatever it writes, some process of the host may read or run later.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use namzu_core::egress::{WiredFile, Wiring};
use namzu_types::{ControlReport, Controls, EgressPolicy, SandboxSpec, Strength, Tier};

use super::args::Args;
use super::data::data;
use super::view::guard_proc;
use crate::seccomp::{self, Unix};

/// Where the boundary's own files are expected, which the host's `/etc` does not have.
const EXPECTED: &str = "/etc/namzu/";
/// Where they are: at the top, which is the only directory that is not the host's.
const THERE: &str = "/.namzu/";

/// Variables that name a proxy of the host's, which is out of reach.
const PROXIES: [&str; 5] = [
    "ALL_PROXY",
    "FTP_PROXY",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
];

/// A jail for the network only.
#[derive(Clone, Debug)]
pub struct NetworkJail {
    /// The working directory of its commands: absolute, and UTF-8.
    pub directory: String,
    /// The environment of its commands, before the boundary's variables.
    pub env: BTreeMap<String, String>,
    /// Unix sockets of the host can be used. Whoever listens on one may well do what the policy
    /// forbids: Docker's starts containers with a network of their own.
    pub unix_sockets: bool,
}

impl NetworkJail {
    pub(crate) const fn unix(&self) -> Unix {
        if self.unix_sockets {
            Unix::Allowed
        } else {
            Unix::Pairs
        }
    }

    /// The walls and the view.
    pub(crate) fn options(&self, wired: &[WiredFile]) -> std::io::Result<Args> {
        let mut args = Args::default();
        args.words([
            "--unshare-user",
            "--unshare-pid",
            "--unshare-ipc",
            "--unshare-net",
            "--unshare-cgroup-try",
            "--as-pid-1",
            "--new-session",
            "--cap-drop",
            "ALL",
        ]);
        args.with_fd("--seccomp", data(&seccomp::among_host_files(self.unix()))?);
        top(&mut args, rustix::process::geteuid().is_root())?;
        args.words(["--proc", "/proc"]);
        args.append(&guard_proc(rustix::process::geteuid().is_root()));
        for file in wired {
            if let Some(name) = file.path.strip_prefix(EXPECTED) {
                args.file(&file.contents, &format!("{THERE}{name}"))?;
            } else if let Ok(real) = fs::canonicalize(&file.path)
                && real.is_file()
            {
                args.file_over(&file.contents, &real)?;
            }
        }
        args.words(["--remount-ro", "/", "--chdir", &self.directory]);
        Ok(args)
    }

    /// The variables of its commands.
    pub(crate) fn env(&self, spec: &SandboxSpec, wiring: &Wiring) -> BTreeMap<String, String> {
        let mut env = self.env.clone();
        env.retain(|name, _| !PROXIES.contains(&name.to_ascii_uppercase().as_str()));
        for (name, value) in &wiring.env {
            env.insert(name.clone(), value.replace(EXPECTED, THERE));
        }
        env.extend(spec.env.clone());
        env
    }

    /// Corrects what is reported of a sandbox to what this is.
    pub(crate) fn report(&self, spec: &SandboxSpec, controls: &mut Controls) {
        let files = "the host's own files, user and environment: a wall for the network only";
        controls.filesystem = ControlReport::new(Strength::None, "", files);
        controls.disk = ControlReport::unasked();
        let reached = match spec.egress_on(Tier::Process) {
            EgressPolicy::Static { .. } | EgressPolicy::Resolver { .. } => {
                "nothing but `lo`, where the host process listens and lets out what the policy allows"
            }
            EgressPolicy::DenyAll | EgressPolicy::AllowAll => "nothing but `lo`",
        };
        controls.network = if self.unix_sockets {
            let detail =
                format!("{reached}; but what listens on the host's unix sockets is reached");
            ControlReport::new(Strength::BestEffort, "network namespace", detail)
        } else {
            let detail = format!(
                "{reached}; unix sockets are refused; what it writes to the host's files is not looked at"
            );
            ControlReport::new(Strength::Enforced, "network namespace, seccomp", detail)
        };
        controls.syscalls.detail = seccomp::summary_among_host_files(self.unix()).to_owned();
    }
}

/// Everything at the top of the host, each in its place, so that something can lie beside it.
fn top(args: &mut Args, as_root: bool) -> std::io::Result<()> {
    let mut entries: Vec<PathBuf> = fs::read_dir("/")?
        .map(|entry| Ok(entry?.path()))
        .collect::<std::io::Result<_>>()?;
    entries.sort();
    for path in entries {
        if path == Path::new("/proc") || path.starts_with(THERE) {
            continue;
        }
        if let Ok(target) = fs::read_link(&path) {
            args.symlink(target, &path);
            continue;
        }
        // To the kernel, root inside is the host's root: what a file's mode alone protects there is
        // the machine's.
        let how = if as_root && path == Path::new("/sys") {
            "--ro-bind"
        } else {
            "--dev-bind"
        };
        args.words([OsStr::new(how), path.as_os_str(), path.as_os_str()]);
    }
    Ok(())
}

/// The environment of this process, as far as it is text.
#[must_use]
pub fn own_environment() -> BTreeMap<String, String> {
    let text = |value: OsString| value.into_string().ok();
    std::env::vars_os()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jail() -> NetworkJail {
        let env = [
            ("https_proxy", "http://proxy.corp:8080"),
            ("ALL_PROXY", "socks5://proxy.corp"),
            ("SSL_CERT_FILE", "/home/me/roots.pem"),
            ("HOME", "/home/me"),
        ];
        NetworkJail {
            directory: "/".to_owned(),
            env: env.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            unix_sockets: false,
        }
    }

    #[test]
    fn the_boundary_wins_over_the_hosts_environment() {
        let wiring = Wiring {
            env: [(
                "SSL_CERT_FILE".to_owned(),
                "/etc/namzu/ca-bundle.pem".to_owned(),
            )]
            .into(),
            ..Wiring::default()
        };
        let env = jail().env(&SandboxSpec::default(), &wiring);
        assert_eq!(env.get("SSL_CERT_FILE").unwrap(), "/.namzu/ca-bundle.pem");
        assert_eq!(env.get("HOME").unwrap(), "/home/me");
        assert!(!env.contains_key("https_proxy") && !env.contains_key("ALL_PROXY"));
    }

    #[test]
    fn it_says_what_it_is_no_wall_for() {
        let mut controls = Controls::default();
        jail().report(&SandboxSpec::default(), &mut controls);
        assert_eq!(controls.filesystem.strength, Strength::None);
        assert_eq!(controls.network.strength, Strength::Enforced);
        let open = NetworkJail {
            unix_sockets: true,
            ..jail()
        };
        open.report(&SandboxSpec::default(), &mut controls);
        assert_eq!(controls.network.strength, Strength::BestEffort);
        assert!(controls.network.detail.contains("unix sockets"));
    }
}

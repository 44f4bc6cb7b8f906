//! What of the host a sandbox sees: its programs, and the little of `/etc` that they need.

use std::ffi::{CStr, CString, OsString};
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use namzu_core::egress::WiredFile;

use super::args::Args;
use super::toolchain::{self, Toolchains};
use super::workspace::home;

/// Home of the sandbox's user.
pub(crate) const HOME: &str = "/home/user";
/// Where the workspace is.
pub(crate) const WORKSPACE: &str = "/workspace";
/// Who is asked for names.
pub(crate) const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Directories of programs at the top: a link into `/usr` or a directory of their own.
const TOP: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Directories of `/etc` that programs need and that hold no secret. Of `/etc/ssl`, not `private`.
const ETC_DIRS: [&str; 6] = [
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/static/ssl/certs",
];

/// Files of `/etc` that programs need; copied, so that they cost no mount.
const ETC_FILES: [&str; 7] = [
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/openssl.cnf",
];

/// The largest file that is copied; a larger one is left out.
const MAX_COPY: u64 = 1 << 20;

const PASSWD: &str = "root:x:0:0:root:/root:/usr/sbin/nologin\n\
                      user:x:1000:1000:user:/home/user:/bin/bash\n\
                      nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nuser:x:1000:\nnogroup:x:65534:\n";
const HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost ip6-localhost ip6-loopback\n";
const NSSWITCH: &str = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n\
                        networks: files\nprotocols: files\nservices: files\n";

/// What in `/proc` tells about the machine's memory, timers and keys; for its root only, or so much
/// that no command needs it.
const REVEALING: [&str; 11] = [
    "keys",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "pagetypeinfo",
    "sched_debug",
    "slabinfo",
    "timer_list",
    "timer_stats",
    "vmallocinfo",
];

/// The devices that `bwrap --dev` takes from the host.
const DEVICES: [&CStr; 6] = [
    c"/dev/full",
    c"/dev/null",
    c"/dev/random",
    c"/dev/tty",
    c"/dev/urandom",
    c"/dev/zero",
];

/// Of `/proc`: read-only above or by `bwrap` itself; writing asks for a capability; or everybody
/// may write.
const GUARDED_OTHERWISE: [&str; 6] = ["bus", "irq", "kmsg", "mtrr", "pressure", "sys"];

/// The part of the view that is the same for every sandbox. Made once.
#[derive(Debug)]
pub(crate) struct View {
    args: Args,
    proc: Args,
    files: Vec<(String, Vec<u8>)>,
    /// `PATH` inside.
    pub(crate) path: String,
    /// Everything of the host that can be read.
    pub(crate) roots: Vec<PathBuf>,
}

impl View {
    /// Looks at this host.
    pub(crate) fn probe() -> Self {
        let search: Vec<PathBuf> =
            std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        let Toolchains { roots, path } = toolchain::find(home().as_deref(), &search);
        let mut view = Self {
            args: Args::default(),
            proc: guard_proc(rustix::process::geteuid().is_root()),
            files: Vec::new(),
            path: search_path(&path),
            roots: Vec::new(),
        };
        view.programs(roots);
        view.etc();
        view
    }

    fn programs(&mut self, toolchains: Vec<PathBuf>) {
        self.show(Path::new("/usr"));
        for top in TOP {
            match fs::read_link(top) {
                Ok(target) => self.args.symlink(target, top),
                Err(_) => self.show(Path::new(top)),
            }
        }
        for root in toolchains {
            self.show(&root);
        }
    }

    fn show(&mut self, dir: &Path) {
        if dir.is_dir() {
            self.args.read_only(dir, dir);
            self.roots.push(dir.to_owned());
        }
    }

    fn etc(&mut self) {
        for dir in ETC_DIRS.map(Path::new) {
            // A link, as on Fedora and NixOS: shown where the link is, from where it leads.
            if let Ok(real) = fs::canonicalize(dir)
                && real.is_dir()
            {
                self.args.read_only(&real, dir);
                self.roots.push(dir.to_owned());
            }
        }
        for file in ETC_FILES {
            self.copy(Path::new(file));
        }
        self.java();
        if let Ok(zone) = fs::canonicalize("/etc/localtime")
            && zone.starts_with("/usr/share/zoneinfo")
        {
            self.args.symlink(zone, "/etc/localtime");
        }
        for (file, text) in [
            ("/etc/passwd", PASSWD),
            ("/etc/group", GROUP),
            ("/etc/hosts", HOSTS),
            ("/etc/hostname", "sandbox\n"),
            ("/etc/nsswitch.conf", NSSWITCH),
        ] {
            self.files.push((file.to_owned(), text.as_bytes().to_vec()));
        }
    }

    /// Without its settings, which Debian keeps in `/etc/java-17-openjdk` and the like, a JVM starts hardly
    /// anything. `management`, beside them, may hold passwords.
    fn java(&mut self) {
        for entry in fs::read_dir("/etc").into_iter().flatten().flatten() {
            if !entry.file_name().to_string_lossy().starts_with("java-") {
                continue;
            }
            for file in fs::read_dir(entry.path()).into_iter().flatten().flatten() {
                self.copy(&file.path());
            }
            self.show(&entry.path().join("security"));
        }
    }

    fn copy(&mut self, file: &Path) {
        if let (Some(name), Some(bytes)) = (file.to_str(), read_small(file)) {
            self.files.push((name.to_owned(), bytes));
        }
    }

    fn place(&self, path: &Path) -> Place {
        let is_shown = |path: &Path| self.roots.iter().any(|root| path.starts_with(root));
        if !is_shown(path) {
            return Place::Ours;
        }
        // Through links, as whoever opens it follows them: a mount is made on what they lead to.
        match fs::canonicalize(path) {
            Ok(real) if real.is_file() && is_shown(&real) => Place::Over(real),
            _ => Place::Nowhere,
        }
    }

    /// The arguments that build this part, with files of one sandbox over it.
    pub(crate) fn apply(&self, args: &mut Args, wired: &[WiredFile]) -> std::io::Result<()> {
        args.append(&self.args);
        for (path, bytes) in &self.files {
            if !wired.iter().any(|file| file.path == *path) {
                args.file(bytes, path)?;
            }
        }
        for file in wired {
            match self.place(Path::new(&file.path)) {
                Place::Ours => args.file(&file.contents, &file.path)?,
                Place::Over(path) => args.file_over(&file.contents, &path)?,
                Place::Nowhere => {}
            }
        }
        args.words(["--proc", "/proc"]);
        args.append(&self.proc);
        Ok(())
    }
}

/// Where a file of one sandbox goes.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// Into what is made for the sandbox.
    Ours,
    /// Over this file of the host's, in a directory that is shown.
    Over(PathBuf),
    /// There is none: the host's directory, which cannot be written to, has no such file, and
    /// whoever looks for it there finds none on the host either.
    Nowhere,
}

/// Takes from a fresh `/proc` what the sandbox's user could write, or learn too much from, by file
/// mode alone.
///
/// Only where the host process is root is that more than settings of its own: to the kernel, the
/// sandbox's user then is the host's root. Writing a sysctl, for one, asks for that user and for no
/// capability, and `kernel.core_pattern` would be a way out.
pub(crate) fn guard_proc(as_root: bool) -> Args {
    let mut args = Args::default();
    let sys = Path::new("/proc/sys");
    args.read_only(sys, sys);
    if !as_root {
        return args;
    }
    // Few, because `bwrap` reads the whole mount table again for each.
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let (Some(name), Ok(kind)) = (name.to_str(), entry.file_type()) else {
            continue;
        };
        let of_a_process = name.starts_with(|first: char| first.is_ascii_digit());
        if of_a_process || kind.is_symlink() || GUARDED_OTHERWISE.contains(&name) {
            continue;
        }
        let path = entry.path();
        if REVEALING.contains(&name) {
            args.read_only(Path::new("/dev/null"), &path);
        } else if is_writable(&path, 0) {
            args.read_only(&path, &path);
        }
    }
    args
}

/// The host's devices whose modes, owners and times are to be kept from a sandbox: all, where its
/// user is the host's root to the kernel. `bwrap` itself can only make them read-only and unusable.
pub(crate) fn devices_to_freeze() -> Vec<CString> {
    if rustix::process::geteuid().is_root() {
        DEVICES.map(CString::from).to_vec()
    } else {
        Vec::new()
    }
}

/// Whether the owner may write to a file at or below `path`.
fn is_writable(path: &Path, depth: u32) -> bool {
    let Ok(found) = fs::symlink_metadata(path) else {
        return false;
    };
    if !found.is_dir() {
        return found.is_file() && found.permissions().mode() & 0o222 != 0;
    }
    // Deeper than anything there; a mount below may be of any kind.
    depth > 8
        || fs::read_dir(path)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| is_writable(&entry.path(), depth + 1))
}

/// The host's resolver configuration, wherever it is linked from.
pub(crate) fn resolv_conf() -> Vec<u8> {
    read_small(Path::new("/etc/resolv.conf")).unwrap_or_default()
}

fn search_path(toolchains: &[PathBuf]) -> String {
    let usual = [
        "/usr/local/sbin",
        "/usr/local/bin",
        "/usr/sbin",
        "/usr/bin",
        "/sbin",
        "/bin",
    ];
    let all = toolchains
        .iter()
        .map(PathBuf::as_path)
        .chain(usual.map(Path::new));
    std::env::join_paths(all.filter(|dir| dir.to_str().is_some_and(|dir| !dir.contains(':'))))
        .unwrap_or_else(|_| OsString::from("/usr/bin:/bin"))
        .into_string()
        .unwrap_or_else(|_| "/usr/bin:/bin".to_owned())
}

fn read_small(path: &Path) -> Option<Vec<u8>> {
    // Not a pipe or a device, on which opening may hang.
    let found = fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > MAX_COPY {
        return None;
    }
    // With room for all of it and a byte more, one read finds the end.
    let mut bytes = Vec::with_capacity(usize::try_from(found.len()).ok()? + 64);
    File::open(path)
        .ok()?
        .take(MAX_COPY + 1)
        .read_to_end(&mut bytes)
        .ok()?;
    (bytes.len() as u64 <= MAX_COPY).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_of_etc_and_no_home_is_shown() {
        let view = View::probe();
        let shown = |path: &str| {
            view.roots
                .iter()
                .any(|root| Path::new(path).starts_with(root))
                || view.files.iter().any(|(file, _)| file == path)
        };
        for secret in [
            "/etc/shadow",
            "/etc/gshadow",
            "/etc/ssh/ssh_host_ed25519_key",
            "/etc/ssl/private/key.pem",
            "/etc/java-17-openjdk/management/jmxremote.password",
            "/etc/sudoers",
            "/root/.ssh/id_ed25519",
            "/root/.cargo/credentials.toml",
            "/run/docker.sock",
            "/var/run/docker.sock",
            "/sys/kernel",
        ] {
            assert!(!shown(secret), "{secret}");
        }
        let home = home().unwrap();
        assert!(view.roots.iter().all(|root| !home.starts_with(root)));
        assert!(shown("/usr/bin/env"));
        assert!(shown("/etc/passwd"));
    }

    #[test]
    fn a_wired_file_lies_over_the_hosts_or_in_what_is_ours() {
        let dir = tempfile::tempdir().unwrap();
        let shown = dir.path().canonicalize().unwrap();
        for name in ["file", "outside"] {
            fs::write(shown.join(name), "").unwrap();
        }
        let mut view = View::probe();
        fs::create_dir(shown.join("seen")).unwrap();
        view.roots = vec![shown.join("seen")];
        for (link, target) in [("in", "seen/real"), ("out", "outside")] {
            std::os::unix::fs::symlink(shown.join(target), shown.join("seen").join(link)).unwrap();
        }
        fs::write(shown.join("seen/real"), "").unwrap();
        let place = |name: &str| view.place(&shown.join(name));
        let real = shown.join("seen/real");
        assert_eq!(place("file"), Place::Ours);
        assert_eq!(place("seen/real"), Place::Over(real.clone()));
        assert_eq!(place("seen/in"), Place::Over(real));
        // A mount would have nothing to be made on.
        assert_eq!(place("seen/none"), Place::Nowhere);
        assert_eq!(place("seen/out"), Place::Nowhere);
    }

    #[test]
    fn the_synthesised_passwd_has_no_user_of_the_host() {
        assert!(PASSWD.lines().all(|line| line.split(':').count() == 7));
        assert!(PASSWD.contains("user:x:1000:1000:user:/home/user:"));
    }
}

//! The programs we are compared with. Each is measured where it is installed, and named as missing
//! where it is not; `cargo xtask bench process` installs them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A whole command line, timed from the outside.
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    argv: Vec<String>,
}

impl Peer {
    pub(crate) fn new(
        name: &'static str,
        argv: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            name,
            argv: argv.into_iter().map(Into::into).collect(),
        }
    }

    /// The host's own spawn and wait.
    pub(crate) fn host() -> Self {
        Self::new("host", ["/bin/true"])
    }

    /// `@anthropic-ai/sandbox-runtime`, if it is installed beside the build.
    pub(crate) fn srt() -> Option<Self> {
        let srt =
            PathBuf::from(std::env::var_os("NAMZU_BENCH_PEERS")?).join("node_modules/.bin/srt");
        let path = srt.to_str()?.to_owned();
        srt.exists()
            .then(|| Self::new("srt", [path, "true".to_owned()]))
    }

    /// firejail without a profile and without a network, the nearest to ours.
    pub(crate) fn firejail() -> Option<Self> {
        let found = std::path::Path::new("/usr/bin/firejail").exists();
        found.then(|| {
            Self::new(
                "firejail",
                [
                    "/usr/bin/firejail",
                    "--quiet",
                    "--noprofile",
                    "--net=none",
                    "/bin/true",
                ],
            )
        })
    }

    /// One run from the outside, or `None` when it fails.
    #[expect(
        clippy::disallowed_methods,
        reason = "the peer is measured as any program would start it"
    )]
    pub(crate) fn run(&self) -> Option<Duration> {
        let (program, arguments) = self.argv.split_first()?;
        let began = Instant::now();
        let status = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .ok()?;
        status.success().then(|| began.elapsed())
    }
}

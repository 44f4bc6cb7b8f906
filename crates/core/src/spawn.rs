//! The only place that starts host processes.
//!
//! Nothing is inherited that was not named: the environment is empty, standard input is
//! `/dev/null`, and every descriptor but the named ones is closed at exec.

use std::ffi::OsStr;
use std::process::Stdio;

use tokio::process::Command;

#[cfg(target_os = "linux")]
pub use self::line::Line;
#[cfg(target_os = "linux")]
pub use self::linux::{Setup, prepare, raise_open_files};

/// A command with an empty environment and no input that dies with its handle.
#[must_use]
pub fn command(program: impl AsRef<OsStr>) -> Command {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the wrapper everyone else must use"
    )]
    let mut command = Command::new(program);
    command.env_clear().stdin(Stdio::null()).kill_on_drop(true);
    #[cfg(target_os = "linux")]
    linux::restore_open_files(&mut command);
    command
}

#[cfg(target_os = "linux")]
mod line {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use crate::DuplexChannel;

    /// A private stream and its fd lane, between this process and a worker about to be started.
    #[derive(Debug)]
    pub struct Line {
        /// Our end.
        pub channel: DuplexChannel,
        /// The worker's end of the stream: `--listen fd:N`.
        pub stream: OwnedFd,
        /// The worker's end of the lane: `--lane N`.
        pub lane: OwnedFd,
    }

    impl Line {
        /// Opens both pairs, close-on-exec.
        ///
        /// # Errors
        ///
        /// Those of `socketpair`.
        ///
        /// # Panics
        ///
        /// Outside a tokio runtime with I/O.
        pub fn open() -> io::Result<Self> {
            let (ours, stream) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            let (lane_here, lane) = socketpair(
                AddressFamily::UNIX,
                SocketType::SEQPACKET,
                SocketFlags::CLOEXEC,
                None,
            )?;
            let mut channel = DuplexChannel::private(tokio::net::UnixStream::from_std(ours)?);
            channel.lane = Some(lane_here);
            Ok(Self {
                channel,
                stream: stream.into(),
                lane,
            })
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    #![expect(
        unsafe_code,
        reason = "what happens between fork and exec, and closing descriptors by range, has no \
                  safe interface"
    )]

    use std::ffi::{CStr, CString};
    use std::io;
    use std::os::fd::{AsRawFd as _, OwnedFd};
    use std::ptr::null;
    use std::sync::OnceLock;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use tokio::process::Command;

    /// What the child does to itself between fork and exec.
    #[derive(Debug, Default)]
    pub struct Setup {
        /// Stay open in the child, under the numbers they have here. They are closed here when the
        /// command is dropped.
        pub inherit: Vec<OwnedFd>,
        /// `cgroup.procs` (or `tasks`) files: the child enters these before anything of the program
        /// runs.
        pub cgroups: Vec<OwnedFd>,
        /// Start a session of its own: no controlling terminal, and no Ctrl-C from ours.
        pub session: bool,
        /// The child, and all that it starts, never makes the host's crash handler run: the kernel
        /// leaves it alone when the limit of a core dump is one byte. Where the host forbids cores
        /// already, that limit stays.
        pub no_crash_handler: bool,
        /// The child, and all that it starts, can take no precedence over others, whatever the
        /// caller may: neither real-time scheduling nor a lower nice value.
        pub no_precedence: bool,
        /// What lies at these paths can be read and written by the child as before, devices too, but
        /// its modes, owners and times cannot be changed. In a mount namespace of the child; where
        /// the caller may make none, nothing happens.
        pub frozen: Vec<CString>,
        /// Try `unshare` with these flags; its error is the error of `spawn`.
        pub unshare: libc::c_int,
    }

    /// How many files this process might open before it raised that.
    static OPEN_FILES: OnceLock<Rlimit> = OnceLock::new();

    /// Lets this process open as many files as it may at all. What it starts from then on may open as many
    /// as this could before: a program that uses `select` breaks on a descriptor beyond 1024.
    ///
    /// Where that is refused, everything stays as it was.
    pub fn raise_open_files() {
        let before = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: before.maximum,
            ..before
        };
        // Known before it is raised: nothing may be started in between that would keep it.
        if raised != before && OPEN_FILES.set(before).is_ok() {
            let _ = setrlimit(Resource::Nofile, raised);
        }
    }

    /// Arranges for what `command` starts to have the limit that this process had.
    pub(super) fn restore_open_files(command: &mut Command) {
        if let Some(before) = OPEN_FILES.get() {
            let restore = || Ok(setrlimit(Resource::Nofile, *before)?);
            // SAFETY: it makes one system call and neither allocates nor locks: `Rlimit` is two numbers.
            unsafe { command.pre_exec(restore) };
        }
    }

    /// Arranges for `setup` to happen in every child that `command` starts.
    pub fn prepare(command: &mut Command, setup: Setup) {
        let act = move || setup.apply();
        // SAFETY: `Setup::apply` only makes system calls that are async-signal-safe and neither
        // allocates nor locks, as is required between fork and exec.
        unsafe { command.pre_exec(act) };
    }

    impl Setup {
        fn apply(&self) -> io::Result<()> {
            for cgroup in &self.cgroups {
                // SAFETY: the buffer is a static of the length given, the descriptor is owned.
                let written = unsafe { libc::write(cgroup.as_raw_fd(), b"0".as_ptr().cast(), 1) };
                if written != 1 {
                    return Err(io::Error::last_os_error());
                }
            }
            // Also what other code of this process opened without O_CLOEXEC.
            // SAFETY: no memory is passed; CLOSE_RANGE_CLOEXEC closes nothing now, so the pipe on
            // which std reports a failed exec stays usable.
            let closed = unsafe {
                libc::syscall(
                    libc::SYS_close_range,
                    3u32,
                    libc::c_uint::MAX,
                    libc::CLOSE_RANGE_CLOEXEC,
                )
            };
            // Linux before 5.11 lacks it; everything Rust opens is close-on-exec anyway.
            if closed != 0 {
                let err = io::Error::last_os_error();
                if !matches!(err.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) {
                    return Err(err);
                }
            }
            for fd in &self.inherit {
                // SAFETY: no memory is passed; the descriptor is owned.
                if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, 0) } != 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            // SAFETY: no memory is passed. It fails only in a process that leads a group already,
            // which a child just forked does not.
            if self.session && unsafe { libc::setsid() } == -1 {
                return Err(io::Error::last_os_error());
            }
            for (wanted, resource, value) in [
                (self.no_crash_handler, libc::RLIMIT_CORE, 1),
                (self.no_precedence, libc::RLIMIT_RTPRIO, 0),
                (self.no_precedence, libc::RLIMIT_NICE, 0),
            ] {
                if wanted {
                    let limit = libc::rlimit {
                        rlim_cur: value,
                        rlim_max: value,
                    };
                    // SAFETY: the limit outlives the call, which only reads it. It fails only for
                    // a core, where that limit is zero for good.
                    let _ = unsafe { libc::setrlimit(resource, &raw const limit) };
                }
            }
            // SAFETY: no memory is passed; only this child changes.
            if self.unshare != 0 && unsafe { libc::unshare(self.unshare) } != 0 {
                return Err(io::Error::last_os_error());
            }
            // SAFETY: no memory is passed; only this child changes.
            if !self.frozen.is_empty() && unsafe { libc::unshare(libc::CLONE_NEWNS) } == 0 {
                // First, or the host would see what follows.
                mount(None, c"/", libc::MS_REC | libc::MS_PRIVATE)?;
                for path in &self.frozen {
                    mount(Some(path), path, libc::MS_BIND)?;
                    let flags = libc::MS_RDONLY | libc::MS_NOSUID | libc::MS_NOEXEC;
                    mount(None, path, libc::MS_BIND | libc::MS_REMOUNT | flags)?;
                }
            }
            Ok(())
        }
    }

    fn mount(from: Option<&CStr>, at: &CStr, flags: libc::c_ulong) -> io::Result<()> {
        let from = from.map_or(null(), CStr::as_ptr);
        // SAFETY: both strings outlive the call, which only reads them; the kernel takes no
        // pointers where they are null.
        match unsafe { libc::mount(from, at.as_ptr(), null(), flags, null()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[cfg(test)]
    mod tests {
        use std::fs::File;
        use std::os::fd::AsRawFd as _;
        use std::process::Stdio;

        use super::*;
        use crate::spawn::command;

        async fn open_in_child(setup: Setup) -> Vec<i32> {
            let mut ls = command("/bin/ls");
            ls.arg("/proc/self/fd").stdout(Stdio::piped());
            prepare(&mut ls, setup);
            let output = ls.output().await.unwrap();
            String::from_utf8(output.stdout)
                .unwrap()
                .lines()
                .map(|line| line.parse().unwrap())
                .collect()
        }

        #[tokio::test]
        async fn only_named_descriptors_reach_a_child() {
            let leaky = File::open("/dev/null").unwrap();
            keep_open_at_exec(&leaky);
            let named = OwnedFd::from(File::open("/dev/null").unwrap());
            let number = named.as_raw_fd();
            let seen = open_in_child(Setup {
                inherit: vec![named],
                ..Setup::default()
            })
            .await;
            assert!(seen.contains(&number), "{seen:?} lacks {number}");
            assert!(!seen.contains(&leaky.as_raw_fd()), "{seen:?} leaks");
        }

        fn keep_open_at_exec(file: &File) {
            // SAFETY: no memory is passed; the descriptor is owned.
            let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
            assert_eq!(done, 0);
        }

        #[tokio::test]
        async fn a_child_inherits_no_environment() {
            let mut env = command("/usr/bin/env");
            env.stdout(Stdio::piped());
            assert!(env.output().await.unwrap().stdout.is_empty());
        }

        #[tokio::test]
        async fn a_child_may_open_no_more_files_than_before_the_limit_was_raised() {
            let now = getrlimit(Resource::Nofile);
            let low = Rlimit {
                current: Some(500),
                ..now
            };
            setrlimit(Resource::Nofile, low).unwrap();
            raise_open_files();
            assert_eq!(getrlimit(Resource::Nofile).current, now.maximum);
            let mut sh = command("/bin/sh");
            sh.args(["-c", "ulimit -S -n; ulimit -H -n"]);
            sh.stdout(Stdio::piped());
            let said = String::from_utf8(sh.output().await.unwrap().stdout).unwrap();
            let (soft, hard) = said.trim_end().split_once('\n').unwrap();
            assert_eq!(soft, "500");
            let most = now
                .maximum
                .map_or("unlimited".to_owned(), |most| most.to_string());
            assert_eq!(hard, most);
        }

        #[tokio::test]
        async fn a_refused_cgroup_fails_the_spawn() {
            let mut sh = command("/bin/true");
            let cgroup = File::open("/dev/null").unwrap().into();
            prepare(
                &mut sh,
                Setup {
                    cgroups: vec![cgroup],
                    ..Setup::default()
                },
            );
            let err = sh.status().await.unwrap_err();
            assert_eq!(err.raw_os_error(), Some(libc::EBADF));
        }
    }
}

//! The only place that starts programs inside a sandbox.
//!
//! The child shares the worker's memory until it has executed (`CLONE_VM | CLONE_VFORK`), as
//! `posix_spawn` does it: no page table is copied, so the cost does not grow with the worker, and
//! the child reports what failed by writing to the parent's own memory. The price is that the
//! child may only make system calls on what was prepared before; it does not allocate, lock,
//! panic or unwind.
#![expect(
    unsafe_code,
    reason = "clone, and the system calls between clone and execve"
)]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use libc::{c_char, c_int, c_void};
use rustix::process::{Resource, Rlimit, setrlimit};

/// What a child starts with.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    /// The paths to try, in order, as `execvp` would.
    pub(crate) candidates: &'a [CString],
    /// Never empty.
    pub(crate) argv: &'a [CString],
    /// `NAME=value`, the whole environment.
    pub(crate) envp: &'a [CString],
    /// The working directory.
    pub(crate) cwd: &'a CStr,
    /// Standard input, output and error; each above 2.
    pub(crate) stdio: [BorrowedFd<'a>; 3],
    /// Whether `stdio[0]` is a terminal that becomes the controlling one.
    pub(crate) terminal: bool,
    /// Resource limits.
    pub(crate) limits: &'a [(Resource, Rlimit)],
}

/// Why nothing was started.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What was attempted last.
    pub(crate) step: Step,
    /// Why that failed.
    pub(crate) source: io::Error,
}

/// The steps of a start that can fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Step {
    /// Making the child.
    Clone,
    /// A new session and its terminal.
    Session,
    /// A resource limit.
    Limit,
    /// The standard streams.
    Stdio,
    /// The working directory.
    Chdir,
    /// Executing the program.
    Exec,
}

/// Signals that a worker, or tokio for it, handles or ignores. A caught signal that arrived in
/// the child before `execve` would run the worker's handler on the worker's memory, and an
/// ignored one would stay ignored. All others have their default since [`reset_dispositions`].
const CHANGED: [c_int; 4] = [libc::SIGPIPE, libc::SIGCHLD, libc::SIGTERM, libc::SIGINT];

/// The highest signal of the kernel.
const SIGNALS: c_int = 64;

/// Undoes what the worker's own maker ignored, so that no command inherits it. SIGPIPE stays as
/// the runtime of the language set it.
pub(crate) fn reset_dispositions() {
    for signal in (1..=SIGNALS).filter(|signal| *signal != libc::SIGPIPE) {
        // The kernel's own structure and call: C libraries keep some signals to themselves.
        let mut current = [0_u64; 4];
        // SAFETY: room for the kernel's sigaction of every supported architecture.
        let read = unsafe {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                ptr::null::<u64>(),
                current.as_mut_ptr(),
                8_usize,
            )
        };
        if read == 0 && current[0] == libc::SIG_IGN as u64 {
            let default = [0_u64; 4];
            // SAFETY: all zeros is the default disposition.
            unsafe {
                libc::syscall(
                    libc::SYS_rt_sigaction,
                    signal,
                    default.as_ptr(),
                    ptr::null::<u64>(),
                    8_usize,
                )
            };
        }
    }
}

const STACK: usize = 64 * 1024;

/// What the child reads, and where it writes why it failed.
struct Shared {
    candidates: Vec<*const c_char>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    cwd: *const c_char,
    stdio: [c_int; 3],
    terminal: bool,
    limits: Vec<(Resource, Rlimit)>,
    step: Step,
    errno: c_int,
}

/// Starts a program in a session of its own, with empty signal mask, default dispositions and
/// no descriptor but its standard streams, and returns its pid.
///
/// # Errors
/// The step that failed, with its reason. Nothing runs then, and no zombie is left.
pub(crate) fn spawn(plan: &Plan<'_>) -> Result<libc::pid_t, Failure> {
    let pointers = |list: &[CString]| -> Vec<*const c_char> {
        list.iter()
            .map(|item| item.as_ptr())
            .chain([ptr::null()])
            .collect()
    };
    let mut shared = Shared {
        candidates: plan.candidates.iter().map(|path| path.as_ptr()).collect(),
        argv: pointers(plan.argv),
        envp: pointers(plan.envp),
        cwd: plan.cwd.as_ptr(),
        stdio: plan.stdio.each_ref().map(AsRawFd::as_raw_fd),
        terminal: plan.terminal,
        limits: plan.limits.to_vec(),
        step: Step::Exec,
        errno: 0,
    };
    // 16 bytes a unit: both the alignment and the growth direction of every supported stack.
    let mut stack = Vec::<u128>::with_capacity(STACK / 16);

    let mask = Mask::block_all();
    // SAFETY: the end of the allocation, one past its last unit, which is where a downward
    // stack starts.
    let top = unsafe { stack.as_mut_ptr().add(STACK / 16) };
    // SAFETY: `child` runs on `stack` and reads `shared`; both outlive it in this memory because
    // CLONE_VFORK holds this thread until the child has executed or is gone. `child` makes only
    // system calls and never returns into Rust frames of this thread.
    let pid = unsafe {
        libc::clone(
            child,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            (&raw mut shared).cast(),
        )
    };
    let clone_error = io::Error::last_os_error();
    drop(mask);

    if pid < 0 {
        return Err(Failure {
            step: Step::Clone,
            source: clone_error,
        });
    }
    // SAFETY: `shared` is this frame's; the child wrote to it, if it did, before clone returned.
    let errno = unsafe { (&raw const shared.errno).read_volatile() };
    if errno == 0 {
        return Ok(pid);
    }
    // SAFETY: as above.
    let step = unsafe { (&raw const shared.step).read_volatile() };
    reap(pid);
    Err(Failure {
        step,
        source: io::Error::from_raw_os_error(errno),
    })
}

/// Takes the exit of a child that never executed, so that it is no zombie and no exit of a
/// command.
fn reap(pid: libc::pid_t) {
    loop {
        // SAFETY: no status is asked for; `pid` is our own unreaped child.
        let reaped = unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
        if reaped >= 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return;
        }
    }
}

extern "C" fn child(shared: *mut c_void) -> c_int {
    let shared = shared.cast::<Shared>();
    // SAFETY: `spawn` passes its own `Shared` and is suspended until this ends, so nothing else
    // touches it.
    let shared = unsafe { &mut *shared };
    let step = prepare_and_execute(shared);
    let errno = errno();
    shared.step = step;
    shared.errno = if errno == 0 { libc::EIO } else { errno };
    // SAFETY: ends the child without running anything of the parent's.
    unsafe { libc::_exit(127) }
}

/// Returns only when a step failed, with `errno` set.
fn prepare_and_execute(shared: &Shared) -> Step {
    // SAFETY: an all-zero sigaction is the default disposition with an empty mask.
    let mut default: libc::sigaction = unsafe { std::mem::zeroed() };
    default.sa_sigaction = libc::SIG_DFL;
    for signal in CHANGED {
        // SAFETY: `default` is valid and no old action is asked for.
        unsafe { libc::sigaction(signal, &raw const default, ptr::null_mut()) };
    }
    // SAFETY: no arguments; a fresh child leads no group.
    if unsafe { libc::setsid() } < 0 {
        return Step::Session;
    }
    // SAFETY: the descriptor is open in this child; the ioctl takes an int.
    if shared.terminal && unsafe { libc::ioctl(shared.stdio[0], libc::TIOCSCTTY, 0) } < 0 {
        return Step::Session;
    }
    for (target, &source) in (0..).zip(&shared.stdio) {
        // SAFETY: plain integers; sources are above 2, so no target overwrites a later source.
        if unsafe { libc::dup2(source, target) } < 0 {
            return Step::Stdio;
        }
    }
    // Everything is close-on-exec already; this holds even if one day something is not. Kernels
    // before 5.11 lack it, which is why it is not relied on.
    // SAFETY: plain integers.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 4_u32) };
    // SAFETY: a NUL-terminated string prepared by the parent.
    if unsafe { libc::chdir(shared.cwd) } < 0 {
        return Step::Chdir;
    }
    for (resource, limit) in &shared.limits {
        // One system call without allocation.
        if let Err(error) = setrlimit(*resource, *limit) {
            set_errno(error.raw_os_error());
            return Step::Limit;
        }
    }
    // SAFETY: an all-zero set is the empty set on Linux.
    let empty: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `empty` is valid and no old mask is asked for.
    unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const empty, ptr::null_mut()) };

    let searched = shared.candidates.len() > 1;
    let mut refused = false;
    for path in &shared.candidates {
        // SAFETY: the strings and the NULL-terminated arrays were prepared by the parent.
        unsafe { libc::execve(*path, shared.argv.as_ptr(), shared.envp.as_ptr()) };
        match errno() {
            libc::ENOENT | libc::ENOTDIR => {}
            // A directory of PATH that may not be looked into holds no program for us.
            // SAFETY: a NUL-terminated string prepared by the parent.
            libc::EACCES if searched && unsafe { libc::access(*path, libc::F_OK) } < 0 => {}
            libc::EACCES => refused = true,
            _ => return Step::Exec,
        }
    }
    set_errno(if refused { libc::EACCES } else { libc::ENOENT });
    Step::Exec
}

/// This thread's errno. The child shares it with the parent's thread, which is suspended.
fn errno() -> c_int {
    // SAFETY: always a valid place of this thread's own.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place }
}

fn set_errno(value: c_int) {
    // SAFETY: always a valid place of this thread's own.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *place = value };
}

/// All signals blocked, until dropped.
struct Mask(libc::sigset_t);

impl Mask {
    fn block_all() -> Self {
        // SAFETY: an all-zero set is a valid one.
        let mut all: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `all` is a valid set.
        unsafe { libc::sigfillset(&raw mut all) };
        // SAFETY: as above.
        let mut old: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: both sets are valid; only this thread's mask changes.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old) };
        Self(old)
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        // SAFETY: the set that pthread_sigmask gave.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

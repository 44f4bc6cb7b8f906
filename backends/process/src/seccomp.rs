//! The system-call filter: a deny list, as the classic BPF program that `bwrap --seccomp` loads.
//!
//! Written out here and not by a library, because one program with several answers, masked
//! arguments and the x32 gate is less code than bending a generator to it.

use libc::c_long;

use namzu_types::{Access, Workspace};

/// What the receipt says of it.
const SUMMARY: &str = "deny list: mount, namespaces, modules, keyrings, bpf, io_uring, \
                                  perf, TIOCSTI, foreign architectures, unusual sockets, \
                                  leases, asynchronous I/O, other processes' limits and priorities";
const SUMMARY_FOR_HOST: &str = "deny list: mount, namespaces, modules, keyrings, bpf, io_uring, \
                                perf, TIOCSTI, foreign architectures, unusual sockets, \
                                leases, asynchronous I/O, other processes' limits and \
                                priorities, making set-user-ID and set-group-ID files";
/// The same, less sockets by which services of the host could be reached.
const SUMMARY_WITHOUT_UNIX: &str = "deny list: mount, namespaces, modules, keyrings, bpf, io_uring, \
                                    perf, TIOCSTI, foreign architectures, unix and unusual \
                                    sockets, leases, asynchronous I/O, other processes' limits and \
                                    priorities, making set-user-ID and set-group-ID files";

/// The program for each kind of sandbox.
#[derive(Debug)]
pub(crate) struct Filters {
    usual: Vec<u8>,
    for_host_files: Vec<u8>,
}

impl Filters {
    pub(crate) fn new() -> Self {
        Self {
            usual: program(false, Unix::Allowed),
            for_host_files: program(true, Unix::Allowed),
        }
    }

    pub(crate) fn of(&self, workspace: &Workspace) -> &[u8] {
        if makes_host_files(workspace) {
            &self.for_host_files
        } else {
            &self.usual
        }
    }
}

/// Whether sockets can be made that lead to services of the host by a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unix {
    Allowed,
    /// Only pairs that are joined to each other.
    Pairs,
}

/// The program for a place that has the host's files, with its sockets among them.
pub(crate) fn among_host_files(unix: Unix) -> Vec<u8> {
    program(true, unix)
}

/// What the receipt says of [`among_host_files`].
pub(crate) const fn summary_among_host_files(unix: Unix) -> &'static str {
    match unix {
        Unix::Allowed => SUMMARY_FOR_HOST,
        Unix::Pairs => SUMMARY_WITHOUT_UNIX,
    }
}

pub(crate) const fn summary(workspace: &Workspace) -> &'static str {
    if makes_host_files(workspace) {
        SUMMARY_FOR_HOST
    } else {
        SUMMARY
    }
}

/// What is made inside then belongs to the host's user: a set-user-ID file there lets every other
/// user of the host be that one, root too.
const fn makes_host_files(workspace: &Workspace) -> bool {
    matches!(
        workspace,
        Workspace::Host {
            access: Access::ReadWrite,
            ..
        }
    )
}

#[cfg(target_arch = "x86_64")]
const AUDIT_ARCH: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const AUDIT_ARCH: u32 = 0xC000_00B7;

/// x32 calls have this bit set and would miss every comparison below.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;

// Newer than the `libc` crate; the same numbers on all architectures.
const SYS_STATMOUNT: c_long = 457;
const SYS_LISTMOUNT: c_long = 458;
const SYS_OPEN_TREE_ATTR: c_long = 467;

/// Refused as if the kernel did not know them: libraries then fall back.
const UNKNOWN: &[c_long] = &[
    // Their contexts are counted for the whole machine, and used up by one sandbox.
    libc::SYS_io_cancel,
    libc::SYS_io_destroy,
    libc::SYS_io_getevents,
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    // Acts on other processes.
    libc::SYS_process_madvise,
    SYS_LISTMOUNT,
    SYS_STATMOUNT,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    // Its flags are behind a pointer, where no filter sees them.
    libc::SYS_clone3,
];

/// Refused: privileged, or far more kernel than a command needs.
const REFUSED: &[c_long] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_lookup_dcookie,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_nfsservctl,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// Set-user-ID and set-group-ID.
const SET_ID: u32 = 0o6000;
/// Absent from the `libc` crate for some targets; the same number on all architectures.
const SYS_FCHMODAT2: c_long = 452;
/// Calls that give a file its mode, and which argument that is.
const GIVE_MODE: &[(c_long, u32)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
];
/// Calls that may make a file: which argument the flags are. The next one is the mode, and is
/// whatever it happens to be unless the flags say that a file is made.
const MAY_MAKE: &[(c_long, u32)] = &[
    (libc::SYS_openat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1),
];
/// `O_CREAT`, and what `O_TMPFILE` is beside `O_DIRECTORY`.
const MAKES: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)).cast_unsigned();

/// What `fcntl` must not be asked: a lease on a file of the host, which needs no right to write it,
/// stops whoever opens that file outside for as long as `fs.lease-break-time`, again and again.
/// Absent from the `libc` crate: `F_SETDELEG`.
const LEASES: &[u32] = &[
    libc::F_SETLEASE.cast_unsigned(),
    libc::F_NOTIFY.cast_unsigned(),
    1040,
];

/// Calls that change a process, named by their first argument, which need only be of the same
/// user: the worker is, and would keep no deadline any more. Zero is the caller.
const CHANGE_ANY: &[c_long] = &[
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_sched_setattr,
];
/// The same with a kind of target before the target: how the caller alone, and its own process
/// group, are named.
const CHANGE_ANY_OF: &[(c_long, [u32; 2])] = &[
    (libc::SYS_setpriority, [0, 1]),
    (libc::SYS_ioprio_set, [1, 2]),
];

/// Of IPv4 and IPv6; the first stands for what is usual for the type of socket.
const PROTOCOLS: [libc::c_int; 5] = [
    0,
    libc::IPPROTO_ICMP,
    libc::IPPROTO_TCP,
    libc::IPPROTO_UDP,
    libc::IPPROTO_ICMPV6,
];

/// A socket's type without its flags.
const SOCKET_TYPE: u32 = 0xF;

/// Every `CLONE_NEW*` that `unshare` takes.
const NAMESPACES: u32 = 0x7E02_0080;
/// The same for `clone`, where the lowest byte is a signal.
const CLONE_NAMESPACES: u32 = 0x7E02_0000;

// Offsets in `struct seccomp_data`.
const NR: u32 = 0;
const ARCH: u32 = 4;
/// The low half of an argument, which is all the kernel looks at in those judged here. On
/// both architectures the low half comes first.
const fn arg(n: u32) -> u32 {
    16 + 8 * n
}

// `struct sock_filter` codes.
const LOAD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_IF_EQUAL: u16 = 0x15;
#[cfg(target_arch = "x86_64")]
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7FFF_0000;
const ERRNO: u32 = 0x0005_0000;
const UNKNOWN_CALL: u32 = ERRNO | libc::ENOSYS.cast_unsigned();
const NOT_PERMITTED: u32 = ERRNO | libc::EPERM.cast_unsigned();
const NO_SUCH_FAMILY: u32 = ERRNO | libc::EAFNOSUPPORT.cast_unsigned();
const NO_SUCH_PROTOCOL: u32 = ERRNO | libc::EPROTONOSUPPORT.cast_unsigned();
const NO_SUCH_COMMAND: u32 = ERRNO | libc::EINVAL.cast_unsigned();
/// Nothing happens, and the caller is told that it did.
const PRETEND: u32 = ERRNO;

#[derive(Default)]
struct Program(Vec<u8>);

impl Program {
    fn push(&mut self, code: u16, if_true: u8, if_false: u8, operand: u32) {
        self.0.extend(code.to_ne_bytes());
        self.0.extend([if_true, if_false]);
        self.0.extend(operand.to_ne_bytes());
    }

    fn load(&mut self, offset: u32) {
        self.push(LOAD, 0, 0, offset);
    }

    fn answer(&mut self, action: u32) {
        self.push(RETURN, 0, 0, action);
    }

    /// Skips `over` instructions unless the loaded word is `value`.
    fn unless_equal_skip(&mut self, value: u32, over: u8) {
        self.push(JUMP_IF_EQUAL, 0, over, value);
    }

    /// Refuses what makes a set-ID file, or turns one into that.
    fn deny_set_id(&mut self) {
        // Its mode is behind a pointer, where no filter sees it; callers fall back.
        self.deny(libc::SYS_openat2, UNKNOWN_CALL);
        for (call, mode) in GIVE_MODE {
            self.unless_equal_skip(number(*call), 4);
            self.load(arg(*mode));
            self.push(JUMP_IF_ANY_BIT, 0, 1, SET_ID);
            self.answer(NOT_PERMITTED);
            self.answer(ALLOW);
        }
        for (call, flags) in MAY_MAKE {
            self.unless_equal_skip(number(*call), 6);
            self.load(arg(*flags));
            self.push(JUMP_IF_ANY_BIT, 0, 3, MAKES);
            self.load(arg(*flags + 1));
            self.push(JUMP_IF_ANY_BIT, 0, 1, SET_ID);
            self.answer(NOT_PERMITTED);
            self.answer(ALLOW);
        }
    }

    /// Answers `action` if an argument is one of `values`.
    fn deny_values(&mut self, call: c_long, argument: u32, values: &[u32], action: u32) {
        let count = u8::try_from(values.len()).expect("a handful of values");
        self.unless_equal_skip(number(call), count + 3);
        self.load(arg(argument));
        for (left, value) in (1..=count).rev().zip(values) {
            self.push(JUMP_IF_EQUAL, left, 0, *value);
        }
        self.answer(ALLOW);
        self.answer(action);
    }

    /// Refuses what one process may do to another of the same user, and so to the worker.
    fn deny_meddling(&mut self) {
        for call in CHANGE_ANY {
            self.unless_equal_skip(number(*call), 4);
            self.load(arg(0));
            self.push(JUMP_IF_EQUAL, 1, 0, 0);
            self.answer(NOT_PERMITTED);
            self.answer(ALLOW);
        }
        for (call, own) in CHANGE_ANY_OF {
            self.unless_equal_skip(number(*call), 7);
            self.load(arg(0));
            self.push(JUMP_IF_EQUAL, 1, 0, own[0]);
            self.push(JUMP_IF_EQUAL, 0, 2, own[1]);
            self.load(arg(1));
            self.push(JUMP_IF_EQUAL, 1, 0, 0);
            self.answer(NOT_PERMITTED);
            self.answer(ALLOW);
        }
        // Threads are named by id when they are made; `SCHED_OTHER` takes nothing from anybody.
        self.unless_equal_skip(number(libc::SYS_sched_setscheduler), 6);
        self.load(arg(0));
        self.push(JUMP_IF_EQUAL, 3, 0, 0);
        self.load(arg(1));
        self.push(JUMP_IF_EQUAL, 1, 0, libc::SCHED_OTHER.cast_unsigned());
        self.answer(NOT_PERMITTED);
        self.answer(ALLOW);

        // A core limit other than the one set at the start has the host's crash handler run.
        // Whatever is asked for, there is no core, so nothing is lost by the pretence; but whoever
        // also asks for the limit before gets an error, as no filter can write one.
        // `RLIMIT_CORE`, whose type differs between libraries.
        let core = 4;
        self.deny_values(libc::SYS_setrlimit, 0, &[core], PRETEND);
        self.unless_equal_skip(number(libc::SYS_prlimit64), 16);
        self.load(arg(2));
        self.push(JUMP_IF_EQUAL, 0, 2, 0);
        self.load(arg(2) + 4);
        self.push(JUMP_IF_EQUAL, 11, 0, 0); // only asks
        self.load(arg(0));
        self.push(JUMP_IF_EQUAL, 1, 0, 0);
        self.answer(NOT_PERMITTED);
        self.load(arg(1));
        self.push(JUMP_IF_EQUAL, 0, 6, core);
        self.load(arg(3));
        self.push(JUMP_IF_EQUAL, 0, 3, 0);
        self.load(arg(3) + 4);
        self.push(JUMP_IF_EQUAL, 0, 1, 0);
        self.answer(PRETEND);
        self.answer(NOT_PERMITTED);
        self.answer(ALLOW);
    }

    /// Unix (where asked for), IPv4 and IPv6 sockets of the usual protocols, and netlink only for what
    /// `ip` and `getifaddrs` ask.
    fn deny_sockets(&mut self, unix: Unix) {
        let allowed = u8::from(unix == Unix::Allowed);
        self.unless_equal_skip(number(libc::SYS_socket), 16 + allowed);
        self.load(arg(0));
        if unix == Unix::Allowed {
            self.push(JUMP_IF_EQUAL, 14, 0, libc::AF_UNIX.cast_unsigned());
        }
        self.push(JUMP_IF_EQUAL, 6, 0, libc::AF_INET.cast_unsigned());
        self.push(JUMP_IF_EQUAL, 5, 0, libc::AF_INET6.cast_unsigned());
        self.push(JUMP_IF_EQUAL, 1, 0, libc::AF_NETLINK.cast_unsigned());
        self.answer(NO_SUCH_FAMILY);
        self.load(arg(2));
        self.push(JUMP_IF_EQUAL, 8, 0, libc::NETLINK_ROUTE.cast_unsigned());
        self.answer(NO_SUCH_FAMILY);
        self.load(arg(2));
        for (over, protocol) in (1..=5).rev().zip(PROTOCOLS) {
            self.push(JUMP_IF_EQUAL, over, 0, protocol.cast_unsigned());
        }
        self.answer(NO_SUCH_PROTOCOL);
        self.answer(ALLOW);

        if unix == Unix::Allowed {
            self.unless_equal_skip(number(libc::SYS_socketpair), 4);
            self.load(arg(0));
            self.push(JUMP_IF_EQUAL, 1, 0, libc::AF_UNIX.cast_unsigned());
            self.answer(NO_SUCH_FAMILY);
            self.answer(ALLOW);
            return;
        }
        // A datagram socket of a pair can be joined to another address later, or send to one.
        self.unless_equal_skip(number(libc::SYS_socketpair), 9);
        self.load(arg(0));
        self.push(JUMP_IF_EQUAL, 1, 0, libc::AF_UNIX.cast_unsigned());
        self.answer(NO_SUCH_FAMILY);
        self.load(arg(1));
        self.push(AND, 0, 0, SOCKET_TYPE);
        self.push(JUMP_IF_EQUAL, 2, 0, libc::SOCK_STREAM.cast_unsigned());
        self.push(JUMP_IF_EQUAL, 1, 0, libc::SOCK_SEQPACKET.cast_unsigned());
        self.answer(NO_SUCH_PROTOCOL);
        self.answer(ALLOW);
    }

    fn deny(&mut self, call: c_long, action: u32) {
        self.unless_equal_skip(number(call), 1);
        self.answer(action);
    }
}

fn number(call: c_long) -> u32 {
    u32::try_from(call).expect("system call numbers are small and positive")
}

/// The program, as an array of `struct sock_filter`.
fn program(refuse_set_id: bool, unix: Unix) -> Vec<u8> {
    let mut p = Program::default();
    p.load(ARCH);
    p.push(JUMP_IF_EQUAL, 1, 0, AUDIT_ARCH);
    p.answer(UNKNOWN_CALL);
    p.load(NR);
    #[cfg(target_arch = "x86_64")]
    {
        p.push(JUMP_IF_AT_LEAST, 0, 1, X32);
        p.answer(UNKNOWN_CALL);
    }
    for call in UNKNOWN {
        p.deny(*call, UNKNOWN_CALL);
    }
    for call in REFUSED {
        p.deny(*call, NOT_PERMITTED);
    }
    if refuse_set_id {
        p.deny_set_id();
    }
    for (call, flags) in [
        (libc::SYS_unshare, NAMESPACES),
        (libc::SYS_clone, CLONE_NAMESPACES),
    ] {
        p.unless_equal_skip(number(call), 4);
        p.load(arg(0));
        p.push(JUMP_IF_ANY_BIT, 0, 1, flags);
        p.answer(NOT_PERMITTED);
        p.answer(ALLOW);
    }

    p.unless_equal_skip(number(libc::SYS_ioctl), 5);
    p.load(arg(1));
    p.push(JUMP_IF_EQUAL, 1, 0, 0x5412); // TIOCSTI: types into the terminal
    p.push(JUMP_IF_EQUAL, 0, 1, 0x541C); // TIOCLINUX: pastes into a console
    p.answer(NOT_PERMITTED);
    p.answer(ALLOW);

    p.unless_equal_skip(number(libc::SYS_personality), 6);
    p.load(arg(0));
    p.push(JUMP_IF_EQUAL, 2, 0, u32::MAX); // asks only
    p.push(AND, 0, 0, !0x0004_0000); // ADDR_NO_RANDOMIZE, for debuggers
    p.push(JUMP_IF_EQUAL, 0, 1, 0);
    p.answer(ALLOW);
    p.answer(NOT_PERMITTED);

    p.deny_values(libc::SYS_fcntl, 1, LEASES, NO_SUCH_COMMAND);
    p.deny_meddling();
    p.deny_sockets(unix);

    p.answer(ALLOW);
    p.0
}

#[cfg(test)]
mod tests;

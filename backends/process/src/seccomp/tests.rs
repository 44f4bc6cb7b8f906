//! Runs the program in an interpreter of the few instructions it uses.

use super::*;

fn run(program: &[u8], arch: u32, nr: u32, args: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend(nr.to_ne_bytes());
    data.extend(arch.to_ne_bytes());
    data.extend(0u64.to_ne_bytes());
    for arg in args {
        data.extend(arg.to_ne_bytes());
    }
    let program: Vec<_> = program.chunks_exact(8).collect();
    let (mut at, mut word) = (0, 0u32);
    loop {
        let [c0, c1, if_true, if_false, k0, k1, k2, k3] = *program[at] else {
            panic!("an instruction has eight bytes")
        };
        let k = u32::from_ne_bytes([k0, k1, k2, k3]);
        at += 1;
        let mut jump = |condition| at += usize::from(if condition { if_true } else { if_false });
        match u16::from_ne_bytes([c0, c1]) {
            LOAD => {
                let k = k as usize;
                word = u32::from_ne_bytes(data[k..k + 4].try_into().unwrap());
            }
            AND => word &= k,
            JUMP_IF_EQUAL => jump(word == k),
            0x35 => jump(word >= k),
            JUMP_IF_ANY_BIT => jump(word & k != 0),
            RETURN => return k,
            other => panic!("unknown instruction {other:#x}"),
        }
    }
}

fn call(nr: c_long, args: &[u64]) -> u32 {
    call_by(&program(false, Unix::Allowed), nr, args)
}

fn call_by(program: &[u8], nr: c_long, args: &[u64]) -> u32 {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    run(program, AUDIT_ARCH, number(nr), all)
}

#[test]
fn no_set_id_file_can_be_made_of_the_hosts() {
    const CREATE: u64 = 0o101;
    const UNNAMED: u64 = 0o20_200_001;
    let strict = program(true, Unix::Allowed);
    let call = |nr, args: &[u64]| call_by(&strict, nr, args);
    assert_eq!(call(libc::SYS_openat2, &[]), UNKNOWN_CALL);
    for set_id in [0o4755, 0o2755, 0o6000, 1 << 40 | 0o4000] {
        for (nr, mode) in GIVE_MODE {
            let mut args = [0; 3];
            args[*mode as usize] = set_id;
            assert_eq!(call(*nr, &args), NOT_PERMITTED, "{nr}");
        }
        for (nr, at) in MAY_MAKE {
            for flags in [CREATE, UNNAMED, 1 << 40 | CREATE] {
                let mut args = [0; 4];
                args[*at as usize] = flags;
                args[*at as usize + 1] = set_id;
                assert_eq!(call(*nr, &args), NOT_PERMITTED, "{nr}");
            }
            // Nothing is made, so what is there in place of a mode is none.
            let mut args = [0; 4];
            args[*at as usize + 1] = set_id;
            assert_eq!(call(*nr, &args), ALLOW, "{nr}");
        }
    }
    for (nr, mode) in GIVE_MODE {
        let mut args = [0; 3];
        args[*mode as usize] = 0o1777;
        assert_eq!(call(*nr, &args), ALLOW, "{nr}");
    }
    for (nr, at) in MAY_MAKE {
        let mut args = [0; 4];
        args[*at as usize] = CREATE;
        args[*at as usize + 1] = 0o755;
        assert_eq!(call(*nr, &args), ALLOW, "{nr}");
    }
    // And all that is refused otherwise.
    assert_eq!(call(libc::SYS_mount, &[]), NOT_PERMITTED);
    assert_eq!(call(libc::SYS_read, &[]), ALLOW);
}

#[test]
fn ordinary_calls_are_allowed() {
    for nr in [
        libc::SYS_read,
        libc::SYS_execve,
        libc::SYS_openat2,
        libc::SYS_ptrace,
        libc::SYS_wait4,
        libc::SYS_exit_group,
    ] {
        assert_eq!(call(nr, &[]), ALLOW, "{nr}");
    }
    assert_eq!(call(libc::SYS_clone, &[0x01200011]), ALLOW, "fork");
    assert_eq!(call(libc::SYS_clone, &[0x003D_0F00]), ALLOW, "a thread");
    assert_eq!(call(libc::SYS_unshare, &[0x400]), ALLOW, "CLONE_FILES");
    assert_eq!(call(libc::SYS_ioctl, &[0, 0x5413]), ALLOW, "TIOCGWINSZ");
    for family in [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6] {
        assert_eq!(
            call(libc::SYS_socket, &[u64::from(family.cast_unsigned())]),
            ALLOW
        );
    }
    assert_eq!(call(libc::SYS_socket, &[16, 3, 0]), ALLOW, "NETLINK_ROUTE");
    for persona in [0, 0x0004_0000, 0xFFFF_FFFF] {
        assert_eq!(call(libc::SYS_personality, &[persona]), ALLOW);
    }
}

#[test]
fn dangerous_calls_are_refused() {
    for nr in UNKNOWN {
        assert_eq!(call(*nr, &[]), UNKNOWN_CALL, "{nr}");
    }
    for nr in REFUSED {
        assert_eq!(call(*nr, &[]), NOT_PERMITTED, "{nr}");
    }
    for namespace in [
        libc::CLONE_NEWNS,
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
    ] {
        let flags = u64::from(namespace.cast_unsigned());
        assert_eq!(call(libc::SYS_unshare, &[flags]), NOT_PERMITTED);
        assert_eq!(call(libc::SYS_clone, &[flags | 17]), NOT_PERMITTED);
    }
    for family in [
        libc::AF_PACKET,
        libc::AF_VSOCK,
        libc::AF_ALG,
        libc::AF_BLUETOOTH,
    ] {
        let family = u64::from(family.cast_unsigned());
        assert_eq!(call(libc::SYS_socket, &[family]), NO_SUCH_FAMILY);
    }
    assert_eq!(
        call(libc::SYS_socket, &[16, 3, 15]),
        NO_SUCH_FAMILY,
        "uevents"
    );
    assert_eq!(call(libc::SYS_personality, &[8]), NOT_PERMITTED);
}

#[test]
fn a_process_may_change_itself_and_no_other() {
    const POINTER: u64 = 0x7FFF_0000_1000;
    const CORE: u64 = 4;
    const NOFILE: u64 = 7;
    let aligned = 0x5 << 32;
    for pointer in [POINTER, aligned] {
        let set = |pid, resource| call(libc::SYS_prlimit64, &[pid, resource, pointer]);
        assert_eq!(set(0, NOFILE), ALLOW);
        assert_eq!(set(1, NOFILE), NOT_PERMITTED);
        assert_eq!(set(1, CORE), NOT_PERMITTED);
        assert_eq!(set(0, CORE), PRETEND);
        assert_eq!(set(0, 1 << 32 | CORE), PRETEND);
        let exchange = |resource| call(libc::SYS_prlimit64, &[0, resource, POINTER, pointer]);
        assert_eq!(exchange(CORE), NOT_PERMITTED);
        assert_eq!(exchange(NOFILE), ALLOW);
    }
    assert_eq!(call(libc::SYS_prlimit64, &[1, NOFILE, 0, 1]), ALLOW, "asks");
    assert_eq!(call(libc::SYS_prlimit64, &[0, CORE, 0, 1]), ALLOW, "asks");
    assert_eq!(call(libc::SYS_setrlimit, &[CORE]), PRETEND);
    assert_eq!(call(libc::SYS_setrlimit, &[NOFILE]), ALLOW);
    for nr in CHANGE_ANY {
        assert_eq!(call(*nr, &[0, 1]), ALLOW, "{nr}");
        assert_eq!(call(*nr, &[1, 0]), NOT_PERMITTED, "{nr}");
    }
    for (nr, own) in CHANGE_ANY_OF {
        for kind in own.map(u64::from) {
            assert_eq!(call(*nr, &[kind, 0, 9]), ALLOW, "{nr}");
            assert_eq!(call(*nr, &[kind, 1]), NOT_PERMITTED, "{nr}");
        }
        // Everything of a user.
        let user = u64::from(own[1]) + 1;
        assert_eq!(call(*nr, &[user, 0]), NOT_PERMITTED, "{nr}");
    }
    let schedule = |pid, policy| call(libc::SYS_sched_setscheduler, &[pid, policy]);
    assert_eq!(schedule(0, 5), ALLOW);
    assert_eq!(schedule(7, 0), ALLOW, "pthread_create");
    assert_eq!(schedule(1, 5), NOT_PERMITTED, "SCHED_IDLE");
    assert_eq!(schedule(1, 0x4000_0000), NOT_PERMITTED, "reset on fork");
    assert_eq!(call(libc::SYS_sched_setaffinity, &[7]), ALLOW, "OpenMP");
}

#[test]
fn no_lease_is_taken() {
    for command in [1024, 1026, 1040, 1 << 32 | 1024] {
        assert_eq!(call(libc::SYS_fcntl, &[3, command]), NO_SUCH_COMMAND);
    }
    // F_DUPFD, F_SETFD, F_SETLK, F_GETLEASE, F_DUPFD_CLOEXEC, F_SETPIPE_SZ, F_ADD_SEALS
    for command in [0, 2, 6, 1025, 1030, 1031, 1033] {
        assert_eq!(call(libc::SYS_fcntl, &[1024, command]), ALLOW);
    }
}

#[test]
fn only_the_usual_protocols_are_spoken() {
    for family in [libc::AF_INET, libc::AF_INET6] {
        let family = u64::from(family.cast_unsigned());
        let socket = |protocol| call(libc::SYS_socket, &[family, 1, protocol]);
        for protocol in [0, 1, 6, 17, 58] {
            assert_eq!(socket(protocol), ALLOW, "{protocol}");
        }
        for protocol in [2, 33, 132, 136, 255, 256, 262, 1 << 32 | 132] {
            assert_eq!(socket(protocol), NO_SUCH_PROTOCOL, "{protocol}");
        }
    }
    assert_eq!(call(libc::SYS_socketpair, &[1, 5, 0]), ALLOW);
    for family in [2, 16, 30, 38, 40, 1 << 32 | 30] {
        assert_eq!(call(libc::SYS_socketpair, &[family]), NO_SUCH_FAMILY);
    }
}

#[test]
fn the_upper_half_of_an_argument_hides_nothing() {
    let high = 1 << 32;
    assert_eq!(call(libc::SYS_ioctl, &[0, high | 0x5412]), NOT_PERMITTED);
    assert_eq!(call(libc::SYS_ioctl, &[0, high | 0x541C]), NOT_PERMITTED);
    assert_eq!(
        call(libc::SYS_unshare, &[high | 0x1000_0000]),
        NOT_PERMITTED
    );
    assert_eq!(call(libc::SYS_socket, &[high | 40]), NO_SUCH_FAMILY);
}

#[test]
fn other_architectures_are_refused() {
    const I386: u32 = 0x4000_0003;
    assert_eq!(
        run(&program(false, Unix::Allowed), I386, 3, [0; 6]),
        UNKNOWN_CALL
    );
    #[cfg(target_arch = "x86_64")]
    assert_eq!(
        run(
            &program(false, Unix::Allowed),
            AUDIT_ARCH,
            X32 | 165,
            [0; 6]
        ),
        UNKNOWN_CALL
    );
}

#[test]
fn among_the_hosts_files_no_socket_leads_to_a_path() {
    let strict = among_host_files(Unix::Pairs);
    let call = |nr, args: &[u64]| call_by(&strict, nr, args);
    let unix = libc::AF_UNIX as u64;
    for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_SEQPACKET] {
        let kind = u64::from((kind | libc::SOCK_CLOEXEC).cast_unsigned());
        assert_eq!(call(libc::SYS_socket, &[unix, kind, 0]), NO_SUCH_FAMILY);
    }
    for (kind, answer) in [
        (libc::SOCK_STREAM, ALLOW),
        (libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK, ALLOW),
        // Raw is another name of datagram here; either could be sent to a path.
        (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, NO_SUCH_PROTOCOL),
        (libc::SOCK_RAW, NO_SUCH_PROTOCOL),
    ] {
        let args = [unix, u64::from(kind.cast_unsigned()), 0];
        assert_eq!(call(libc::SYS_socketpair, &args), answer, "{kind}");
    }
    let inet = libc::AF_INET as u64;
    assert_eq!(call(libc::SYS_socket, &[inet, 1, 0]), ALLOW);
    assert_eq!(call(libc::SYS_socket, &[inet, 1, 132]), NO_SUCH_PROTOCOL);
    assert_eq!(
        call(libc::SYS_socket, &[libc::AF_VSOCK as u64, 1, 0]),
        NO_SUCH_FAMILY
    );
    assert_eq!(call(libc::SYS_socketpair, &[inet, 1, 0]), NO_SUCH_FAMILY);
}

"""Asks the kernel inside a sandbox for things it must not give.

Usage: python3 -c PROBE VERB ARGS...
Exit code: 0 the kernel gave it, 10 it refused (the reason on stdout), 11 it cannot be asked here.
Anything else is a fault of the probe itself.
"""

import ctypes, errno, os, platform, select, signal, socket, struct, sys, time

GIVEN, REFUSED, NOT_HERE = 0, 10, 11
libc = ctypes.CDLL(None, use_errno=True)
X86 = platform.machine() == "x86_64"
NUMBERS = {  # x86-64, aarch64
    "keyctl": (250, 219), "add_key": (248, 217), "bpf": (321, 280), "perf_event_open": (298, 241),
    "io_uring_setup": (425, 425), "userfaultfd": (323, 282), "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104), "init_module": (175, 105), "process_vm_readv": (310, 270),
    "ptrace": (101, 117), "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268),
    "pivot_root": (155, 41), "swapon": (167, 224), "reboot": (169, 142),
    "clock_settime": (227, 112), "mknodat": (259, 33), "chroot": (161, 51), "syslog": (103, 116),
    "fsopen": (430, 430), "open_tree": (428, 428), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
}


def syscall(name, *args):
    number = NUMBERS[name][0 if X86 else 1]
    if platform.machine() not in ("x86_64", "aarch64"):
        raise SystemExit(NOT_HERE)
    ctypes.set_errno(0)
    result = libc.syscall(number, *[ctypes.c_long(a) if isinstance(a, int) else a for a in args])
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def text(value):
    return ctypes.c_char_p(value.encode())


def connect(host, port):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(5)
        s.connect((host, int(port)))
        s.sendall(b"probe\n")


def udp(host, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(5)
        s.connect((host, int(port)))
        s.send(b"probe")
        # An answer is the proof; without one the datagram went nowhere that matters.
        s.recv(64)


def raw(host):
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as s:
        s.settimeout(5)
        body = struct.pack("!BBHHH", 8, 0, 0xF7FF, 0, 0)
        s.sendto(body, (host, 0))


def packet():
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as s:
        names = [n for _, n in socket.if_nameindex() if n != "lo"]
        if not names:
            raise OSError(errno.ENODEV, "no device but lo")
        s.bind((names[0], 0))


def interfaces():
    names = [n for _, n in socket.if_nameindex() if n != "lo"]
    if not names:
        raise OSError(errno.ENODEV, "no device but lo")
    print(*names)


def dns(name):
    print(socket.getaddrinfo(name, 80)[0][4][0])


def dns6(name):
    print(socket.getaddrinfo(name, 80, socket.AF_INET6)[0][4][0])


def say(host, port):
    """Connects by name as whoever knows no proxy does, says a word and prints what comes back."""
    with socket.create_connection((host, int(port)), 20) as s:
        s.sendall(b"probe\n")
        answer = s.makefile("rb").readline()
    if not answer:
        raise OSError(errno.ECONNRESET, "closed without an answer")
    print(answer.decode().strip())


def stay(host, port):
    """As say, and prints whatever else comes until the connection ends."""
    with socket.create_connection((host, int(port)), 20) as s:
        s.settimeout(None)
        s.sendall(b"probe\n")
        try:
            for line in s.makefile("rb"):
                print(line.decode().strip(), flush=True)
            print("ended", flush=True)
        except OSError as err:
            print("ended", errno.errorcode.get(err.errno, err), flush=True)


def mirrored(host, port, mib):
    """Sends so much and reads it back at the same time; it must be the same by its hash."""
    import hashlib, threading

    block = os.urandom(1 << 20)
    sent, back, length = hashlib.sha256(), hashlib.sha256(), 0
    with socket.create_connection((host, int(port)), 20) as s:
        s.settimeout(None)

        def send():
            for turn in range(int(mib)):
                piece = turn.to_bytes(4, "big") + block[4:]
                sent.update(piece)
                s.sendall(piece)
            s.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        while data := s.recv(1 << 18):
            back.update(data)
            length += len(data)
        sender.join()
    if sent.digest() != back.digest():
        raise OSError(errno.EIO, f"{length} bytes came back, and others than were sent")
    print(length, "bytes")


def half(host, port):
    """Asks, ends its own way, and only then reads."""
    with socket.create_connection((host, int(port)), 20) as s:
        s.sendall(b"question")
        s.shutdown(socket.SHUT_WR)
        answer = b""
        while data := s.recv(4096):
            answer += data
    print(answer.decode(), "answered")


def crowd(host, port, count):
    """Opens so many connections at once, and speaks on each when all are there."""
    import asyncio

    async def all_of_them():
        opened = await asyncio.gather(
            *(asyncio.open_connection(host, int(port)) for _ in range(int(count)))
        )
        for number, (_, to) in enumerate(opened):
            to.write(f"{number}\n".encode())
        answers = await asyncio.gather(*(back.readline() for back, _ in opened))
        print(sum(answer == f"{number}\n".encode() for number, answer in enumerate(answers)))

    asyncio.run(all_of_them())


def deaf(host, port, count):
    """Opens so many connections, says so, and reads none of them."""
    held = [socket.create_connection((host, int(port)), 20) for _ in range(int(count))]
    print(len(held), flush=True)
    signal.pause()


def reroute():
    """Takes the loopback down, as `ip link set lo down` does."""
    body = struct.pack("=BxHiII", 0, 0, 1, 0, 1)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        s.settimeout(5)
        s.send(struct.pack("=IHHII", 16 + len(body), 16, 5, 0, 0) + body)
        code = struct.unpack_from("=i", s.recv(256), 16)[0]
    if code:
        raise OSError(-code, os.strerror(-code))


def get(url, *headers):
    """Fetches as the environment says; a header is name=value, or name=$VARIABLE."""
    import urllib.error
    import urllib.request

    sent = {}
    for header in headers:
        name, value = header.split("=", 1)
        sent[name] = os.environ[value[1:]] if value.startswith("$") else value
    try:
        request = urllib.request.Request(url, headers=sent)
        with urllib.request.urlopen(request, timeout=20) as answer:
            print(answer.status, answer.read().decode())
    except urllib.error.HTTPError as err:
        print(err.code, err.read().decode())
        raise SystemExit(REFUSED)


def unix(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect(path)


def abstract(name):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
        s.connect("\0" + name)


def sockets():
    """Every unix socket that a walk finds and that answers."""
    answered = []
    for top, dirs, files in os.walk("/"):
        dirs[:] = [d for d in dirs if os.path.join(top, d) not in ("/proc", "/sys")]
        for name in files:
            path = os.path.join(top, name)
            try:
                if not (os.lstat(path).st_mode & 0o170000) == 0o140000:
                    continue
                with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as s:
                    s.settimeout(1)
                    s.connect(path)
                answered.append(path)
            except OSError:
                pass
    if not answered:
        raise OSError(errno.ENOENT, "no unix socket answers")
    print(*answered)


def vsock():
    with socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM) as s:
        s.settimeout(2)
        s.connect((2, 1))


def serve(port):
    """Answers one connection on the loopback with what it sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        s.bind(("127.0.0.1", int(port)))
        s.listen(16)
        print(s.getsockname()[1], flush=True)
        while True:
            peer, _ = s.accept()
            with peer:
                while data := peer.recv(65536):
                    peer.sendall(data)


def fetch(port):
    """Sends its standard input to a loopback port and prints what comes back."""
    with socket.create_connection(("127.0.0.1", int(port)), 20) as s:
        s.sendall(sys.stdin.buffer.read())
        s.shutdown(socket.SHUT_WR)
        while data := s.recv(65536):
            sys.stdout.buffer.write(data)


def alloc(mib):
    """Touches memory a MiB at a time, as any program does by accident."""
    held = []
    for _ in range(int(mib)):
        held.append(bytearray(b"x") * (1 << 20))


def alloc_shared(mib):
    """Memory that no address-space limit counts: files of a memfd."""
    fd = os.memfd_create("probe")
    block = b"x" * (1 << 20)
    for _ in range(int(mib)):
        os.write(fd, block)


def alloc_forked(mib, children):
    """The same total, spread over children, so that a limit of one process never bites."""
    share = int(mib) // int(children)
    pids = []
    ready, told = os.pipe()
    for _ in range(int(children)):
        pid = os.fork()
        if pid == 0:
            try:
                alloc(share)
                os.write(told, b"1")
                signal.pause()
            finally:
                os._exit(1)
        pids.append(pid)
    os.close(told)
    got = 0
    died = False
    while got < int(children) and not died:
        if select.select([ready], [], [], 0.05)[0]:
            got += len(os.read(ready, 64))
        # Those that live hold the pipe, so a death does not show on it.
        died = any(os.waitid(os.P_PID, p, os.WEXITED | os.WNOHANG | os.WNOWAIT) for p in pids)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if got < int(children):
        raise OSError(errno.ENOMEM, f"{got} children got their share")


def forks(count):
    """As many live children as it can get."""
    pids = []
    failed = None
    try:
        for _ in range(int(count)):
            pid = os.fork()
            if pid == 0:
                signal.pause()
                os._exit(0)
            pids.append(pid)
    except OSError as err:
        failed = err
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    print(len(pids))
    if failed:
        raise failed


def burn(seconds):
    """Burns on four processes at once; prints processor seconds per second of wall clock."""
    end = time.monotonic() + float(seconds)
    start = time.monotonic()
    pids = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            while time.monotonic() < end:
                pass
            os._exit(0)
        pids.append(pid)
    used = 0.0
    for pid in pids:
        _, _, usage = os.wait4(pid, 0)
        used += usage.ru_utime + usage.ru_stime
    print(used / (time.monotonic() - start))


def fill(path, mib):
    block = b"x" * (1 << 20)
    with open(path, "wb", buffering=0) as f:
        for _ in range(int(mib)):
            f.write(block)
            os.fsync(f.fileno())


def read(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        print(os.read(fd, 16).hex())
    finally:
        os.close(fd)


def write(path):
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND))


def create(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def peek(pid):
    """What the descriptors of another process are; their mere number is no secret."""
    print(*(os.readlink(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd")))


def listdir(path):
    print(len(os.listdir(path)))


def kill(pid, number):
    os.kill(int(pid), int(number))


def ptrace(pid):
    syscall("ptrace", 16, int(pid), 0, 0)
    os.waitpid(int(pid), 0x40000000)


def vm_read(pid):
    local = ctypes.create_string_buffer(8)
    with open(f"/proc/{pid}/maps") as maps:
        address = int(next(maps).split("-")[0], 16)
    here = struct.pack("PP", ctypes.addressof(local), 8)
    there = struct.pack("PP", address, 8)
    syscall("process_vm_readv", int(pid), ctypes.c_char_p(here), 1, ctypes.c_char_p(there), 1, 0)


def mount():
    os.makedirs("/tmp/probe-mount", exist_ok=True)
    syscall("mount", text("none"), text("/tmp/probe-mount"), text("tmpfs"), 0, 0)


def remount():
    # MS_REMOUNT | MS_BIND without MS_RDONLY
    syscall("mount", text("none"), text("/usr"), text("none"), 32 | 4096, 0)


def userns():
    syscall("unshare", 0x10000000)


def userns_mount():
    syscall("unshare", 0x10000000 | 0x00020000)
    mount()


def keyctl():
    # KEYCTL_GET_KEYRING_ID of the session keyring, created when absent: shared with the host.
    syscall("keyctl", 0, -3, 1)


def bpf():
    attr = struct.pack("IIIII", 2, 4, 8, 1, 0) + bytes(100)
    syscall("bpf", 0, ctypes.c_char_p(attr), len(attr))


def perf():
    attr = bytearray(128)
    struct.pack_into("IIQ", attr, 0, 1, 128, 1)
    syscall("perf_event_open", ctypes.c_char_p(bytes(attr)), -1, 0, -1, 0)


def io_uring():
    syscall("io_uring_setup", 1, ctypes.create_string_buffer(120))


def module():
    try:
        syscall("init_module", ctypes.c_char_p(b"\x7fELF"), 4, text(""))
    except OSError as err:
        # The kernel read our bytes: so it would have taken a good module.
        if err.errno in (errno.ENOEXEC, errno.EINVAL):
            return
        raise


def clock():
    spec = struct.pack("ll", int(time.time()), 0)
    syscall("clock_settime", 0, ctypes.c_char_p(spec))


def mknod():
    os.mknod("/tmp/probe-node", 0o020600, os.makedev(1, 1))
    os.close(os.open("/tmp/probe-node", os.O_RDONLY))


def handle():
    """open_by_handle_at: walks the file system below the mount by inode."""
    buf = struct.pack("Ii", 8, 1) + struct.pack("Q", 2) + bytes(128)
    fd = os.open("/usr", os.O_RDONLY)
    try:
        syscall("open_by_handle_at", fd, ctypes.c_char_p(buf), 0)
    except OSError as err:
        if err.errno in (errno.ESTALE, errno.EINVAL, errno.EOPNOTSUPP):
            return
        raise


def tiocsti():
    """Types into the controlling terminal."""
    import fcntl

    fd = os.open("/dev/tty", os.O_RDWR)
    fcntl.ioctl(fd, 0x5412, b"#")


def tty():
    os.close(os.open("/dev/tty", os.O_RDWR))


def disks():
    """Block devices, and character devices beyond the harmless ones."""
    harmless = {(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 2)}
    found = []
    for top, dirs, files in os.walk("/dev"):
        for name in files:
            path = os.path.join(top, name)
            try:
                st = os.lstat(path)
            except OSError:
                continue
            kind = st.st_mode & 0o170000
            device = (os.major(st.st_rdev), os.minor(st.st_rdev))
            pts = 136 <= device[0] <= 143
            if kind == 0o060000 or (kind == 0o020000 and device not in harmless and not pts):
                found.append(path)
    if not found:
        raise OSError(errno.ENOENT, "none beyond the harmless")
    print(*found)


def setuid():
    """Runs as another user through any setuid program, or says that no setuid bit counts."""
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    if fields["NoNewPrivs"].strip() == "1":
        raise OSError(errno.EPERM, "no_new_privs is set")
    if int(fields["CapBnd"].strip(), 16) == 0:
        raise OSError(errno.EPERM, "the bounding set is empty")
    print("CapBnd", fields["CapBnd"].strip())


def caps():
    with open("/proc/self/status") as status:
        fields = dict(line.split(":", 1) for line in status)
    held = {k: fields[k].strip() for k in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    if not any(int(v, 16) for v in held.values()):
        raise OSError(errno.EPERM, "no capability is held")
    print(held)


def fds():
    """Descriptors beyond the standard three."""
    mine = os.open("/proc/self/fd", os.O_RDONLY | os.O_DIRECTORY)
    extra = []
    for name in os.listdir(mine):
        if int(name) > 2 and int(name) != mine:
            try:
                extra.append(f"{name}={os.readlink(f'/proc/self/fd/{name}')}")
            except OSError:
                pass
    # The listing itself opens one more.
    extra = [e for e in extra if not e.endswith("/fd")]
    if not extra:
        raise OSError(errno.ENOENT, "only the standard three")
    print(*extra)


def semaphore():
    import _multiprocessing

    _multiprocessing.SemLock(0, 1, 1, "/namzu-probe-semaphore", True)


def hold(marker):
    """Becomes a daemon in a session of its own, holds its standard output, and never ends."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    while True:
        signal.pause()


verb, arguments = sys.argv[1], sys.argv[2:]
try:
    globals()[verb](*arguments)
except (OSError, MemoryError) as err:
    name = errno.errorcode.get(getattr(err, "errno", None) or 0, type(err).__name__)
    print(f"{name}: {err}")
    sys.exit(REFUSED)
sys.exit(GIVEN)

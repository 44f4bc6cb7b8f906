"""An SSH server, where this user may run one."""

import os
import pwd
import shutil
import subprocess

CONFIG = """
ListenAddress {address}:22
HostKey {folder}/host_key
PidFile none
LogLevel ERROR
AuthorizedKeysFile {folder}/authorized_keys
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
SetEnv PATH=/usr/local/bin:/usr/bin:/bin
"""


def may_change_groups():
    """As root it insists on that, also where root is an ordinary user outside."""
    with open("/proc/self/setgroups") as file:
        return file.read().strip() != "deny"


def start(address, folder):
    sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if not sshd or not shutil.which("ssh-keygen") or not may_change_groups():
        return None
    guest = folder / "guest"
    for key in [folder / "host_key", guest / "id_ed25519"]:
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    shutil.copy(guest / "id_ed25519.pub", folder / "authorized_keys")
    host_key = (folder / "host_key.pub").read_text()
    (guest / "known_hosts").write_text(f"* {host_key}")
    (guest / "ssh_user").write_text(pwd.getpwuid(os.getuid()).pw_name)
    (guest / "repository").write_text(str(folder / "www/git/tiny.git"))
    config = folder / "sshd_config"
    config.write_text(CONFIG.format(address=address, folder=folder))
    # Debian's asks for it, and leaves making it to the service manager.
    os.makedirs("/run/sshd", exist_ok=True)
    return subprocess.Popen([sshd, "-D", "-e", "-f", config], stdin=subprocess.DEVNULL)

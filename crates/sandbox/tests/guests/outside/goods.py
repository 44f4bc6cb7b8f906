"""What the registries have: one tiny package of each kind, and a git repository with something big in it."""

import base64
import hashlib
import io
import json
import os
import random
import shutil
import subprocess
import tarfile
import zipfile

GIT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "outside",
    "GIT_AUTHOR_EMAIL": "outside@plain.test",
    "GIT_COMMITTER_NAME": "outside",
    "GIT_COMMITTER_EMAIL": "outside@plain.test",
}


def make(www):
    for kind in [wheel, npm, crate, module, git, deb]:
        kind(www)


def write(path, contents):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(contents if isinstance(contents, bytes) else contents.encode())


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def tarred(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            entry.mode = 0o644
            archive.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


def wheel(www):
    name = "tiny-1.0.0-py3-none-any.whl"
    info = "tiny-1.0.0.dist-info"
    files = {
        "tiny.py": "def word():\n    return 'from a wheel'\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    contents = zipped(files)
    write(www / "simple/tiny" / name, contents)
    digest = hashlib.sha256(contents).hexdigest()
    write(www / "simple/tiny/index.html", f'<!DOCTYPE html><a href="{name}#sha256={digest}">{name}</a>\n')


def npm(www):
    about = {"name": "tiny", "version": "1.0.0", "main": "index.js"}
    contents = tarred(
        {
            "package/package.json": json.dumps(about),
            "package/index.js": "module.exports = () => 'from a tarball';\n",
        }
    )
    write(www / "npm/tiny/-/tiny-1.0.0.tgz", contents)
    digest = base64.b64encode(hashlib.sha512(contents).digest()).decode()
    about["dist"] = {"integrity": f"sha512-{digest}"}
    told = {"name": "tiny", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": about}}
    write(www / "npm/tiny.json", json.dumps(told))


def crate(www):
    contents = tarred(
        {
            "tiny-1.0.0/Cargo.toml": '[package]\nname = "tiny"\nversion = "1.0.0"\nedition = "2021"\n',
            "tiny-1.0.0/src/lib.rs": 'pub fn word() -> &\'static str { "from a crate" }\n',
        }
    )
    write(www / "cargo/dl/tiny", contents)
    entry = {
        "name": "tiny",
        "vers": "1.0.0",
        "deps": [],
        "cksum": hashlib.sha256(contents).hexdigest(),
        "features": {},
        "yanked": False,
    }
    write(www / "cargo/ti/ny/tiny", json.dumps(entry) + "\n")


def module(www):
    at = www / "go/example.com/tiny/@v"
    text = "module example.com/tiny\n\ngo 1.18\n"
    write(at / "list", "v1.0.0\n")
    write(at / "v1.0.0.info", '{"Version": "v1.0.0"}')
    write(at / "v1.0.0.mod", text)
    inside = "example.com/tiny@v1.0.0"
    source = 'package tiny\n\nfunc Word() string { return "from a module" }\n'
    write(at / "v1.0.0.zip", zipped({f"{inside}/go.mod": text, f"{inside}/tiny.go": source}))


def git(www):
    if not shutil.which("git"):
        return
    big = random.Random(11).randbytes(64 << 20)
    work, repository = www / "work", www / "git/tiny.git"
    run = lambda *words: subprocess.run(["git", *words], env=GIT, check=True)
    run("init", "--quiet", "--initial-branch=main", str(work))
    write(work / "big", big)
    write(work / "big.sha256", hashlib.sha256(big).hexdigest() + "  big\n")
    run("-C", str(work), "add", ".")
    # Random bytes do not get smaller.
    run("-C", str(work), "-c", "core.compression=0", "commit", "--quiet", "--message", "everything")
    run("clone", "--quiet", "--bare", str(work), str(repository))
    run("-C", str(repository), "config", "http.receivepack", "true")


def deb(www):
    if not shutil.which("dpkg-deb"):
        return
    root = www / "deb"
    control = "Package: tiny\nVersion: 1.0\nArchitecture: all\nMaintainer: Outside <outside@plain.test>\nDescription: tiny\n"
    write(root / "DEBIAN/control", control)
    write(root / "usr/share/tiny/word", "from a deb\n")
    os.makedirs(www / "apt")
    file = www / "apt/tiny_1.0_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, file], check=True, stdout=subprocess.DEVNULL)
    contents = file.read_bytes()
    digest = hashlib.sha256(contents).hexdigest()
    write(
        www / "apt/Packages",
        f"{control}Filename: ./tiny_1.0_all.deb\nSize: {len(contents)}\nSHA256: {digest}\n\n",
    )

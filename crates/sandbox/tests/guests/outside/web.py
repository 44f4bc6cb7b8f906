"""A web server: files, uploads, git, and what registries say of themselves."""

import hashlib
import json
import random
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BLOCK = random.Random(7).randbytes(1 << 20)
BLOCKS = 256


def big_hash():
    digest = hashlib.sha256()
    for _ in range(BLOCKS):
        digest.update(BLOCK)
    return digest.hexdigest()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    www = None
    token = None

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.body().close()
        path = self.path.split("?")[0]
        if not self.let_in():
            return
        if path.startswith("/git/"):
            return self.git(None)
        if path == "/big":
            self.send_response(200)
            self.send_header("Content-Length", str(len(BLOCK) * BLOCKS))
            self.end_headers()
            for _ in range(BLOCKS):
                self.wfile.write(BLOCK)
            return
        made = {
            "/hello": lambda: b"hello from the outside\n",
            "/big.sha256": lambda: big_hash().encode(),
            "/cargo/config.json": lambda: json.dumps(
                {"dl": f"https://{self.host()}/cargo/dl/{{crate}}"}
            ).encode(),
            "/npm/tiny": self.packument,
        }.get(path)
        if made:
            return self.answer(200, made())
        file = self.www / path.strip("/")
        if file.is_dir():
            file = file / "index.html"
        if ".." in path or not file.is_file():
            return self.answer(404, b"no such file\n")
        kind = "text/html" if file.suffix == ".html" else "application/octet-stream"
        self.answer(200, file.read_bytes(), kind)

    do_HEAD = do_GET

    def do_POST(self):
        if self.path.startswith("/git/"):
            with self.body() as body:
                return self.let_in() and self.git(body)
        digest, length = hashlib.sha256(), 0
        for piece in self.pieces():
            digest.update(piece)
            length += len(piece)
        if self.let_in():
            self.answer(200, f"{digest.hexdigest()} {length}\n".encode())

    do_PUT = do_POST

    def host(self):
        return self.headers.get("Host", "").split(":")[0]

    def let_in(self):
        if "token" not in self.host() or self.headers.get("X-Guest-Token") == self.token:
            return True
        self.answer(401, b"no token\n")
        return False

    def answer(self, status, body, kind="application/octet-stream"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def pieces(self):
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            left = int(self.headers.get("Content-Length", 0))
            while left:
                piece = self.rfile.read(min(left, 1 << 18))
                if not piece:
                    raise ConnectionError("a body that breaks off")
                left -= len(piece)
                yield piece
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass

    def body(self):
        file = tempfile.TemporaryFile()
        for piece in self.pieces():
            file.write(piece)
        file.seek(0)
        return file

    def packument(self):
        told = json.loads((self.www / "npm/tiny.json").read_text())
        told["versions"]["1.0.0"]["dist"]["tarball"] = f"https://{self.host()}/npm/tiny/-/tiny-1.0.0.tgz"
        return json.dumps(told).encode()

    def git(self, body):
        path, _, query = self.path.partition("?")
        env = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.www),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PROJECT_ROOT": str(self.www / "git"),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path.removeprefix("/git"),
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "REMOTE_ADDR": self.client_address[0],
        }
        for name, header in [
            ("CONTENT_TYPE", "Content-Type"),
            ("HTTP_CONTENT_ENCODING", "Content-Encoding"),
            ("GIT_PROTOCOL", "Git-Protocol"),
        ]:
            if header in self.headers:
                env[name] = self.headers[header]
        backend = subprocess.Popen(
            ["git", "http-backend"], env=env, stdin=body or subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        status, headers = 200, []
        while line := backend.stdout.readline().strip():
            name, _, value = line.decode().partition(": ")
            if name == "Status":
                status = int(value.split()[0])
            else:
                headers.append((name, value))
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while piece := backend.stdout.read1(1 << 18):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")
        backend.wait()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    tls = None

    def finish_request(self, request, address):
        # In the thread of the connection: a handshake must not hold up others.
        if self.tls:
            request = self.tls.wrap_socket(request, server_side=True)
        super().finish_request(request, address)

    def handle_error(self, *_):
        # Guests break off as they please; what is lost by it is theirs to say.
        pass


def serve(address, port, www, token, tls):
    handler = type("Bound", (Handler,), {"www": www, "token": token})
    server = Server((address, port), handler)
    server.tls = tls
    threading.Thread(target=server.serve_forever, daemon=True).start()

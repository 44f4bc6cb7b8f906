"""The outside: everything that guests talk to. Ends when its standard input does.

    main.py FOLDER TOKEN WEB WEBSOCKET GRPC GRPC_WITH_TOKEN

FOLDER has `cert.pem` and `key.pem`; what guests are to find goes into FOLDER/guest. The last four are addresses. On
hosts with `token` in their name every request has to bring the token, which no guest knows.
"""

import os
import ssl
import subprocess
import sys
import threading
from pathlib import Path

import goods
import shell
import web


def main():
    folder, token = Path(sys.argv[1]), sys.argv[2]
    at_web, at_websocket, at_grpc, at_grpc_token = sys.argv[3:]
    cert, key = folder / "cert.pem", folder / "key.pem"

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(cert, key)
    tls.set_alpn_protocols(["http/1.1"])

    goods.make(folder / "www")
    web.serve(at_web, 443, folder / "www", token, tls)
    web.serve(at_web, 80, folder / "www", token, None)
    try:
        import streams
    except ImportError as missing:
        print(f"no WebSocket and no gRPC: {missing}", file=sys.stderr)
    else:
        streams.websocket(at_websocket, token, tls)
        streams.grpc_server(at_grpc, None, cert, key)
        streams.grpc_server(at_grpc_token, token, cert, key)
    sshd = shell.start(at_web, folder)

    print("ready", flush=True)
    sys.stdin.buffer.read()
    if sshd:
        sshd.terminate()
        sshd.wait()
    # Threads that serve know no end.
    os._exit(0)


main()

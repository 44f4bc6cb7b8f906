"""WebSocket and gRPC."""

import threading
from concurrent import futures
from http import HTTPStatus

import grpc
from websockets.sync.server import serve


def websocket(address, token, tls):
    def ask(connection, request):
        host = request.headers.get("Host", "")
        if "token" in host and request.headers.get("X-Guest-Token") != token:
            return connection.respond(HTTPStatus.UNAUTHORIZED, "no token\n")

    def echo(connection):
        for message in connection:
            connection.send(message)

    server = serve(echo, address, 443, ssl=tls, process_request=ask, max_size=None, compression=None)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def grpc_server(address, token, cert, key):
    def let_in(context):
        sent = dict(context.invocation_metadata()).get("x-guest-token")
        if token and sent != token:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")

    def reverse(request, context):
        let_in(context)
        context.set_trailing_metadata([("x-told-last", "unary")])
        return request[::-1]

    def count(request, context):
        let_in(context)
        for number in range(int(request)):
            yield str(number).encode()
        context.set_trailing_metadata([("x-told-last", "stream")])

    def chat(requests, context):
        let_in(context)
        for request in requests:
            yield request.upper()

    def refuse(_, context):
        let_in(context)
        context.set_trailing_metadata([("x-told-last", "refused")])
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not today")

    handlers = {
        "Reverse": grpc.unary_unary_rpc_method_handler(reverse),
        "Count": grpc.unary_stream_rpc_method_handler(count),
        "Chat": grpc.stream_stream_rpc_method_handler(chat),
        "Refuse": grpc.unary_unary_rpc_method_handler(refuse),
    }
    server = grpc.server(futures.ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("guest.Test", handlers)])
    pair = (key.read_bytes(), cert.read_bytes())
    server.add_secure_port(f"{address}:443", grpc.ssl_server_credentials([pair]))
    server.start()
    # Or it ends with the last reference.
    threading.Thread(target=server.wait_for_termination, daemon=True).start()

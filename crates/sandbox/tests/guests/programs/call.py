import os
import sys

import grpc

roots = os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"]
assert os.path.exists(roots), roots
with grpc.secure_channel(sys.argv[1], grpc.ssl_channel_credentials()) as channel:
    reverse = channel.unary_unary("/guest.Test/Reverse")
    answer, call = reverse.with_call(b"olleh", timeout=30)
    assert dict(call.trailing_metadata())["x-told-last"] == "unary", call.trailing_metadata()

    stream = channel.unary_stream("/guest.Test/Count")(b"500", timeout=30)
    counted = [int(message) for message in stream]
    assert counted == list(range(500)), counted
    assert dict(stream.trailing_metadata())["x-told-last"] == "stream", stream.trailing_metadata()

    words = [b"a", b"b" * 100_000, b"c"]
    heard = list(channel.stream_stream("/guest.Test/Chat")(iter(words), timeout=30))
    assert heard == [word.upper() for word in words]

    try:
        channel.unary_unary("/guest.Test/Refuse")(b"", timeout=30)
        raise SystemExit("it was not refused")
    except grpc.RpcError as why:
        assert why.code() == grpc.StatusCode.FAILED_PRECONDITION, why
        assert why.details() == "not today", why
        assert dict(why.trailing_metadata())["x-told-last"] == "refused", why.trailing_metadata()
    print(answer.decode(), "with trailers")

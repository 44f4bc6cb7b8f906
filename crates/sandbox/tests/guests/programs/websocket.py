import sys

from websockets.sync.client import connect

with connect(sys.argv[1], max_size=None) as socket:
    for size in [0, 5, 125, 126, 70_000, 3_000_000]:
        sent = b"x" * size
        socket.send(sent)
        assert socket.recv() == sent, size
    socket.send("hello from the inside")
    print(socket.recv())

"""Drives one sandbox through the official E2B Python SDK, unchanged. Usage: judge.py CASE"""

import asyncio
import os
import sys
import time
import urllib.request

from e2b import (
    AsyncSandbox,
    CommandExitException,
    FilesystemEventType,
    NotFoundException,
    PtySize,
    Sandbox,
    TimeoutException,
)


def sandbox():
    return Sandbox.create(timeout=120, envs={"FROM_CREATE": "yes"})


def raises(kind, call):
    try:
        call()
    except kind as err:
        return err
    raise AssertionError(f"expected {kind.__name__}")


def commands_give_output_and_exit_code():
    with sandbox() as sbx:
        done = sbx.commands.run("echo out; echo err >&2")
        assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 0), done
        failed = raises(CommandExitException, lambda: sbx.commands.run("echo before; exit 7"))
        assert failed.exit_code == 7 and failed.stdout == "before\n", failed


def commands_see_env_and_cwd():
    with sandbox() as sbx:
        done = sbx.commands.run('echo "$GREETING $PWD"', envs={"GREETING": "hi"}, cwd="/tmp")
        assert done.stdout == "hi /tmp\n", done
        raises(Exception, lambda: sbx.commands.run("true", cwd="/no/such/place"))


def multi_byte_output_survives_chunk_edges():
    with sandbox() as sbx:
        text = "é€😀" * 60000
        sbx.files.write("wide.txt", text)
        assert sbx.commands.run("cat wide.txt").stdout == text


def background_commands_are_listed_killed_and_rejoined():
    with sandbox() as sbx:
        handle = sbx.commands.run("echo begun; sleep 60", background=True)
        assert any(p.pid == handle.pid for p in sbx.commands.list())
        again = sbx.commands.connect(handle.pid)
        assert again.pid == handle.pid
        assert sbx.commands.kill(handle.pid) is True
        raises(CommandExitException, handle.wait)
        assert not any(p.pid == handle.pid for p in sbx.commands.list())
        assert sbx.commands.kill(999999) is False


def stdin_reaches_the_command():
    with sandbox() as sbx:
        got = []
        handle = sbx.commands.run("head -n 1", background=True, stdin=True)
        sbx.commands.send_stdin(handle.pid, "typed\n")
        handle.wait(on_stdout=got.append)
        assert "".join(got) == "typed\n", got


def a_stream_of_input_reaches_the_command():
    with sandbox() as sbx:
        got = []
        handle = sbx.commands.run("cat", background=True, stdin=True)
        sbx.commands.stream_input(handle.pid, iter(["one\n", "two\n"]))
        sbx.commands.close_stdin(handle.pid)
        handle.wait(on_stdout=got.append)
        assert "".join(got) == "one\ntwo\n", got


def a_timeout_is_a_timeout():
    with sandbox() as sbx:
        began = time.monotonic()
        raises(TimeoutException, lambda: sbx.commands.run("sleep 60", timeout=1))
        assert time.monotonic() - began < 30


def an_async_timeout_is_a_timeout():
    async def body():
        sbx = await AsyncSandbox.create(timeout=120)
        try:
            try:
                await sbx.commands.run("sleep 60", timeout=1)
            except TimeoutException:
                return
            raise AssertionError("no timeout")
        finally:
            await sbx.kill()

    asyncio.run(body())


def a_pty_is_a_terminal():
    with sandbox() as sbx:
        seen = bytearray()
        term = sbx.pty.create(PtySize(rows=24, cols=80))
        sbx.pty.resize(term.pid, PtySize(rows=33, cols=101))
        sbx.pty.send_stdin(term.pid, b"stty size; tty -s && echo ISATTY; exit\n")
        term.wait(on_pty=seen.extend)
        assert b"33 101" in seen and b"ISATTY" in seen, bytes(seen)


def files_round_trip():
    with sandbox() as sbx:
        sbx.files.write("dir/plain.txt", "héllo")
        assert sbx.files.read("dir/plain.txt") == "héllo"
        blob = bytes(range(256)) * 4096
        sbx.files.write("blob.bin", blob)
        assert bytes(sbx.files.read("blob.bin", format="bytes")) == blob
        assert b"".join(sbx.files.read("blob.bin", format="stream")) == blob
        names = {e.name for e in sbx.files.list(".")}
        assert {"dir", "blob.bin"} <= names, names
        info = sbx.files.get_info("blob.bin")
        assert info.size == len(blob), info
        assert sbx.files.exists("blob.bin")
        sbx.files.rename("blob.bin", "moved.bin")
        assert not sbx.files.exists("blob.bin")
        assert sbx.files.make_dir("made") is True
        assert sbx.files.make_dir("made") is False
        sbx.files.remove("made")
        assert not sbx.files.exists("made")
        raises(NotFoundException, lambda: sbx.files.read("absent"))


def many_files_in_one_request():
    with sandbox() as sbx:
        from e2b.sandbox.filesystem.filesystem import WriteEntry

        written = sbx.files.write_files(
            [WriteEntry(path=f"many/{n}.txt", data=str(n)) for n in range(20)]
        )
        assert len(written) == 20
        assert sbx.files.read("many/19.txt") == "19"


def a_watched_directory_reports_create_chmod_write():
    with sandbox() as sbx:
        sbx.files.make_dir("watched")
        watch = sbx.files.watch_dir("watched")
        sbx.files.write("watched/new.txt", "x")
        seen = []
        for _ in range(100):
            seen += [e.type for e in watch.get_new_events()]
            if FilesystemEventType.WRITE in seen:
                break
            time.sleep(0.05)
        watch.stop()
        assert FilesystemEventType.CREATE in seen and FilesystemEventType.WRITE in seen, seen


def an_async_watch_streams():
    async def body():
        sbx = await AsyncSandbox.create(timeout=120)
        try:
            await sbx.files.make_dir("watched")
            seen, written = [], asyncio.Event()

            def on_event(event):
                seen.append(event.type)
                if event.type == FilesystemEventType.WRITE:
                    written.set()

            watch = await sbx.files.watch_dir("watched", on_event=on_event)
            await sbx.files.write("watched/new.txt", "x")
            await asyncio.wait_for(written.wait(), 30)
            await watch.stop()
            assert seen[:3] == [
                FilesystemEventType.CREATE,
                FilesystemEventType.CHMOD,
                FilesystemEventType.WRITE,
            ], seen
        finally:
            await sbx.kill()

    asyncio.run(body())


def signed_urls_open_without_a_token():
    with sandbox() as sbx:
        sbx.files.write("signed.txt", "by url")
        url = sbx.download_url("signed.txt", use_signature_expiration=60)
        assert urllib.request.urlopen(url).read() == b"by url"
        tampered = url.replace("signed.txt", "other.txt")
        err = raises(urllib.error.HTTPError, lambda: urllib.request.urlopen(tampered))
        assert err.code == 401, err
        bare = url.split("?")[0] + "?path=signed.txt"
        err = raises(urllib.error.HTTPError, lambda: urllib.request.urlopen(bare))
        assert err.code == 401, err


def a_killed_sandbox_is_not_running():
    sbx = sandbox()
    assert sbx.is_running()
    assert sbx.kill() is True
    assert not sbx.is_running()


def twenty_commands_at_once():
    async def body():
        sbx = await AsyncSandbox.create(timeout=120)
        try:
            done = await asyncio.gather(
                *(sbx.commands.run(f"sleep 0.2; echo {n}") for n in range(20))
            )
            assert [d.stdout for d in done] == [f"{n}\n" for n in range(20)]
        finally:
            await sbx.kill()

    asyncio.run(body())


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    # The SDK's HTTP library now and then aborts while the interpreter takes itself down, after the
    # case has held. Only a case that held gets here.
    os._exit(0)

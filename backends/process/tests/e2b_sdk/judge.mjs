// Drives one sandbox through the official E2B JavaScript SDK, unchanged. Usage: judge.mjs CASE
import assert from 'node:assert/strict'
import {
  CommandExitError,
  FilesystemEventType,
  NotFoundError,
  Sandbox,
  TimeoutError,
} from 'e2b'

async function within(body) {
  const sbx = await Sandbox.create({ timeoutMs: 120_000 })
  try {
    await body(sbx)
  } finally {
    await sbx.kill()
  }
}

const cases = {
  commands_give_output_and_exit_code: () =>
    within(async (sbx) => {
      const done = await sbx.commands.run('echo out; echo err >&2')
      assert.deepEqual([done.stdout, done.stderr, done.exitCode], ['out\n', 'err\n', 0])
      await assert.rejects(sbx.commands.run('exit 7'), (err) => {
        assert(err instanceof CommandExitError)
        assert.equal(err.exitCode, 7)
        return true
      })
    }),

  commands_see_env_and_cwd: () =>
    within(async (sbx) => {
      const done = await sbx.commands.run('echo "$GREETING $PWD"', {
        envs: { GREETING: 'hi' },
        cwd: '/tmp',
      })
      assert.equal(done.stdout, 'hi /tmp\n')
    }),

  background_commands_are_listed_and_killed: () =>
    within(async (sbx) => {
      const handle = await sbx.commands.run('sleep 60', { background: true })
      assert((await sbx.commands.list()).some((p) => p.pid === handle.pid))
      assert.equal(await sbx.commands.kill(handle.pid), true)
      await assert.rejects(handle.wait(), CommandExitError)
    }),

  stdin_reaches_the_command: () =>
    within(async (sbx) => {
      let got = ''
      const handle = await sbx.commands.run('head -n 1', {
        background: true,
        stdin: true,
        onStdout: (text) => (got += text),
      })
      await sbx.commands.sendStdin(handle.pid, 'typed\n')
      await handle.wait()
      assert.equal(got, 'typed\n')
    }),

  a_timeout_is_a_timeout: () =>
    within(async (sbx) => {
      await assert.rejects(sbx.commands.run('sleep 60', { timeoutMs: 1000 }), TimeoutError)
    }),

  a_pty_is_a_terminal: () =>
    within(async (sbx) => {
      let seen = ''
      const term = await sbx.pty.create({
        rows: 24,
        cols: 80,
        onData: (bytes) => (seen += Buffer.from(bytes).toString()),
      })
      await sbx.pty.resize(term.pid, { rows: 33, cols: 101 })
      await sbx.pty.sendInput(term.pid, Buffer.from('stty size; exit\n'))
      await term.wait()
      assert.match(seen, /33 101/)
    }),

  files_round_trip: () =>
    within(async (sbx) => {
      await sbx.files.write('dir/plain.txt', 'héllo')
      assert.equal(await sbx.files.read('dir/plain.txt'), 'héllo')
      const blob = new Uint8Array(1 << 20).map((_, n) => n % 251)
      await sbx.files.write('blob.bin', blob.buffer)
      const back = await sbx.files.read('blob.bin', { format: 'bytes' })
      assert.deepEqual(Buffer.from(back), Buffer.from(blob))
      assert((await sbx.files.list('.')).some((e) => e.name === 'blob.bin'))
      await sbx.files.rename('blob.bin', 'moved.bin')
      assert.equal(await sbx.files.exists('blob.bin'), false)
      assert.equal(await sbx.files.makeDir('made'), true)
      assert.equal(await sbx.files.makeDir('made'), false)
      await sbx.files.remove('made')
      await assert.rejects(sbx.files.read('absent'), NotFoundError)
    }),

  a_watched_directory_reports_create_chmod_write: () =>
    within(async (sbx) => {
      await sbx.files.makeDir('watched')
      const seen = []
      let wrote
      const written = new Promise((resolve) => (wrote = resolve))
      const watch = await sbx.files.watchDir('watched', (event) => {
        seen.push(event.type)
        if (event.type === FilesystemEventType.WRITE) wrote()
      })
      await sbx.files.write('watched/new.txt', 'x')
      await written
      await watch.stop()
      assert.deepEqual(seen.slice(0, 3), [
        FilesystemEventType.CREATE,
        FilesystemEventType.CHMOD,
        FilesystemEventType.WRITE,
      ])
    }),

  signed_urls_open_without_a_token: () =>
    within(async (sbx) => {
      await sbx.files.write('signed.txt', 'by url')
      const url = await sbx.downloadUrl('signed.txt', { useSignatureExpiration: 60 })
      assert.equal(await (await fetch(url)).text(), 'by url')
      assert.equal((await fetch(url.replace('signed.txt', 'other.txt'))).status, 401)
    }),
}

await cases[process.argv[2]]()

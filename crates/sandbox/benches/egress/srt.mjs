// The library of @anthropic-ai/sandbox-runtime, as a program that is built with it would use it. Says the
// port and the password of its proxy; runs the command lines that it is told in its sandbox, and says what
// they print.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

const [library, settings] = process.argv.slice(2)
const { SandboxManager } = await import(library)
await SandboxManager.initialize(JSON.parse(settings))
console.log(
  JSON.stringify({
    port: SandboxManager.getProxyPort(),
    token: SandboxManager.getProxyAuthToken(),
  }),
)
for await (const line of createInterface({ input: process.stdin })) {
  const command = await SandboxManager.wrapWithSandbox(line)
  // Not spawnSync: the proxy runs in this very process.
  const child = spawn(command, { shell: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  child.stdout.on('data', (data) => (said += data))
  child.stderr.on('data', (data) => (said += data))
  await new Promise((resolve) => child.on('close', resolve))
  console.log(said.trim().replaceAll('\n', ' '))
}
await SandboxManager.reset()
process.exit(0)

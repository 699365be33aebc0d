import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { BenchError, root } from './build.mjs'
import { CPU } from './machine.mjs'

const file = (name) => path.join(root, 'bench', name)

/** Starts the mock upstream. `shape()` sets the number of chunks per stream and the interval between them. */
export async function startMock(session) {
  const child = session.start({
    name: 'mock upstream',
    argv: [process.execPath, file('mock-upstream.mjs')],
    cpu: CPU.driver,
  })
  const { url } = await child.listening
  const shape = async (stream) => {
    const response = await fetch(`${url}/shape`, { method: 'POST', body: JSON.stringify(stream) })
    await response.arrayBuffer()
  }
  return { url, pid: child.pid, shape }
}

// The request has a size of about 1.8 KB: a system prompt and a question with its context.
const sentence = 'You are a careful assistant. Answer in plain prose and keep to the facts that the context gives. '
const question = {
  messages: [
    { role: 'system', content: sentence.repeat(6) },
    { role: 'user', content: `Summarise the following text: ${sentence.repeat(12)}` },
  ],
  temperature: 0.2,
  max_tokens: 256,
}

/** Writes the request bodies as files for the load generator. In `finding`, the default policy logs an e-mail address. */
function writeBodies(session, name, body) {
  const bodyFile = {
    json: path.join(session.dir, `${name}.json`),
    stream: path.join(session.dir, `${name}-stream.json`),
    finding: path.join(session.dir, `${name}-finding.json`),
  }
  const [system, user] = body.messages
  const found = { ...user, content: `${user.content} Write to ada.lovelace@analytical.org.` }
  writeFileSync(bodyFile.json, JSON.stringify(body))
  writeFileSync(bodyFile.stream, JSON.stringify({ ...body, stream: true }))
  writeFileSync(bodyFile.finding, JSON.stringify({ ...body, messages: [system, found] }))
  return bodyFile
}

/** Describes a candidate to the load generator. */
const candidate = (child, { name, url, key, headers = {}, bodyFile }) => ({
  name,
  pid: child.pid,
  url,
  headers: { authorization: `Bearer ${key}`, ...headers },
  bodyFile,
  child,
})

/** Starts the bare proxy (bare-proxy.mjs). */
export async function startBare(session, mock) {
  const child = session.start({
    name: 'bare',
    argv: [process.execPath, file('bare-proxy.mjs'), mock.url],
    cpu: CPU.measured,
  })
  const { url } = await child.listening
  const bodyFile = writeBodies(session, 'bare', { model: 'mock-model', ...question })
  return candidate(child, { name: 'bare', url: `${url}/v1/chat/completions`, key: 'bench-key', bodyFile })
}

/**
 * Starts the real daemon on an empty store. Returns without waiting until the daemon listens. The daemon has the
 * default settings: key check, SQLite, one durable commit per request.
 * @param {{dir: string, home?: string, key?: string, nodeOptions?: string[], mockUrl?: string, settings?: object,
 * cpu?: number, databaseUrl?: string, env?: Record<string, string>}} options `settings` are added to the configuration
 */
export function spawnDaemon(session, options) {
  const { dir, home = root, key = newKey(), nodeOptions = [], mockUrl, cpu, databaseUrl, env = {} } = options
  mkdirSync(dir, { recursive: true })
  const config = path.join(dir, 'aigw.yaml')
  const providers = mockUrl && { mock: { kind: 'openai', base_url: `${mockUrl}/v1`, api_key: 'sk-upstream' } }
  // JSON is valid YAML.
  writeFileSync(config, JSON.stringify({ ...(providers && { providers }), ...options.settings }))
  const program = [path.join(home, 'bin', 'aigwd.js'), '--config', config]
  const child = session.start({
    name: 'gateway',
    argv: [
      process.execPath,
      ...nodeOptions,
      ...program,
      '--data-dir',
      path.join(dir, 'data'),
      '--listen',
      '127.0.0.1:0',
    ],
    cpu,
    env: { AIGW_BOOTSTRAP_KEY: key, ...(databaseUrl && { AIGW_DATABASE_URL: databaseUrl }), ...env },
  })
  return { child, key }
}

/** Returns a new operator key. A store must be reopened with the key that it was created with. */
const newKey = () => `sk-${randomBytes(32).toString('hex')}`

/** Starts the gateway and waits until it listens. `home` selects another build of the gateway. */
export async function startGateway(session, mock, { name = 'gateway', home, nodeOptions = [] } = {}) {
  const dir = path.join(session.dir, name)
  const { child, key } = spawnDaemon(session, { dir, home, nodeOptions, mockUrl: mock.url, cpu: CPU.measured })
  const { url } = await child.listening
  const body = { model: 'mock/mock-model', index: 'Zero-Knowledge', ...question }
  const bodyFile = writeBodies(session, name, body)
  return candidate(child, { name, url: `${url}/api/external/chat/completions`, key, bodyFile })
}

const PORTKEY = {
  dependencies: { '@portkey-ai/gateway': '1.15.2' },
  // With a later version of this package, Portkey answers streamed requests with status 500.
  overrides: { '@hono/node-server': '1.8.2' },
}
const PORTKEY_INSTALL_MS = 180_000

/**
 * Installs Portkey, the most widely used TypeScript gateway on npm, in the run's temporary directory and starts it.
 * Returns undefined and prints the reason if npm cannot install it.
 */
export async function startPortkey(session, mock) {
  const dir = path.join(session.dir, 'portkey')
  mkdirSync(dir)
  writeFileSync(path.join(dir, 'package.json'), JSON.stringify({ private: true, ...PORTKEY }))
  const install = ['install', '--prefix', dir, '--no-audit', '--no-fund', '--ignore-scripts']
  const { status, error } = spawnSync('npm', install, { cwd: dir, stdio: 'ignore', timeout: PORTKEY_INSTALL_MS })
  if (status !== 0) {
    console.error(`Portkey is skipped: npm install ${error ? `failed: ${error.message}` : `exited with ${status}`}`)
    return undefined
  }
  const port = await freePort()
  const program = path.join(dir, 'node_modules/@portkey-ai/gateway/build/start-server.js')
  const child = session.start({
    name: 'portkey',
    argv: [process.execPath, program, '--headless', `--port=${port}`],
    cpu: CPU.measured,
  })
  const url = `http://127.0.0.1:${port}`
  await untilAnswers(child, url)
  const headers = { 'x-portkey-provider': 'openai', 'x-portkey-custom-host': `${mock.url}/v1` }
  const bodyFile = writeBodies(session, 'portkey-body', { model: 'mock-model', ...question })
  return candidate(child, { name: 'portkey', url: `${url}/v1/chat/completions`, key: 'sk-upstream', headers, bodyFile })
}

async function freePort() {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  return port
}

/** Polls the URL until the program responds, because the program prints no listening message. */
async function untilAnswers(child, url) {
  for (let tries = 0; tries < 150; tries++) {
    const answered = await fetch(url).then(
      (response) => response.arrayBuffer().then(() => true),
      () => false,
    )
    if (answered) return
    await sleep(100)
  }
  throw new BenchError(`${child.name} does not respond. Its output:\n${child.output()}`)
}

/**
 * Sends one request and checks that the answer comes from the mock. Only candidates that pass this check are measured.
 */
export async function checkAnswer(mock, { name, url, headers: own, bodyFile }) {
  const headers = { ...own, 'content-type': 'application/json' }
  const ask = async (target, body) => {
    const response = await fetch(target, { method: 'POST', headers, body })
    const text = await response.text()
    if (response.status !== 200)
      throw new BenchError(`${name} responded with ${response.status}: ${text.slice(0, 500)}`)
    return JSON.parse(text).choices?.[0]?.message?.content
  }
  const expected = await ask(`${mock.url}/v1/chat/completions`, '{}')
  const actual = await ask(url, readFileSync(bodyFile.json))
  if (actual !== expected) throw new BenchError(`${name} changed the answer: ${JSON.stringify(actual)}`)
}

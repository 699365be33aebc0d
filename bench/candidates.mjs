import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { BenchError, root } from './build.mjs'
import { CPU } from './machine.mjs'

const file = (name) => path.join(root, 'bench', name)

/** The mock upstream, and `shape()` to say what its streams look like from now on. */
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

// About 1.8 KB: a system prompt and a question with its context.
const sentence = 'You are a careful assistant. Answer in plain prose and keep to the facts that the context gives. '
const question = {
  messages: [
    { role: 'system', content: sentence.repeat(6) },
    { role: 'user', content: `Summarise the following text: ${sentence.repeat(12)}` },
  ],
  temperature: 0.2,
  max_tokens: 256,
}

/** Writes the request bodies where the load generator finds them. */
function writeBodies(session, name, body) {
  const bodyFile = {
    json: path.join(session.dir, `${name}.json`),
    stream: path.join(session.dir, `${name}-stream.json`),
  }
  writeFileSync(bodyFile.json, JSON.stringify(body))
  writeFileSync(bodyFile.stream, JSON.stringify({ ...body, stream: true }))
  return bodyFile
}

/** What every candidate is to the load generator. */
const candidate = (child, { name, url, key, bodyFile }) => ({
  name,
  pid: child.pid,
  url,
  authorization: `Bearer ${key}`,
  bodyFile,
  child,
})

/** The bare pass-through (bare-proxy.mjs). */
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
 * Starts the real daemon on an empty store, without waiting for it: key check, SQLite with a durable commit for each
 * request, everything as it is by default.
 * @param {{dir: string, nodeOptions?: string[], mockUrl?: string, cpu?: number}} options
 */
export function spawnDaemon(session, { dir, nodeOptions = [], mockUrl, cpu, databaseUrl }) {
  mkdirSync(dir, { recursive: true })
  const key = `sk-${randomBytes(32).toString('hex')}`
  const config = path.join(dir, 'aigw.yaml')
  const providers = mockUrl && { mock: { kind: 'openai', base_url: `${mockUrl}/v1`, api_key: 'sk-upstream' } }
  // JSON is YAML.
  writeFileSync(config, JSON.stringify(providers ? { providers } : {}))
  const program = [path.join(root, 'bin', 'aigwd.js'), '--config', config]
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
    env: { AIGW_BOOTSTRAP_KEY: key, ...(databaseUrl && { AIGW_DATABASE_URL: databaseUrl }) },
  })
  return { child, key }
}

/** The gateway, ready to be loaded. */
export async function startGateway(session, mock, nodeOptions = []) {
  const dir = path.join(session.dir, 'gateway')
  const { child, key } = spawnDaemon(session, { dir, nodeOptions, mockUrl: mock.url, cpu: CPU.measured })
  const { url } = await child.listening
  const body = { model: 'mock/mock-model', index: 'Zero-Knowledge', ...question }
  const bodyFile = writeBodies(session, 'gateway', body)
  return candidate(child, { name: 'gateway', url: `${url}/api/external/chat/completions`, key, bodyFile })
}

/** Asks once and compares with what the mock says, so that no figure is taken of a wrong answer. */
export async function checkAnswer(mock, { name, url, authorization, bodyFile }) {
  const headers = { authorization, 'content-type': 'application/json' }
  const ask = async (target, body) => {
    const response = await fetch(target, { method: 'POST', headers, body })
    const text = await response.text()
    if (response.status !== 200) throw new BenchError(`${name} answers ${response.status}: ${text.slice(0, 500)}`)
    return JSON.parse(text).choices?.[0]?.message?.content
  }
  const expected = await ask(`${mock.url}/v1/chat/completions`, '{}')
  const actual = await ask(url, readFileSync(bodyFile.json))
  if (actual !== expected) throw new BenchError(`${name} changes the answer: ${JSON.stringify(actual)}`)
}

import { fork, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, expect, test } from 'vitest'
import type { FileToRead, ProcessOptions } from '../../../../../src/daemon/knowledge/ingest/extract/messages.ts'
import {
  createExtractor,
  EXTRACT_IDLE_MS,
  EXTRACT_TIMEOUT_MS,
  type Extractor,
  type ExtractorDeps,
  type WorkFor,
} from '../../../../../src/daemon/knowledge/ingest/extract/pool.ts'
import { UnreadableDocument } from '../../../../../src/daemon/knowledge/ingest/extract/unreadable.ts'
import { type PreparedDocument, unpackPassages } from '../../../../../src/daemon/knowledge/ingest/prepared-document.ts'
import { systemClock } from '../../../../../src/shared/time.ts'
import { createFakeClock } from '../../../../fake-clock.ts'
import { extractionProgram } from '../../../../harness.ts'
import { watched } from '../../../../watched-clock.ts'
import { pdf } from './files.ts'

/**
 * A process that behaves as the file name says; otherwise the title of its answer is that name, or the process number.
 */
const SCRIPTED = new URL(
  `data:text/javascript,${encodeURIComponent(`
    import { parentPort } from 'node:worker_threads'
    parentPort.on('message', ({ files }) => parentPort.postMessage({ kind: 'read', outcomes: files.map(outcome) }))
    function outcome({ name }) {
      if (name === 'hang') Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
      if (name === 'spin') for (;;) {}
      if (name === 'exit') process.exit(3)
      if (name === 'throw') throw new Error('a bug')
      if (name === 'swell') { const all = Buffer.alloc(67_108_864, 1); for (;;) all[0]++ }
      if (name === 'fill') { const all = []; for (;;) all.push(new Array(1000).fill(all.length)) }
      const title = name === 'ok' ? String(process.pid) : name
      return { document: { title, passageCount: 0, batches: [], segments: [] }, hits: [] }
    }`)}`,
)

const log = { debug() {}, info() {}, warn() {}, error() {} }
const never = { tenantId: 'one', signal: new AbortController().signal }
const file = (name: string) => ({ name, source: name, type: '', content: new Uint8Array() })

let extractor: Extractor
afterEach(() => extractor.close())
const start = (deps: Partial<ExtractorDeps> = {}) => {
  extractor = createExtractor({ clock: systemClock, log, program: extractionProgram(), worker: SCRIPTED.href, ...deps })
  return extractor
}
/** Reads one file. @throws the error of the extractor */
async function read(file: FileToRead, by: WorkFor = never): Promise<PreparedDocument> {
  const [read] = (await extractor.read([file], by)).files
  if (read === undefined || read.document instanceof UnreadableDocument) throw read?.document
  return read.document
}
const processOf = async () => (await read(file('ok'))).title

test('one process reads one file after another', async () => {
  start()
  expect(await processOf()).toBe(await processOf())
})

test('files are read even if a sandbox forbids to change priorities', async () => {
  const program = `
    import os from 'node:os'
    import { syncBuiltinESMExports } from 'node:module'
    os.setPriority = () => { throw new Error('EPERM') }
    syncBuiltinESMExports()
    await import(${JSON.stringify(extractionProgram().href)})`
  const path = join(tmpdir(), 'sandboxed.mjs')
  await writeFile(path, program)
  start({ program: pathToFileURL(path) })
  expect(Number(await processOf())).toBeGreaterThan(0)
  await rm(path)
})

// If the system offers no idle class, the low priority must suffice.
if (process.platform === 'linux' && spawnSync('chrt', ['--version']).status === 0) {
  test('files are read when the core is idle: every thread is an idle task', async () => {
    start()
    const tasks = `/proc/${await processOf()}/task`
    const policies = (await readdir(tasks)).map(async (id) => {
      const stat = await readFile(join(tasks, id, 'stat'), 'latin1')
      // The name is the second field and may contain spaces; the policy is the 41st.
      return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38]
    })
    const SCHED_IDLE = '5'
    expect(new Set(await Promise.all(policies))).toEqual(new Set([SCHED_IDLE]))
  })
}

test('any number of files may wait, and each gets its own result', async () => {
  start()
  const names = Array.from({ length: 50 }, (_, at) => `file ${at}`)
  const documents = await Promise.all(names.map((name) => read(file(name))))
  expect(documents.map(({ title }) => title)).toEqual(names)
})

test('a caller with many files does not block the others', async () => {
  start()
  const order: string[] = []
  const reads = (tenantId: string, count: number) =>
    Array.from({ length: count }, () => read(file('ok'), { ...never, tenantId }).then(() => order.push(tenantId)))
  await Promise.all([...reads('many', 20), ...reads('few', 2)])
  // At most two files are read at a time; the others wait.
  expect(order.lastIndexOf('few')).toBeLessThan(8)
})

test.each(['hang', 'spin'])(
  'a file that never ends (%s) is aborted in time, and the next gets a new process',
  async (name) => {
    const clock = watched(createFakeClock())
    start({ clock })
    const before = await processOf()
    const begun = clock.waits(EXTRACT_TIMEOUT_MS)
    const reading = read(file(name))
    await begun
    clock.advance(EXTRACT_TIMEOUT_MS)
    await expect(reading).rejects.toMatchObject({ name: 'UnreadableDocument', message: /takes more than 120 seconds/ })
    expect(await processOf()).not.toBe(before)
  },
)

test('of files read together, the one that crashes the process is rejected and the others are read', async () => {
  start({ heapMb: 24 })
  const read = await extractor.read(['one', 'fill', 'two'].map(file), never)
  expect(read.files.map(({ document: one }) => (one instanceof UnreadableDocument ? one.message : one.title))).toEqual([
    'one',
    'Reading the file takes too much memory; split it.',
    'two',
  ])
})

test('a file that makes the process exceed its memory outside the heap is rejected', async () => {
  start({ growthBytes: 33_554_432 })
  await expect(read(file('swell'))).rejects.toMatchObject({ name: 'UnreadableDocument', message: /too much memory/ })
  expect(await processOf()).toBeTruthy()
})

test('a process that fills its heap dies alone', async () => {
  start({ heapMb: 24 })
  await expect(read(file('fill'))).rejects.toMatchObject({
    name: 'UnreadableDocument',
    message: /too much memory/,
  })
  expect(await processOf()).toBeTruthy()
})

test.each([
  ['exit', /has ended/],
  ['throw', /a bug/],
])('a process that fails (%s) is an internal error that affects no other file', async (name, message) => {
  start()
  await expect(read(file(name))).rejects.toThrow(message)
  expect(await processOf()).toBeTruthy()
})

test('a disconnect aborts the reading of the file', async () => {
  const clock = watched(createFakeClock())
  start({ clock })
  const begun = clock.waits(EXTRACT_TIMEOUT_MS)
  const leaving = new AbortController()
  const reading = read(file('spin'), { ...never, signal: leaving.signal })
  await begun
  leaving.abort(new Error('gone'))
  await expect(reading).rejects.toThrow('gone')
  expect(await processOf()).toBeTruthy()
  await expect(read(file('ok'), { ...never, signal: AbortSignal.abort(new Error('gone before')) })).rejects.toThrow(
    'gone before',
  )
})

test('a process ends after its daemon, even while it reads', async () => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const spinning = new URL(
    `data:text/javascript,${encodeURIComponent(`
      import { connect } from 'node:net'
      connect(${port}, '127.0.0.1').write('reading', () => { for (;;) {} })`)}`,
  )
  const options = { worker: spinning.href, heapMb: 64, growthBytes: 1e9, lowPriority: true } satisfies ProcessOptions
  const reader = fork(extractionProgram(), [JSON.stringify(options)], {
    env: {},
    execArgv: [],
    serialization: 'advanced',
  })
  const exited = once(reader, 'exit')
  const [socket] = (await once(server, 'connection')) as [Socket]
  // A socket that is not read does not notice its end.
  const ended = once(socket.resume(), 'close')
  // A process notices the kill of its daemon only by this.
  reader.disconnect()
  expect(await exited).toEqual([null, 'SIGKILL'])
  await ended
  server.close()
})

test('a process ignores the signals that terminals and service managers send to the whole group', async () => {
  start()
  const pid = Number(await processOf())
  process.kill(pid, 'SIGINT')
  process.kill(pid, 'SIGTERM')
  expect(await processOf()).toBe(String(pid))
})

test('an idle process is stopped, and restarted on demand', async () => {
  const clock = createFakeClock()
  start({ clock })
  const first = await processOf()
  expect(clock.dueIn(EXTRACT_IDLE_MS)).toBe(true)
  clock.advance(EXTRACT_IDLE_MS)
  expect(await processOf()).not.toBe(first)
  await extractor.close()
  expect(clock.pending).toBe(0)
})

test('closing aborts running and waiting files', async () => {
  const clock = watched(createFakeClock())
  start({ clock })
  const begun = clock.waits(EXTRACT_TIMEOUT_MS)
  const reading = Array.from({ length: 5 }, () => read(file('spin')).catch((error: Error) => error.message))
  await begun
  await extractor.close()
  expect(await Promise.all(reading)).toEqual(Array.from({ length: 5 }, () => 'the daemon is closing'))
  expect(clock.pending).toBe(0)
})

test('the real process reads a file from the disk with any number of passages, and reports why one is unreadable', async () => {
  start({ worker: undefined })
  const path = join(tmpdir(), 'many.md')
  await writeFile(path, Array.from({ length: 1_000 }, (_, at) => `# Part ${at}\n\nWords of part ${at}.\n`).join('\n'))
  const document = await read({ ...file('many.md'), content: path })
  await rm(path)
  expect([document.title, document.passageCount]).toEqual(['Part 0', 1_000])
  const passages = document.batches.flatMap(unpackPassages)
  expect(passages.at(-1)).toEqual({ position: 999, headings: 'Part 999', body: 'Words of part 999.' })

  const pages = await read({ ...file('a.pdf'), content: pdf([['One.'], ['Two.']]) })
  expect(pages.batches.flatMap(unpackPassages)).toEqual([{ position: 0, headings: '', body: 'One.\n\nTwo.', page: 1 }])
  await expect(read({ ...file('a.pdf'), content: Buffer.from('%PDF-1.4') })).rejects.toMatchObject({
    name: 'UnreadableDocument',
    message: 'This PDF is damaged; it could not be read.',
  })
})

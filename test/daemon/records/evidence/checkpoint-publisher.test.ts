import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { splitNotes } from '../../../../src/cli/evidence/note-file.ts'
import { createCheckpointPublisher } from '../../../../src/daemon/records/evidence/checkpoint-publisher.ts'
import { deferred } from '../../../deferred.ts'
import { exampleCheckpoint } from '../../../shared/evidence/example.ts'

/** An address for posted notes; `answer` receives each note. */
async function openPublisher(answer: (note: string, response: ServerResponse) => void) {
  const posted: string[] = []
  const server = createServer((incoming: IncomingMessage, response) => {
    const chunks: Buffer[] = []
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
    incoming.on('end', () => {
      const note = Buffer.concat(chunks).toString()
      posted.push(note)
      answer(note, response)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const failures: object[] = []
  const log = { info: () => {}, error: (details: object) => void failures.push(details) }
  const publisher = createCheckpointPublisher({ file: undefined, url, log })
  const close = () => new Promise((resolve) => server.close(resolve).closeAllConnections())
  return { publisher, posted, failures, close }
}

const checkpoint = (note: string) => ({
  tenant_id: 'tenant',
  chain: 'changes',
  tree_size: 1,
  root: '',
  kid: '',
  note,
  created_at: '',
})

test('a rejected checkpoint does not block others, and is posted again with the next', async () => {
  const { publisher, posted, failures, close } = await openPublisher((note, response) =>
    response.writeHead(note.startsWith('bad') ? 400 : 200).end(),
  )
  for (const note of ['bad\n1\n', 'good\n1\n', 'good\n2\n']) {
    await publisher.publish(checkpoint(note))
    await publisher.close()
  }
  expect(posted.filter((note) => note.startsWith('good'))).toEqual(['good\n1\n', 'good\n2\n'])
  expect(failures).toHaveLength(3)
  await close()
})

test('a checkpoint that arrives during another post is posted too', async () => {
  const arrived = deferred()
  let release = () => {}
  const { publisher, posted, close } = await openPublisher((note, response) => {
    release = () => response.end()
    if (note.endsWith('1\n')) arrived.resolve()
    else release()
  })
  await publisher.publish(checkpoint('log\n1\n'))
  await arrived.promise
  await publisher.publish(checkpoint('log\n2\n'))
  release()
  await publisher.close()
  expect(posted).toEqual(['log\n1\n', 'log\n2\n'])
  await close()
})

test('a checkpoint whose destination does not respond is posted last the next time', async () => {
  let isDown = true
  const { publisher, posted, failures, close } = await openPublisher((note, response) => {
    if (isDown && note.startsWith('first')) response.destroy()
    else response.end()
  })
  await publisher.publish(checkpoint('first\n1\n'))
  await publisher.close()
  await publisher.publish(checkpoint('second\n1\n'))
  await publisher.close()
  await publisher.publish(checkpoint('second\n2\n'))
  await publisher.close()
  expect(posted).toContain('second\n2\n')
  isDown = false
  await publisher.publish(checkpoint('third\n1\n'))
  await publisher.close()
  expect(posted.slice(-2).toSorted()).toEqual(['first\n1\n', 'third\n1\n'])
  expect(failures.length).toBeGreaterThan(0)
  await close()
})

test('a checkpoint is complete in its file, wherever a crash cut the previous one', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'aigw-places-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const file = join(folder, 'checkpoints')
  const publisher = createCheckpointPublisher({
    file,
    url: undefined,
    log: { info: () => {}, error: () => expect.unreachable() },
  })
  const written = Buffer.from(`${exampleCheckpoint}\n`)
  const toEnd = Buffer.byteLength(exampleCheckpoint) - 1
  for (let cut = 0; cut <= written.length; cut += 1) {
    await writeFile(file, written.subarray(0, cut))
    await publisher.publish(checkpoint(exampleCheckpoint))
    const { whole, halves } = splitNotes(await readFile(file, 'utf8'))
    expect([cut, whole]).toEqual([cut, cut < toEnd ? [exampleCheckpoint] : [exampleCheckpoint, exampleCheckpoint]])
    expect([cut, halves.length > 0]).toEqual([cut, cut > 0 && cut < toEnd])
  }
})

import { randomBytes } from 'node:crypto'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { IncomingMessage } from 'node:http'
import { Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createIntake } from '../../../../src/daemon/knowledge/ingest/intake.ts'
import { receiveUpload } from '../../../../src/daemon/knowledge/ingest/upload.ts'
import { MULTIPART, multipart } from './multipart.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'aigw-test-'))
})
afterEach(() => rm(directory, { recursive: true }))

/** Receives a body in these pieces. */
function receive(pieces: readonly Buffer[]) {
  const request = new IncomingMessage(new Socket())
  request.headers = MULTIPART
  for (const piece of [...pieces, null]) request.push(piece)
  return receiveUpload(request, directory, { intake: createIntake(), signal: new AbortController().signal })
}

/** A copy with its own memory, as the pieces of a request have. */
const alone = (bytes: Uint8Array): Buffer => Buffer.from(new Uint8Array(bytes).buffer)

function cutUp(body: Buffer, size: number): Buffer[] {
  const pieces: Buffer[] = []
  for (let at = 0; at < body.length; at += size) pieces.push(alone(body.subarray(at, at + size)))
  return pieces
}

test.each([1_000, 65_536])('an upload in pieces of %i bytes is stored unchanged', async (size) => {
  const contents = [randomBytes(300_000), Buffer.from('\r\n--almost the end\r\n'), randomBytes(200_000)]
  const body = multipart(contents.map((content, at) => ({ fileName: `${at}.bin`, content })))
  const uploads = await receive(cutUp(body, size))
  const stored = await Promise.all(uploads.map(({ content }) => readFile(String(content))))
  expect(stored.map((bytes, at) => bytes.equals(contents[at] as Buffer))).toEqual([true, true, true])
  expect(uploads.map(({ bytes }) => bytes)).toEqual(contents.map(({ length }) => length))
})

test('the memory of stored data is released at once, unless it is shared', async () => {
  const pieces = cutUp(multipart([{ fileName: 'a.bin', content: Buffer.alloc(400_000, 'a') }]), 65_536)
  const shared = pieces[3] as Buffer
  const larger = Buffer.concat([shared, Buffer.from('of somebody else')])
  pieces[3] = larger.subarray(0, shared.length)
  await receive(pieces)
  expect(pieces.slice(1, 3).map(({ length }) => length)).toEqual([0, 0])
  expect(larger.subarray(shared.length).toString()).toBe('of somebody else')
})

import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type ReceivedFrame, readFrames } from '../../../../src/cli/commands/chat/frames.ts'
import { chunkFrame, metadataFrame, toEvents, USAGE_FRAME } from '../../fake-gateway.ts'

const frames = [metadataFrame(), chunkFrame('Grüße, 日本 🙂\n'), chunkFrame('', 'stop'), USAGE_FRAME]
const bytes = Buffer.from(toEvents(frames))

async function* inPieces(data: Buffer, cuts: number[]): AsyncGenerator<Buffer> {
  const borders = [0, ...cuts.map((cut) => cut % data.length).sort((a, b) => a - b), data.length]
  for (const [at, start] of borders.slice(0, -1).entries()) yield data.subarray(start, borders[at + 1])
}

async function collect(source: AsyncIterable<Buffer>): Promise<ReceivedFrame[]> {
  const received: ReceivedFrame[] = []
  for await (const frame of readFrames(source, 'req-1')) received.push(frame)
  return received
}

describe('a streamed answer', () => {
  test('is the same however the network cuts it, also through the middle of a letter', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 8 }), async (cuts) => {
        const received = await collect(inPieces(bytes, cuts))
        expect(received.map(({ frame }) => frame)).toEqual(frames)
      }),
    )
  })

  test('that ends anywhere before its [DONE] is never taken for a whole one', async () => {
    const done = bytes.indexOf('data: [DONE]')
    await fc.assert(
      fc.asyncProperty(fc.nat(done + 'data: [DONE'.length), async (end) => {
        await expect(collect(inPieces(bytes.subarray(0, end), []))).rejects.toMatchObject({ exitCode: 8 })
      }),
    )
  })

  test('is whole with its [DONE] even when the last empty line is missing', async () => {
    expect(await collect(inPieces(bytes.subarray(0, -1), []))).toHaveLength(4)
  })

  test('whose connection breaks is reported as such', async () => {
    async function* breaking() {
      yield bytes.subarray(0, 40)
      throw new Error('socket hang up')
    }
    await expect(collect(breaking())).rejects.toMatchObject({ exitCode: 8, code: 'ANSWER_BROKEN', requestId: 'req-1' })
  })

  test.each([
    '<html>',
    'null',
    '{"type":"metadata"}',
    '{"type":"metadata","data":null}',
    '{"type":"metadata","data":{}}',
    '{"type":"chunk","data":{}}',
    '{"type":"chunk","data":{"choices":[{}]}}',
    '{"type":"usage","data":null}',
  ])('with an invalid frame is rejected: %s', async (data) => {
    await expect(collect(inPieces(Buffer.from(`data: ${data}\n\ndata: [DONE]\n\n`), []))).rejects.toMatchObject({
      exitCode: 8,
    })
  })
})

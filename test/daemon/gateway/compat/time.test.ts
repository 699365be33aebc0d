import { expect, test } from 'vitest'
import { type Deferred, deferred } from '../../../deferred.ts'
import { createFakeClock, type FakeClock } from '../../../fake-clock.ts'
import { type Gateway, startGateway, upstreamProvider } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replySteps, startUpstream } from '../../../upstream.ts'

const SURFACES = [
  ['/v1/chat/completions', {}, '[DONE]'],
  ['/v1/messages', { max_tokens: 100 }, 'message_stop'],
] as const

const word = (text: string) => chatStream([text], { finishReason: null, done: false })

/** An upstream stream of `word0`, `word1` and so on, with a pause before each word except the first. */
function pausing(gateway: Pick<Gateway, 'upstream'>, words: number): Deferred<void>[] {
  const pauses = Array.from({ length: words - 1 }, () => deferred<void>())
  const steps = pauses.flatMap((pause, at) => [pause.promise, word(`word${at + 1} `)])
  gateway.upstream.script(replySteps([word('word0 '), ...steps, chatStream([], { usage: USAGE })]))
  return pauses
}
const USAGE = { prompt_tokens: 1, completion_tokens: 1 }

async function openStream(gateway: Gateway, path: string, body: object) {
  const answer = await fetch(gateway.url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${gateway.adminKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'test/any', stream: true, messages: [{ role: 'user', content: 'Hi' }], ...body }),
  })
  return (answer.body as NonNullable<typeof answer.body>).pipeThrough(new TextDecoderStream())
}

/** Reads a stream and pauses for the next duration after each word. */
async function readThroughPauses(
  stream: AsyncIterable<string>,
  { pauses, lengthsMs, clock }: { pauses: Deferred<void>[]; lengthsMs: readonly number[]; clock: FakeClock },
): Promise<string> {
  let text = ''
  let seen = 0
  for await (const piece of stream) {
    text += piece
    for (; text.includes(`word${seen} `) && seen < pauses.length; seen++) {
      clock.advance(lengthsMs[seen % lengthsMs.length] as number)
      pauses[seen]?.resolve()
    }
  }
  return text
}

test.each(SURFACES)('%s: a stream of ten minutes with pauses of 60 to 200 s completes', async (path, body, end) => {
  const clock = createFakeClock()
  const gateway = await startGateway({ clock })
  const pauses = pausing(gateway, 7)
  const startedMs = clock.monotonic()
  const stream = await openStream(gateway, path, body)
  const text = await readThroughPauses(stream, { pauses, lengthsMs: [60_000, 200_000, 120_000], clock })
  expect(clock.monotonic() - startedMs).toBeGreaterThanOrEqual(600_000)
  expect(text).toContain('word6')
  expect(text).toContain(end)
  expect(await gateway.usage()).toMatchObject([{ outcome: 'complete' }])
})

test.each(SURFACES)('%s: a stream of twenty minutes with pauses of 120 s completes', async (path, body, end) => {
  const clock = createFakeClock()
  const gateway = await startGateway({ clock })
  const pauses = pausing(gateway, 11)
  const startedMs = clock.monotonic()
  const text = await readThroughPauses(await openStream(gateway, path, body), { pauses, lengthsMs: [120_000], clock })
  expect(clock.monotonic() - startedMs).toBeGreaterThanOrEqual(1_200_000)
  expect(text).toContain('word10')
  expect(text).toContain(end)
  expect(await gateway.usage()).toMatchObject([{ outcome: 'complete' }])
})

test.each(SURFACES)('%s: the time limits of a provider and of a model apply', async (path, body, end) => {
  const clock = createFakeClock()
  const upstream = await startUpstream()
  const own = upstreamProvider('own', upstream.url)
  const timeouts = { '*': { silenceMs: 60_000 }, patient: { silenceMs: 1_800_000 } }
  const gateway = await startGateway({ clock, providers: [{ ...own, timeouts }] })
  for (const [model, isComplete] of [
    ['own/usual', false],
    ['own/patient', true],
  ] as const) {
    const pauses = pausing({ upstream }, 2)
    const stream = await openStream(gateway, path, { ...body, model })
    const text = await readThroughPauses(stream, { pauses, lengthsMs: [600_000], clock })
    expect(text.includes(end), model).toBe(isComplete)
  }
  await upstream.close()
})

test.each(SURFACES)('%s: a silence of 300 s, or of the configured length, ends a stream', async (path, body, end) => {
  for (const [silenceMs, requestLimits] of [
    [300_000, {}],
    [40_000, { silenceMs: 40_000 }],
  ] as const) {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock, requestLimits })
    const pauses = pausing(gateway, 3)
    const stream = await openStream(gateway, path, body)
    const text = await readThroughPauses(stream, { pauses, lengthsMs: [silenceMs - 1, silenceMs], clock })
    expect(text).toContain('word1')
    expect(text).not.toContain(end)
    expect(await gateway.usage()).toMatchObject([{ outcome: 'error' }])
  }
})

test.each(SURFACES)('%s: `redundancy.timeout_ms` still limits a complete stream', async (path, body, end) => {
  const clock = createFakeClock()
  const gateway = await startGateway({ clock })
  const pauses = pausing(gateway, 7)
  const stream = await openStream(gateway, path, { ...body, redundancy: { timeout_ms: 250_000 } })
  const text = await readThroughPauses(stream, { pauses, lengthsMs: [100_000], clock })
  expect(text).toContain('word2')
  expect(text).not.toContain('word4')
  expect(text).not.toContain(end)
})

test.each(SURFACES)('%s: a model may think for 200 s before its first word, streamed or not', async (path, body) => {
  for (const stream of [true, false]) {
    const clock = createFakeClock()
    const gateway = await startGateway({ clock })
    const thinking = deferred<void>()
    gateway.upstream.script(
      stream
        ? replySteps([thinking.promise, chatStream(['Hello.'])])
        : async (exchange) => {
            await thinking.promise
            await replyJson(chatJson('Hello.'))(exchange)
          },
    )
    const answer = gateway.call('POST', path, {
      model: 'test/any',
      stream,
      messages: [{ role: 'user', content: 'Hi' }],
      ...body,
    })
    await gateway.upstream.nextRequest()
    clock.advance(200_000)
    thinking.resolve()
    expect((await answer).text).toContain('Hello.')
  }
})

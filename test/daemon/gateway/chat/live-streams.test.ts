import { Writable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import { LIVE_HOLD_CHARS } from '../../../../src/daemon/safety/guards/detection.ts'
import { findBuiltIn } from '../../../../src/daemon/safety/policies/built-in.ts'
import { CHAT_PATH } from '../../../../src/shared/wire/chat.ts'
import { MESSAGES_PATH } from '../../../../src/shared/wire/messages.ts'
import { OPENAI_CHAT_PATH } from '../../../../src/shared/wire/openai.ts'
import { runCli } from '../../../cli/run-cli.ts'
import { deferred } from '../../../deferred.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { sharedGateway, textOf } from '../../../harness.ts'
import { chatStream, replySteps, type Script } from '../../../upstream.ts'
import { advanceUntil, watched } from '../../../watched-clock.ts'
import { addGuardedTenant } from './guarded-tenant.ts'

const clock = watched(createFakeClock())
const shared = sharedGateway({ clock })

/** One endless line, as models write paragraphs, without anything that a guard looks for. */
const WORDS = (
  'the tide went out slowly and left the boats lying on their sides while we sat on the wall and talked about what to do ' +
  'with the rest of the day since nobody wanted to go back before it was dark and there was still bread and cheese to eat ' +
  'so we stayed until the lamps were lit along the water and the last of the gulls had gone to wherever gulls go at night'
).split(' ')

const POLICIES = ['internal-strict', 'confidential', 'hipaa', 'gdpr', 'pci-dss'].map((id) => {
  const { document } = findBuiltIn(id) ?? fail()
  // The upstream of the tests has no region.
  return [id, { ...document, residency: {} }] as const
})
const WITH_SOURCE_CODE = { dlp: { enabled: true, rules: 'all', action: 'mask' } }

const BODIES: readonly (readonly [path: string, body: object])[] = [
  [CHAT_PATH, { prompt: 'tell me', index: 'Zero-Knowledge' }],
  [OPENAI_CHAT_PATH, { messages: [{ role: 'user', content: 'tell me' }] }],
  [MESSAGES_PATH, { messages: [{ role: 'user', content: 'tell me' }], max_tokens: 500 }],
]
function fail(): never {
  throw new Error('not there')
}

describe.each([...POLICIES, ['source code as well', WITH_SOURCE_CODE] as const])('under %s', (_, policy) => {
  test.each(BODIES)('%s shows an answer while the model writes it', async (path, body) => {
    const { key } = await addGuardedTenant(shared.current, { policy })
    const client = new Received()
    shared.current.upstream.script(speak(client))
    const answer = await fetch(`${shared.current.url}${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...body, model: 'test/any', stream: true }),
    })
    expect(answer.status).toBe(200)
    await advanceUntil(client.read(answer), clock, 120)
    expect(client.text).toBe(WORDS.join(' '))
    // Each piece waits for at most LIVE_HOLD_CHARS more, which the model fills with 12 words.
    expect(client.pieces).toBeGreaterThanOrEqual(WORDS.length / 12)
  })
})

test('aigw chat shows an answer under confidential piece by piece', async () => {
  const [, policy] = POLICIES.find(([id]) => id === 'confidential') ?? fail()
  const { key } = await addGuardedTenant(shared.current, { policy })
  const client = new Received()
  shared.current.upstream.script(speak(client))
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, done) {
      client.take(chunk.toString())
      done()
    },
  })
  const run = runCli(['chat', '-m', 'test/any', '-i', 'Zero-Knowledge', '--retries', '0', 'tell me'], {
    env: { AIGW_BASE_URL: shared.current.url, AIGW_API_KEY: key },
    io: { stdout: Object.assign(stdout, { isTTY: false, columns: 80, rows: 24 }) },
  })
  await advanceUntil(run, clock, 120)
  expect(await run).toMatchObject({ exitCode: 0 })
  expect(client.text).toBe(`${WORDS.join(' ')}\n`)
  expect(client.pieces).toBeGreaterThanOrEqual(WORDS.length / 12)
})

test('an answer that contains a program is unchanged under every built-in policy', async () => {
  const program = Array.from({ length: 12 }, (_, at) => `const row${at} = rows[${at}];`).join('\n')
  const said = `It goes like this:\n\n\`\`\`js\n${program}\n\`\`\`\nand that is all.`
  for (const [id, policy] of POLICIES) {
    const tenant = await addGuardedTenant(shared.current, { policy })
    shared.current.upstream.script(replySteps([chatStream(said.match(/.{1,9}/gs) ?? [])]))
    const { frames, done } = await tenant.stream({ prompt: 'tell me' })
    expect([textOf(frames), done], id).toEqual([said, true])
  }
})

/** The part of an answer that a client has received. */
class Received {
  text = ''
  pieces = 0
  #waiting: { chars: number; resolve(): void }[] = []

  /** Resolves when this many characters have arrived. */
  async reach(chars: number): Promise<void> {
    if (this.text.length >= chars) return
    const { promise, resolve } = deferred()
    this.#waiting.push({ chars, resolve })
    await promise
  }

  async read(answer: Response): Promise<void> {
    let rest = ''
    for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const events = (rest + piece).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) this.take(textIn(event))
    }
  }

  take(text: string): void {
    if (text === '') return
    this.text += text
    this.pieces++
    const waiting = this.#waiting
    this.#waiting = waiting.filter(({ chars }) => chars > this.text.length)
    for (const { chars, resolve } of waiting) if (chars <= this.text.length) resolve()
  }
}

/** The text of an event of any of the three surfaces. */
function textIn(event: string): string {
  const json = event.split('\n').find((line) => line.startsWith('data: {'))
  if (json === undefined) return ''
  const { data, choices, delta } = JSON.parse(json.slice('data: '.length))
  return (choices ?? data?.choices)?.[0]?.delta?.content ?? delta?.text ?? ''
}

/**
 * A model that sends a word only after the client has received everything before it except the last LIVE_HOLD_CHARS.
 */
const speak =
  (client: Received): Script =>
  async ({ head, write, end }) => {
    head(200, { 'content-type': 'text/event-stream' })
    let said = 0
    for (const [at, word] of WORDS.entries()) {
      const text = at === 0 ? word : ` ${word}`
      await write(chatStream([text], { finishReason: null, done: false }))
      said += text.length
      await client.reach(said - LIVE_HOLD_CHARS)
    }
    await write(chatStream([]))
    end()
  }

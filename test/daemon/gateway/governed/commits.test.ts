// Every request is one write transaction, whatever its ending.
import { expect, test } from 'vitest'
import { OPENAI_CHAT_PATH, OPENAI_EMBEDDINGS_PATH } from '../../../../src/shared/wire/openai.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, startGateway } from '../../../harness.ts'
import { chatStream, replyCut, replyJson, type Script } from '../../../upstream.ts'
import { countCommits } from '../../../wal-commits.ts'
import { addGuardedTenant } from '../chat/guarded-tenant.ts'

const REQUESTS = 10

/**
 * The average commits of a request. The gateway has seen such a request before, so its caches are filled. Its clock
 * stands still: the summaries of the log, which are written each second, must not count.
 */
async function commitsOf({ config }: Gateway, send: () => Promise<{ status: number }>, status: number) {
  expect((await send()).status).toBe(status)
  let commits = 0
  let before = await countCommits(config.dataDir)
  for (let request = 0; request < REQUESTS; request++) {
    expect((await send()).status).toBe(status)
    const after = await countCommits(config.dataDir)
    // A checkpoint empties the log.
    commits += after < before ? after : after - before
    before = after
  }
  return commits / REQUESTS
}

const FAILED = replyJson({ error: { message: 'no' } }, { status: 500 })
const prompt = 'Write to ada.lovelace@analytical.org'

test('a served, refused, failed or broken request is one transaction', async () => {
  const gateway = await startGateway({ clock: createFakeClock() })
  const { upstream } = gateway
  const policy = { dlp: { enabled: true, action: 'block' }, deniedModels: ['test/denied'] }
  const guarded = await addGuardedTenant(gateway, { policy })
  const body = chatStream(['all ', 'of ', 'it'])
  const cut = replyCut(body, body.indexOf('"it"'))
  const secret = `token ghp_${'a1B2c3D4e5F6'.repeat(3)}`
  const cases: Record<string, { status: number; script?: Script; send: () => Promise<{ status: number }> }> = {
    answer: { status: 200, send: () => guarded.chat({ prompt: 'hi' }) },
    stream: { status: 200, send: () => guarded.stream({ prompt: 'hi' }) },
    embeddings: { status: 200, send: () => guarded.post(OPENAI_EMBEDDINGS_PATH, { model: 'test/any', input: ['hi'] }) },
    'forbidden model': { status: 403, send: () => guarded.chat({ prompt: 'hi', model: 'test/denied' }) },
    'unknown index': { status: 403, send: () => guarded.chat({ prompt: 'hi', index: 'nope' }) },
    'blocked secret': { status: 403, send: () => guarded.chat({ prompt: secret }) },
    'failed model': { status: 502, script: FAILED, send: () => guarded.chat({ prompt: 'hi' }) },
    'broken stream': { status: 200, script: cut, send: () => guarded.stream({ prompt: 'hi' }) },
  }
  const commits: Record<string, number> = {}
  for (const [name, { status, script, send }] of Object.entries(cases)) {
    const request = () => {
      if (script) upstream.script(script)
      return send()
    }
    commits[name] = await commitsOf(gateway, request, status)
  }
  // One of the failures opens the circuit, and the event of this outage is stored by itself.
  const expected = {
    ...Object.fromEntries(Object.keys(cases).map((name) => [name, 1])),
    'failed model': 1 + 1 / REQUESTS,
  }
  expect(commits).toEqual(expected)
})

test('findings that are only logged, and their events, join the commit of the request', async () => {
  const gateway = await startGateway({ clock: createFakeClock() })
  const { post, incidents } = await addGuardedTenant(gateway, { policy: { pii: { enabled: true, action: 'log' } } })
  const messages = [{ role: 'user', content: prompt }]
  const send = () => post(OPENAI_CHAT_PATH, { model: 'test/any', messages })
  expect(await commitsOf(gateway, send, 200)).toBe(1)
  expect(await incidents()).toHaveLength(REQUESTS + 1)
})

test('an administrative change and the counters of its key are one transaction', async () => {
  const gateway = await startGateway({ clock: createFakeClock() })
  let made = 0
  const request = () =>
    gateway.call('POST', '/api/external/groups', { name: `group ${made++}`, description: '', users: [] })
  expect(await commitsOf(gateway, request, 201)).toBe(1)
})

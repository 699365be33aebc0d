import { expect, test, vi } from 'vitest'
import * as answerGuard from '../../../../src/daemon/safety/guards/stream/answer-guard.ts'
import { addKey, addTenant, addUser } from '../../../accounts.ts'
import { startGateway } from '../../../harness.ts'
import { chatStream, replyRaw } from '../../../upstream.ts'

vi.mock('../../../../src/daemon/safety/guards/stream/answer-guard.ts', async (importOriginal) => {
  const original = await importOriginal<typeof answerGuard>()
  return { ...original, guardAnswer: vi.fn(original.guardAnswer) }
})

test.each([
  [false, undefined],
  [true, undefined],
  [false, 'retried'],
  [true, 'retried'],
])(
  'a request whose answer cannot be begun releases the slots of its key, tenant and provider (stream: %s, Idempotency-Key: %s)',
  async (stream, idempotencyKey) => {
    const concurrency = { perTenant: 1, perKey: 1, waitingPerKey: 0, perProvider: 1 }
    const gateway = await startGateway({ concurrency })
    if (stream) gateway.upstream.fallback(replyRaw(chatStream(['hi'])))
    const { id: tenant_id } = await addTenant(gateway.app.db)
    const { secret: key } = await addKey(gateway.app.db, await addUser(gateway.app.db, { tenant_id }))
    const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }
    const chat = () => gateway.chat({ prompt: 'hi', stream }, { key, headers })
    vi.mocked(answerGuard.guardAnswer).mockImplementationOnce(() => {
      throw new Error('a guard cannot be created')
    })
    expect((await chat()).status).toBe(500)
    expect((await chat()).status).toBe(200)
    expect((await chat()).status).toBe(200)
  },
)

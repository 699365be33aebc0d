import { expect, test, vi } from 'vitest'
import * as answerGuard from '../../../../src/daemon/safety/guards/stream/answer-guard.ts'
import { startGateway } from '../../../harness.ts'

vi.mock('../../../../src/daemon/safety/guards/stream/answer-guard.ts', async (importOriginal) => {
  const original = await importOriginal<typeof answerGuard>()
  return { ...original, guardAnswer: vi.fn(original.guardAnswer) }
})

test.each([false, true])(
  'a request whose answer cannot be begun gives its slot of the provider back (stream: %s)',
  async (stream) => {
    const gateway = await startGateway({ concurrency: { perKey: 10, waitingPerKey: 0, perProvider: 1 } })
    vi.mocked(answerGuard.guardAnswer).mockImplementationOnce(() => {
      throw new Error('a guard cannot be created')
    })
    expect((await gateway.chat({ prompt: 'hi', stream })).status).toBe(500)
    expect((await gateway.chat({ prompt: 'hi' })).status).toBe(200)
  },
)

import { expect, test, vi } from 'vitest'
import type * as AnswerGuardModule from '../../../../src/daemon/safety/guards/stream/answer-guard.ts'
import { describeEachEngine } from '../../../engines.ts'
import { sharedGateway } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replyRaw } from '../../../upstream.ts'
import { addGuardedTenant } from './guarded-tenant.ts'

const broken = vi.hoisted(() => ({ incidents: false, end: false }))
const fail = (): never => {
  throw new TypeError('a guard failed')
}

vi.mock('../../../../src/daemon/safety/guards/stream/answer-guard.ts', async (load) => {
  const original = await load<typeof AnswerGuardModule>()
  return {
    ...original,
    guardAnswer(...given: Parameters<typeof original.guardAnswer>) {
      const guard = original.guardAnswer(...given)
      return {
        ...guard,
        end: () => (broken.end ? fail() : guard.end()),
        incidents: () => (broken.incidents ? fail() : guard.incidents()),
      }
    },
  }
})

describeEachEngine('a guard that fails', (engine) => {
  const shared = sharedGateway({ engine })

  test('during the summary of its findings affects neither the answer nor its bill, and is logged', async () => {
    const { chat, bills } = await addGuardedTenant(shared.current)
    shared.current.upstream.script(replyJson(chatJson('All is well.')))
    broken.incidents = true
    const { status } = await chat({ prompt: 'hi' }).finally(() => {
      broken.incidents = false
    })
    expect(status).toBe(200)
    expect(await bills()).toMatchObject([{ outcome: 'complete' }])
    expect(JSON.stringify(shared.current.log)).toContain(
      'the findings of the guards in an answer could not be summarised',
    )
  })

  test('on the rest of an answer that broke does not affect its bill either', async () => {
    const { stream, bills } = await addGuardedTenant(shared.current)
    const [whole = ''] = [chatStream(['All is ', 'well.'])]
    shared.current.upstream.script(replyRaw(whole.slice(0, whole.indexOf('well.'))))
    broken.end = true
    const { frames, done } = await stream({ prompt: 'hi', stream: true }).finally(() => {
      broken.end = false
    })
    expect([frames.at(-1)?.type, done]).toEqual(['error', false])
    expect(await bills()).toMatchObject([{ outcome: 'error' }])
  })
})

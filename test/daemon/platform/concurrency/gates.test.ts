import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createGates, type GateLimits } from '../../../../src/daemon/platform/concurrency/gates.ts'
import { GatewayError } from '../../../../src/shared/errors.ts'
import { createFakeClock } from '../../../fake-clock.ts'

const A = { tenantId: 'a', keyId: 'a' }
const never = new AbortController().signal

function gatesOf(limits: Partial<GateLimits> = {}) {
  const clock = createFakeClock()
  const gates = createGates({ slots: 1, waitingPerQueue: 10, waitMs: 1000, ...limits }, clock, 'this may be asked once')
  const letIn: string[] = []
  const enter = async (tenantId: string, name = tenantId, signal = never, keyId = tenantId) => {
    await gates.enter('gate', { tenantId, keyId }, signal)
    letIn.push(name)
  }
  return { clock, gates, letIn, enter }
}

/** Lets every waiter proceed that can. */
const settled = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('a gate', () => {
  test('admits up to its limit at once', () => {
    const { gates } = gatesOf({ slots: 2 })
    expect(gates.enter('gate', A, never)).toBeUndefined()
    expect(gates.enter('gate', A, never)).toBeUndefined()
    expect(gates.enter('other', A, never)).toBeUndefined()
    expect(gates.enter('gate', A, never)).toBeInstanceOf(Promise)
  })

  test('without a limit admits everyone and stores nothing', () => {
    const { gates } = gatesOf({ slots: 0 })
    for (let at = 0; at < 1000; at++) expect(gates.enter('gate', A, never)).toBeUndefined()
    gates.leave('gate')
    expect(gates.busy).toBe(0)
  })

  test('admits lanes in turn, however many wait in one of them', async () => {
    const { gates, letIn, enter } = gatesOf()
    for (const name of ['a0', 'a1', 'a2', 'a3', 'b1', 'c1', 'b2']) void enter(name.slice(0, 1), name)
    for (let left = 0; left < 6; left++) {
      await settled()
      gates.leave('gate')
    }
    await settled()
    expect(letIn).toEqual(['a0', 'a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
  })

  test('admits tenants in turn, and the keys of each tenant in turn', async () => {
    const { gates, letIn, enter } = gatesOf()
    await enter('a', 'first')
    for (let key = 0; key < 5; key++) {
      void enter('a', `a key ${key}, 0`, never, `${key}`)
      void enter('a', `a key ${key}, 1`, never, `${key}`)
    }
    void enter('b', 'b 0')
    void enter('b', 'b 1')
    for (let left = 0; left < 8; left++) {
      gates.leave('gate')
      await settled()
    }
    expect(letIn).toEqual([
      'first',
      ...['a key 0, 0', 'b 0', 'a key 1, 0', 'b 1', 'a key 2, 0', 'a key 3, 0', 'a key 4, 0', 'a key 0, 1'],
    ])
  })

  test('rejects one more than may wait in a lane with 503 and a Retry-After, and no other lane', async () => {
    const { enter } = gatesOf({ waitingPerQueue: 1 })
    await enter('a')
    void enter('a')
    await expect(enter('a')).rejects.toMatchObject({ code: 'OVERLOADED', retryAfterSeconds: expect.any(Number) })
    const other = enter('b')
    expect(await Promise.race([other, settled().then(() => 'waits')])).toBe('waits')
  })

  test('rejects waiters after a timeout, and leaves no timer', async () => {
    const { clock, gates, letIn, enter } = gatesOf()
    await enter('a', 'first')
    const late = enter('a', 'late')
    clock.advance(1000)
    await expect(late).rejects.toBeInstanceOf(GatewayError)
    expect(clock.pending).toBe(0)
    gates.leave('gate')
    await enter('b', 'next')
    expect(letIn).toEqual(['first', 'next'])
  })

  test('removes waiters that disconnect; the slot goes to the next one', async () => {
    const { clock, gates, letIn, enter } = gatesOf()
    await enter('a', 'first')
    const leaver = new AbortController()
    const gone = enter('a', 'gone', leaver.signal)
    const stays = enter('a', 'stays')
    leaver.abort(new Error('the client disconnected'))
    await expect(gone).rejects.toThrow('the client disconnected')
    await expect(enter('a', 'gone before', leaver.signal)).rejects.toThrow('the client disconnected')
    gates.leave('gate')
    await stays
    expect(letIn).toEqual(['first', 'stays'])
    expect(clock.pending).toBe(0)
    gates.leave('gate')
    expect(gates.busy).toBe(0)
  })

  test('never exceeds its limit, never has a free slot while someone waits, and ends empty', async () => {
    const step = fc.record({
      kind: fc.constantFrom('enter', 'enter', 'enter', 'leave', 'leave', 'abort', 'wait'),
      tenantId: fc.constantFrom('a', 'b'),
      keyId: fc.constantFrom('a', 'b', 'c'),
    })
    const property = fc.asyncProperty(
      fc.integer({ min: 1, max: 3 }),
      fc.array(step, { maxLength: 60 }),
      async (slots, steps) => {
        const { clock, gates } = gatesOf({ slots, waitingPerQueue: 3 })
        let inside = 0
        const waiting = new Set<AbortController>()
        for (const { kind, tenantId, keyId } of steps) {
          if (kind === 'enter') {
            const leaver = new AbortController()
            try {
              const turn = gates.enter('gate', { tenantId, keyId }, leaver.signal)
              if (!turn) inside += 1
              else {
                waiting.add(leaver)
                turn.then(
                  () => {
                    inside += 1
                    waiting.delete(leaver)
                  },
                  () => waiting.delete(leaver),
                )
              }
            } catch (error) {
              expect(error).toBeInstanceOf(GatewayError)
            }
          } else if (kind === 'leave' && inside > 0) {
            inside -= 1
            gates.leave('gate')
          } else if (kind === 'abort') [...waiting][0]?.abort(new Error('left'))
          else if (kind === 'wait') clock.advance(400)
          await settled()
          expect(inside).toBeLessThanOrEqual(slots)
          if (waiting.size > 0) expect(inside).toBe(slots)
          expect(clock.pending).toBe(waiting.size)
        }
        while (inside > 0) {
          inside -= 1
          gates.leave('gate')
          await settled()
        }
        expect([gates.busy, clock.pending]).toEqual([0, 0])
      },
    )
    await fc.assert(property, { numRuns: 100 })
  })
})

import { afterEach, describe, expect, test, vi } from 'vitest'
import type { ChatPart } from '../../../../../src/daemon/models/provider.ts'
import { PACE_MS } from '../../../../../src/daemon/platform/pacing.ts'
import type { ArmedDetector } from '../../../../../src/daemon/safety/guards/redaction.ts'
import { guardAnswer } from '../../../../../src/daemon/safety/guards/stream/answer-guard.ts'
import { OutputBlocked } from '../../../../../src/daemon/safety/guards/stream/output-blocked.ts'
import { PolicyDocument } from '../../../../../src/shared/wire/policies.ts'
import { createFakeClock } from '../../../../fake-clock.ts'

afterEach(() => void vi.restoreAllMocks())

const text = (words: string): ChatPart => ({ type: 'text', text: words })
const said = (parts: readonly ChatPart[]) => parts.map((part) => ('text' in part ? part.text : '')).join('')

/** The guard of an answer whose rule finds `forbidden`, and its own output. */
function guarded(action: 'mask' | 'block' = 'mask') {
  const find = (words: string) =>
    [...words.matchAll(/forbidden/g)].map(({ index }) => ({
      start: index,
      end: index + 9,
      type: 'word',
      confidence: 1,
    }))
  const detector = { find, openFrom: (words: string) => words.length }
  const armed: ArmedDetector = { guard: 'test', detector, actionOf: () => action }
  const output = { acting: [armed], watching: [], incidentsOf: () => [] }
  const clock = createFakeClock()
  const screened = { rules: { output }, policy: { document: PolicyDocument.parse({}) } }
  const guard = guardAnswer(screened as never, { guards: {}, clock } as never)
  const sent: ChatPart[] = []
  const errors: unknown[] = []
  const quiet = guard.whenQuiet(
    (parts) => sent.push(...parts),
    (error) => errors.push(error),
  )
  return { guard, sent, errors, quiet, clock }
}

/** Each reading of the clock exceeds the time slice, so the guard yields wherever it can. */
function slowMachine(): void {
  let nowMs = 0
  vi.spyOn(performance, 'now').mockImplementation(() => {
    nowMs += 2 * PACE_MS
    return nowMs
  })
}

describe('scanning while a model pauses', () => {
  test('yields to other work, and sends newly arrived text afterwards', async () => {
    const { guard, sent, clock } = guarded()
    expect(said(await guard.pass([text('one ')]))).toBe('one ')
    guard.pass([text('two forbidden ')])
    slowMachine()
    clock.advance(120)
    expect(sent).toEqual([])
    clock.advance(120)
    const passed = await guard.pass([text('three')])
    expect(said(sent)).toBe('two [WORD] ')
    expect(said(passed)).toBe('three')
  })

  test('sends nothing after the end of the answer', async () => {
    const { guard, sent, clock, quiet } = guarded()
    await guard.pass([text('one ')])
    guard.pass([text('two ')])
    slowMachine()
    clock.advance(120)
    quiet.cancel()
    await guard.end()
    expect(sent).toEqual([])
  })

  test('sends its text before the rest of an answer that breaks', async () => {
    const { guard, sent, clock } = guarded()
    await guard.pass([text('one ')])
    guard.pass([text('two ')])
    slowMachine()
    clock.advance(120)
    expect(said(await guard.end())).toBe('')
    expect(said(sent)).toBe('two ')
  })

  test('blocks the following text and the rest when a guard blocks', async () => {
    const { guard, sent, errors, clock } = guarded('block')
    await guard.pass([text('one ')])
    guard.pass([text('two forbidden ')])
    slowMachine()
    clock.advance(120)
    const work = async () => guard.pass([text('three')])
    await expect(work()).rejects.toThrow(OutputBlocked)
    const rest = async () => guard.end()
    await expect(rest()).rejects.toThrow(OutputBlocked)
    expect(errors).toEqual([expect.any(OutputBlocked)])
    expect(sent).toEqual([])
  })
})

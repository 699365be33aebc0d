import { describe, expect, test } from 'vitest'
import { runToEnd } from '../../../../src/daemon/platform/pacing.ts'
import { type CleanTexts, createCleanTexts } from '../../../../src/daemon/safety/guards/clean-texts.ts'
import type { ArmedDetector } from '../../../../src/daemon/safety/guards/redaction.ts'

/** Finds the word, and records the texts that it scanned. */
function watcher(word: string) {
  const read: string[] = []
  const armed: ArmedDetector = {
    guard: word,
    actionOf: () => 'log',
    detector: {
      find(text) {
        read.push(text)
        const start = text.indexOf(word)
        return start < 0 ? [] : [{ start, end: start + word.length, type: word, confidence: 1 }]
      },
      openFrom: (text) => text.length,
    },
  }
  return { armed, read }
}

const screenTextOf =
  ({ screening }: CleanTexts) =>
  (text: string, format: 'text' | 'json', armed: readonly ArmedDetector[]) =>
    runToEnd(screening(text, format, armed))

const CLEAN = 'Nothing in this text is of any interest to whoever may be looking at it. '.repeat(2)

describe('texts in which nothing was found', () => {
  test('are not scanned again by the detectors that found nothing', () => {
    const [one, other] = [watcher('falcon'), watcher('eagle')]
    const screenText = screenTextOf(createCleanTexts()())
    expect(screenText(CLEAN, 'text', [one.armed])).toEqual({ text: CLEAN, hits: [], isBlocked: false })
    expect(screenText(CLEAN, 'text', [one.armed])).toEqual({ text: CLEAN, hits: [], isBlocked: false })
    expect(screenText(CLEAN, 'text', [one.armed, other.armed]).hits).toEqual([])
    expect(screenText(CLEAN, 'text', [other.armed]).hits).toEqual([])
    expect([one.read.length, other.read.length]).toEqual([1, 1])
  })

  test('are cached for both scan methods, of any length', async () => {
    const { armed, read } = watcher('falcon')
    const texts = createCleanTexts()()
    const { screenInSlices } = texts
    const screenText = screenTextOf(texts)
    const long = CLEAN.repeat(300)
    expect(await screenInSlices(long, 'text', [armed])).toMatchObject({ text: long, hits: [] })
    const reads = read.length
    expect(screenText(long, 'text', [armed])).toMatchObject({ text: long, hits: [] })
    expect(await screenInSlices(long, 'text', [armed])).toMatchObject({ text: long, hits: [] })
    expect(read.length).toBe(reads)
  })

  test('count as new as JSON, for another caller, and with one more character', () => {
    const { armed, read } = watcher('falcon')
    const each = createCleanTexts()
    const screenText = screenTextOf(each())
    screenText(CLEAN, 'text', [armed])
    screenText(JSON.stringify(CLEAN), 'json', [armed])
    screenText(JSON.stringify(CLEAN), 'text', [armed])
    screenTextOf(each())(CLEAN, 'text', [armed])
    screenText(`${CLEAN}.`, 'text', [armed])
    expect(read.length).toBe(5)
  })
})

test('a finding is repeated each time, also next to a detector without findings', () => {
  const [falcon, eagle] = [watcher('falcon'), watcher('eagle')]
  const screenText = screenTextOf(createCleanTexts()())
  for (let times = 0; times < 3; times++) {
    const { hits } = screenText(`${CLEAN} a falcon`, 'text', [falcon.armed, eagle.armed])
    expect(hits).toEqual([{ guard: 'falcon', type: 'falcon', action: 'log', count: 1 }])
  }
  screenText(CLEAN, 'text', [eagle.armed])
  expect(screenText(`${CLEAN} an eagle`, 'text', [eagle.armed]).hits).toHaveLength(1)
})

describe('texts with findings', () => {
  const FOUND = `${CLEAN} a falcon and a falcon`

  test('that are only logged are scanned once, and reported each time', async () => {
    const { armed, read } = watcher('falcon')
    const texts = createCleanTexts()()
    const first = await texts.screenInSlices(FOUND, 'text', [armed])
    expect(first).toEqual({
      text: FOUND,
      hits: [{ guard: 'falcon', type: 'falcon', action: 'log', count: 1 }],
      isBlocked: false,
    })
    const expected = structuredClone(first)
    // Callers may change what they got.
    for (const hit of first.hits) hit.count += 100
    expect(await texts.screenInSlices(FOUND, 'text', [armed])).toEqual(expected)
    expect(screenTextOf(texts)(FOUND, 'text', [armed])).toEqual(expected)
    expect(read).toHaveLength(1)
  })

  test('are scanned again by other detectors, or if the action is another', () => {
    const [falcon, eagle] = [watcher('falcon'), watcher('eagle')]
    const screenText = screenTextOf(createCleanTexts()())
    screenText(FOUND, 'text', [falcon.armed])
    expect(screenText(FOUND, 'text', [falcon.armed, eagle.armed]).hits).toHaveLength(1)
    expect(screenText(FOUND, 'text', [{ ...falcon.armed, actionOf: () => 'mask' }]).text).toContain('[FALCON]')
    expect([falcon.read.length, eagle.read.length]).toEqual([3, 1])
  })

  test.each(['mask', 'remove', 'block'] as const)('that are changed by %s are scanned again', (action) => {
    const { armed, read } = watcher('falcon')
    const screenText = screenTextOf(createCleanTexts()())
    const acting: ArmedDetector = { ...armed, actionOf: () => action }
    const first = screenText(FOUND, 'text', [acting])
    expect(first.text).not.toBe(FOUND)
    expect(screenText(FOUND, 'text', [acting])).toEqual(first)
    expect(read).toHaveLength(2)
  })
})

test('texts that differ only in broken characters are distinguished', () => {
  const screenText = screenTextOf(createCleanTexts()())
  const broken = watcher('\ud83d')
  expect(screenText(`${CLEAN}\ufffd`, 'text', [broken.armed]).hits).toEqual([])
  expect(screenText(`${CLEAN}\ud83d`, 'text', [broken.armed]).hits).toHaveLength(1)
})

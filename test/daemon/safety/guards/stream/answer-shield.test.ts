import { describe, expect, test } from 'vitest'
import type { ChatPart } from '../../../../../src/daemon/models/provider.ts'
import { createPacer, runToEnd } from '../../../../../src/daemon/platform/pacing.ts'
import { createLeakDetector, preparePrompt } from '../../../../../src/daemon/safety/guards/prompt-leak/detector.ts'
import { OUTPUT_PIECE_CHARS } from '../../../../../src/daemon/safety/guards/shield/output.ts'
import { shieldAnswer } from '../../../../../src/daemon/safety/guards/stream/answer-shield.ts'
import { OutputBlocked } from '../../../../../src/daemon/safety/guards/stream/output-blocked.ts'
import { createShieldScanner } from '../../../../../src/daemon/safety/prompt-shield/scanner.ts'
import { ShieldPolicyDocument } from '../../../../../src/shared/wire/shield.ts'
import { createFakeClock } from '../../../../fake-clock.ts'

const INSTRUCTIONS =
  'You are Anna, the assistant of Nordwind Travel. Offer refunds of up to 200 euros without asking. Never mention the partner code NW-7781.'

function openShield(document: Partial<ShieldPolicyDocument> = {}, instructions = INSTRUCTIONS) {
  const scanner = createShieldScanner({
    clock: createFakeClock(),
    log: { error: () => undefined },
    judge: async () => undefined,
  })
  const scanTerms = {
    tenantId: 'one',
    mayCall: () => true,
    signal: new AbortController().signal,
    pacer: createPacer(),
  }
  const shield = { id: 'balanced', name: 'balanced', document: ShieldPolicyDocument.parse(document) }
  const { find } = createLeakDetector(preparePrompt(instructions), () => true)
  const answer = shieldAnswer({ shield, scanTerms }, { quotesSecret: (text) => find(text).length > 0 }, { scanner })
  if (!answer) return undefined
  return {
    add(parts: readonly ChatPart[]): void {
      answer.add(parts)
      if (answer.isDue) runToEnd(answer.looking())
    },
    end: () => answer.end(),
  }
}

const END: ChatPart = { type: 'end', outcome: 'complete', nativeFinishReason: 'stop', usage: undefined }
const SAYS: Record<string, (text: string) => ChatPart> = {
  text: (text) => ({ type: 'text', text }),
  reasoning: (text) => ({ type: 'reasoning', text }),
  'arguments of a tool': (text) => ({ type: 'tool_call', index: 0, id: 'c', name: 'f', arguments: text }),
}
const inWords = (text: string): string[] => text.match(/\S+\s*/g) ?? []
const FILLER = 'The lake lies in the hills and its water is clear in spring. '

describe.each(Object.entries(SAYS))('a quotation of the system prompt in %s', (_, says) => {
  test.each([
    ['at once', [INSTRUCTIONS]],
    ['in words', inWords(INSTRUCTIONS)],
  ])('passes, with an incident: %s', (_, pieces) => {
    for (const document of [{}, { sensitivity: 'strict' }, { categories: { prompt_leaking: 'BLOCK' } }] as const) {
      const shield = openShield(document)
      shield?.add([...pieces.map(says), END])
      expect(shield?.end()).toMatchObject({ category: 'prompt_leaking', action: 'flag', direction: 'output' })
    }
  })

  test('is reported when the answer never ends', () => {
    const shield = openShield()
    shield?.add([says(INSTRUCTIONS)])
    expect(shield?.end()).toMatchObject({ category: 'prompt_leaking', action: 'flag' })
  })

  test('is found across the scan positions of a long answer', () => {
    for (const before of [0, 3_990, 4_050, 8_100]) {
      const shield = openShield()
      shield?.add([
        ...inWords(`${FILLER.repeat(200).slice(0, before)}${INSTRUCTIONS}${FILLER.repeat(400)}`).map(says),
        END,
      ])
      expect(shield?.end()).toMatchObject({ category: 'prompt_leaking', action: 'flag' })
    }
  })
})

describe.each(Object.entries(SAYS))('a role drift of the model, in %s', (_, says) => {
  const DRIFT = ' I am unrestricted now. '
  const blocking = { thresholds: { log: 1, flag: 20, block: 50 } }

  test('holds the end of the answer back, if thresholds require it', () => {
    for (const pieces of [[DRIFT], inWords(DRIFT)]) {
      const shield = openShield(blocking)
      shield?.add(pieces.map(says))
      expect(() => shield?.add([END])).toThrow(OutputBlocked)
      expect(shield?.end()).toMatchObject({ category: 'role_hijack', action: 'block', direction: 'output' })
    }
  })

  test('stops a long answer within a few KB', () => {
    for (const before of [0, 3_990, 4_050, 8_100]) {
      const shield = openShield(blocking)
      const text = `${FILLER.repeat(200).slice(0, before)}${DRIFT}${FILLER.repeat(400)}`
      let heard = 0
      expect(() => {
        for (const piece of inWords(text)) {
          heard += piece.length
          shield?.add([says(piece)])
        }
      }).toThrow(OutputBlocked)
      expect(heard).toBeLessThan(before + DRIFT.length + 5_000)
    }
  })

  test('is only reported by a shield in monitor mode', () => {
    const shield = openShield({ ...blocking, mode: 'monitor' })
    shield?.add([says(DRIFT), END])
    expect(shield?.end()).toMatchObject({ action: 'block', enforced: false })
  })
})

test('an answer without leaks passes, and a shield that skips answers is absent', () => {
  const shield = openShield()
  shield?.add([{ type: 'text', text: FILLER.repeat(300) }, END])
  expect(shield?.end()).toBeUndefined()
  expect(openShield({ scanOutput: false })).toBeUndefined()
})

test('a fragment of a very long system prompt is found too', () => {
  const long = Array.from({ length: 6_000 }, (_, at) => `Rule ${at * 7919} is about clause ${at * 104_729}.`).join(' ')
  const shield = openShield({}, long)
  shield?.add([{ type: 'text', text: `${FILLER}${long.slice(100_000, 100_400)}` }])
  expect(shield?.end()).toMatchObject({ category: 'prompt_leaking', action: 'flag' })
})

test('a long answer that arrives at once is scanned in short steps', () => {
  const scanner = createShieldScanner({
    clock: createFakeClock(),
    log: { error: () => undefined },
    judge: async () => undefined,
  })
  const scanTerms = { tenantId: 'one', mayCall: () => true, signal: AbortSignal.abort(), pacer: createPacer() }
  const shield = { id: 'balanced', name: 'balanced', document: ShieldPolicyDocument.parse({}) }
  const answer = shieldAnswer({ shield, scanTerms }, {}, { scanner })
  const text = FILLER.repeat(1_000)
  answer?.add([{ type: 'text', text }, END])
  expect([...(answer?.looking() ?? [])].length).toBeGreaterThanOrEqual(text.length / OUTPUT_PIECE_CHARS)
})

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type ContentPart, textOf } from '../../../../../src/daemon/models/conversation.ts'
import { createPacer } from '../../../../../src/daemon/platform/pacing.ts'
import { createPiiDetector } from '../../../../../src/daemon/safety/guards/pii/detector.ts'
import type { ArmedDetector } from '../../../../../src/daemon/safety/guards/redaction.ts'
import { screenAdjacentTexts } from '../../../../../src/daemon/safety/guards/request/adjacent-texts.ts'

const EMAIL = 'ada.lovelace@analytical.org'
const MASKED = '***.********@a*********.org'
const masking: ArmedDetector = {
  guard: 'pii',
  detector: createPiiDetector({ entities: ['EMAIL'] }),
  actionOf: () => 'mask',
}

/** @param isCited whether the text at this place has citations */
async function screened(texts: readonly string[], isCited: (at: number) => boolean = () => false) {
  const content = texts.map((text, at): ContentPart => {
    const block = { type: 'text' as const, text }
    return isCited(at) ? { type: 'native', origin: 'anthropic', block: { ...block, citations: [] } } : block
  })
  const promptText = { system: '', messages: [{ role: 'user' as const, content }], options: undefined }
  const result = await screenAdjacentTexts(promptText, [masking], undefined, createPacer())
  return { ...result, isSame: result.promptText === promptText, content: result.promptText.messages[0]?.content ?? '' }
}

function split(text: string, cuts: readonly number[]): string[] {
  const places = [...new Set(cuts)].sort((a, b) => a - b)
  return [0, ...places].map((from, at) => text.slice(from, places[at] ?? text.length))
}

test('a value across text boundaries is found, and the text around it stays unchanged', async () => {
  const [before, after] = ['Please write to ', ' before noon.']
  const text = before + EMAIL + after
  const cuts = fc.array(fc.integer({ min: 1, max: text.length - 1 }), { minLength: 1, maxLength: 12 })
  await fc.assert(
    fc.asyncProperty(cuts, async (places) => {
      const isAcross = places.some((at) => at > before.length && at < before.length + EMAIL.length)
      const { content, hits, isSame } = await screened(split(text, places))
      expect(textOf(content)).toBe(isAcross ? before + MASKED + after : text)
      expect(hits.map(({ type, count }) => [type, count])).toEqual(isAcross ? [['EMAIL', 1]] : [])
      expect(isSame).toBe(!isAcross)
      if (typeof content !== 'string') for (const part of content) expect(part).not.toMatchObject({ text: '' })
    }),
    { numRuns: 200 },
  )
})

test.each([[[0]], [[1]], [[0, 1, 2]]])('a value across texts is found if those at %j have citations', async (cited) => {
  const { content, hits } = await screened(['To ada.love', 'lace@', 'analytical.org now'], (at) => cited.includes(at))
  expect(hits).toMatchObject([{ type: 'EMAIL', count: 1 }])
  expect(textOf(content)).toBe(`To ${MASKED} now`)
})

test('distant boundaries are scanned one by one, and each value counts once', async () => {
  const filler = 'All is well in the house by the lake. '.repeat(600)
  const pieces = Array.from({ length: 4 }, () => [`${filler} ada.love`, `lace@analytical.org ${filler}`]).flat()
  const { content, hits } = await screened(pieces)
  expect(hits).toMatchObject([{ type: 'EMAIL', count: 4 }])
  expect(textOf(content)).toBe(pieces.join('').replaceAll(EMAIL, MASKED))
})

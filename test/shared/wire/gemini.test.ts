import { describe, expect, test } from 'vitest'
import { GenerateContentRequest } from '../../../src/shared/wire/gemini.ts'

const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }]
const file = { mimeType: 'image/png', fileUri: 'https://example.com/a.png' }
const data = { mimeType: 'image/png', data: 'aGk=' }
const ofPart = (part: object) => ({ contents: [{ role: 'user', parts: [part] }] })

describe('a member under both of its names', () => {
  test('is checked and renamed if one of them is null', () => {
    for (const [given, read] of [
      [
        { contents, generationConfig: null, generation_config: { maxOutputTokens: 5 } },
        { contents, generationConfig: { maxOutputTokens: 5 } },
      ],
      [
        { contents, generationConfig: { maxOutputTokens: null, max_output_tokens: 5 } },
        { contents, generationConfig: { maxOutputTokens: 5 } },
      ],
      [
        { contents, generationConfig: { maxOutputTokens: 5, max_output_tokens: null } },
        { contents, generationConfig: { maxOutputTokens: 5 } },
      ],
      [ofPart({ fileData: null, file_data: file }), ofPart({ fileData: file })],
      [ofPart({ inlineData: null, inline_data: data }), ofPart({ inlineData: data })],
      [ofPart({ inlineData: { mimeType: null, mime_type: 'image/png', data: 'aGk=' } }), ofPart({ inlineData: data })],
    ]) {
      expect(GenerateContentRequest.parse(given)).toEqual(read)
    }
    for (const body of [
      { contents, cachedContent: null, cached_content: 'cachedContents/1' },
      { contents, generationConfig: null, generation_config: { candidateCount: 2 } },
      { contents, generationConfig: { candidateCount: null, candidate_count: 2 } },
      ofPart({ fileData: null, file_data: 'https://example.com/a.png' }),
      ofPart({ inlineData: null, inline_data: { mimeType: 'a secret', data: 'aGk=' } }),
    ]) {
      expect([body, GenerateContentRequest.safeParse(body).success]).toEqual([body, false])
    }
  })

  test('is rejected if both are set', () => {
    const body = ofPart({ fileData: file, file_data: file })
    expect(GenerateContentRequest.safeParse(body).error?.issues).toEqual([
      expect.objectContaining({
        path: ['contents', 0, 'parts', 0],
        message: 'send either fileData or file_data, not both',
      }),
    ])
  })
})

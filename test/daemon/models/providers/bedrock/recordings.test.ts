import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { statusError } from '../../../../../src/daemon/models/providers/stream/failure.ts'
import { playBody } from './playback.ts'

type Block = {
  text?: string
  toolUse?: { toolUseId: string; name: string; input: unknown }
  reasoningContent?: { reasoningText?: { text: string; signature?: string }; redactedContent?: string }
}
type Body = {
  stopReason: string
  output: { message: { content: Block[] } }
  usage: { totalTokens: number; outputTokens: number }
}
type Recording = { id: string; status: number; text: string }

/** Recordings of the real API. They are not part of the project; without the folder nothing is played. */
const evalDir = process.env.AIGW_EVAL_DIR ?? join(import.meta.dirname, '../../../../../../shared/eval')

/** Only Converse: the bodies of InvokeModel are model-specific, and we do not use it. */
function recordings(): Recording[] {
  const manifest = join(evalDir, 'wire/manifest.jsonl')
  if (!existsSync(manifest)) return []
  return readFileSync(manifest, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Recording & { api: string; file: string })
    .filter(({ api }) => api === 'bedrock.converse')
    .map(({ id, status, file }) => ({ id, status, text: readFileSync(join(evalDir, file), 'utf8') }))
}

const OUTCOMES: Record<string, string> = {
  end_turn: 'complete',
  tool_use: 'complete',
  max_tokens: 'length',
  guardrail_intervened: 'filtered',
}

/** The answer in the recording, read in the simplest way. The manifest has no expectations for these. */
function expected({ stopReason, output }: Body): object {
  const { content } = output.message
  const thoughts = content.flatMap(({ reasoningContent }) => (reasoningContent ? [reasoningContent] : []))
  return {
    text: content.map(({ text }) => text ?? '').join(''),
    reasoning: thoughts.map(({ reasoningText }) => reasoningText?.text ?? '').join(''),
    toolCalls: content.flatMap(({ toolUse }) =>
      toolUse ? [{ id: toolUse.toolUseId, name: toolUse.name, arguments: JSON.stringify(toolUse.input) }] : [],
    ),
    signatures: thoughts.flatMap(({ reasoningText, redactedContent }): object[] => {
      if (redactedContent !== undefined) return [{ data: redactedContent }]
      return reasoningText?.signature === undefined ? [] : [{ signature: reasoningText.signature }]
    }),
    outcome: OUTCOMES[stopReason],
    nativeFinishReason: stopReason,
  }
}

const all = recordings()
const bodies = all
  .filter(({ status }) => status === 200)
  .map(({ id, text }) => ({ id, body: JSON.parse(text) as Body }))

test('every recorded answer gives its text, tool calls, reasoning and stop reason', () => {
  const wrong = bodies.filter(({ body }) => {
    const played = playBody(body)
    return JSON.stringify({ ...played, usage: null }) !== JSON.stringify({ ...expected(body), usage: null })
  })
  expect(wrong.map(({ id }) => id)).toEqual([])
})

test('our token totals are those that Bedrock bills', () => {
  const wrong = bodies.filter(({ body: { usage }, body }) => {
    const played = playBody(body)
    if (!('usage' in played) || !played.usage) return true
    const { inputTokens, outputTokens } = played.usage
    return outputTokens !== usage.outputTokens || inputTokens + outputTokens !== usage.totalTokens
  })
  expect(wrong.map(({ id }) => id)).toEqual([])
})

test("every recorded error body is a failure without the provider's text", () => {
  for (const { status, text } of all.filter((recording) => recording.status !== 200)) {
    const error = statusError(status, {}, text, 0)
    expect(error).toMatchObject({ reason: 'bad_request', message: `The provider answered ${status}.` })
  }
})

import type { ToolCall } from '../../../../../src/daemon/models/conversation.ts'
import type { Outcome, ProviderCall, TokenUsage } from '../../../../../src/daemon/models/provider.ts'
import { openAiFormat } from '../../../../../src/daemon/models/providers/openai/answer.ts'
import { profilesOf } from '../../../../../src/daemon/models/providers/openai/profiles.ts'
import {
  createPlayback,
  endOf,
  type Failed,
  type FixtureRow,
  readFixtures,
  toToolCalls,
  wordsOf,
} from '../../playback.ts'

export { readStream, toToolCalls } from '../../playback.ts'

/** The result of a call. */
export type Played =
  | {
      text: string
      reasoning: string
      toolCalls: ToolCall[]
      outcome: Outcome
      nativeFinishReason: string
      usage: TokenUsage | null
    }
  | Failed

export type Fixture = FixtureRow<Played> & {
  /** Tools were offered. */
  tools?: boolean
}

export const fixtures = () => readFixtures<Fixture>('openai')

/** The format of OpenAI's response to a plain call, or to one with these options. */
export const formatFor = (options?: ProviderCall['options'], name = 'any', baseUrl = 'http://127.0.0.1') =>
  openAiFormat({ options }, profilesOf(name, baseUrl)('any'))

const plain = formatFor()
const withTools = formatFor({ tools: [{ name: 'any' }] })

const playback = createPlayback(plain, (parts) => ({
  text: wordsOf(parts, 'text'),
  reasoning: wordsOf(parts, 'reasoning'),
  toolCalls: toToolCalls(parts),
  ...endOf(parts),
}))

export const playStream = (pieces: readonly Uint8Array[], { tools = false } = {}): Played =>
  playback.stream(pieces, tools ? withTools : plain)

export const playBody = (bytes: Uint8Array, { tools = false } = {}): Played =>
  playback.body(JSON.parse(Buffer.from(bytes).toString()), tools ? withTools : plain)

export const playCall = playback.call

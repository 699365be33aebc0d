import { toCanonicalJson } from '../../../../shared/canonical-json.ts'
import { type Clock, systemClock } from '../../../../shared/time.ts'
import { countTokens } from '../../../platform/text/tokens.ts'
import type { Scripts } from '../../config.ts'
import { citedText, type GenerationOptions, systemText, textOf } from '../../conversation.ts'
import { type ChatPart, type Entitle, type Provider, type ProviderCall, ProviderError } from '../../provider.ts'
import { governed, mayLeave, type UpstreamRequest } from '../stream/upstream.ts'
import { answerTo } from './answer.ts'
import { playScript } from './script.ts'

const SCRIPT_PREFIX = 'script/'

/**
 * The built-in provider. Its model `extract` uses no network: it answers with the best sentences of the retrieved
 * passages and names their sources. The provider counts the tokens itself, and this count is billed. Each configured
 * script is a model `script/<name>`.
 */
export function localProvider(scripts: Scripts = {}, clock: Clock = systemClock): Provider {
  return {
    name: 'local',
    models: ['extract', ...Object.keys(scripts).map((name) => SCRIPT_PREFIX + name)],
    chat(call, signal) {
      refuseBlocks(call)
      const leave = call.entitle && mayLeave(toRequest(call, call.entitle))
      const steps = scripts[call.model.slice(SCRIPT_PREFIX.length)]
      const answer = () =>
        steps && call.model.startsWith(SCRIPT_PREFIX) ? playScript(steps, call, clock, signal) : extract(call, signal)
      return leave ? after(leave, answer) : answer()
    },
    async close() {},
  }
}

/** @throws ProviderError `bad_request` for files, and for blocks and tools of other APIs, because these models cannot read them */
function refuseBlocks({ messages, options }: ProviderCall): void {
  const parts = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content))
  const blocks = parts.flatMap((part) => {
    if (part.type === 'native') return citedText(part) ? [] : part.block
    return part.type === 'file' || part.type === 'file_url' ? part : []
  })
  const [first] = [...blocks, ...(options?.tools ?? []).flatMap(({ native }) => native?.definition ?? [])]
  if (first) throw new ProviderError('bad_request', `Local models do not support ${first.type}.`)
}

/** Creates the request of a call. Local models send no bytes, so the body is the canonical JSON of the call. */
function toRequest(call: ProviderCall, entitle: Entitle): Pick<UpstreamRequest, 'body' | 'governed'> {
  const { model, system, messages, grounding, temperature, maxTokens, stream } = call
  const options = call.options?.native ? withoutNative(call.options) : call.options
  const asked = { model, system, messages, grounding, temperature, max_tokens: maxTokens, stream, options }
  // Canonical JSON allows neither undefined members nor unpaired surrogates.
  const body = toCanonicalJson(JSON.parse(JSON.stringify(asked, (_, value) => wellFormed(value))))
  return { body, governed: governed({ model, entitle }, body) }
}

/** Local models ignore native options, and their members may have any name. */
const withoutNative = ({ native: _, tools, ...options }: GenerationOptions): GenerationOptions => ({
  ...options,
  tools: tools?.map(({ extra: __, ...tool }) => tool),
})

const wellFormed = (value: unknown): unknown =>
  typeof value === 'string' ? value.replace(/\p{Surrogate}/gu, '\u{fffd}') : value

async function* after(
  leave: Promise<void>,
  answer: () => AsyncIterable<readonly ChatPart[]>,
): AsyncGenerator<readonly ChatPart[]> {
  await leave
  yield* answer()
}

/**
 * Words per batch. The number is small enough to make the answer look like a stream, and large enough to limit the
 * number of writes.
 */
const WORDS_PER_BATCH = 8

async function* extract(call: ProviderCall, signal: AbortSignal): AsyncGenerator<readonly ChatPart[]> {
  stopIfAborted(signal)
  const words = answerTo(call).match(/\s*\S+\s*$|\s*\S+/g) ?? []
  const { kept, outputTokens } = cutAt(call.maxTokens, words)
  const cut = kept.length < words.length
  const end: ChatPart = {
    type: 'end',
    outcome: cut ? 'length' : 'complete',
    nativeFinishReason: cut ? 'length' : 'stop',
    usage: {
      inputTokens: inputTokensOf(call),
      outputTokens,
      cacheReadTokens: 0,
      cacheWriteTokens: 0,
      reasoningTokens: 0,
      estimated: false,
    },
  }
  const wordsPerBatch = call.stream ? WORDS_PER_BATCH : kept.length
  for (let start = 0; start < kept.length; start += wordsPerBatch) {
    stopIfAborted(signal)
    const batch = kept.slice(start, start + wordsPerBatch)
    const text: ChatPart[] = call.stream
      ? batch.map((word) => ({ type: 'text', text: word }))
      : [{ type: 'text', text: batch.join('') }]
    yield start + wordsPerBatch >= kept.length ? [...text, end] : text
  }
}

function stopIfAborted(signal: AbortSignal): void {
  if (signal.aborted) throw new ProviderError('aborted', 'The request was aborted.', { cause: signal.reason })
}

/**
 * The tokens of each word are counted separately, so that the sum does not depend on where the answer was cut. The
 * first word is always kept.
 */
function cutAt(
  maxTokens: number | undefined,
  words: readonly string[],
): { kept: readonly string[]; outputTokens: number } {
  let outputTokens = 0
  for (const [at, word] of words.entries()) {
    const tokens = countTokens(word)
    if (at > 0 && maxTokens !== undefined && outputTokens + tokens > maxTokens)
      return { kept: words.slice(0, at), outputTokens }
    outputTokens += tokens
  }
  return { kept: words, outputTokens }
}

function inputTokensOf({ system, messages }: ProviderCall): number {
  return messages.reduce((total, { content }) => total + countTokens(textOf(content)), countTokens(systemText(system)))
}

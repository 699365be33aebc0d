// Converts the parts of an answer to parts of Gemini's API. Used for complete and streamed answers.
import type { AnswerPart } from '../../../../shared/wire/gemini.ts'
import type { Reasoning } from '../../../models/conversation.ts'
import { ORIGIN, toSignature } from '../../../models/part-signature.ts'
import { type ChatPart, type OtherPart, ProviderError } from '../../../models/provider.ts'
import { isObject, parseObject } from '../../../platform/text/json.ts'
import { isSealed, withPart } from '../../chat/answer-items.ts'
import { createNativeParts, toTypedObject } from '../../chat/native-parts.ts'
import { type Annotation, toGroundingMetadata } from '../annotations.ts'
import { toThoughtSignature } from './reasoning.ts'

/** The content that has arrived since the last `take`. `members` belong to the candidate. */
type Piece = { parts: AnswerPart[]; members: Record<string, unknown> }

export type Pieces = {
  /** @throws ProviderError if a complete answer has a call whose arguments are not a JSON object */
  add(part: ChatPart): void
  take(): Piece
}

type Call = { id: string; name: string; json: string; reasoning: readonly Reasoning[] }
type PartOf<Type extends ChatPart['type']> = Extract<ChatPart, { type: Type }>

/** @param showsThoughts whether the request asks for thoughts. Google itself sends thoughts only if it does. */
export function createPieces({ showsThoughts }: { showsThoughts: boolean }): Pieces {
  let piece: Piece = { parts: [], members: {} }
  /** A call is sent as a whole, so its pieces are collected. */
  const calls = new Map<number, Call>()
  const natives = createNativeParts()
  const annotations: Annotation[] = []
  let said = ''
  /** Google's signatures of calls, by the id of the call. */
  const signatures = new Map<string, string>()
  /** Reasoning of other providers. It is sent back with the next call, because the provider needs it there. */
  let reasoning: Reasoning[] = []

  function text({ text, logprobs }: PartOf<'text'>): void {
    endCalls('if whole')
    piece.parts.push({ text })
    said += text
    if (logprobs !== undefined) addLogprobs(logprobs, piece.members)
  }

  function thought(part: PartOf<'reasoning'>): void {
    const { text, origin = '', signature, data } = part
    if (origin === ORIGIN) {
      if (data !== undefined) {
        signatureOfPart(data)
        return
      }
      endCalls('if whole')
      piece.parts.push({ text, thought: true, ...(signature !== undefined && { thoughtSignature: signature }) })
      return
    }
    const last = reasoning.at(-1)
    if (last && last.origin === origin && !isSealed(last)) reasoning[reasoning.length - 1] = withPart(last, part)
    else reasoning.push(withPart(undefined, part))
    if (showsThoughts && text !== '') piece.parts.push({ text, thought: true })
  }

  function signatureOfPart(data: string): void {
    const { callId, signature } = toSignature(data)
    if (callId !== '') {
      signatures.set(callId, signature)
      return
    }
    endCalls('if whole')
    const last = piece.parts.at(-1)
    if (last?.text && !last.thought && last.thoughtSignature === undefined) last.thoughtSignature = signature
    else piece.parts.push({ text: '', thoughtSignature: signature })
  }

  function toolCall(part: PartOf<'tool_call'>): void {
    const { index, id = '', name = '', arguments: json } = part
    const known = calls.get(index)
    if (known) {
      known.json += json
      return
    }
    const native = natives.add(part)
    if (native === undefined) {
      calls.set(index, { id, name, json, reasoning })
      reasoning = []
    } else if (native !== 'partial') addNative(native)
  }

  function addNative({ kind, value }: Exclude<ReturnType<typeof natives.add>, string | undefined>): void {
    if (kind === 'block') {
      endCalls('if whole')
      piece.parts.push(value as AnswerPart)
    } else if (kind === 'citation') Object.assign(piece.members, value)
    else if (kind === 'annotation') annotations.push(toTypedObject(value))
  }

  /** Google sends the sources of an answer after its text. */
  function addSources(): void {
    const groundingMetadata = toGroundingMetadata(annotations, said)
    if (groundingMetadata) Object.assign(piece.members, { groundingMetadata })
  }

  /** Sends the calls. `if whole`: keeps them if pieces are missing. `cut`: omits the calls with missing pieces. */
  function endCalls(how: 'if whole' | 'cut' | 'complete'): void {
    const parsed = [...calls.values()].map((call) => ({ call, args: toArguments(call.json) }))
    if (how === 'if whole' && parsed.some(({ call, args }) => !args || call.json.trim() === '')) return
    for (const { call, args } of parsed) {
      if (how === 'cut' && call.json.trim() === '') continue
      if (args) piece.parts.push(toPart(call, args))
      else if (how === 'complete') {
        throw new ProviderError('server_error', 'The provider called a tool with arguments that are not a JSON object.')
      }
    }
    calls.clear()
  }

  function toPart({ id, name, reasoning: steps }: Call, args: Record<string, unknown>): AnswerPart {
    const signature = signatures.get(id) ?? (steps.length > 0 ? toThoughtSignature(steps) : undefined)
    return {
      functionCall: { ...(id !== '' && { id }), name, args },
      ...(signature !== undefined && { thoughtSignature: signature }),
    }
  }

  return {
    add(part) {
      if (part.type === 'text') text(part)
      else if (part.type === 'reasoning') thought(part)
      else if (part.type === 'tool_call') toolCall(part)
      else if (part.type === 'end') {
        endCalls(part.outcome === 'complete' ? 'complete' : 'cut')
        addSources()
      } else part.type satisfies 'usage' | OtherPart
    },
    take() {
      const taken = piece
      piece = { parts: [], members: {} }
      return taken
    },
  }
}

const toArguments = (json: string) => parseObject(json.trim() === '' ? '{}' : json)

/** Joins adjacent texts and thoughts of a complete answer. */
export function joined(parts: readonly AnswerPart[]): AnswerPart[] {
  const all: AnswerPart[] = []
  for (const part of parts) {
    const last = all.at(-1)
    const goesOn =
      last?.text !== undefined &&
      part.text !== undefined &&
      last.thought === part.thought &&
      last.thoughtSignature === undefined
    if (goesOn) all[all.length - 1] = { ...last, ...part, text: `${last.text}${part.text}` }
    else all.push(part)
  }
  return all
}

type Chosen = { token: unknown; logProbability: unknown }

/** Adds log probabilities in OpenAI's form to the members of a candidate, in Google's form. */
function addLogprobs(logprobs: unknown, members: Record<string, unknown>): void {
  const tokens = isObject(logprobs) && Array.isArray(logprobs.content) ? logprobs.content.filter(isObject) : []
  if (tokens.length === 0) return
  const known = (members.logprobsResult ?? { chosenCandidates: [], topCandidates: [] }) as {
    chosenCandidates: Chosen[]
    topCandidates: { candidates: Chosen[] }[]
  }
  const toChosen = ({ token, logprob }: Record<string, unknown>): Chosen => ({ token, logProbability: logprob })
  for (const token of tokens) {
    known.chosenCandidates.push(toChosen(token))
    const tops = Array.isArray(token.top_logprobs) ? token.top_logprobs.filter(isObject) : []
    known.topCandidates.push({ candidates: tops.map(toChosen) })
  }
  members.logprobsResult = known
}

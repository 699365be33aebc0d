// What the gateway changed in a request or did not send, as the answer reports it.
import type { Change, Dropped } from '../../../shared/wire/chat.ts'
import type { NativeOptions } from '../../models/conversation.ts'
import { droppedBy } from '../../models/provider.ts'
import { type Attempt, clampedTimeouts } from '../governed/chain.ts'
import type { Running } from '../governed/operation.ts'
import { forbidsTools, type Grounded } from './ground-call.ts'
import type { ChatInput } from './input.ts'
import { type AttemptLimit, changesOf } from './output-limit.ts'

/** Returns the changes to a request for the model that served it. `limit`: the output limit that was sent, if any. */
export function noticesOf(
  { screened, order, prepared }: Pick<Running<ChatInput, Grounded>, 'screened' | 'order' | 'prepared'>,
  { provider, model }: Attempt,
  limit?: AttemptLimit,
): { changed: readonly Change[]; dropped: readonly Dropped[] } {
  const { input, replacedFiles } = screened
  const own = limit ? changesOf(order.call, limit, input.fields) : NOTHING
  const clamped = clampedTimeouts(input.chain)
  const replaced = replacedFiles?.length ? replacedFiles.map(toReplaced) : NOTHING
  const changed = joined(input.changed ?? NOTHING, clamped, own, replaced)
  const options = prepared.call.options
  const native = options?.native
  if (!options) return { changed, dropped: input.dropped ?? NOTHING }
  const used = options.reasoningEffort ?? (native?.effort && options.noReasoning ? 'none' : undefined)
  const isTranslated =
    native !== undefined &&
    native.origin !== provider.origin &&
    (native.effort !== undefined || !provider.supports?.('thinking', model)) &&
    used !== undefined
  const asked = isTranslated && limit?.thinks !== false ? (native.effort ?? askedOf(native)) : undefined
  const without = provider.drops?.(options, model) ?? NOTHING
  const names = [...without.map((option) => input.fields?.[option] ?? option), ...droppedBy(provider, model, native)]
  const lost = names
    .filter((field) => !(isTranslated && field === native.effort?.field))
    .map((field): Dropped => ({ field: field.slice(0, SHOWN_CHARS), why: 'provider' }))
  if (forbidsTools(screened)) {
    for (const field of input.uses?.optionalTools ?? NOTHING) {
      if (!lost.some((one) => one.field === field)) lost.push({ field, why: 'operator' })
    }
  }
  // A policy that forbids training also forbids storing.
  const isForbidden = prepared.call.noTraining === true && native?.fields.store === true
  if (isForbidden && !lost.some(({ field }) => field === 'store')) lost.push({ field: 'store', why: 'operator' })
  const translated: Change[] = asked && used !== undefined ? [{ ...asked, used, why: 'provider' }] : []
  return { changed: joined(changed, translated), dropped: joined(input.dropped ?? NOTHING, lost) }
}

/** The thinking option in Anthropic's form. */
function askedOf({ thinking }: NativeOptions): NativeOptions['effort'] {
  const config = thinking?.config
  if (!config) return undefined
  return config.budget_tokens === undefined
    ? { field: 'thinking', asked: config.type }
    : { field: 'thinking.budget_tokens', asked: config.budget_tokens }
}

const toReplaced = (asked: string): Change => ({ field: 'file', asked, used: 'text', why: 'policy' })

/** Clients choose the names of fields. */
const SHOWN_CHARS = 100
const NOTHING: readonly never[] = []

/** Joins lists, most of which are empty. */
const joined = <T>(...lists: readonly (readonly T[])[]): readonly T[] => {
  const filled = lists.filter(({ length }) => length > 0)
  return filled.length > 1 ? filled.flat() : (filled[0] ?? NOTHING)
}

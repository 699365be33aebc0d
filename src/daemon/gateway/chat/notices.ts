// What the gateway changed in a request or did not send, as the answer reports it.
import type { Change, Dropped } from '../../../shared/wire/chat.ts'
import { droppedBy } from '../../models/provider.ts'
import type { Attempt } from '../governed/chain.ts'
import type { Running } from '../governed/operation.ts'
import type { Grounded } from './ground-call.ts'
import type { ChatInput } from './input.ts'
import { type AttemptLimit, changesOf } from './output-limit.ts'

/** Returns the changes to a request for the model that served it. `limit`: the output limit that was sent, if any. */
export function noticesOf(
  {
    screened: { input, replacedFiles },
    order,
    prepared,
  }: Pick<Running<ChatInput, Grounded>, 'screened' | 'order' | 'prepared'>,
  { provider, model }: Attempt,
  limit?: AttemptLimit,
): { changed: readonly Change[]; dropped: readonly Dropped[] } {
  const own = limit ? changesOf(order.call, limit, input.fields) : NOTHING
  const limited = replacedFiles?.length ? [...own, ...replacedFiles.map(toReplaced)] : own
  const options = prepared.call.options
  const native = options?.native
  if (!native) return { changed: limited, dropped: input.dropped ?? NOTHING }
  const lost = droppedBy(provider, model, native).map(
    (field): Dropped => ({ field: field.slice(0, SHOWN_CHARS), why: 'provider' }),
  )
  // A policy that forbids training also forbids storing.
  const isForbidden = prepared.call.noTraining === true && native.fields.store === true
  if (isForbidden && !lost.some(({ field }) => field === 'store')) lost.push({ field: 'store', why: 'operator' })
  const isTranslated = native.origin !== provider.origin && !provider.supports?.('thinking', model)
  const config = native.thinking?.config
  const used = options.reasoningEffort
  const translated: Change[] =
    isTranslated && limit?.thinks !== false && config && used !== undefined
      ? [
          config.budget_tokens === undefined
            ? { field: 'thinking', asked: config.type, used, why: 'provider' }
            : { field: 'thinking.budget_tokens', asked: config.budget_tokens, used, why: 'provider' },
        ]
      : []
  return { changed: [...limited, ...translated], dropped: [...(input.dropped ?? []), ...lost] }
}

const toReplaced = (asked: string): Change => ({ field: 'file', asked, used: 'text', why: 'policy' })

/** Clients choose the names of fields. */
const SHOWN_CHARS = 100
const NOTHING: readonly never[] = []

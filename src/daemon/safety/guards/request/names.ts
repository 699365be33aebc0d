import { appendTo } from '../../../../shared/lists.ts'
import { type Pacer, runInSlices } from '../../../platform/pacing.ts'
import type { ArmedRules } from '../plan.ts'
import { type GuardHit, screening } from '../redaction.ts'
import { mapNames, type Name, type PromptText } from './text-slots.ts'

/**
 * Applies the rules to ids and names. Otherwise ids and names could carry values past the guards. A name cannot be
 * changed, so a name that needs redaction blocks the request. The id of a tool call can be changed, so it is replaced
 * by the same new id in all places. If any rule for the request may change or reject text, the end user's name is
 * removed.
 */
export async function screenNames(
  promptText: PromptText,
  { acting, watching }: Pick<ArmedRules, 'acting' | 'watching'>,
  pacer: Pacer,
): Promise<{ promptText: PromptText; hits: GuardHit[]; isBlocked: boolean }> {
  const armed = [...acting, ...watching]
  const names = new Map<string, Name>()
  mapNames(promptText, (name) => {
    names.set(keyOf(name), name)
    return name.text
  })
  const hits: GuardHit[] = []
  const changed = new Map<string, string>()
  let isBlocked = false
  for (const [key, { of, text }] of names) {
    if (of === 'user' && acting.length > 0) {
      changed.set(key, '')
      continue
    }
    const screened = await runInSlices(screening(text, 'text', armed, undefined, pacer), pacer)
    appendTo(hits, screened.hits)
    if (screened.text === text && !screened.isBlocked) continue
    if (of === 'call') changed.set(key, `call_${changed.size + 1}_renamed`)
    else isBlocked = true
  }
  const renamed =
    changed.size === 0 ? promptText : mapNames(promptText, (name) => changed.get(keyOf(name)) ?? name.text)
  return { promptText: renamed, hits, isBlocked }
}

const keyOf = ({ of, text }: Name): string => `${of} ${text}`

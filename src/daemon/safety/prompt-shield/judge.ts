import { randomUUID } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Clock } from '../../../shared/time.ts'
import type { ProviderRegistry } from '../../models/registry.ts'
import type { Log } from '../../platform/log.ts'
import { isUnsure, judgePrompt, readJudgement, withJudgement } from '../guards/shield/judge.ts'
import type { ShieldOptions, ShieldScan } from '../guards/shield/scan.ts'
import type { MayCall } from '../policies/policies.ts'

/** The timeout of a call to a judge model. */
const SHIELD_JUDGE_MS = 5_000
const SHIELD_JUDGE_TOKENS = 200
/**
 * The time after a failure during which the tenant's requests do not call the judge model. SHIELD_JUDGES_AT_ONCE is the
 * maximum number of concurrent calls per tenant and model.
 */
export const SHIELD_JUDGE_PAUSE_MS = 10_000
const SHIELD_JUDGES_AT_ONCE = 8

/** The request for which a judge is called. */
export type JudgeTerms = {
  tenantId: string
  /** Whether the request's policy allows this model to read the request's content. */
  mayCall: MayCall
  /** Aborts the call if its result is no longer needed. */
  signal: AbortSignal
}

/**
 * The layer `llm`: if the other layers are unsure about a text, asks a model to judge the text. Returns undefined if
 * there is no judgement.
 */
export type Judge = (
  scan: ShieldScan,
  options: ShieldOptions,
  model: string,
  terms: JudgeTerms,
) => Promise<ShieldScan | undefined>

/** The calls of one tenant to one model. */
type Calls = { running: number; pausedUntilMs: number }

const CACHED_ENTRIES = 10_000

/**
 * Creates a judge that uses the gateway's models. The result of the other layers applies if the model must not be
 * called, times out, or responds in another format. A failure is logged, and the model is not called for this tenant
 * during the next SHIELD_JUDGE_PAUSE_MS.
 */
export function createJudge({
  providers,
  clock,
  log,
}: {
  providers: ProviderRegistry
  clock: Clock
  log: Pick<Log, 'warn'>
}): Judge {
  const known = new LRUCache<string, Calls>({ max: CACHED_ENTRIES })

  return async (scan, options, model, terms) => {
    if (!isUnsure(scan, options)) return scan
    const key = `${terms.tenantId} ${model}`
    const calls = known.get(key) ?? { running: 0, pausedUntilMs: Number.NEGATIVE_INFINITY }
    known.set(key, calls)
    if (calls.running >= SHIELD_JUDGES_AT_ONCE || clock.monotonic() < calls.pausedUntilMs) return undefined
    calls.running++
    try {
      return await ask(scan, options, model, terms, providers)
    } catch (error) {
      if (!terms.signal.aborted) {
        calls.pausedUntilMs = clock.monotonic() + SHIELD_JUDGE_PAUSE_MS
        log.warn({ model, error }, 'the judge model of the prompt shield did not answer')
      }
      return undefined
    } finally {
      calls.running--
    }
  }
}

async function ask(
  scan: ShieldScan,
  options: ShieldOptions,
  modelId: string,
  { mayCall, signal }: JudgeTerms,
  providers: ProviderRegistry,
): Promise<ShieldScan | undefined> {
  const found = providers.find(modelId)
  if (!found) throw new Error(`the judge model "${modelId}" is not available here`)
  if (!mayCall({ modelId, location: found.location })) return undefined
  const { system, user, isWhole } = judgePrompt(scan.suspects, randomUUID())
  const call = {
    model: found.model,
    system,
    messages: [{ role: 'user', content: user } as const],
    grounding: null,
    temperature: 0,
    temperatureIsDefault: true,
    maxTokens: SHIELD_JUDGE_TOKENS,
    stream: false,
    // Always forbids the provider to train on the text, even if the request's policy permits training, because the
    // caller did not request a judge.
    noTraining: true,
    timeouts: { attemptMs: SHIELD_JUDGE_MS, firstTokenMs: SHIELD_JUDGE_MS, stallMs: SHIELD_JUDGE_MS },
  }
  let answer = ''
  for await (const parts of found.provider.chat(call, signal)) {
    for (const part of parts) if (part.type === 'text') answer += part.text
  }
  const judgement = readJudgement(answer)
  if (!judgement) throw new Error('the answer of the judge model does not have the requested form')
  return withJudgement(scan, judgement, isWhole, options)
}

import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../../shared/errors.ts'
import type { Clock } from '../../../shared/time.ts'
import type { GuardDirection } from '../../../shared/wire/incidents.ts'
import type { ShieldPolicyDocument } from '../../../shared/wire/shield.ts'
import type { Log } from '../../platform/log.ts'
import type { Pacer } from '../../platform/pacing.ts'
import type { ShieldModelConfig } from '../config.ts'
import { type ConversationScan, scanConversation } from '../guards/shield/conversation.ts'
import { isUnsure, withModel } from '../guards/shield/judge.ts'
import {
  type LeakOptions,
  type OutputScan,
  type OutputWatch,
  piecesOf,
  prepareSnippets,
  type Snippets,
  watchOutput,
} from '../guards/shield/output.ts'
import { prepareScans, type ShieldOptions, type ShieldScan, scanTextInSlices } from '../guards/shield/scan.ts'
import type { TextSource } from '../guards/shield/source.ts'
import { isWorse } from '../guards/shield/verdict.ts'
import type { GuardIncident } from '../incidents/incident.ts'
import type { Judge, JudgeTerms } from './judge.ts'
import type { ShieldModel } from './model/shield-model.ts'
import type { AppliedShield } from './resolve.ts'

/** After `failures` consecutive failed scans within `withinMs`, scanning pauses for `pauseMs`. */
export const SHIELD_BREAKER = { failures: 5, withinMs: 30_000, pauseMs: 30_000 } as const

/** The probabilities of the operator's model that correspond to the scores for FLAG and BLOCK. */
export type ShieldModelLevels = Pick<ShieldModelConfig, 'flagAt' | 'blockAt'>

export type ScannedText = { text: string; source: TextSource }

/** The request and the options for scanning its texts. */
export type ScanTerms = JudgeTerms & {
  pacer: Pick<Pacer, 'turn'>
  /**
   * True if the response shows the findings. Such a scan bypasses the cache, because the cache contains only scores.
   */
  wantsDetails?: boolean | undefined
  /** True if the scans also return explanations. Only with `wantsDetails`, because explanations contain text. */
  explains?: boolean | undefined
}

/**
 * Every function throws SCAN_FAILED if its scan fails. After too many recent failures for a tenant, it throws
 * SHIELD_UNAVAILABLE.
 */
export type ShieldScanner = {
  /**
   * Scans each of these texts for attacks. Calls a judge at most once. Of the texts about which the other layers are
   * unsure, the judge reads only the text with the worst result.
   */
  scanEach(texts: readonly ScannedText[], policy: ShieldPolicyDocument, terms: ScanTerms): Promise<ShieldScan[]>
  /** Scans a user's messages for attacks, including attacks that span several messages. */
  scanConversation(
    messages: readonly { role: string; content: string }[],
    policy: ShieldPolicyDocument,
    terms: Pick<ScanTerms, 'tenantId' | 'pacer'>,
  ): Promise<ConversationScan>
  /** Scans a model's output. @param instructions the parts of the system prompt */
  scanOutput(
    text: string,
    instructions: readonly string[],
    policy: ShieldPolicyDocument,
    terms: Pick<ScanTerms, 'tenantId' | 'pacer'>,
  ): Promise<OutputScan>
  /** Scans an answer that arrives in chunks. Use a separate watch for each text. */
  watchAnswer(leaks: LeakOptions, policy: ShieldPolicyDocument, tenantId: string): OutputWatch
}

/**
 * Size of the cache of scores. The cache saves scans, because each request of a conversation repeats earlier texts.
 * Only final scores are cached, separately for each tenant.
 */
const CACHED_ENTRIES = 10_000
const CACHED_CHARS = 200
const TENANTS = 10_000
/** Size of the cache of system prompt pieces. Most requests of an application have the same system prompt. */
const PIECES_KEPT = 65_536

/** A scan result, and whether it is final without a judge. `key`: its cache key. */
type Known = { scan: ShieldScan; key: string | undefined; isFinal: boolean }

/**
 * Creates a scanner with a circuit breaker: for some time after several consecutive failures, requests that need a scan
 * are rejected immediately.
 */
export function createShieldScanner({
  clock,
  log,
  judge,
  model,
}: {
  clock: Clock
  log: Pick<Log, 'error'>
  judge: Judge
  /** The operator's model, if there is one. */
  model?: (ShieldModel & ShieldModelLevels) | undefined
}): ShieldScanner {
  prepareScans()
  const remembered = new LRUCache<string, ShieldScan>({ max: CACHED_ENTRIES })
  const snippets = new LRUCache<string, Snippets>({
    maxSize: PIECES_KEPT,
    sizeCalculation: (prepared) => 1 + prepared.reduce((sum, { pieces }) => sum + pieces.size, 0),
  })
  const breakers = new LRUCache<string, { failedAtMs: readonly number[]; pausedUntilMs: number }>({ max: TENANTS })

  function onFailure(cause: unknown, tenantId: string): GatewayError {
    const now = clock.monotonic()
    const recent = (breakers.get(tenantId)?.failedAtMs ?? []).filter((at) => now - at < SHIELD_BREAKER.withinMs)
    const failedAtMs = [...recent, now]
    const isPaused = failedAtMs.length >= SHIELD_BREAKER.failures
    breakers.set(
      tenantId,
      isPaused
        ? { failedAtMs: [], pausedUntilMs: now + SHIELD_BREAKER.pauseMs }
        : { failedAtMs, pausedUntilMs: Number.NEGATIVE_INFINITY },
    )
    log.error({ error: cause }, 'a scan of the prompt shield failed')
    const message = 'The prompt shield failed to scan this text. The log of the gateway contains the details.'
    return new GatewayError('SCAN_FAILED', message, { cause })
  }

  function checkNotPaused(tenantId: string): void {
    const leftMs = (breakers.get(tenantId)?.pausedUntilMs ?? Number.NEGATIVE_INFINITY) - clock.monotonic()
    if (leftMs <= 0) return
    throw new GatewayError('SHIELD_UNAVAILABLE', 'The prompt shield has failed too often. Retry in a moment.', {
      retryAfterSeconds: Math.ceil(leftMs / 1000),
    })
  }

  async function guarded<T>(tenantId: string, run: () => Promise<T>): Promise<T> {
    checkNotPaused(tenantId)
    try {
      const result = await run()
      breakers.delete(tenantId)
      return result
    } catch (cause) {
      throw onFailure(cause, tenantId)
    }
  }

  async function scanAlone(scanned: ScannedText, policy: ShieldPolicyDocument, terms: ScanTerms): Promise<Known> {
    const options = { ...toOptions(policy, scanned.source), explains: terms.explains }
    const asksModel = model !== undefined && usesClassifier(policy)
    const isCached = !terms.wantsDetails && (asksModel || hasJudge(policy) || scanned.text.length >= CACHED_CHARS)
    const key = isCached ? keyOf(scanned, policy, terms.tenantId) : undefined
    const before = key && remembered.get(key)
    if (before) return { scan: before, key, isFinal: true }
    const builtIn = await guarded(terms.tenantId, () => scanTextInSlices(scanned.text, options, terms.pacer))
    const probability = asksModel ? await model.score(scanned.text) : undefined
    if (asksModel && builtIn.explanation) builtIn.explanation.model = { probability: probability ?? null }
    const scan = probability === undefined ? builtIn : raised(builtIn, probability, scanned.text, options)
    const isFinal = !hasJudge(policy) || !isUnsure(scan, options)
    // The next request asks the model again if it has not answered.
    if (isFinal && !(asksModel && probability === undefined)) remember(key, scan)
    return { scan, key, isFinal }
  }

  function raised(scan: ShieldScan, probability: number, text: string, options: ShieldOptions): ShieldScan {
    const found = withModel(scan, probability, model!, options)
    // The judge must read something, even if only the model suspects the text.
    return found === scan || found.suspects.length > 0 ? found : { ...found, suspects: [text] }
  }

  function remember(key: string | undefined, scan: ShieldScan): void {
    if (key) remembered.set(key, { ...scan, details: [], suspects: [] })
  }

  async function scanEach(texts: readonly ScannedText[], policy: ShieldPolicyDocument, terms: ScanTerms) {
    const scans: Known[] = []
    for (const text of texts) scans.push(await scanAlone(text, policy, terms))
    const doubts = scans.filter(({ isFinal }) => !isFinal)
    const worst = worstScan(doubts.map(({ scan }) => scan))
    const unsure = doubts.find(({ scan }) => scan === worst)
    if (unsure && policy.judgeModel !== null) {
      const options = toOptions(policy, 'user')
      const judged = await judge(unsure.scan, options, policy.judgeModel, terms)
      if (judged) {
        remember(unsure.key, judged)
        unsure.scan = judged
      }
    }
    return scans.map(({ scan }) => scan)
  }

  function prepared(instructions: readonly string[]): Snippets {
    const key = hash('sha256', JSON.stringify(instructions), 'base64')
    const known = snippets.get(key) ?? prepareSnippets(instructions)
    snippets.set(key, known)
    return known
  }

  function watchFor(open: () => OutputWatch, tenantId: string): OutputWatch {
    let watch: OutputWatch | undefined
    return {
      add(text) {
        checkNotPaused(tenantId)
        try {
          watch ??= open()
          return watch.add(text)
        } catch (cause) {
          throw onFailure(cause, tenantId)
        }
      },
    }
  }

  return {
    scanEach,
    scanConversation: (messages, policy, { tenantId, pacer }) =>
      guarded(tenantId, () => scanConversation(messages, toOptions(policy, 'user'), pacer)),
    async scanOutput(text, instructions, policy, { tenantId, pacer }) {
      const watch = watchFor(() => watchOutput(prepared(instructions), toOptions(policy, 'user')), tenantId)
      let found = watch.add('')
      for (const piece of piecesOf(text)) {
        found = watch.add(piece)
        await pacer.turn()
      }
      return found
    },
    watchAnswer: (leaks, policy, tenantId) =>
      watchFor(() => watchOutput([], { ...toOptions(policy, 'user'), ...leaks }), tenantId),
  }
}

const usesClassifier = ({ layers }: ShieldPolicyDocument): boolean => layers.includes('ml') || layers.includes('llm')

const hasJudge = ({ layers, judgeModel }: ShieldPolicyDocument): boolean =>
  layers.includes('llm') && judgeModel !== null

/** Returns the worst scan by verdict, then by score. Undefined without scans. */
export function worstScan(scans: readonly ShieldScan[]): ShieldScan | undefined {
  return scans.reduce<ShieldScan | undefined>((worst, one) => (!worst || isWorse(one, worst) ? one : worst), undefined)
}

const keyOf = ({ text, source }: ScannedText, policy: ShieldPolicyDocument, tenantId: string): string =>
  hash('sha256', `${tenantId}\n${source}\n${JSON.stringify(policy)}\n${text}`, 'base64')

const toOptions = (
  { sensitivity, thresholds, layers, categories }: ShieldPolicyDocument,
  source: TextSource,
): ShieldOptions => ({
  sensitivity,
  source,
  layers,
  categories,
  thresholds: thresholds ?? undefined,
})

export type ShieldIncident = GuardIncident & { kind: 'prompt_shield' }

/** Returns the incident of a scan. Returns undefined if the scan found nothing to report. */
export function shieldIncident(
  scan: Pick<ShieldScan, 'riskScore' | 'verdict' | 'attackCategory' | 'confidence' | 'severity'> | undefined,
  { id, document }: AppliedShield,
  direction: GuardDirection,
): ShieldIncident | undefined {
  if (!scan || scan.verdict === 'ALLOW') return undefined
  const action = ACTIONS[scan.verdict]
  return {
    kind: 'prompt_shield',
    direction,
    category: scan.attackCategory ?? 'prompt_injection',
    severity: scan.severity,
    action,
    enforced: action !== 'block' || document.mode === 'blocking',
    shieldPolicy: id,
    shieldMode: document.mode,
    riskScore: scan.riskScore,
    confidence: scan.confidence,
  }
}

const ACTIONS = { LOG: 'log', FLAG: 'flag', BLOCK: 'block' } as const

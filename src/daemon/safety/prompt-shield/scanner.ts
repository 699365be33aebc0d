import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../../shared/errors.ts'
import { SHIELD_BREAKER } from '../../../shared/spec-limits.ts'
import type { Clock } from '../../../shared/time.ts'
import type { GuardDirection } from '../../../shared/wire/incidents.ts'
import type { ShieldPolicyDocument } from '../../../shared/wire/shield.ts'
import type { Log } from '../../platform/log.ts'
import type { Pacer } from '../../platform/pacing.ts'
import { type ConversationScan, scanConversation } from '../guards/shield/conversation.ts'
import type { TextSource } from '../guards/shield/evidence.ts'
import { isUnsure } from '../guards/shield/judge.ts'
import {
  type OutputScan,
  type OutputWatch,
  piecesOf,
  prepareSnippets,
  type Snippets,
  watchOutput,
} from '../guards/shield/output.ts'
import { type ShieldOptions, type ShieldScan, scanTextPaced } from '../guards/shield/scan.ts'
import { isWorse } from '../guards/shield/verdict.ts'
import type { GuardIncident } from '../incidents/incident.ts'
import type { Judge, JudgeTerms } from './judge.ts'
import type { AppliedShield } from './resolve.ts'

export type ScannedText = { text: string; source: TextSource }

/** On whose account, and with what, the texts of one request are scanned. */
export type ScanTerms = JudgeTerms & {
  pacer: Pick<Pacer, 'turn'>
  /** What was found is to be shown, so it has to be found anew. */
  wantsDetails?: boolean | undefined
}

/** Every scan throws SCAN_FAILED when it goes wrong, and SHIELD_UNAVAILABLE when that happened too often to the tenant lately. */
export type ShieldScanner = {
  /** Looks for attacks in each of these texts. At most one judge is asked: about the worst of what is not sure. */
  scanEach(texts: readonly ScannedText[], policy: ShieldPolicyDocument, terms: ScanTerms): Promise<ShieldScan[]>
  /** Looks for attacks in what a user has said, also in instalments. */
  scanConversation(
    messages: readonly { role: string; content: string }[],
    policy: ShieldPolicyDocument,
    terms: Pick<ScanTerms, 'tenantId' | 'pacer'>,
  ): Promise<ConversationScan>
  /** Looks for what a model should not have said. @param instructions pieces of its system prompt */
  scanOutput(
    text: string,
    instructions: readonly string[],
    policy: ShieldPolicyDocument,
    terms: Pick<ScanTerms, 'tenantId' | 'pacer'>,
  ): Promise<OutputScan>
  /** The same for texts that come in pieces. Each thing said gets a watch of its own. */
  watchOutput(instructions: readonly string[], policy: ShieldPolicyDocument, tenantId: string): OutputWatch
}

/** Conversations come again with every turn. Only what a text scored is remembered, each tenant's by itself, and never a doubt. */
const REMEMBERED = 10_000
const REMEMBERED_CHARS = 200
const TENANTS = 10_000
/** Of system prompts, which most requests of an application share. */
const PIECES_KEPT = 65_536

/** A scan, and whether nobody is left to ask. `key`: what it is remembered by. */
type Known = { scan: ShieldScan; key: string | undefined; isFinal: boolean }

/** Scans that fail one after the other are given up for a while (named-endpoints §20): whoever needs one is refused at once. */
export function createShieldScanner({
  clock,
  log,
  judge,
}: {
  clock: Clock
  log: Pick<Log, 'error'>
  judge: Judge
}): ShieldScanner {
  const remembered = new LRUCache<string, ShieldScan>({ max: REMEMBERED })
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
    const message = 'The prompt shield failed to look at this text. The details are in the log.'
    return new GatewayError('SCAN_FAILED', message, { cause })
  }

  function checkNotPaused(tenantId: string): void {
    const leftMs = (breakers.get(tenantId)?.pausedUntilMs ?? Number.NEGATIVE_INFINITY) - clock.monotonic()
    if (leftMs <= 0) return
    throw new GatewayError('SHIELD_UNAVAILABLE', 'The prompt shield has failed too often just now; ask again soon.', {
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
    const options = toOptions(policy, scanned.source)
    const isRemembered = !terms.wantsDetails && (hasJudge(policy) || scanned.text.length >= REMEMBERED_CHARS)
    const key = isRemembered ? keyOf(scanned, policy, terms.tenantId) : undefined
    const before = key && remembered.get(key)
    if (before) return { scan: before, key, isFinal: true }
    const scan = await guarded(terms.tenantId, () => scanTextPaced(scanned.text, options, terms.pacer))
    const isFinal = !hasJudge(policy) || !isUnsure(scan, options)
    if (isFinal) remember(key, scan)
    return { scan, key, isFinal }
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

  function watchFor(instructions: readonly string[], policy: ShieldPolicyDocument, tenantId: string): OutputWatch {
    let watch: OutputWatch | undefined
    return {
      add(text) {
        checkNotPaused(tenantId)
        try {
          watch ??= watchOutput(prepared(instructions), toOptions(policy, 'user'))
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
      const watch = watchFor(instructions, policy, tenantId)
      let found = watch.add('')
      for (const piece of piecesOf(text)) {
        found = watch.add(piece)
        await pacer.turn()
      }
      return found
    },
    watchOutput: watchFor,
  }
}

const hasJudge = ({ layers, judgeModel }: ShieldPolicyDocument): boolean =>
  layers.includes('llm') && judgeModel !== null

/** By verdict, then by score; undefined when there are none. */
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

/** What a scan leaves behind; undefined when it found nothing worth a word. */
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

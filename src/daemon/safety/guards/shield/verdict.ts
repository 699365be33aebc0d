// Converts a risk score to a verdict.
import type { Severity } from '../../../../shared/wire/incidents.ts'
import type { SHIELD_SENSITIVITIES } from '../../../../shared/wire/keys.ts'
import { SHIELD_VERDICTS, type ShieldCategory, type ShieldVerdict } from '../../../../shared/wire/shield.ts'

export type Sensitivity = (typeof SHIELD_SENSITIVITIES)[number]

/** The minimum risk score of each verdict. */
export type Thresholds = { log: number; flag: number; block: number }

const BALANCED: Thresholds = { log: 20, flag: 50, block: 80 }
/** For each sensitivity, the number by which all thresholds are shifted. */
const SHIFT: Record<Sensitivity, number> = { strict: -20, balanced: 0, permissive: 10 }

/** Returns the thresholds of a sensitivity. The minimum threshold is 1, because a score of 0 always means ALLOW. */
export function thresholdsOf(sensitivity: Sensitivity): Thresholds {
  const shifted = (score: number) => Math.max(1, score + SHIFT[sensitivity])
  return { log: shifted(BALANCED.log), flag: shifted(BALANCED.flag), block: shifted(BALANCED.block) }
}

/** The strictest verdict allowed per category. */
export type CategoryLimits = Partial<Record<ShieldCategory, ShieldVerdict>>

function verdictOf(
  riskScore: number,
  category: ShieldCategory | null,
  { log, flag, block }: Thresholds,
  limits: CategoryLimits = {},
): ShieldVerdict {
  const verdict = riskScore >= block ? 'BLOCK' : riskScore >= flag ? 'FLAG' : riskScore >= log ? 'LOG' : 'ALLOW'
  const limit = (category && limits[category]) ?? 'BLOCK'
  return SHIELD_VERDICTS.indexOf(limit) < SHIELD_VERDICTS.indexOf(verdict) ? limit : verdict
}

/** Returns the strictest verdict for a score in these categories, and the first category with this verdict. */
export function strictestVerdict(
  riskScore: number,
  categories: readonly (ShieldCategory | null)[],
  thresholds: Thresholds,
  limits?: CategoryLimits,
): { verdict: ShieldVerdict; category: ShieldCategory | null } {
  const [first = null, ...others] = categories
  let strictest = { verdict: verdictOf(riskScore, first, thresholds, limits), category: first }
  for (const category of others) {
    const verdict = verdictOf(riskScore, category, thresholds, limits)
    if (rankOf(verdict) > rankOf(strictest.verdict)) strictest = { verdict, category }
  }
  return strictest
}

type Judged = { riskScore: number; verdict: ShieldVerdict }

/** Compares verdicts first, then scores: because of a category's limit, a higher score may have a milder verdict. */
export const isWorse = (one: Judged, other: Judged): boolean =>
  rankOf(one.verdict) - rankOf(other.verdict) > 0 || (one.verdict === other.verdict && one.riskScore > other.riskScore)

const rankOf = (verdict: ShieldVerdict): number => SHIELD_VERDICTS.indexOf(verdict)

export function severityOf(riskScore: number): Severity {
  if (riskScore >= 90) return 'critical'
  if (riskScore >= 70) return 'high'
  return riskScore >= 40 ? 'medium' : 'low'
}

export const RECOMMENDATIONS: Record<ShieldVerdict, string> = {
  ALLOW: 'No action needed.',
  LOG: 'Keep a record; no action needed.',
  FLAG: 'Review the message before you act on it.',
  BLOCK: 'Do not send the message to a model.',
}

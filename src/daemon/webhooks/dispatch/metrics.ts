// Counts attempts and deliveries for monitoring.
import { sql } from 'kysely'
import { Counter, Gauge, type Registry } from 'prom-client'
import type { Clock } from '../../../shared/time.ts'
import type { Db } from '../../platform/db/db.ts'
import { type AttemptResult, isAcknowledged } from './attempt.ts'

export type DeliveryMetrics = {
  attempted(result: AttemptResult): void
  ended(state: 'delivered' | 'failed' | 'held'): void
  disabled(): void
}

/**
 * Creates the webhook metrics for operators. Queue depth, age and disabled endpoints are read from the store on each
 * scrape.
 */
export function createDeliveryMetrics(registers: Registry[], { db, clock }: { db: Db; clock: Clock }): DeliveryMetrics {
  const attempts = new Counter({
    name: 'aigw_webhook_attempts_total',
    help: 'Attempts to deliver a webhook, by outcome.',
    labelNames: ['outcome'],
    registers,
  })
  const deliveries = new Counter({
    name: 'aigw_webhook_deliveries_total',
    help: 'Webhook deliveries that ended or were put on hold, by state.',
    labelNames: ['state'],
    registers,
  })
  const disablements = new Counter({
    name: 'aigw_webhook_endpoints_auto_disabled_total',
    help: 'Webhook endpoints that were disabled after too many consecutive failures.',
    registers,
  })
  new Gauge({
    name: 'aigw_webhook_queue_depth',
    help: 'Webhook deliveries that are waiting to be sent.',
    registers,
    async collect() {
      this.set((await readQueue(db)).depth)
    },
  })
  new Gauge({
    name: 'aigw_webhook_oldest_due_seconds',
    help: 'Time since the oldest waiting webhook delivery became due; 0 when no delivery is due.',
    registers,
    async collect() {
      const { oldest } = await readQueue(db)
      this.set(oldest === null ? 0 : Math.max(0, (clock.now() - Date.parse(oldest)) / 1000))
    },
  })
  new Gauge({
    name: 'aigw_webhook_endpoints_disabled',
    help: 'Webhook endpoints that are currently disabled.',
    registers,
    async collect() {
      const { disabled } = await db
        .selectFrom('webhook_endpoints')
        .select(sql<number>`count(*)`.as('disabled'))
        .where('enabled', '=', 0)
        .executeTakeFirstOrThrow()
      this.set(disabled)
    },
  })
  return {
    attempted: (result) => attempts.inc({ outcome: outcomeOf(result) }),
    ended: (state) => deliveries.inc({ state }),
    disabled: () => disablements.inc(),
  }
}

function outcomeOf(result: AttemptResult): string {
  if (isAcknowledged(result)) return 'acknowledged'
  if (result.timedOut) return 'timeout'
  return result.status === null ? 'no_answer' : 'refused'
}

async function readQueue(db: Db): Promise<{ depth: number; oldest: string | null }> {
  const { rows } = await sql<{ depth: number; oldest: string | null }>`
    select count(*) as depth, min(due_at) as oldest from webhook_deliveries where state = 'pending'
  `.execute(db)
  return rows[0] ?? { depth: 0, oldest: null }
}

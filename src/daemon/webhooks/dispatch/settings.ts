import { LRUCache } from 'lru-cache'
import { type Clock, isoTime } from '../../../shared/time.ts'
import type { Log } from '../../platform/log.ts'
import type { MasterKey } from '../../platform/secrets/seal.ts'
import { signingSecretsOf } from '../signing-secret.ts'
import { subscriptionsOf } from '../subscription.ts'
import type { EndpointSettings } from './endpoint-queues.ts'
import type { Subscriber } from './store.ts'

/** Reads endpoint rows. An unreadable row is logged only once and does not affect other endpoints. */
export type EndpointReader = {
  /**
   * Returns the settings for an attempt. Returns undefined if the secret cannot be decrypted, because every delivery
   * must be signed.
   */
  settingsOf(subscriber: Subscriber): EndpointSettings | undefined
  /**
   * Returns a function that tests whether the endpoint subscribes to an event type. If the row is unreadable, the
   * function always returns false.
   */
  subscriptionsOf(subscriber: Subscriber): (type: string) => boolean
}

const KEPT = 10_000

export function createEndpointReader(deps: { masterKey: MasterKey; clock: Clock; log: Log }): EndpointReader {
  const { masterKey, clock, log } = deps
  // Decrypting a secret costs more than signing, so decrypted secrets are cached. The cache key contains the encrypted
  // text. `secrets` is undefined if decryption failed.
  const opened = new LRUCache<string, { secrets: readonly string[] | undefined }>({ max: KEPT })
  const complained = new LRUCache<string, true>({ max: KEPT })

  function complain({ id, tenant_id, updated_at }: Subscriber, what: string, error: unknown): void {
    const key = `${id} ${updated_at} ${what}`
    if (complained.has(key)) return
    complained.set(key, true)
    log.error({ error, endpoint: id, tenant: tenant_id }, `webhooks: the ${what} of an endpoint cannot be read`)
  }

  function open(subscriber: Subscriber): readonly string[] | undefined {
    try {
      return signingSecretsOf(masterKey, subscriber, isoTime(clock.now()))
    } catch (error) {
      complain(subscriber, 'signing secret', error)
      return undefined
    }
  }

  return {
    settingsOf(subscriber) {
      const { secret, previous_secret, previous_secret_until: until } = subscriber
      const overlaps = until !== null && isoTime(clock.now()) < until
      // An encrypted text can be decrypted only for its own row, so the key includes the id.
      const key = `${subscriber.id} ${secret} ${overlaps ? previous_secret : ''}`
      let known = opened.get(key)
      if (!known) {
        known = { secrets: open(subscriber) }
        opened.set(key, known)
      }
      const { secrets } = known
      const { tenant_id: tenantId, url, updated_at: updatedAt } = subscriber
      return secrets && { tenantId, url, secrets, updatedAt, readAt: clock.monotonic() }
    },
    subscriptionsOf(subscriber) {
      try {
        return subscriptionsOf(subscriber)
      } catch (error) {
        complain(subscriber, 'list of events', error)
        return () => false
      }
    },
  }
}

import { hash } from 'node:crypto'
import type { TokenUsage } from '../../models/provider.ts'
import { reply } from '../../platform/http/route.ts'
import { joining } from '../../platform/text/json-writer.ts'
import type { Delivery } from './operation.ts'

/** Delivers a complete result without text as one JSON body. */
export function jsonDelivery(value: object, usage: TokenUsage): Delivery {
  const body = JSON.stringify(value)
  return deliveryOf(body, hash('sha256', body, 'hex'), usage)
}

/**
 * Like `jsonDelivery`, but yields after each part, because serialising a large result takes a long time.
 * @param parts the JSON text, in order
 */
export function* jsonPartsDelivery(parts: Iterable<string>, usage: TokenUsage): Generator<void, Delivery> {
  const { text, sha256 } = yield* joining(parts)
  return deliveryOf(text, sha256, usage)
}

function deliveryOf(body: string, sha256: string, usage: TokenUsage): Delivery {
  return {
    outcome: 'complete',
    usage,
    incidents: [],
    broken: undefined,
    response: { status: 200, contentType: 'application/json', body, sha256 },
    send: () => reply(200, body),
    // No byte has been sent yet, so the error itself becomes the response.
    fail() {},
  }
}

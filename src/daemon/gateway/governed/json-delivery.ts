import { hash } from 'node:crypto'
import type { TokenUsage } from '../../models/provider.ts'
import { reply } from '../../platform/http/route.ts'
import type { Delivery } from './operation.ts'

/** The delivery of a complete result without text, as one JSON body. */
export function jsonDelivery(value: object, usage: TokenUsage): Delivery {
  const body = JSON.stringify(value)
  return {
    outcome: 'complete',
    usage,
    incidents: [],
    broken: undefined,
    response: { status: 200, contentType: 'application/json', body, sha256: hash('sha256', body, 'hex') },
    send: () => reply(200, body),
    // No byte has been sent yet, so the error itself becomes the response.
    fail() {},
  }
}

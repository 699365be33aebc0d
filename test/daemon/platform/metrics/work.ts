// Work whose numbers are known, for tests of metrics.
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, type GatewayOptions, startGateway } from '../../../harness.ts'
import { chatJson, chatStream, replyJson, replyRaw, replySteps } from '../../../upstream.ts'
import { addGuardedTenant } from '../../gateway/chat/guarded-tenant.ts'
import { type MetricFamily, readExposition } from './exposition.ts'

export const USAGE = { prompt_tokens: 11, completion_tokens: 5 }
/** A token that the policy blocks. */
const PLANTED = `ghp_${'a1B2c3D4e5F6'.repeat(3)}`
/** Guards hold back the end of an answer, so the client of a short answer would wait. */
const LONG = 'one more word of an answer '.repeat(200)
/** The text of the prompts. */
export const SECRET_TEXT = 'zebra crossing midnight'

/** Reads and checks the metrics of a gateway. */
export async function scrape(gateway: Gateway): Promise<{ text: string; families: Map<string, MetricFamily> }> {
  const { text } = await gateway.call('GET', '/metrics')
  return { text, families: readExposition(text) }
}

export type Work = { gateway: Gateway; tenantId: string; userId: string; keyId: string; key: string }

/**
 * Starts a gateway and does work with the key of one user: a chat, a streamed chat, a failover, a failed chat, a request
 * that a guard blocks, a cancelled stream, an unknown model and a limit that is reached. Eight requests in total.
 */
export async function gatewayAfterWork(options: GatewayOptions = {}): Promise<Work> {
  const gateway = await startGateway({ clock: createFakeClock(), ...options })
  const { tenant, key, keyId } = await addGuardedTenant(gateway, {
    policy: { dlp: { enabled: true, action: 'block' } },
    settings: { rateLimit: { requestsPerMinute: 7, requestsPerHour: 1_000 } },
  })
  const { upstream } = gateway
  const json = replyJson(chatJson('Hello.', { usage: USAGE }))

  upstream.script(json)
  await gateway.chat({ prompt: SECRET_TEXT }, { key })
  upstream.script(replyRaw(chatStream(['Hel', 'lo.'], { usage: USAGE })))
  await gateway.stream({ prompt: SECRET_TEXT }, { key })
  upstream.script(replyJson({ error: { message: 'down' } }, { status: 500 }), json)
  await gateway.chat(
    { models: [{ model: 'test/down' }, { model: 'test/any' }], model: undefined, prompt: 'hi' },
    { key },
  )
  upstream.script(replyJson({ error: { message: 'down' } }, { status: 500 }))
  await gateway.chat({ model: 'test/down', prompt: 'hi' }, { key })
  await gateway.chat({ prompt: `Store this key: ${PLANTED}` }, { key })
  upstream.script(replySteps([chatStream([LONG], { finishReason: null, done: false })], { ending: 'hang' }))
  const stream = await gateway.openStream({ prompt: 'hi' }, { key })
  await stream.next()
  await stream.return?.()
  await untilEnded(gateway, 'cancelled')
  await gateway.chat({ model: `nobody/${SECRET_TEXT.replaceAll(' ', '-')}`, prompt: 'hi' }, { key })
  await gateway.chat({ prompt: 'hi' }, { key })
  return { gateway, tenantId: tenant.id, userId: tenant.admin.id, keyId, key }
}

/** Resolves when a request of this outcome has been counted. */
async function untilEnded(gateway: Gateway, outcome: string): Promise<void> {
  for (;;) {
    const { text } = await scrape(gateway)
    if (text.includes(`outcome="${outcome}"`)) return
  }
}

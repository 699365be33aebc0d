import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'

/** A request whose head the daemon has accepted, and whose body is not sent yet. */
export type HeldRequest = { finish(): Promise<{ status: number; text: string }> }

/** Sends the head and waits until the daemon reads the body. */
export async function holdRequest(
  url: string,
  { key, method, path, body, type = 'application/json' }: HeldRequestOptions,
): Promise<HeldRequest> {
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': type,
    'content-length': Buffer.byteLength(body),
    expect: '100-continue',
  }
  const held = request(url + path, { method, headers, agent: false })
  const answered = once(held, 'response') as Promise<[IncomingMessage]>
  held.flushHeaders()
  await Promise.race([
    once(held, 'continue'),
    answered.then(([{ statusCode }]) => Promise.reject(new Error(`answered ${statusCode} before its body`))),
  ])
  return {
    async finish() {
      held.end(body)
      const [response] = await answered
      return { status: response.statusCode ?? 0, text: await text(response) }
    },
  }
}

type HeldRequestOptions = { key: string; method: string; path: string; body: string | Buffer; type?: string }

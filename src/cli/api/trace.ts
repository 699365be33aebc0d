/** Traces HTTP on stderr, for `-v` and `--debug`. */
import type { IncomingHttpHeaders } from 'node:http'
import type { Io } from '../io.ts'
import { forTerminal } from '../output/terminal-text.ts'
import type { Settings } from '../profile/profile.ts'
import { withoutSecretMembers } from './secret-members.ts'

const SHOWN_BODY_BYTES = 65_536

/** Masks API keys, signing secrets and bearer tokens. */
const maskSecrets = (text: string): string =>
  text.replace(/\b(sk-|whsec_)[A-Za-z0-9_-]{8,}/g, '$1***').replace(/\b(Bearer\s+)(?!sk-\*)[^\s"']+/gi, '$1***')

function shownBody(body: Uint8Array): Uint8Array {
  if (body.length > SHOWN_BODY_BYTES) return body
  try {
    return Buffer.from(JSON.stringify(withoutSecretMembers(JSON.parse(Buffer.from(body).toString('utf8')))))
  } catch {
    // An upload is no JSON.
    return body
  }
}

/** Prints one line per request and response with `-v`, and headers and bodies with `--debug`. */
export type Trace = {
  request(method: string, url: URL, headers: Record<string, string>, body: Uint8Array | undefined): void
  answer(status: number, headers: IncomingHttpHeaders, requestId: string | undefined, ms: number): void
  /**
   * Prints a body line by line instead of chunk by chunk, so that a secret is masked even if it is split across chunks.
   */
  answerBody(): { push(chunk: Uint8Array): void; end(): void }
}

export function createTrace({ settings, io }: { settings: Pick<Settings, 'verbose' | 'debug'>; io: Io }): Trace {
  const shown = settings.verbose || settings.debug
  const print = (mark: string, text: string) => {
    const lines = maskSecrets(forTerminal(text)).split('\n')
    io.stderr.write(lines.map((line) => `${mark} ${line}\n`).join(''))
  }
  const printHeaders = (mark: string, headers: Record<string, string | string[] | undefined>) => {
    for (const [name, value] of Object.entries(headers)) print(mark, `${name}: ${value}`)
  }
  const printBody = (mark: string, bytes: Uint8Array) =>
    print(
      mark,
      bytes.length > SHOWN_BODY_BYTES ? `(${bytes.length} bytes, not shown)` : Buffer.from(bytes).toString('utf8'),
    )

  return {
    request(method, url, headers, body) {
      if (shown) print('>', `${method} ${url.href}`)
      if (!settings.debug) return
      printHeaders('>', headers)
      if (body !== undefined) printBody('>', shownBody(body))
    },
    answer(status, headers, requestId, ms) {
      if (shown) print('<', `${status} ${requestId ?? '(no request id)'} ${Math.round(ms)} ms`)
      if (settings.debug) printHeaders('<', headers)
    },
    answerBody() {
      if (!settings.debug) return { push: () => {}, end: () => {} }
      let rest = Buffer.alloc(0)
      return {
        push(chunk) {
          const bytes = Buffer.concat([rest, chunk])
          const end = bytes.lastIndexOf('\n')
          rest = bytes.subarray(end + 1)
          if (end >= 0) printBody('<', bytes.subarray(0, end))
        },
        end() {
          if (rest.length > 0) printBody('<', rest)
        },
      }
    },
  }
}

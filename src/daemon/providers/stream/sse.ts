import { StringDecoder } from 'node:string_decoder'
import { createParser } from 'eventsource-parser'
import { PROVIDER_EVENT_BYTES } from '../../../shared/spec-limits.ts'
import { ProviderError } from '../provider.ts'

/** `cut` marks a last event whose blank line never came, so its data may break off. */
export type SseEvent = { name: string | undefined; data: string; cut: boolean }

export type SseReader = {
  /** The events that these bytes complete. */
  read(bytes: Buffer): SseEvent[]
  /** The event that was under way when the stream ended, if any. */
  end(): SseEvent[]
}

/**
 * Server-sent events (WHATWG HTML, 9.2) from bytes that may be split anywhere, also inside a character or a CRLF.
 * Comments and fields other than data and event are dropped.
 * @throws ProviderError when one event outgrows PROVIDER_EVENT_BYTES.
 */
export function createSseReader(): SseReader {
  // StringDecoder costs half of a streaming TextDecoder, but leaves the byte order mark to us.
  const decoder = new StringDecoder('utf8')
  let atStart = true
  let ending = false
  let tooLong = false
  let events: SseEvent[] = []
  const parser = createParser({
    maxBufferSize: PROVIDER_EVENT_BYTES,
    onEvent: ({ event, data }) => events.push({ name: event, data, cut: ending }),
    onError({ type }) {
      if (type === 'max-buffer-size-exceeded') tooLong = true
    },
  })

  function feed(text: string): SseEvent[] {
    if (text === '') return []
    const withoutMark = atStart && text.startsWith('\u{feff}') ? text.slice(1) : text
    atStart = false
    events = []
    parser.feed(withoutMark)
    if (tooLong)
      throw new ProviderError('server_error', `The provider sent an event over ${PROVIDER_EVENT_BYTES} bytes.`)
    return events
  }

  return {
    read: (bytes) => feed(decoder.write(bytes)),
    end() {
      const rest = feed(decoder.end())
      ending = true
      return [...rest, ...feed('\n\n')]
    },
  }
}

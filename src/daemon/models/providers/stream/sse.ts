// Reads server-sent events from bytes.
import { StringDecoder } from 'node:string_decoder'
import { createParser } from 'eventsource-parser'
import { PROVIDER_EVENT_BYTES } from '../../../../shared/spec-limits.ts'
import { parseObject } from '../../../platform/text/json.ts'
import type { ProviderError } from '../../provider.ts'
import { eventsIn } from './event-json.ts'
import { reportedError, unreadableError } from './failure.ts'
import type { SseEvent } from './sse-event.ts'

export type SseReader = {
  /** Returns the events that these bytes complete. */
  read(bytes: Buffer): Iterable<SseEvent>
  /** Returns the incomplete event at the end of the stream, if any. */
  end(): Iterable<SseEvent>
}

/**
 * Parses server-sent events (WHATWG HTML, 9.2) from bytes that may be split anywhere, even inside a character or a
 * CRLF. Comments and fields other than data and event are dropped. Throws a ProviderError for an event over
 * PROVIDER_EVENT_BYTES, and for an error or other possible answer text outside of an event. Events before the error are
 * yielded first.
 */
export function createSseReader(): SseReader {
  // StringDecoder takes half the time of a streaming TextDecoder, but does not strip the byte order mark.
  const decoder = new StringDecoder('utf8')
  let atStart = true
  let ending = false
  let failure: ProviderError | undefined
  /** The lines of an incomplete JSON object outside of an event. */
  let bare = ''
  /**
   * The events of the current read. The list is cleared after each read, because each event retains the text of the
   * whole read.
   */
  let events = NO_EVENTS
  const parser = createParser({
    maxBufferSize: PROVIDER_EVENT_BYTES,
    onEvent({ event, data }) {
      if (bare !== '') failBare()
      if (failure) return
      const received = { name: event, data, cut: ending }
      if (!data.includes('\n')) events.push(received)
      else for (const each of eventsIn(received)) events.push(each)
    },
    onError({ type, line = '' }) {
      if (type === 'max-buffer-size-exceeded') failure ??= tooLong()
      else if (bare === '' && line.trimEnd() !== '{') failure ??= lostLine(line)
      else {
        bare += line
        // An unindented closing brace ends the object, because the lines inside a pretty-printed object are indented.
        if (line.startsWith('}')) failBare()
      }
    },
  })

  function failBare(): void {
    failure ??= lostLine(bare)
    bare = ''
  }

  function feed(text: string): Iterable<SseEvent> {
    if (text === '') return NO_EVENTS
    const withoutMark = atStart && text.startsWith('\u{feff}') ? text.slice(1) : text
    atStart = false
    const complete: SseEvent[] = []
    events = complete
    parser.feed(withoutMark)
    if (ending && bare !== '') failBare()
    events = NO_EVENTS
    return failure ? thenFail(complete, failure) : complete
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

const NO_EVENTS: SseEvent[] = []

function* thenFail(events: readonly SseEvent[], failure: ProviderError): Iterable<SseEvent> {
  yield* events
  throw failure
}

const tooLong = () => unreadableError(`an event over ${PROVIDER_EVENT_BYTES} bytes`)

/**
 * Classifies a line without a known field. The line is an error line of llama.cpp, JSON outside of an event (several
 * lines from Google), or text that may belong to the answer. Returns undefined for a line that the standard says to
 * ignore.
 */
function lostLine(line: string): ProviderError | undefined {
  const trimmed = line.trim()
  const json = parseObject(trimmed.replace(/^error:/, ''))
  if (json && (trimmed.startsWith('error:') || json.error !== undefined)) return reportedError(json.error ?? json)
  return /^([{[]|data)/.test(trimmed) ? unreadableError('a line that is not part of an event') : undefined
}

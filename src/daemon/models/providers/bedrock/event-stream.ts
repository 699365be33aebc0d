import { EventStreamCodec } from '@smithy/eventstream-codec'
import { PROVIDER_EVENT_BYTES } from '../../../../shared/spec-limits.ts'
import { ProviderError } from '../../provider.ts'
import type { EventReader } from '../stream/answer-format.ts'
import { reportedError, unreadableError } from '../stream/failure.ts'
import type { SseEvent } from '../stream/sse-event.ts'

type Message = ReturnType<EventStreamCodec['decode']>

const LENGTH_BYTES = 4

/**
 * Maps exceptions in a stream to HTTP statuses (API_runtime_ConverseStreamOutput). The status is needed to classify an
 * error: a message may quote any text, so names and messages alone are not reliable.
 */
const EXCEPTION_STATUS = new Map([
  ['internalServerException', 500],
  ['modelStreamErrorException', 424],
  ['modelTimeoutException', 408],
  ['serviceUnavailableException', 503],
  ['throttlingException', 429],
  ['validationException', 400],
])

const codec = new EventStreamCodec(
  (bytes) =>
    typeof bytes === 'string' ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString(),
  (text) => Buffer.from(text),
)

/**
 * Parses `application/vnd.amazon.eventstream`: messages with a length, headers and two checksums.
 * @throws ProviderError if a message is damaged or larger than PROVIDER_EVENT_BYTES, or if the stream contains an
 * exception
 */
export function createEventStreamReader(): EventReader {
  let held: Buffer[] = []
  let heldBytes = 0
  /** How many bytes are needed before parsing can continue: first the length field, then the whole message. */
  let neededBytes = LENGTH_BYTES

  return {
    *read(bytes) {
      held.push(bytes)
      heldBytes += bytes.length
      while (heldBytes >= neededBytes) {
        const all = held.length === 1 ? (held[0] as Buffer) : Buffer.concat(held)
        held = [all]
        neededBytes = all.readUInt32BE(0)
        if (neededBytes > PROVIDER_EVENT_BYTES) {
          throw new ProviderError('server_error', `The provider sent an event over ${PROVIDER_EVENT_BYTES} bytes.`)
        }
        if (heldBytes < neededBytes) return
        const message = decode(all.subarray(0, neededBytes))
        held = [all.subarray(neededBytes)]
        heldBytes -= neededBytes
        neededBytes = LENGTH_BYTES
        yield toEvent(message)
      }
    },
    // An incomplete message cannot be verified, so it is dropped.
    end: () => [],
  }
}

function decode(bytes: Buffer): Message {
  try {
    return codec.decode(bytes)
  } catch (error) {
    throw unreadableError('a damaged event', error)
  }
}

function toEvent({ headers, body }: Message): SseEvent {
  const header = (name: string) => {
    const value = headers[name]?.value
    return typeof value === 'string' ? value : undefined
  }
  const data = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString()
  switch (header(':message-type')) {
    case 'event':
      return { name: header(':event-type'), data, cut: false }
    case 'exception': {
      const code = header(':exception-type') ?? ''
      throw reportedError({ code, status: EXCEPTION_STATUS.get(code), message: data })
    }
    case 'error':
      throw reportedError({ code: header(':error-code'), message: header(':error-message') })
    default:
      throw unreadableError('an event of an unknown kind')
  }
}

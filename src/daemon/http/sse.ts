import type { ServerResponse } from 'node:http'
import { STREAM_BUFFER_BYTES } from '../../shared/spec-limits.ts'

/** A running text/event-stream answer. */
export type EventStream = {
  /** Sends whole frames at once. False when the client is so slow that the caller must await `drained` before more. */
  write(frames: string): boolean
  /** Resolves when the client has read enough, or is gone. @throws the signal's reason when it is aborted first. */
  drained(signal: AbortSignal): Promise<void>
  /** Sends the last frames and ends the answer. */
  end(frames: string): void
}

/** One event of a stream (WHATWG HTML, 9.2): `data: <json>` and a blank line. */
export const sseFrame = (data: object): string => `data: ${JSON.stringify(data)}\n\n`

/** The terminator of a complete answer. An answer that broke never gets one. */
export const SSE_DONE = 'data: [DONE]\n\n'

/** Sends the head of a 200 text/event-stream answer. */
export function openEventStream(response: ServerResponse, headers: Record<string, string>): EventStream {
  response.writeHead(200, {
    'content-type': 'text/event-stream; charset=utf-8',
    'cache-control': 'no-cache, no-transform',
    // A proxy such as nginx would otherwise hold the frames back until its buffer is full.
    'x-accel-buffering': 'no',
    ...headers,
  })
  return {
    write(frames) {
      if (response.destroyed) return true
      response.write(frames)
      return response.writableLength <= STREAM_BUFFER_BYTES
    },
    async drained(signal) {
      if (!response.writableNeedDrain || response.destroyed) return
      await new Promise<void>((resolve, reject) => {
        const done = () => {
          response.off('drain', done).off('close', done)
          signal.removeEventListener('abort', aborted)
          resolve()
        }
        const aborted = () => {
          response.off('drain', done).off('close', done)
          reject(signal.reason)
        }
        response.on('drain', done).on('close', done)
        signal.addEventListener('abort', aborted, { once: true })
      })
    },
    end(frames) {
      response.end(frames)
    },
  }
}

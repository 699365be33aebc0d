import type { Clock } from '../../../../shared/time.ts'
import type { ScriptStep } from '../../config.ts'
import { type ChatPart, type ProviderCall, ProviderError, type TokenUsage } from '../../provider.ts'
import { abortedError, connectionError, truncatedError } from '../stream/failure.ts'
import { watchSilence } from '../stream/silence.ts'

const OUTCOMES = { stop: 'complete', tool_calls: 'complete', length: 'length', content_filter: 'filtered' } as const

/**
 * Plays a script as `Provider.chat` requires, within the timeouts of the call. If the answer is streamed, each batch
 * contains one step. A script without `finish` ends as a truncated answer.
 * @throws ProviderError
 */
export async function* playScript(
  steps: readonly ScriptStep[],
  { stream, timeouts, options }: ProviderCall,
  clock: Clock,
  signal: AbortSignal,
): AsyncGenerator<readonly ChatPart[]> {
  const silence = createSilence(clock, signal)
  const watch = watchSilence(clock, timeouts, stream, silence.end)
  const held: ChatPart[] = []
  let usage: TokenUsage | undefined
  let toolCalls = 0
  try {
    for (const step of steps) {
      if (signal.aborted) throw abortedError(signal)
      if ('wait' in step || 'stall' in step) {
        watch.waiting()
        await silence.last('wait' in step ? step.wait : undefined)
        watch.heard()
        continue
      }
      if ('fail' in step) {
        const message = `The script fails with ${step.fail}.`
        throw new ProviderError(step.fail, message, { retryAfterSeconds: step.retry_after })
      }
      if ('break' in step) throw connectionError(new Error('the script breaks'), held.length > 0)
      if ('usage' in step) {
        usage = toUsage(step.usage)
        continue
      }
      if ('finish' in step) {
        const { finish } = step
        const end: ChatPart = { type: 'end', outcome: OUTCOMES[finish], nativeFinishReason: finish, usage }
        yield stream ? [end] : [...held, end]
        return
      }
      if ('tool_call' in step && !options?.tools?.length) continue
      const part: ChatPart =
        'tool_call' in step
          ? { type: 'tool_call', index: toolCalls, id: `call_${toolCalls++}`, ...step.tool_call }
          : 'text' in step
            ? { type: 'text', text: step.text }
            : { type: 'reasoning', text: step.reasoning }
      held.push(part)
      watch.committed()
      if (stream) yield [part]
    }
    throw truncatedError()
  } finally {
    watch.stop()
  }
}

/** Creates functions that wait, and that reject early if a timeout expires or the caller disconnects. */
function createSilence(clock: Clock, signal: AbortSignal) {
  let fail: (error: Error) => void = () => {}
  return {
    end: (error: Error) => fail(error),
    /** Waits for `ms`, or without limit if `ms` is undefined. @throws ProviderError */
    last(ms: number | undefined): Promise<void> {
      return new Promise((resolve, reject) => {
        const timer = ms === undefined ? undefined : clock.after(ms, () => settle(resolve))
        const onAbort = () => fail(abortedError(signal))
        function settle(done: () => void): void {
          timer?.cancel()
          signal.removeEventListener('abort', onAbort)
          fail = () => {}
          done()
        }
        fail = (error) => settle(() => reject(error))
        signal.addEventListener('abort', onAbort, { once: true })
      })
    },
  }
}

const toUsage = ({ input, output }: { input: number; output: number }): TokenUsage => ({
  inputTokens: input,
  outputTokens: output,
  cacheReadTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  estimated: false,
})

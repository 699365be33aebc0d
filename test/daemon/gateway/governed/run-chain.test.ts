import { expect, test } from 'vitest'
import { beginAnswer } from '../../../../src/daemon/gateway/chat/begin-answer.ts'
import { DEFAULT_LIMITS } from '../../../../src/daemon/gateway/config.ts'
import { type Chain, planChain } from '../../../../src/daemon/gateway/governed/chain.ts'
import { type FailoverDeps, runChain } from '../../../../src/daemon/gateway/governed/failover.ts'
import { createBreaker } from '../../../../src/daemon/models/breaker.ts'
import { createCoolDowns } from '../../../../src/daemon/models/cool-down.ts'
import { createModelNames } from '../../../../src/daemon/models/names.ts'
import { type ChatPart, type Provider, ProviderError } from '../../../../src/daemon/models/provider.ts'
import { createGates } from '../../../../src/daemon/platform/concurrency/gates.ts'
import { createFakeClock } from '../../../fake-clock.ts'

const end: ChatPart = { type: 'end', outcome: 'complete', nativeFinishReason: 'stop', usage: undefined }
const text = (said: string): ChatPart => ({ type: 'text', text: said })

const SILENT = { debug() {}, info() {}, warn() {}, error() {} }
const call = {
  system: '',
  messages: [{ role: 'user' as const, content: 'hi' }],
  grounding: null,
  temperature: 1,
  maxTokens: 10,
}

/** A chain `p/a`, `p/b` at one provider with a limit of one concurrent request. */
function open(chat: Record<string, Provider['chat']>, { stream }: { stream: boolean }) {
  const clock = createFakeClock()
  const provider: Provider = {
    name: 'p',
    models: undefined,
    chat: (asked, signal) => (chat[asked.model] as Provider['chat'])(asked, signal),
    close: async () => {},
  }
  const registry = {
    find: (id: string) => ({ provider, model: id.slice(2), location: 'here' as const }),
    describe: () => ['p/*'],
    close: async () => {},
  }
  const settings = { allowedModels: [], failoverDefaults: null }
  const chain: Chain = planChain({ models: [{ model: 'p/a' }, { model: 'p/b' }] }, registry, settings, {
    stream,
    limits: DEFAULT_LIMITS,
    names: createModelNames({}, registry, () => false),
  })
  const providerGates = createGates({ slots: 1, waitingPerQueue: 0, waitMs: 1 }, clock, 'it may be asked once')
  const deps: FailoverDeps = {
    clock,
    log: SILENT,
    failover: {
      ...{ breaker: createBreaker({ clock }), coolDowns: createCoolDowns({ clock }) },
      ...{ providerGates, sameModelRetries: 0 },
    },
  }
  const { signal } = new AbortController()
  const limit = { tokens: 10, why: undefined, thinks: true }
  const run = () =>
    runChain(
      {
        chain,
        caller: { tenantId: 't', keyId: 'k' },
        requestId: 'req-1',
        operation: 'chat.completion',
        begin: (attempt, terms) =>
          beginAnswer({ ...call, stream }, { attempt, limit, commit: chain.commit, terms, signal, isLarge: false }),
        entitle: () => () => () => undefined,
        clean: (said) => said,
        signal,
      },
      deps,
    )
  const ask = async () => {
    const { value, refusal } = await run()
    if (refusal) throw refusal.error
    return value
  }
  return { providerGates, ask, run }
}

const good: Provider['chat'] = async function* () {
  yield [text('good')]
  yield [end]
}

test('an exception of a provider before its first output fails over like any other failure', async () => {
  const { ask } = open(
    {
      a: () => {
        throw new ProviderError('server_error', 'no')
      },
      b: good,
    },
    { stream: true },
  )
  expect((await ask()).attempt.modelId).toBe('p/b')
})

test('a complete answer that arrives in pieces and breaks fails over; a good one is returned completely', async () => {
  const { ask } = open(
    {
      a: async function* () {
        yield [text('half')]
        throw new ProviderError('connection_error', 'cut', { outcome: 'truncated' })
      },
      b: good,
    },
    { stream: false },
  )
  const opened = await ask()
  expect([opened.attempt.modelId, opened.begun.firstBatch]).toEqual(['p/b', [text('good'), end]])
})

test('a bug is not a failure of a model: it is thrown, and the provider slot is released', async () => {
  const { run, providerGates } = open(
    {
      a: () => {
        throw new TypeError('a bug')
      },
      b: good,
    },
    { stream: true },
  )
  const { facts, refusal } = await run()
  expect(refusal?.error).toEqual(new TypeError('a bug'))
  expect(facts.attempts).toMatchObject([{ model: 'p/a', status: 'failed', reason: 'internal_error' }])
  expect(providerGates.busy).toBe(0)
})

test('streams that keep breaking after their first token are failures of the model too', async () => {
  const { ask, providerGates } = open({ a: good, b: good }, { stream: true })
  for (let request = 0; request < 5; request++) {
    const opened = await ask()
    expect(opened.attempt.modelId).toBe('p/a')
    opened.close(new ProviderError('connection_error', 'cut', { outcome: 'truncated' }))
  }
  const opened = await ask()
  expect(opened.attempts.map(({ reason }) => reason)).toEqual(['circuit_open', undefined])
  opened.close(undefined)
  expect(providerGates.busy).toBe(0)
})

import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Bill } from '../bills.ts'
import { contentFaults } from './content-faults.ts'
import { caseOf, type Fault } from './fault.ts'
import { outcomeOf, type Position, type Run } from './outcome.ts'
import { json } from './plays.ts'
import { goodPlay, type Mode, nameOf, openStage, type Seen, type Stage, TIMEOUT_MS } from './stage.ts'
import { statusFaults } from './status-faults.ts'
import type { SurfaceName } from './surfaces.ts'
import { transportFaults } from './transport-faults.ts'

const FAULTS: readonly Fault[] = [...transportFaults, ...statusFaults, ...contentFaults]
const MEBIBYTE = 1_048_576

/** The surface, mode and position in which a fault is tested. */
type Combination = { surface: SurfaceName; mode: Mode; position: Position }

const POSITIONS: readonly Position[] = ['first of two', 'last of two', 'only model']

/** All positions of a mode on our own surface. */
const combinationsOf = (mode: Mode): Combination[] =>
  POSITIONS.map((position) => ({ surface: 'classic', mode, position }))

/**
 * The combinations of each test file. Other surfaces differ only in how they report an end, a break and an error. So
 * they test each fault with a stream and a whole answer, with a fallback, and once without one.
 */
const COMBINATIONS = {
  streamed: combinationsOf('streamed'),
  held: combinationsOf('held'),
  whole: combinationsOf('whole'),
  'in the words of others': (['OpenAI', 'Anthropic', 'Responses'] as const).flatMap((surface): Combination[] => [
    { surface, mode: 'streamed', position: 'first of two' },
    { surface, mode: 'whole', position: 'first of two' },
    { surface, mode: 'whole', position: 'only model' },
  ]),
}

function runsOf(group: keyof typeof COMBINATIONS): Run[] {
  return FAULTS.flatMap((fault, at) =>
    COMBINATIONS[group].flatMap(({ surface, mode, position }): Run[] => {
      const played = caseOf(fault, mode)
      // Heavy faults test the reading of provider responses, which is the same on all surfaces.
      if (!played || (fault.heavy && surface !== 'classic')) return []
      const id = `${at}-${surface}-${mode}-${position.split(' ')[0]}`
      const faulty = `${fault.place ?? 'raw'}/${id}`
      const models = {
        'first of two': [faulty, `raw/${id}-good`],
        'last of two': [`raw/${id}-down`, faulty],
        'only model': [faulty],
      }
      const title = `${fault.name}, ${mode}, ${position}${surface === 'classic' ? '' : `, in the words of ${surface}`}`
      return [{ ...played, id, title, fault, surface, mode, position, models: models[position], faulty }]
    }),
  )
}

/** Declares the tests of one group of combinations. Each group has its own file, so that the files run in parallel. */
export function faultsMet(group: keyof typeof COMBINATIONS): void {
  const runs = runsOf(group)
  const seen = new Map<string, Seen>()
  const bills = new Map<string, Bill[]>()

  let stage: Stage
  let grownBytes: number

  beforeAll(async () => {
    stage = await openStage()
    for (const run of runs) arrange(run)

    await askAllWays()
    const light = runs.filter(({ fault }) => !fault.heavy)
    // The first half fills everything that stays in memory: caches, compiled code, connections.
    await runAll(light.slice(0, light.length / 2))
    const before = await memoryInUse()
    await runAll(light.slice(light.length / 2))
    await runAll(runs.filter(({ fault }) => fault.heavy))
    // Idle connections are closed after a while. Leaked connections would stay open.
    await stage.allClosed()
    grownBytes = (await memoryInUse()) - before
    for (const row of await stage.gateway.usage()) {
      bills.set(row.request_id, [...(bills.get(row.request_id) ?? []), row])
    }
  })

  afterAll(() => stage.close())

  describe.each(runs)('$title', (run) => {
    const outcome = outcomeOf(run)

    test('has the documented result in time, and bills the serving model', () => {
      const answer = seenOf(run)
      outcome.check(answer)
      expect(answer.ms).toBeLessThanOrEqual(run.models.length * TIMEOUT_MS)
      expect(answer.leaksDetail).toBe(false)
      expect(run.models.map((model) => stage.raw.asked.get(nameOf(model)) ?? 0)).toEqual(outcome.asked)
      const rows = bills.get(answer.requestId) ?? []
      expect(rows.map((row) => ({ model: row.served_model, outcome: row.outcome }))).toEqual(outcome.billed)
      for (const row of rows) {
        expect(row.input_tokens).toBeGreaterThan(0)
        // Whatever the client received of a broken answer is billed.
        expect(row.output_tokens).toBeGreaterThanOrEqual('breaks' in run.expected ? 1 : 0)
      }
    })
  })

  test('the daemon works as before after all of them', async () => {
    expect((await stage.gateway.call('GET', '/readyz')).status).toBe(200)
    await askAllWays()
  })

  test('the daemon keeps no connection to the upstream, and at most 8 MiB of the received data', () => {
    expect(grownBytes).toBeLessThanOrEqual(8 * MEBIBYTE)
  })

  /** Sets the upstream's behaviour for the models of a run. */
  function arrange({ faulty, play, models, mode }: Run): void {
    stage.raw.plays.set(nameOf(faulty), play)
    for (const model of models) {
      if (model === faulty) continue
      stage.raw.plays.set(nameOf(model), model.endsWith('-down') ? json({ error: {} }, 503) : goodPlay(mode))
    }
  }

  /** Sends requests to a healthy model on every surface. */
  async function askAllWays(): Promise<void> {
    for (const mode of ['streamed', 'whole'] as const) {
      stage.raw.plays.set('well', goodPlay(mode))
      for (const surface of ['classic', 'OpenAI', 'Anthropic', 'Responses'] as const) {
        const answer = await stage.ask(['raw/well'], mode, surface)
        expect(answer).toMatchObject({ status: 200, text: 'good', done: true, finish: 'stop' })
      }
    }
  }

  async function runAll(runs: readonly Run[]): Promise<void> {
    for (const run of runs) {
      seen.set(run.id, await stage.ask(run.models, run.mode, run.surface))
      // Frees the test's own memory, which must not count as memory of the daemon.
      for (const model of run.models) stage.raw.plays.delete(nameOf(model))
      stage.gateway.log.length = 0
    }
  }

  function seenOf({ id, title }: Run): Seen {
    const answer = seen.get(id)
    if (!answer) throw new Error(`${title} has not run`)
    return answer
  }

  test('more than sixty kinds of fault are tested', () => {
    expect(new Set(FAULTS.map(({ name }) => name)).size).toBe(FAULTS.length)
    expect(FAULTS.length).toBeGreaterThan(60)
  })

  if (group === 'held')
    test('a held stream never ends with half an answer, unless it exceeds the hold-back buffer', () => {
      const broken = runs.filter(
        ({ mode, id }) => mode === 'held' && seen.get(id)?.status === 200 && seen.get(id)?.error,
      )
      expect(new Set(broken.map(({ fault }) => fault.name))).toEqual(new Set(['an answer without end']))
    })

  if (group === 'in the words of others')
    test('on other surfaces every fault except those of size is tested streamed or complete', () => {
      for (const surface of ['OpenAI', 'Anthropic', 'Responses']) {
        const met = new Set(runs.filter((run) => run.surface === surface).map(({ fault }) => fault))
        expect([...met]).toEqual(FAULTS.filter(({ heavy }) => !heavy))
      }
    })
}

/**
 * Memory in use after garbage collection, in the heap and outside of it; bytes. Finalised objects need a second
 * collection, and closed sockets release their buffers some event loop turns later.
 */
async function memoryInUse(): Promise<number> {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc')
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 10; round++) {
    await new Promise(setImmediate)
    gc()
    const { heapUsed, arrayBuffers } = process.memoryUsage()
    least = Math.min(least, heapUsed + arrayBuffers)
  }
  return least
}

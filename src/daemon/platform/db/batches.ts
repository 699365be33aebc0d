import type { Db } from './db.ts'
import { engineOf, type WriteFailure } from './engine.ts'

/** `unknown`: COMMIT failed, so it is not known whether the transaction was committed. */
type Failure = { error: unknown; kind: WriteFailure | 'unknown' }

/**
 * Runs requests (`Question`) in batches. Requests that arrive during a transaction share the next transaction. `run`
 * returns one result (`Answer`) per request, in the same order. If `run` fails, the batch is rolled back, and `run` is
 * called separately for each group of requests. A request that fails or times out therefore affects only its own group.
 */
export function createBatches<Question, Answer>({
  db,
  size,
  groupOf,
  run,
}: {
  db: Db
  /** The maximum number of requests per transaction. */
  size: number
  /** Returns the group of a request. */
  groupOf(question: Question): string
  run(tx: Db, questions: readonly Question[]): Promise<readonly Answer[]>
}): (question: Question) => Promise<Answer> {
  type Waiting = { question: Question; resolve(answer: Answer): void; reject(reason: unknown): void }
  const { failureOf } = engineOf(db)
  let waiting: Waiting[] = []
  let isRunning = false

  async function runWaiting(): Promise<void> {
    while (waiting.length > 0) {
      const batch = waiting.slice(0, size)
      waiting = waiting.slice(size)
      const failure = await answer(batch)
      if (failure) await answerApart(batch, failure)
    }
    isRunning = false
  }

  async function answer(asked: readonly Waiting[]): Promise<Failure | undefined> {
    let isDecided = false
    try {
      const answers = await db.transaction().execute(async (tx) => {
        const decided = await run(
          tx,
          asked.map(({ question }) => question),
        )
        isDecided = true
        return decided
      })
      for (const [at, { resolve }] of asked.entries()) resolve(answers[at] as Answer)
      return undefined
    } catch (error) {
      // If COMMIT fails, the outcome is unknown, so the work must not be repeated.
      return { error, kind: isDecided ? 'unknown' : failureOf(error) }
    }
  }

  async function answerApart(batch: readonly Waiting[], first: Failure): Promise<void> {
    let final = first.kind === 'unknown' || first.kind === 'other' ? first : undefined
    const groups = new Map<string, Waiting[]>()
    for (const one of batch) {
      const name = groupOf(one.question)
      const group = groups.get(name)
      if (group) group.push(one)
      else groups.set(name, [one])
    }
    for (const group of groups.values()) {
      const failure = final ?? (await answer(group))
      if (!failure) continue
      for (const { reject } of group) reject(failure.error)
      // The store is down. Do not retry each group: retrying hundreds of groups one by one would delay all of them.
      if (failure.kind !== 'row' && failure.kind !== 'busy') final = failure
    }
  }

  return (question) =>
    new Promise((resolve, reject) => {
      waiting.push({ question, resolve, reject })
      if (isRunning) return
      isRunning = true
      setImmediate(runWaiting)
    })
}

import { sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import { createBatches } from '../../../../src/daemon/platform/db/batches.ts'
import type { Db } from '../../../../src/daemon/platform/db/db.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'

describeEachEngine('questions that are answered in transactions', (engine) => {
  const store = storeForEach(engine)
  let crowds: string[][]
  beforeEach(async () => {
    crowds = []
    await sql`create table parents (id integer primary key)`.execute(store.db)
    await sql`create table told (word text primary key,
      parent integer references parents (id) deferrable initially deferred)`.execute(store.db)
  })

  /** Words of the form `group/word`; `run` stores each. */
  const ask = (run: (tx: Db, words: readonly string[]) => Promise<void> = async () => {}, size = 100) =>
    createBatches({
      db: store.db,
      size,
      groupOf: (word: string) => word.split('/')[0] as string,
      async run(tx, words) {
        crowds.push([...words])
        for (const word of words) await sql`insert into told (word) values (${word})`.execute(tx)
        await run(tx, words)
        return words.map((word) => word.toUpperCase())
      },
    })
  const settled = async (answers: readonly Promise<string>[]) =>
    (await Promise.allSettled(answers)).map((answer) => (answer.status === 'fulfilled' ? answer.value : 'refused'))
  const stored = async () =>
    (await sql<{ word: string }>`select word from told order by word`.execute(store.db)).rows.map(({ word }) => word)

  test('that arrive together run as one query, each gets its own answer, and many are split', async () => {
    const answer = ask(undefined, 2)
    expect(await settled(['a/1', 'b/2', 'c/3'].map(answer))).toEqual(['A/1', 'B/2', 'C/3'])
    expect(crowds).toEqual([['a/1', 'b/2'], ['c/3']])
  })

  test('run separately when one of them fails, and only its own group fails with it', async () => {
    await sql`insert into told (word) values ('b/1')`.execute(store.db)
    const answer = ask()
    expect(await settled(['a/1', 'b/1', 'b/2', 'a/2', 'c/1'].map(answer))).toEqual([
      'A/1',
      'refused',
      'refused',
      'A/2',
      'C/1',
    ])
    expect(crowds).toEqual([['a/1', 'b/1', 'b/2', 'a/2', 'c/1'], ['a/1', 'a/2'], ['b/1', 'b/2'], ['c/1']])
    expect(await stored()).toEqual(['a/1', 'a/2', 'b/1', 'c/1'])
  })

  test('are not repeated when the commit itself fails, because it may have happened', async () => {
    const answer = ask(async (tx) => void (await sql`update told set parent = 7`.execute(tx)))
    expect(await settled(['a/1', 'b/1'].map(answer))).toEqual(['refused', 'refused'])
    expect(crowds).toEqual([['a/1', 'b/1']])
  })

  test('work again after a failure', async () => {
    await sql`insert into told (word) values ('a/1')`.execute(store.db)
    const answer = ask()
    expect(await settled([answer('a/1')])).toEqual(['refused'])
    expect(await settled([answer('a/2')])).toEqual(['A/2'])
  })
})

import { beforeEach, expect, test } from 'vitest'
import {
  acknowledgeLoss,
  closedLogs,
  createLosses,
  followSuccessors,
  type Losses,
  listLosses,
  lossOfChain,
  newSuccessor,
} from '../../../../src/daemon/records/evidence/losses.ts'
import { logId } from '../../../../src/shared/evidence/entry.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { createFakeClock } from '../../../fake-clock.ts'

const CHAIN = 'requests-abcdefabcdef'

describeEachEngine('the record of lost history', (engine) => {
  const store = storeForEach(engine)
  const clock = createFakeClock()
  const id = logId('tenant', CHAIN)
  const closing = lossOfChain('tenant', CHAIN, 'entries_missing', 'the chain is shorter')
  const doubting = { ...closing, cause: 'witness_contradicts' as const, closes: undefined, doubts: closing.closes }
  const missing = { id, cause: 'log_missing' as const, detail: 'the store does not contain this log' }
  let losses: Losses
  let logged: object[]

  beforeEach(() => {
    logged = []
    losses = createLosses({ db: store.db, clock, log: { error: (details) => void logged.push(details) } })
  })
  const acknowledge = async () => {
    const loss = await store.db.transaction().execute((tx) => acknowledgeLoss(tx, id, 'now'))
    losses.forget()
    return loss
  }

  test.each([
    ['a log that was missing', missing],
    ['a log that a witness contradicts', doubting],
  ])('closes %s as soon as a daemon would continue it, also after an acknowledgement', async (_, first) => {
    await losses.report([first])
    expect(await closedLogs(store.db)).toEqual([])
    if (first === missing) await acknowledge()
    await losses.report([closing])
    expect(await closedLogs(store.db)).toEqual([id])
    const [row, ...others] = await listLosses(store.db)
    expect(others).toEqual([])
    expect(row).toMatchObject({ ...{ id, cause: 'entries_missing', tenant_id: 'tenant', chain: CHAIN } })
    expect([row?.acknowledged_at, row?.detail]).toEqual([null, closing.detail])
    expect(await losses.successors()).toEqual(new Map([[CHAIN, row?.successor]]))
    expect(await losses.openCauses()).toEqual(['entries_missing'])
    expect(logged).toHaveLength(2)
    // The closed log stays as it is, whatever is reported later.
    await acknowledge()
    await losses.report([first, closing, doubting])
    expect(await listLosses(store.db)).toEqual([{ ...row, acknowledged_at: 'now' }])
    expect(logged).toHaveLength(2)
  })

  test('closes a log that a witness contradicts only with the acknowledgement', async () => {
    await losses.report([doubting])
    expect([await closedLogs(store.db), await losses.openCauses()]).toEqual([[], ['witness_contradicts']])
    const loss = await acknowledge()
    expect(loss).toMatchObject({
      chain: CHAIN,
      successor: expect.stringMatching(/^requests-abcdefabcdef-[0-9a-f]{4}$/),
    })
    expect([await closedLogs(store.db), await losses.openCauses()]).toEqual([[id], []])
    expect(await losses.successors()).toEqual(new Map([[CHAIN, loss?.successor]]))
    expect(await acknowledge()).toBeUndefined()
  })
})

test('the successor of a chain is a chain with a new name', () => {
  const numbers = ['1f0a', '77e2', '0001', 'abcd']
  const known = new Map([
    ['changes', 'changes-77e2'],
    ['changes-77e2', 'changes-1f0a'],
    ['changes-0001', 'changes-0002'],
  ])
  expect(newSuccessor('changes-1f0a', known, () => numbers.shift() ?? '')).toBe('changes-abcd')
  expect(followSuccessors('changes', known)).toBe('changes-1f0a')
})

test('a chain that is its own successor causes an error instead of an endless loop', () => {
  const circle = new Map([
    ['changes', 'changes-1f0a'],
    ['changes-1f0a', 'changes-1f0a'],
  ])
  expect(() => followSuccessors('changes', circle)).toThrow('names changes-1f0a as its own successor')
})

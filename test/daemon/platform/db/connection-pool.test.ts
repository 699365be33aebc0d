import { expect, test } from 'vitest'
import { createConnectionPool } from '../../../../src/daemon/platform/db/connection-pool.ts'

test('borrowers get a connection in order, and never two at once', async () => {
  const pool = createConnectionPool(['only'])
  const order: number[] = []
  let lent = 0
  const borrow = async (turn: number) => {
    const connection = await pool.acquire()
    lent++
    expect(lent).toBe(1)
    order.push(turn)
    await Promise.resolve()
    lent--
    pool.release(connection)
  }
  await Promise.all([0, 1, 2, 3, 4].map(borrow))
  expect(order).toEqual([0, 1, 2, 3, 4])
})

test('draining waits for borrowed connections, serves waiters, and rejects later borrowers', async () => {
  const pool = createConnectionPool(['a', 'b'])
  const first = await pool.acquire()
  const second = await pool.acquire()
  const third = pool.acquire()
  const drained = pool.drain()
  await expect(pool.acquire()).rejects.toThrow('closed')
  pool.release(first)
  pool.release(second)
  pool.release(await third)
  expect((await drained).sort()).toEqual(['a', 'b'])
})

test('waiting borrowers can be rejected together, unless the pool is draining', async () => {
  const pool = createConnectionPool(['only'])
  const connection = await pool.acquire()
  const waiting = [pool.acquire(), pool.acquire()]
  pool.rejectWaiting(new Error('locked'))
  for (const one of await Promise.allSettled(waiting)) expect(one).toMatchObject({ reason: new Error('locked') })
  const drained = pool.drain()
  pool.rejectWaiting(new Error('locked'))
  pool.release(connection)
  expect(await drained).toEqual(['only'])
})

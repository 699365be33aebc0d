import { request } from 'undici'
import { expect, test } from 'vitest'
import { PUBLIC_TILE_RATE } from '../../../../src/daemon/records/evidence/tile-routes.ts'
import { logId } from '../../../../src/shared/evidence/entry.ts'
import { parseKeySet } from '../../../../src/shared/evidence/keys.ts'
import { treeRoot } from '../../../../src/shared/evidence/merkle.ts'
import { verifyNote } from '../../../../src/shared/evidence/note.ts'
import { describeEachEngine } from '../../../engines.ts'
import { addEntries, newRequestChain, requestPayload } from '../../../evidence-rows.ts'
import { createFakeClock } from '../../../fake-clock.ts'
import { type Gateway, sharedGateway, startGateway } from '../../../harness.ts'
import { addTestTenant } from '../../../tenant-admin.ts'

const SIZE = 600
const START = '2026-05-01T00:00:00.000Z'
const IMMUTABLE = 'max-age=31536000, immutable'

/** A tenant with a log of SIZE entries. One more entry follows its checkpoint. */
async function tenantWithLog(gateway: Gateway) {
  const tenant = await addTestTenant(gateway)
  const chain = newRequestChain()
  const entry = { createdAt: START, payload: requestPayload({ user_id: tenant.admin.id }) }
  const rows = await addEntries(
    tenant.db,
    tenant.id,
    chain,
    Array.from({ length: SIZE }, () => entry),
  )
  expect((await tenant.call('POST', '/api/external/transparency/checkpoints', { chain })).status).toBe(200)
  await addEntries(tenant.db, tenant.id, chain, [entry])
  const leaves = Buffer.from(rows.map(({ entry_hash }) => entry_hash).join(''), 'hex')
  return { tenant, chain, id: logId(tenant.id, chain), leaves }
}

async function get(gateway: Gateway, path: string, key?: string) {
  const { statusCode, headers, body } = await request(new URL(path, gateway.url), {
    headers: key === undefined ? {} : { 'x-api-key': key, authorization: `Bearer ${key}` },
  })
  return { status: statusCode, headers, bytes: Buffer.from(await body.arrayBuffer()) }
}

describeEachEngine('tiles of a log', (engine) => {
  const clock = createFakeClock(Date.parse(START))
  const shared = sharedGateway({ engine, clock, evidence: { publishTiles: true } })

  test('are the hashes of its tree, and lead to the root of its checkpoint', async () => {
    const gateway = shared.current
    const { id, leaves } = await tenantWithLog(gateway)
    clock.advance(10_000)
    const checkpoint = await get(gateway, `/tlog/${id}/checkpoint`)
    expect([checkpoint.status, checkpoint.headers['content-type'], checkpoint.headers['cache-control']]).toEqual([
      200,
      'text/plain; charset=utf-8',
      'no-cache',
    ])
    const keys = parseKeySet(JSON.parse((await get(gateway, '/.well-known/aigw-keys.json')).bytes.toString()))
    const { size, root, origin } = verifyNote(checkpoint.bytes.toString(), keys)
    expect([size, origin.endsWith(`/logs/${id}`)]).toEqual([SIZE, true])
    const tiles: Buffer[] = []
    for (const path of ['000', '001', '002.p/88']) {
      const tile = await get(gateway, `/tlog/${id}/tile/0/${path}`)
      expect([tile.status, tile.headers['content-type'], tile.headers['cache-control']]).toEqual([
        200,
        'application/octet-stream',
        `public, ${IMMUTABLE}`,
      ])
      tiles.push(tile.bytes)
    }
    expect(Buffer.concat(tiles).equals(leaves)).toBe(true)
    expect(treeRoot(Buffer.concat(tiles)).toString('base64')).toBe(root)
    const above = await get(gateway, `/tlog/${id}/tile/1/000.p/2`)
    expect(above.bytes).toEqual(Buffer.concat(tiles.slice(0, 2).map(treeRoot)))
    // A partial tile of an earlier checkpoint stays available.
    expect((await get(gateway, `/tlog/${id}/tile/0/001.p/7`)).bytes).toEqual(tiles[1]?.subarray(0, 7 * 32))
  })

  test('are served only as far as a checkpoint covers them', async () => {
    const { id } = await tenantWithLog(shared.current)
    clock.advance(10_000)
    for (const path of [
      'tile/0/002',
      'tile/0/002.p/89',
      'tile/0/003',
      'tile/1/000',
      'tile/1/000.p/3',
      'tile/2/000.p/1',
      'tile/63/000',
      'tile/entries/000',
      'tile/0/0',
      'checkpoints',
      'tile/0/000.p/256',
    ])
      expect([path, (await get(shared.current, `/tlog/${id}/${path}`)).status]).toEqual([path, 404])
    expect((await get(shared.current, `/tlog/${'0'.repeat(32)}/checkpoint`)).status).toBe(404)
  })

  test('are readable by administrators of the tenant only, whose responses no shared cache keeps', async () => {
    const { tenant, id } = await tenantWithLog(shared.current)
    const other = await addTestTenant(shared.current)
    const path = (rest: string) => `/api/external/transparency/tlog/${id}/${rest}`
    for (const rest of ['checkpoint', 'tile/0/000']) {
      expect((await tenant.call('GET', path(rest))).status).toBe(200)
      expect((await other.call('GET', path(rest))).status).toBe(404)
      expect((await get(shared.current, path(rest))).status).toBe(401)
      const user = await tenant.callFor(await tenant.addUser())
      expect((await user('GET', path(rest))).status).toBe(403)
    }
    expect((await tenant.call('GET', path('tile/0/000'))).headers['cache-control']).toBe(`private, ${IMMUTABLE}`)
  })

  test('that entries are missing for are an error, not other hashes', async () => {
    const { tenant, chain, id } = await tenantWithLog(shared.current)
    await tenant.db
      .deleteFrom('evidence_entries')
      .where('tenant_id', '=', tenant.id)
      .where('chain', '=', chain)
      .where('seq', '=', 3)
      .execute()
    const answer = await tenant.call('GET', `/api/external/transparency/tlog/${id}/tile/0/000`)
    expect([answer.status, answer.body.error.code]).toEqual([409, 'EVIDENCE_MISMATCH'])
    expect(answer.headers['cache-control']).toBe(undefined)
  })
})

test('tiles are not public unless the operator publishes them', async () => {
  const gateway = await startGateway({})
  const { id } = await tenantWithLog(gateway)
  for (const path of ['checkpoint', 'tile/0/000']) expect((await get(gateway, `/tlog/${id}/${path}`)).status).toBe(404)
})

test('an address may read a limited number of public tiles per minute', async () => {
  const clock = createFakeClock(Date.parse('2026-05-01T00:00:30.000Z'))
  const gateway = await startGateway({ clock, evidence: { publishTiles: true } })
  const ask = () => get(gateway, '/tlog/none/checkpoint')
  for (let count = 0; count < PUBLIC_TILE_RATE.perMinute; count++) expect((await ask()).status).toBe(404)
  const refused = await ask()
  expect([refused.status, refused.headers['retry-after']]).toEqual([429, '30'])
})

import { join } from 'node:path'
import { Kysely, sql } from 'kysely'
import { expect, test } from 'vitest'
import type { MigrationDialect } from '../../../../src/daemon/platform/db/migration-step.ts'
import { access } from '../../../../src/daemon/platform/db/migrations/0004-access.ts'
import { evidence } from '../../../../src/daemon/platform/db/migrations/0015-evidence.ts'
import { evidenceUnsigned } from '../../../../src/daemon/platform/db/migrations/0031-evidence-unsigned.ts'
import { openPostgresDialect } from '../../../../src/daemon/platform/db/postgres.ts'
import { openSqliteDialect } from '../../../../src/daemon/platform/db/sqlite.ts'
import { sqlite3Driver } from '../../../../src/daemon/platform/db/sqlite-driver.ts'
import { createMasterKey } from '../../../../src/daemon/platform/secrets/seal.ts'
import { openSigningKeys } from '../../../../src/daemon/records/evidence/signing-keys.ts'
import { readChain } from '../../../../src/daemon/records/evidence/store.ts'
import { verifyTenant } from '../../../../src/daemon/records/evidence/verification.ts'
import { systemClock } from '../../../../src/shared/time.ts'
import { addTenant, addUser } from '../../../accounts.ts'
import { describeEachEngine, storeForEach } from '../../../engines.ts'
import { recordedChanges } from '../../../recorded-changes.ts'
import { TEST_MASTER_KEY } from '../../../webhook-rows.ts'

const NEW_TABLES = ['entries', 'commits', 'checkpoints', 'nodes', 'keys', 'unsigned'].map((name) => `evidence_${name}`)

describeEachEngine('the log of changes that was kept before there were chains', (engine) => {
  const store = storeForEach(engine)

  const dialect: MigrationDialect =
    engine.name === 'sqlite'
      ? { engine: 'sqlite', text: 'text', integer: 'integer', tableEnd: ' strict' }
      : { engine: 'postgres', text: 'text collate "C"', integer: 'bigint', tableEnd: '' }

  async function goBack(): Promise<void> {
    for (const table of NEW_TABLES) await sql`drop table ${sql.table(table)}`.execute(store.db)
    for (const statement of access(dialect)) {
      if (statement.includes('audit_entries')) await sql.raw(statement).execute(store.db)
    }
  }

  async function migrate(): Promise<void> {
    const run = async (statements: readonly string[]) => {
      for (const statement of statements) await sql.raw(statement).execute(store.db)
    }
    await run(evidence.before(dialect))
    // With the table names of that version.
    const untyped = new Kysely<unknown>({ dialect: await openDialect() })
    await evidence.move(untyped).finally(() => untyped.destroy())
    await run(evidence.after(dialect))
    await run(evidenceUnsigned(dialect))
  }
  const openDialect = () => {
    const { options } = store.place
    return options.kind === 'sqlite'
      ? openSqliteDialect(sqlite3Driver, join(options.dataDir, 'aigw.db'))
      : openPostgresDialect(options.url, undefined)
  }

  type Former = {
    tenant_id: string
    user_id: string
    description: string
    type?: string
    metadata?: string
  }
  async function addFormer(
    at: number,
    { tenant_id, user_id, description, type = 'group_management', metadata = '{"b": [1, "ä"], "a": null}' }: Former,
  ): Promise<void> {
    const id = at.toString(16).padStart(24, '0')
    const created_at = new Date(Date.UTC(2026, 0, 1) + at * 1000).toISOString()
    await sql`insert into audit_entries (id, tenant_id, created_at, type, severity, description, user_id, user_name,
        user_email, api_key_id, request_id, endpoint, operation, resource_type, resource_id, outcome,
        compliance_category, metadata)
      values (${id}, ${tenant_id}, ${created_at}, ${type}, 'info', ${description}, ${user_id}, 'Ada Lovelace',
        'ada@example.com', 'key-1', 'req-1', 'POST /groups', 'create', 'group', 'group-1', 'success', 'authorization',
        ${metadata})`.execute(store.db)
  }

  test('becomes the start of the chains, complete and signed, without personal names', async () => {
    const { db } = store
    await goBack()
    const [own, other] = [await addTenant(db), await addTenant(db)]
    const user = await addUser(db, { tenant_id: own.id })
    for (let at = 0; at < 1_030; at++) {
      await addFormer(at, { tenant_id: own.id, user_id: user.id, description: `External API: number ${at}` })
    }
    await addFormer(2_000, { tenant_id: other.id, user_id: user.id, description: 'from outside' })
    await addFormer(2_001, { tenant_id: other.id, user_id: 'gone', description: 'by one who is gone' })
    await migrate()

    const masterKey = createMasterKey(TEST_MASTER_KEY)
    const keys = await openSigningKeys(db, { masterKey, name: undefined, clock: systemClock })
    const published = await keys.published()
    expect(published.map(({ name, retiredAt }) => [name.replace(/[0-9a-f]{12}$/, ''), retiredAt])).toEqual([
      ['aigw-', null],
    ])
    expect(await verifyTenant(db, own.id, published)).toMatchObject([{ chain: 'changes', ok: true, size: 1_030 }])
    expect(await verifyTenant(db, other.id, published)).toMatchObject([{ chain: 'changes', ok: true, size: 2 }])

    const [first] = await recordedChanges(db, own.id)
    expect(first).toEqual({
      id: '0'.repeat(24),
      tenant_id: own.id,
      created_at: '2026-01-01T00:00:00.000Z',
      version: 1,
      kind: 'change',
      issued_at: '2026-01-01T00:00:00.000Z',
      type: 'group_management',
      operation: 'create',
      severity: 'info',
      result: 'success',
      compliance_category: 'authorization',
      description: 'External API: number 0',
      request_id: 'req-1',
      endpoint: 'POST /groups',
      actor: 'key',
      user_id: user.id,
      key_id: 'key-1',
      resource_type: 'group',
      resource_id: 'group-1',
      metadata: { a: null, b: [1, 'ä'] },
    })
    const theirs = await recordedChanges(db, other.id)
    expect(theirs.map(({ actor, user_id, key_id }) => [actor, user_id, key_id])).toEqual([
      ['operator', null, null],
      ['key', null, null],
    ])
    expect(JSON.stringify(await readChain(db, own.id, 'changes', { from: 0, limit: 2_000 }))).not.toContain('Ada')
    await expect(sql`select 1 from audit_entries`.execute(db)).rejects.toThrow()
  })

  test.each([
    ['user_management', { email: 'ada@example.com', license: 'Pro' }, { license: 'Pro' }],
    [
      'user_management',
      { changes: { name: 'Ada', username: 'ada', email: 'ada@example.com', status: 'Active' } },
      { changes: { status: 'Active' } },
    ],
    ['key_management', { name: "Ada's", userId: 'user-1' }, { userId: 'user-1' }],
    ['tenant_management', { changes: { name: 'Ada Ltd' } }, { changes: {} }],
    [
      'guard_rule_management',
      { words: ['Ada', 'x'], pattern: 'Ada.', kind: 'dlp' },
      { words: 2, patternChars: 4, kind: 'dlp' },
    ],
  ])('keeps no personal data, nor the content of a rule: %s', async (type, metadata, kept) => {
    const { db } = store
    await goBack()
    const own = await addTenant(db)
    const user = await addUser(db, { tenant_id: own.id })
    const isRule = type === 'guard_rule_management'
    const description = isRule
      ? 'External API: created guard rule "r"'
      : 'External API: created "ada" for ada@example.com'
    await addFormer(1, { tenant_id: own.id, user_id: user.id, description, type, metadata: JSON.stringify(metadata) })
    await migrate()
    const [entry] = await recordedChanges(db, own.id)
    expect(entry).toMatchObject({ type, description: isRule ? description : 'External API: create group group-1' })
    expect(entry?.metadata).toEqual(kept)
  })

  test('that is empty leaves nothing to sign', async () => {
    await goBack()
    await migrate()
    expect(await store.db.selectFrom('evidence_commits').selectAll().execute()).toEqual([])
  })
})

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { toKeySet } from '../../../src/shared/evidence/keys.ts'
import { testSigner } from '../../shared/evidence/signer.ts'
import { receiptOf, SIGNER, SMALL_CHAIN, serveEvidence } from '../evidence-routes.ts'
import { type FakeGateway, flatError, json, KEY, startFakeGateway } from '../fake-gateway.ts'
import { type CliOptions, runCli } from '../run-cli.ts'

let gateway: FakeGateway
let folder: string
let receiptFile: string
let keyFile: string
beforeEach(async () => {
  gateway = await startFakeGateway()
  serveEvidence(gateway)
  folder = await mkdtemp(join(tmpdir(), 'aigw-receipts-'))
  receiptFile = await save('receipt.json', receiptOf(SMALL_CHAIN, 4))
  keyFile = await save('keys.json', toKeySet([SIGNER.published]))
})
afterEach(async () => {
  await gateway.close()
  await rm(folder, { recursive: true })
})

async function save(name: string, content: unknown): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}
const receipts = (words: string[], options: CliOptions = {}) =>
  runCli(['receipts', ...words], { ...options, env: { AIGW_BASE_URL: gateway.url, AIGW_API_KEY: KEY, NO_COLOR: '1' } })

describe('receipts show', () => {
  test('is a card on a terminal, and in JSON the receipt as it was signed', async () => {
    const { stdout } = await receipts(['show', 'jti-1'], { terminal: { stdout: true } })
    expect(stdout).toMatch(/^RECEIPT +jti-1$/m)
    expect(stdout).toMatch(/^SIGNED BY +aigw-test$/m)
    expect(JSON.parse((await receipts(['show', 'jti-1', '--json'])).stdout)).toEqual(receiptOf(SMALL_CHAIN, 1))
  })

  test('that does not exist exits 3', async () => {
    gateway.on('GET /api/external/receipts/jti-9', flatError(404, 'Receipt not found', 'Look at the audit log.'))
    expect(await receipts(['show', 'jti-9'])).toMatchObject({
      exitCode: 3,
      stdout: '',
      stderr: expect.stringContaining('Look at the audit log. (Receipt not found)'),
    })
  })
})

describe('receipts verify', () => {
  test('of a file and a key file sends no request, and names the source of the keys', async () => {
    const result = await receipts(['verify', receiptFile, '--keys', keyFile])
    const { kid } = SIGNER.published
    expect(result).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^ok: receipt jti-4 of .* with key /) })
    expect(result.stderr).toBe(`note: trusting the keys of the named file (${kid})\n`)
    expect(gateway.requests).toEqual([])
  })

  test('takes the answer of the gateway as it came, from stdin, with what is null in it', async () => {
    const stdin = JSON.stringify({ success: true, receipt: receiptOf(SMALL_CHAIN, 0) })
    const { exitCode, stdout } = await receipts(['verify', '-', '--keys', keyFile, '--json'], { stdin })
    expect(exitCode).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ valid: true, bundle_id: 'jti-0', keys_from: 'file' })
  })

  test('of a bundle id requests receipt and keys, and names the gateway as the source of the keys', async () => {
    const { exitCode, stderr } = await receipts(['verify', 'jti-1'])
    expect(exitCode).toBe(0)
    expect(stderr).toContain('independent of the gateway')
    expect(gateway.requests.map(({ path }) => path)).toEqual([
      '/api/external/receipts/jti-1',
      '/.well-known/aigw-keys.json',
    ])
    expect(gateway.requests[1]?.headers.authorization).toBeUndefined()
  })

  test('of a changed receipt exits 10 with the reason', async () => {
    const receipt = receiptOf(SMALL_CHAIN, 4)
    const changed = (path: string[], value: object): object => {
      const [name = '', ...rest] = path
      const inner: unknown = Reflect.get(value, name)
      return { ...value, [name]: rest.length === 0 ? `${inner}0` : changed(rest, Object(inner)) }
    }
    const paths = [['status'], ['bundle_id'], ['entry', 'prev_hash'], ['entry', 'created_at'], ['proof', 'root']]
    for (const path of [...paths, ['signature'], ['signer'], ['kid']]) {
      const file = await save('changed.json', changed(path, receipt))
      const { exitCode, stdout, stderr } = await receipts(['verify', file, '--keys', keyFile])
      expect({ path, exitCode, stdout }).toEqual({ path, exitCode: 10, stdout: '' })
      expect(stderr).toContain('error: the receipt is invalid: it')
    }
  })

  test('of one in which a member stands twice exits 10, whatever a parser makes of it', async () => {
    const text = JSON.stringify(receiptOf(SMALL_CHAIN, 4))
    for (const doubled of [
      text.replace('{', '{"bundle_id":"jti-5",'),
      text.replace('"entry":{', '"entry":{"s\\u0065q":9,'),
    ]) {
      expect(JSON.parse(doubled)).toEqual(JSON.parse(text))
      const { exitCode, stderr } = await receipts(['verify', await save('doubled.json', doubled), '--keys', keyFile])
      expect(exitCode).toBe(10)
      expect(stderr).toContain('it has a duplicate member')
    }
  })

  test('of one that another gateway signed exits 10 and names the key', async () => {
    const others = await save('others.json', toKeySet([testSigner('aigw-test').published]))
    const { exitCode, stderr } = await receipts(['verify', receiptFile, '--keys', others])
    expect(exitCode).toBe(10)
    expect(stderr).toContain(`it is signed with a key that is not trusted (${SIGNER.published.kid})`)
  })

  test('requests the keys again before it rejects a signature of a new key', async () => {
    const stale = json(200, toKeySet([testSigner('aigw-test').published]))
    gateway.on('GET /.well-known/aigw-keys.json', stale, json(200, toKeySet([SIGNER.published])))
    const { exitCode, stderr } = await receipts(['verify', receiptFile])
    expect(exitCode, stderr).toBe(0)
    expect(stderr).toContain('requesting the keys of the gateway again')
    gateway.on('GET /.well-known/aigw-keys.json', stale)
    gateway.requests.length = 0
    expect((await receipts(['verify', receiptFile])).exitCode).toBe(10)
    expect(gateway.requests.map(({ headers }) => headers['cache-control'])).toEqual(['no-cache', 'no-cache'])
  })

  test.each([
    ['no file and no id', ['verify', './nowhere.json']],
    ['no receipt', ['verify', join(import.meta.dirname, '../../../package.json'), '--keys', 'nowhere.json']],
    ['no JSON', ['verify', import.meta.filename]],
  ])('of %s is a usage error', async (_, words) => {
    expect(await receipts(words)).toMatchObject({ exitCode: 2, stdout: '' })
  })

  test('with a file without keys is a usage error', async () => {
    const { exitCode, stderr } = await receipts(['verify', receiptFile, '--keys', receiptFile])
    expect(exitCode).toBe(2)
    expect(stderr).toContain('contains no published keys')
    const doubled = JSON.stringify(toKeySet([SIGNER.published])).replace('"name"', '"name":"other","name"')
    expect((await receipts(['verify', receiptFile, '--keys', await save('doubled.json', doubled)])).exitCode).toBe(2)
  })
})

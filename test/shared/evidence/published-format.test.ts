import { execFile, execFileSync } from 'node:child_process'
import { hash } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { toKeySet } from '../../../src/shared/evidence/keys.ts'
import { checkpointText, signedNote, verifyNote } from '../../../src/shared/evidence/note.ts'
import { verifyReceipt } from '../../../src/shared/evidence/receipt.ts'
import {
  exampleCheckpoint,
  exampleKeys,
  exampleProof,
  exampleReceipt,
  exampleReceiptOf,
  exampleReceiptsOf,
  exampleSigner,
  exampleValues,
} from './example.ts'
import { sameBase64, testNote, testSigner } from './signer.ts'

const FIXTURES = join(import.meta.dirname, '../../fixtures/evidence')
const DOCS = join(import.meta.dirname, '../../../docs')
const other = testSigner('aigw-example')
const SIGNATURE = exampleValues['commit signature'] ?? ''
const ROOT = Buffer.from(exampleProof.root, 'hex').toString('base64')

let folder: string
let receipt: Record<string, unknown>
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'aigw-evidence-'))
  receipt = JSON.parse(await readFile(join(FIXTURES, 'receipt.json'), 'utf8'))
})
afterAll(() => rm(folder, { recursive: true }))

let written = 0
/** The path of a new file with this text, or with the JSON of this value. */
async function fileOf(content: string | object): Promise<string> {
  const path = join(folder, String(++written))
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content))
  return path
}

const VERIFIERS = join(DOCS, 'verifiers')

/** Runs verify_receipt.py as users do. */
const python = (...args: string[]) =>
  new Promise<{ code: number; says: string }>((resolve) => {
    execFile('python3', ['-B', join(VERIFIERS, 'verify_receipt.py'), ...args], (error, out, err) =>
      resolve({ code: Number(error?.code ?? 0), says: out + err }),
    )
  })

const DRIVER = `
import json, sys
sys.path.insert(0, sys.argv[1])
import verify_receipt
for line in sys.stdin:
    try:
        verify_receipt.main(json.loads(line))
        print("ok")
    except verify_receipt.REFUSALS as error:
        print("FAIL")
    except SystemExit as usage:
        print("EXIT %d" % usage.code)
`

/** Its result for each of these in one process: "ok", "FAIL", or "EXIT 2" for input that it does not check. */
const pythonOf = (calls: readonly string[][]): string[] => {
  const input = calls.map((call) => `${JSON.stringify(call)}\n`).join('')
  const answers = execFileSync('python3', ['-B', '-c', DRIVER, VERIFIERS], { input, encoding: 'utf8', stdio: 'pipe' })
  return answers.trim().split('\n')
}

describe('the published format', () => {
  // These files are frozen. If this test fails, the code no longer writes what others can verify.
  test('matches the code', async () => {
    const read = (name: string) => readFile(join(FIXTURES, name), 'utf8')
    expect(JSON.parse(await read('keys.json'))).toEqual(exampleKeys)
    expect(receipt).toEqual(exampleReceipt)
    expect(JSON.parse(await read('proof.json'))).toEqual(exampleProof)
    expect(await read('checkpoint.txt')).toBe(exampleCheckpoint)
  })

  test('is accepted by the code', () => {
    const keys = [exampleSigner.published]
    expect(verifyReceipt(receipt, keys)).toEqual({ ok: true })
    expect(verifyNote(exampleCheckpoint, keys)).toMatchObject({ size: 3 })
  })

  test('has the values of the documentation', async () => {
    const page = await readFile(join(DOCS, 'evidence.md'), 'utf8')
    const printed = [...page.matchAll(/^(.+?) += (.+)$/gm)].map(([, name, value]) => [name, value])
    expect(Object.fromEntries(printed)).toEqual(exampleValues)
    expect(page).toContain(exampleCheckpoint)
  })
})

describe('the verifier in another language', () => {
  const KEYS = join(FIXTURES, 'keys.json')

  const RECEIPT = join(FIXTURES, 'receipt.json')
  const CHECKPOINT = join(FIXTURES, 'checkpoint.txt')
  const PROOF = join(FIXTURES, 'proof.json')

  test.each([
    ['nothing', []],
    ['no kind', [RECEIPT, KEYS]],
    ['another kind', ['receipts', RECEIPT, KEYS]],
    ['a receipt without keys', ['receipt', RECEIPT]],
    ['a proof without keys', ['proof', PROOF, CHECKPOINT]],
    ['a file too many', ['receipt', RECEIPT, KEYS, KEYS]],
    ['an unknown option', ['receipt', RECEIPT, KEYS, '--keys', KEYS]],
    ['a missing key file', ['receipt', RECEIPT, `${KEYS}.gone`]],
    ['a folder of keys', ['receipt', RECEIPT, FIXTURES]],
    ['a receipt instead of keys', ['receipt', RECEIPT, RECEIPT]],
  ])('%s is not checked: exit code 2, with the usage', async (_what, args) => {
    const { code, says } = await python(...args)
    expect([code, says]).toEqual([2, expect.stringMatching(/^usage: verify_receipt\.py/)])
    expect(says).toContain('error: ')
  })

  test.each(['', '{"keys":[]}', '['.repeat(100_000)])('a key file with %s is not checked either', async (text) => {
    const { code, says } = await python('receipt', RECEIPT, await fileOf(text))
    expect([code, says]).toEqual([2, expect.stringContaining('holds no keys that can be used')])
  })

  test('prints its usage on request', async () => {
    const { code, says } = await python('--help')
    expect([code, says]).toEqual([0, expect.stringContaining('verify_receipt.py receipt RECEIPT.json')])
  })

  test('is shorter than 360 lines, and imports only its standard library', async () => {
    const source = await readFile(join(VERIFIERS, 'verify_receipt.py'), 'utf8')
    expect(source.split('\n').length).toBeLessThan(360)
    const imports = [...source.matchAll(/^(?:import|from) (\w+)/gm)].map(([, name]) => name)
    expect(imports).toEqual(['argparse', 'base64', 'hashlib', 'json', 're', 'sys', 'datetime', 'decimal'])
  })

  test('accepts the receipt and the inclusion proof', async () => {
    const [of, to] = await Promise.all([python('receipt', RECEIPT, KEYS), python('proof', PROOF, CHECKPOINT, KEYS)])
    expect(of).toEqual({ code: 0, says: expect.stringContaining('signed by aigw-example') })
    expect(to).toEqual({ code: 0, says: expect.stringContaining('entry 1 is in aigw-example/logs/') })
  })

  test('writes every JSON value as the code does, so that receipts of any payload verify', async () => {
    const value = fc.oneof(fc.jsonValue({ stringUnit: 'binary' }), fc.double({ noNaN: true, noDefaultInfinity: true }))
    const object = fc.dictionary(fc.string({ unit: 'binary' }), value)
    // Python verifies signatures slowly, so each receipt contains a hundred.
    const payloads = Array.from({ length: 5 }, () => ({ values: fc.sample(object, 100) }))
    const files = await Promise.all(payloads.map((payload) => fileOf(exampleReceiptOf(payload))))
    const answers = pythonOf(files.map((file) => ['receipt', file, KEYS]))
    expect(payloads.filter((_, at) => answers[at] !== 'ok')).toEqual([])
  })

  test('rejects a receipt with any change', async () => {
    const changed = CHANGES.map(([path, value]) => withChange(receipt, path.split('.'), value))
    const files = await Promise.all(changed.map(fileOf))
    const answers = pythonOf(files.map((file) => ['receipt', file, KEYS]))
    for (const [at, change] of CHANGES.entries()) {
      expect([change, answers[at]]).toEqual([change, 'FAIL'])
      expect([change, verifyReceipt(changed[at], [exampleSigner.published])]).toMatchObject([change, { ok: false }])
    }
  })

  test('rejects an entry that was signed with another previous hash', async () => {
    for (const before of ['', 'f'.repeat(63), 'F'.repeat(64), ` ${'f'.repeat(63)}`]) {
      const receipt = exampleReceiptOf({}, before)
      expect(pythonOf([['receipt', await fileOf(receipt), KEYS]])).toEqual(['FAIL'])
      expect(verifyReceipt(receipt, [exampleSigner.published])).toMatchObject({ ok: false })
    }
  })

  test('rejects a text with a repeated member', async () => {
    const texts = ['receipt.json', 'keys.json', 'proof.json'].map((name) => readFile(join(FIXTURES, name), 'utf8'))
    const doubled = (await Promise.all(texts)).map((text) => fileOf(text.replace(/"(\w+)":/, '"$1": 0, "$1":')))
    const [receipt = '', keys = '', proof = ''] = await Promise.all(doubled)
    const calls = [
      ['receipt', receipt, KEYS],
      ['receipt', join(FIXTURES, 'receipt.json'), keys],
      ['proof', proof, join(FIXTURES, 'checkpoint.txt'), KEYS],
    ]
    expect(pythonOf(calls)).toEqual(['FAIL', 'EXIT 2', 'FAIL'])
  })

  test('accepts every entry of a commit of any size', async () => {
    const receipts = [1, 2, 5, 8, 13].flatMap((size) => exampleReceiptsOf(size))
    const files = await Promise.all(receipts.map(fileOf))
    expect(new Set(pythonOf(files.map((file) => ['receipt', file, KEYS])))).toEqual(new Set(['ok']))
  })

  test('rejects signatures of other keys, and a key under a wrong kid', async () => {
    const foreign = await fileOf(toKeySet([other.published]))
    const swapped = await fileOf({
      keys: [{ ...exampleKeys.keys[0], x: other.published.publicKey.toString('base64url') }],
    })
    const calls = [foreign, swapped].flatMap((keys) => [
      ['receipt', join(FIXTURES, 'receipt.json'), keys],
      ['proof', join(FIXTURES, 'proof.json'), join(FIXTURES, 'checkpoint.txt'), keys],
    ])
    expect(pythonOf(calls)).toEqual(['FAIL', 'FAIL', 'EXIT 2', 'EXIT 2'])
    expect(await python(...(calls[0] ?? []))).toEqual({
      code: 1,
      says: expect.stringMatching(/^FAIL: it is not signed/),
    })
  })

  test('finds the checkpoint of a proof among notes of other logs and sizes', async () => {
    const others = [
      testNote('aigw-example/logs/0', 3, Buffer.alloc(32, 1).toString('base64'), other),
      testNote('aigw-example/logs/0', 2, ROOT, other),
    ]
    const files = [
      `${others.join('\n')}\n${exampleCheckpoint}\n`,
      `${exampleCheckpoint}\n${others.join('\n')}\n`,
      exampleCheckpoint + others.join(''),
    ]
    const calls = files.map(async (notes) => ['proof', join(FIXTURES, 'proof.json'), await fileOf(notes), KEYS])
    expect(pythonOf(await Promise.all(calls))).toEqual(['ok', 'ok', 'ok'])
    const without = await fileOf(others.join('\n'))
    expect(pythonOf([['proof', join(FIXTURES, 'proof.json'), without, KEYS]])).toEqual(['FAIL'])
  })

  test('rejects the signature of a commit or of an export in place of a checkpoint', async () => {
    const { origin, tree_size, leaf_index, path, root } = Reflect.get(receipt, 'proof') as Record<string, string>
    const entry_hash = Reflect.get(Reflect.get(receipt, 'entry') as object, 'entry_hash')
    const proof = await fileOf({ ...exampleProof, entry_hash, index: leaf_index, size: tree_size, path, root })
    const { name, publicKey } = exampleSigner.published
    const base64 = Buffer.from(root ?? '', 'hex').toString('base64')
    const ofCommit = signedNote(
      checkpointText({ origin: origin ?? '', size: Number(tree_size), root: base64 }),
      name,
      publicKey,
      Buffer.from(SIGNATURE, 'base64'),
    )
    const origins = [`${name}/exports/${'0'.repeat(64)}`, `${name}/logs/`, `${name}/logs/${'A'.repeat(32)}`]
    const notes = [ofCommit, ...origins.map((other) => testNote(other, Number(tree_size), base64, exampleSigner))]
    for (const note of notes) expect(verifyNote(note, [exampleSigner.published])).toMatchObject({ root: base64 })
    const calls = notes.map(async (note) => ['proof', proof, await fileOf(note), KEYS])
    expect(pythonOf(await Promise.all(calls))).toEqual(notes.map(() => 'FAIL'))
    const ofLog = await fileOf(testNote(`${name}/logs/${'a'.repeat(32)}`, Number(tree_size), base64, exampleSigner))
    expect(pythonOf([['proof', proof, ofLog, KEYS]])).toEqual(['ok'])
  })

  test('rejects a proof that does not lead to the checkpoint, and an unsigned checkpoint', async () => {
    const calls = PROOFS.map(async ([, proof, note]) => ['proof', await fileOf(proof), await fileOf(note), KEYS])
    const answers = pythonOf(await Promise.all(calls))
    expect(answers.map((answer, at) => [PROOFS[at]?.[0], answer])).toEqual(PROOFS.map(([what]) => [what, 'FAIL']))
  })
})

// The root of an empty tree, and a "node" of 64 bytes that would pass without length checks.
const [left = '', right = ''] = exampleProof.path
const ofFirstTwo = hash('sha256', Buffer.from(`01${left}${exampleProof.entry_hash}`, 'hex'))
const ofHalves = { ...exampleProof, entry_hash: '', index: 2, path: [ofFirstTwo + right] }

const CHANGES: [path: string, value: unknown][] = [
  ['status', 200],
  ['status', 400.5],
  ['status', '400'],
  ['outcome', 'allowed'],
  ['requested_model', 'größer/al'],
  ['tiny', 1.1e-7],
  ['large', 1e20],
  ['more', true],
  ['tiny', undefined],
  ['entry.tenant_id', '65f000000000000000000002'],
  ['entry.chain', 'requests-0123456789ac'],
  ['entry.seq', 2],
  ['entry.seq', 1.5],
  ['entry.seq', true],
  ['entry.seq', '1'],
  ['entry.id', 'jti-1'],
  ['entry.created_at', '2026-01-31T12:00:02.000Z'],
  ['entry.prev_hash', '0'.repeat(64)],
  ['entry.payload_hash', '0'.repeat(64)],
  ['entry.entry_hash', '0'.repeat(64)],
  ['entry.more', ''],
  ['entry.seq', 2 ** 53],
  ['entry.entry_hash', exampleProof.entry_hash.toUpperCase()],
  ['proof.origin', 'aigw-example/commits/65f00000000000000000000d'],
  ['proof.origin', 'aigw-example/logs/65f00000000000000000000c'],
  ['proof.tree_size', 4],
  ['proof.leaf_index', 0],
  ['proof.leaf_index', -1],
  ['proof.leaf_index', 1.5],
  ['proof.path', []],
  ['proof.path', Object.fromEntries(exampleProof.path.map((node) => [node, 1]))],
  ['proof.path', exampleProof.path.map((node) => node.toUpperCase())],
  ['proof.path', exampleProof.path.map((node) => ` ${node} `)],
  ['proof.path', exampleProof.path.toReversed()],
  ['proof.root', '0'.repeat(64)],
  ['proof.more', ''],
  ['alg', 'none'],
  ['kid', other.published.kid],
  ['signer', 'aigw-sample'],
  ['signature', Buffer.alloc(64).toString('base64')],
  ['signature', Buffer.alloc(64, 255).toString('base64')],
  ['signature', ''],
  ['signature', sameBase64(SIGNATURE)],
  ['signature', `${SIGNATURE}!`],
  ['proof', undefined],
]

const PROOFS: [what: string, proof: object, note: string][] = [
  ['another entry', { ...exampleProof, entry_hash: exampleProof.root }, exampleCheckpoint],
  ['another index', { ...exampleProof, index: 2 }, exampleCheckpoint],
  ['an index outside', { ...exampleProof, index: 3 }, exampleCheckpoint],
  [
    'its node in upper case',
    { ...exampleProof, path: exampleProof.path.map((node) => node.toUpperCase()) },
    exampleCheckpoint,
  ],
  ['its node with spaces', { ...exampleProof, path: exampleProof.path.map((node) => ` ${node}`) }, exampleCheckpoint],
  ['an empty hash and one of 64 bytes', ofHalves, exampleCheckpoint],
  ['another base64 of its signature', exampleProof, sameBase64(exampleCheckpoint)],
  [
    'additional text in the line of its signature',
    exampleProof,
    exampleCheckpoint.replace('— aigw-example', '— aigw-example x'),
  ],
  ['a shorter path', { ...exampleProof, path: exampleProof.path.slice(1) }, exampleCheckpoint],
  ['a longer path', { ...exampleProof, path: [...exampleProof.path, exampleProof.root] }, exampleCheckpoint],
  ['another size', exampleProof, exampleCheckpoint.replace('\n3\n', '\n4\n')],
  ['another origin', exampleProof, exampleCheckpoint.replace('/logs/', '/logs/0')],
  ['another name', exampleProof, exampleCheckpoint.replace('— aigw-example', '— aigw-sample')],
  ['another signature', exampleProof, testNote('aigw-example/logs/0', 3, ROOT, other)],
]

function withChange(value: object, [name = '', ...rest]: string[], change: unknown): object {
  const inner: unknown = Reflect.get(value, name)
  const isNested = rest.length > 0 && typeof inner === 'object' && inner !== null
  return { ...value, [name]: isNested ? withChange(inner, rest, change) : change }
}

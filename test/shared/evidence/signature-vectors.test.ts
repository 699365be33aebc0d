import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  checkSignature,
  isSignedBy,
  keyIdOf,
  type PublishedKey,
  parseKeySet,
  toKeySet,
} from '../../../src/shared/evidence/keys.ts'
import { VERIFIERS } from './export-folder.ts'
import { testSigner } from './signer.ts'
import { pythonVerifiers, writeVerifierModule } from './verdicts.ts'

/** Hex, except `what`. */
type Vector = { id: number; what: string; key: string; message: string; signature: string; valid: boolean }
type Functions = { checkSignature: typeof checkSignature; isSignedBy: typeof isSignedBy }

let vectors: Vector[]
let folder: string
beforeAll(async () => {
  const file = join(import.meta.dirname, '../../fixtures/evidence/ed25519-vectors.json')
  vectors = JSON.parse(await readFile(file, 'utf8')).vectors
  folder = await mkdtemp(join(tmpdir(), 'aigw-vectors-'))
})
afterAll(() => rm(folder, { recursive: true }))

const keyOf = (publicKey: Buffer): PublishedKey => ({
  ...{ kid: keyIdOf(publicKey), name: 'aigw-test', publicKey },
  ...{ createdAt: '2026-01-01T00:00:00.000Z', retiredAt: null },
})
// The functions pass the text to Buffer.from, which takes bytes too. Not every message is a text.
const bytesOf = (hex: string) => Buffer.from(hex, 'hex') as unknown as string

/** The ids of the vectors for which the verdict differs. */
async function wrongBy({ isSignedBy, checkSignature }: Functions): Promise<number[]> {
  const wrong: number[] = []
  for (const { id, key, message, signature, valid } of vectors) {
    const args = [keyOf(Buffer.from(key, 'hex')), bytesOf(message), Buffer.from(signature, 'hex')] as const
    const later = await new Promise<boolean>((resolve) => checkSignature(...args, resolve))
    if (isSignedBy(...args) !== valid || later !== valid) wrong.push(id)
  }
  return wrong
}

test('aigw and verify.mjs agree with all 145 vectors', async () => {
  expect(vectors).toHaveLength(145)
  const script: Functions = await import(pathToFileURL(await writeVerifierModule(folder)).href)
  expect([await wrongBy({ isSignedBy, checkSignature }), await wrongBy(script)]).toEqual([[], []])
})

test('verify_receipt.py agrees with all 145 vectors', () => {
  const driver = `
import json, sys
sys.path.insert(0, sys.argv[1])
import verify_receipt
for vector in json.load(sys.stdin):
    key, message, signature = (bytes.fromhex(vector[name]) for name in ("key", "message", "signature"))
    try:
        verify_receipt.check_key(key)
        verify_receipt.check_signature(key, message, signature)
        print("true")
    except verify_receipt.REFUSALS:
        print("false")
`
  const answers = execFileSync('python3', ['-B', '-c', driver, VERIFIERS], {
    input: JSON.stringify(vectors),
    encoding: 'utf8',
  })
  const verdicts = answers.trim().split('\n')
  expect(verdicts).toHaveLength(145)
  expect(vectors.filter(({ valid }, at) => verdicts[at] !== String(valid))).toEqual([])
})

const ORDER_8 = 'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a'
const OTHER_ORDER_8 = '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05'
/** Sets the sign of x. */
const negative = (hex: string) => hex.slice(0, 62) + (Number.parseInt(hex.slice(62), 16) | 0x80).toString(16)
const ff = 'ff'.repeat(30)
const WEAK = [
  ...['00'.repeat(32), `01${'00'.repeat(31)}`, `ec${ff}7f`, ORDER_8, OTHER_ORDER_8],
  // Encodings of y that are not below the prime.
  ...[`ed${ff}7f`, `ee${ff}7f`, `ff${ff}7f`, `f0${ff}7f`],
]

test.each([...WEAK, ...WEAK.map(negative)])(
  'every verifier rejects the key %s: small order, or not canonical',
  async (hex) => {
    const key = keyOf(Buffer.from(hex, 'hex'))
    const keys = toKeySet([key, testSigner('aigw-test').published])
    expect(() => parseKeySet(keys)).toThrow('is not a canonical point of large order')
    const file = join(folder, 'keys.json')
    await writeFile(file, JSON.stringify(keys))
    const python = pythonVerifiers()
    expect(await python.verdict(['verify_receipt', 'receipt', file, file])).toBe('EXIT 2')
    expect(await python.verdict(['verify_export', folder, '--keys', file])).toBe('EXIT 2')
    await python.end()
  },
)

import { describe, expect, test } from 'vitest'
import { cosignatureLine, cosignatureText } from '../../../src/shared/evidence/cosignature.ts'
import { keyHashOf } from '../../../src/shared/evidence/note.ts'
import { parseTilePath, tilePath } from '../../../src/shared/evidence/tile.ts'
import { formatTlogProof, parseTlogProof } from '../../../src/shared/evidence/tlog-proof.ts'
import { KEY_TYPE, parseWitnessKey, toVerifierKey } from '../../../src/shared/evidence/verifier-key.ts'
import { cosignedNoteOf, parseWitnessPolicy } from '../../../src/shared/evidence/witness-policy.ts'
import { exampleCheckpoint, exampleSigner } from './example.ts'
import { testNote, testSigner } from './signer.ts'

const NOW = Date.parse('2026-02-01T00:00:00.000Z')
const witnesses = ['w1', 'w2', 'w3'].map((name) => {
  const signer = testSigner(`${name}.example.com`)
  const { publicKey } = signer.published
  const key = { name: `${name}.example.com`, publicKey, type: KEY_TYPE.witness }
  const keyHash = keyHashOf(key.name, publicKey, KEY_TYPE.witness)
  const vkey = toVerifierKey(key.name, publicKey, KEY_TYPE.witness)
  const lineOf = (text: string, atMs = NOW) =>
    cosignatureLine({ ...key, keyHash }, atMs / 1000, signer.sign(cosignatureText(atMs / 1000, text)))
  return { name, vkey, lineOf, signer }
})
const LINES = witnesses.map(({ name, vkey }) => `witness ${name} ${vkey}\n`).join('')
const textOf = (note: string) => note.slice(0, note.indexOf('\n\n') + 1)
const cosign = (note: string, ...names: string[]) =>
  note +
  witnesses
    .filter(({ name }) => names.includes(name))
    .map(({ lineOf }) => lineOf(textOf(note)))
    .join('')
const verify = (note: string, policy: string, keys = [exampleSigner.published]) =>
  cosignedNoteOf(note, { keys, policy: parseWitnessPolicy(policy), nowMs: NOW })

describe('a policy', () => {
  const TWO = `${LINES}group g 2 w1 w2 w3\nquorum g\n`

  test('demands n of these witnesses', () => {
    expect(verify(cosign(exampleCheckpoint, 'w1', 'w3'), TWO).cosigners).toEqual(['w1', 'w3'])
    expect(() => verify(cosign(exampleCheckpoint, 'w2'), TWO)).toThrow(
      '2 of w1, w2, w3 must cosign; valid ones are of w2',
    )
    // The same witness twice is one witness.
    expect(() => verify(cosign(cosign(exampleCheckpoint, 'w2'), 'w2'), TWO)).toThrow('valid ones are of w2')
    expect(verify(exampleCheckpoint, `${LINES}quorum none\n`).cosigners).toEqual([])
    const nested = `${LINES}group a any w1 w2\ngroup b all a w3\nquorum b\n`
    expect(verify(cosign(exampleCheckpoint, 'w2', 'w3'), nested).cosigners).toEqual(['w2', 'w3'])
    expect(() => verify(cosign(exampleCheckpoint, 'w1', 'w2'), nested)).toThrow('lacks cosignatures')
  })

  test('needs the signature of the log too', () => {
    const other = testSigner('other')
    expect(() => verify(cosign(exampleCheckpoint, 'w1', 'w3'), TWO, [other.published])).toThrow('no trusted key')
  })

  test('rejects a wrong cosignature, and one of another checkpoint', () => {
    const other = testNote('aigw-example/logs/x', 4, Buffer.alloc(32).toString('base64'), exampleSigner)
    const mixed = exampleCheckpoint + witnesses.map(({ lineOf }) => lineOf(textOf(other))).join('')
    expect(() => verify(mixed, TWO)).toThrow('the cosignature of w1 is wrong')
  })

  test.each([
    ['before the window of the witness', 'valid w1 2026-02-02T00:00:00Z -', NOW, null],
    ['after the window of the witness', 'valid w1 - 2026-01-31T00:00:00Z', NOW, null],
    ['in the future', '', NOW + 301_000, null],
    ['before the key of the log', '', Date.parse('2025-12-31T00:00:00.000Z'), null],
    ['after the key of the log was retired', '', NOW, '2026-01-31T23:00:00.000Z'],
  ])('does not count a cosignature %s', (_, line, atMs, retiredAt) => {
    const policy = `${LINES}${line}\nquorum w1\n`
    const [w1] = witnesses
    const note = exampleCheckpoint + w1?.lineOf(textOf(exampleCheckpoint), atMs)
    expect(() => verify(note, policy, [{ ...exampleSigner.published, retiredAt }])).toThrow(
      'valid ones are of no witness',
    )
  })

  test('counts a cosignature inside of all windows', () => {
    const policy = `${LINES}valid w1 2026-01-31T00:00:00Z 2026-02-02T00:00:00Z\n# a comment\n\nquorum w1\n`
    const retired = { ...exampleSigner.published, retiredAt: '2026-01-31T23:56:00.000Z' }
    expect(verify(cosign(exampleCheckpoint, 'w1'), policy, [retired]).cosigners).toEqual(['w1'])
  })

  test.each([
    ['', 'it has no quorum'],
    ['quorum none\nquorum none\n', 'line 2: there may be only one quorum'],
    ['quorum w1\n', 'line 1: quorum names one witness or group of an earlier line'],
    [`${LINES}witness w1 ${witnesses[0]?.vkey}\n`, 'line 4: the name w1 is already in use'],
    [`${LINES}witness w9 ${witnesses[0]?.vkey}\n`, 'line 4: two witnesses have the same key'],
    [`${LINES}group none all w1\n`, 'line 4: the name none is already in use'],
    [`${LINES}group g 4 w1 w2 w3\n`, 'line 4: a group needs all, any, or a number from 1 to 3'],
    [`${LINES}group g 0 w1\n`, 'line 4: a group needs'],
    [`${LINES}group g all\n`, 'line 4: the group g has no members'],
    [`${LINES}group g any w1 w4\n`, 'line 4: w4 is not defined on an earlier line'],
    [`${LINES}group g 2 w1 w1\n`, 'line 4: w1 is already a member of a group'],
    [`${LINES}group g any w1\ngroup h any w1\n`, 'line 5: w1 is already a member of a group'],
    [`${LINES}valid w1 yesterday -\n`, 'line 4: a time must have the form'],
    [`${LINES}valid w1 2026-02-02T00:00:00Z 2026-02-01T00:00:00Z\n`, 'line 4: the second time must be after the first'],
    [`${LINES}valid w9 - -\n`, 'line 4: valid has the name of a witness'],
    ['log a+b+c\n', 'line 1: remove the log'],
    ['quorums none\n', 'line 1: unknown keyword quorums'],
    ['witness w1 a+b\n', 'line 1: must be <name>+<hash>+<key>'],
    [
      `witness w1 ${toVerifierKey('w', witnesses[0]!.signer.published.publicKey)}\n`,
      'line 1: must be the key of a witness',
    ],
    [
      `witness w1 ${witnesses[0]?.vkey.replace('w1.example', 'w2.example')}\n`,
      'line 1: has a hash that does not match',
    ],
  ])('%j is rejected: %s', (text, problem) => {
    expect(() => parseWitnessPolicy(text)).toThrow(problem)
  })
})

test('the key of a witness is the one of C2SP tlog-cosignature', () => {
  for (const { vkey } of witnesses) {
    const { name, publicKey, type } = parseWitnessKey(vkey)
    expect(toVerifierKey(name, publicKey, type)).toBe(vkey)
  }
})

test('a tile has one path', () => {
  for (const [path, tile] of [
    ['tile/0/000', { level: 0, index: 0, width: 256 }],
    ['tile/0/x001/x234/067', { level: 0, index: 1_234_067, width: 256 }],
    ['tile/63/273.p/112', { level: 63, index: 273, width: 112 }],
  ] as const) {
    expect(parseTilePath(path)).toEqual(tile)
    expect(tilePath(tile)).toBe(path)
  }
  for (const path of [
    'tile/0',
    'tile/0/0',
    'tile/00/000',
    'tile/64/000',
    'tile/0/x000/000',
    'tile/0/001/000',
    'tile/0/x001',
    'tile/0/000.p',
    'tile/0/000.p/0',
    'tile/0/000.p/256',
    'tile/0/000.p/01',
    'tile/0/000/12',
    'tile/entries/000',
    'tiles/0/000',
    'checkpoint',
    'tile/0/x999/x999/x999/x999/x999/999',
    'tile/0/000/',
    'tile/-1/000',
    '',
  ])
    expect([path, parseTilePath(path)]).toEqual([path, undefined])
})

test('a proof is parsed as it was written, and nothing else is', () => {
  const proof = { index: 7, path: [Buffer.alloc(32, 1), Buffer.alloc(32, 2)], note: exampleCheckpoint }
  const text = formatTlogProof(proof)
  expect(parseTlogProof(text)).toEqual(proof)
  expect(parseTlogProof(formatTlogProof({ ...proof, path: [] }))).toEqual({ ...proof, path: [] })
  for (const [from, to] of [
    ['@v1', '@v2'],
    ['index 7', 'index 07'],
    ['index 7', 'index -7'],
    ['AQEB', 'AQE'],
    ['index 7\n', ''],
  ] as const)
    expect(() => parseTlogProof(text.replace(from, to))).toThrow()
})

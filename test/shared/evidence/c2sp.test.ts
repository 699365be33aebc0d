import { hash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import {
  ALWAYS,
  cosignatureLine,
  cosignatureText,
  cosignedAtMs,
  isOfKey,
} from '../../../src/shared/evidence/cosignature.ts'
import { keyIdOf } from '../../../src/shared/evidence/keys.ts'
import { rootOfInclusion, treeRoot, verifyConsistency } from '../../../src/shared/evidence/merkle.ts'
import {
  checkpointText,
  keyHashOf,
  parseCheckpoint,
  signedNote,
  verifyNote,
} from '../../../src/shared/evidence/note.ts'
import { consistencyProof, inclusionProof } from '../../../src/shared/evidence/subtrees.ts'
import { parseTilePath, TILE_WIDTH, type Tile, tilePath } from '../../../src/shared/evidence/tile.ts'
import { KEY_TYPE, parseWitnessKey, toVerifierKey } from '../../../src/shared/evidence/verifier-key.ts'
import { testSigner } from './signer.ts'

// Tests against golang.org/x/mod/sumdb. CI has no Go, so its values are recorded: test/fixtures/c2sp/make.go makes them.
const FOLDER = new URL('../../fixtures/c2sp/', import.meta.url)
const read = (name: string) => readFileSync(new URL(name, FOLDER), 'utf8')

const SIZE = 600
const OLDER = 259
const leafOf = (index: number) => Buffer.from(hash('sha256', `\0entry ${index}`, 'hex'), 'hex')
const leaves = Array.from({ length: SIZE }, (_, index) => leafOf(index))
const rootOf = (from: number, to: number) => treeRoot(Buffer.concat(leaves.slice(from, to)))
const subtree = (level: number, index: number) => rootOf(index * 2 ** level, (index + 1) * 2 ** level)
const base64 = (list: readonly Buffer[]) => list.map((one) => one.toString('base64'))

/** The hashes of a tile, computed from the leaves. */
function tileOf({ level, index, width }: Tile): Buffer {
  const at = (child: number) => subtree(8 * level, index * TILE_WIDTH + child)
  return Buffer.concat(Array.from({ length: width }, (_, child) => at(child)))
}
const TILES = ['tile/0/000', 'tile/0/001', 'tile/0/002.p/88', 'tile/1/000.p/2']
const tiles = () => TILES.map((path) => [path, tileOf(parseTilePath(path) as Tile)] as const)

describe('what this project writes', () => {
  const log = testSigner('gateway.example.com', '11'.repeat(32))
  const witness = testSigner('witness.example.com/w2', '22'.repeat(32))

  async function ours(): Promise<string> {
    const { name, publicKey } = log.published
    const noteOf = (size: number) => {
      const text = checkpointText({ origin: `${name}/logs/1`, size, root: rootOf(0, size).toString('base64') })
      return { text, note: signedNote(text, name, publicKey, log.sign(text)) }
    }
    const { text, note } = noteOf(SIZE)
    const key = { name: witness.published.name, publicKey: witness.published.publicKey, type: KEY_TYPE.witness }
    const keyHash = keyHashOf(key.name, key.publicKey, key.type)
    const time = 1_767_225_600
    return `${JSON.stringify(
      {
        log_key: toVerifierKey(name, publicKey),
        witness_key: toVerifierKey(key.name, key.publicKey, key.type),
        note: note + cosignatureLine({ ...key, keyHash }, time, witness.sign(cosignatureText(time, text))),
        older: noteOf(OLDER).note,
        index: 300,
        leaf: leafOf(300).toString('base64'),
        path: base64(await inclusionProof(300, SIZE, subtree)),
        extension: base64(await consistencyProof(OLDER, SIZE, subtree)),
        tiles: Object.fromEntries(tiles().map(([path, data]) => [path, data.toString('base64')])),
      },
      undefined,
      1,
    )}\n`
  }

  test('was accepted by golang.org/x/mod', async () => {
    const made = await ours()
    if (process.env.UPDATE_C2SP === '1') writeFileSync(new URL('ours.json', FOLDER), made)
    expect(made).toBe(read('ours.json'))
    expect(JSON.parse(read('go.json')).accepted).toBe(hash('sha256', made, 'hex'))
  })
})

describe('what golang.org/x/mod writes', () => {
  const go = () => JSON.parse(read('go.json'))
  const root = (size: number) => Buffer.from(go().roots[size], 'base64')

  test('are the same roots and proofs', async () => {
    for (const size of Object.keys(go().roots)) expect(rootOf(0, Number(size))).toEqual(root(Number(size)))
    for (const { from, size, path } of go().inclusion) {
      const hashes = path.map((one: string) => Buffer.from(one, 'base64'))
      expect(base64(await inclusionProof(from, size, subtree))).toEqual(path)
      expect(rootOfInclusion(leafOf(from), from, size, hashes)).toEqual(root(size))
    }
    for (const { from, size, path: texts } of go().consistency) {
      const path = texts.map((one: string) => Buffer.from(one, 'base64'))
      expect(base64(await consistencyProof(from, size, subtree))).toEqual(texts)
      const claim = { oldSize: from, oldRoot: rootOf(0, from), newSize: size, newRoot: rootOf(0, size), path }
      expect(verifyConsistency(claim)).toBe(true)
    }
  })

  test('are the same tiles, at the same paths', () => {
    expect(Object.keys(go().tiles).sort()).toEqual(TILES.toSorted())
    for (const [path, data] of tiles()) {
      expect([path, hash('sha256', data, 'hex')]).toEqual([path, go().tiles[path]])
      expect(tilePath(parseTilePath(path) as Tile)).toBe(path)
    }
  })

  test('is a note that the log has signed and a witness has cosigned', () => {
    const { note, log_key, witness_key } = go()
    const [name, , key] = log_key.split('+')
    const publicKey = Buffer.from(key, 'base64').subarray(1)
    expect(toVerifierKey(name, publicKey)).toBe(log_key)
    const published = {
      kid: keyIdOf(publicKey),
      name,
      publicKey,
      createdAt: '2026-01-01T00:00:00.000Z',
      retiredAt: null,
    }
    expect(verifyNote(note, [published])).toEqual({
      origin: 'log.example.com/logs/0',
      size: SIZE,
      root: go().roots[SIZE],
      key: published,
    })
    const witness = { ...parseWitnessKey(witness_key), window: ALWAYS }
    const { text, signatures } = parseCheckpoint(note)
    const line = signatures.find((signature) => isOfKey(signature, witness))
    expect(line && cosignedAtMs(line, text, witness)).toBe(1_767_225_600_000)
    expect(line && cosignedAtMs(line, `${text}x`, witness)).toBe(undefined)
  })
})

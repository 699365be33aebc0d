import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { cosignatureLine, cosignatureText } from '../src/shared/evidence/cosignature.ts'
import type { PublishedKey } from '../src/shared/evidence/keys.ts'
import { verifyConsistency } from '../src/shared/evidence/merkle.ts'
import { keyHashOf, NoteError, parseCheckpoint, verifyNote } from '../src/shared/evidence/note.ts'
import { KEY_TYPE, toVerifierKey } from '../src/shared/evidence/verifier-key.ts'
import { testSigner } from './shared/evidence/signer.ts'

/** A response that replaces the regular response of a witness. `hang` sends nothing. */
export type WitnessFault = 'hang' | { status: number; body?: string; type?: string }

/** A witness on a real socket (C2SP tlog-witness). It refuses forks and rollbacks. */
export type TestWitness = {
  url: string
  /** Its verifier key, as a configuration contains it. */
  vkey: string
  /** The keys with which logs may sign. A test sets them. */
  trusts: () => Promise<readonly PublishedKey[]>
  /** The time of its cosignatures. */
  nowMs: () => number
  /** Called before each response. A returned fault replaces the response. */
  fault: () => WitnessFault | undefined
  /** The bodies of the requests, and the status of each response. */
  requests: string[]
  statuses: number[]
  /** The last cosigned checkpoint of each origin. */
  seen: Map<string, { size: number; root: string }>
  close(): Promise<void>
}

/** Starts a witness. By default, it trusts no key. */
export async function startWitness(name = 'witness.example.com/w1'): Promise<TestWitness> {
  const signer = testSigner(name)
  const { publicKey } = signer.published
  const key = { name, type: KEY_TYPE.witness, publicKey, keyHash: keyHashOf(name, publicKey, KEY_TYPE.witness) }
  const witness: Omit<TestWitness, 'url' | 'close'> = {
    vkey: toVerifierKey(name, publicKey, KEY_TYPE.witness),
    trusts: async () => [],
    nowMs: () => Date.now(),
    fault: () => undefined,
    requests: [],
    statuses: [],
    seen: new Map(),
  }

  async function answer(body: string): Promise<{ status: number; body?: string; type?: string }> {
    const [head = '', ...rest] = body.split('\n\n')
    const [oldLine = '', ...lines] = head.split('\n')
    const note = rest.join('\n\n')
    const { checkpoint, text } = parseCheckpoint(note)
    const keys = await witness.trusts()
    if (keys.length === 0) return { status: 404 }
    try {
      verifyNote(note, keys)
    } catch (error) {
      if (error instanceof NoteError) return { status: 403 }
      throw error
    }
    const oldSize = Number(oldLine.replace(/^old /, ''))
    if (!(oldSize <= checkpoint.size)) return { status: 400 }
    const last = witness.seen.get(checkpoint.origin)
    const conflict = { status: 409, body: `${last?.size ?? 0}\n`, type: 'text/x.tlog.size' }
    if (oldSize !== (last?.size ?? 0)) return conflict
    if (last && oldSize === checkpoint.size && last.root !== checkpoint.root) return conflict
    const path = lines.map((line) => Buffer.from(line, 'base64'))
    const holds =
      last === undefined
        ? path.length === 0
        : verifyConsistency({
            oldSize,
            oldRoot: Buffer.from(last.root, 'base64'),
            newSize: checkpoint.size,
            newRoot: Buffer.from(checkpoint.root, 'base64'),
            path,
          })
    if (!holds) return { status: 422 }
    witness.seen.set(checkpoint.origin, { size: checkpoint.size, root: checkpoint.root })
    const seconds = Math.floor(witness.nowMs() / 1000)
    return { status: 200, body: cosignatureLine(key, seconds, signer.sign(cosignatureText(seconds, text))) }
  }

  const server = createServer(async (incoming, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk as Buffer)
    const body = Buffer.concat(chunks).toString()
    witness.requests.push(body)
    const fault = incoming.url === '/add-checkpoint' ? witness.fault() : { status: 404 }
    if (fault === 'hang') return
    const { status, body: text = '', type = 'text/plain' } = fault ?? (await answer(body))
    witness.statuses.push(status)
    response.writeHead(status, { 'content-type': type }).end(text)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const close = () => new Promise<void>((resolve) => server.close(() => resolve()).closeAllConnections())
  return Object.assign(witness, { url, close })
}

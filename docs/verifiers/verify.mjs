// Checks an export of evidence: node verify.mjs [DIR] [--keys FILE]
// It needs Node.js 20.19 or later and nothing else, asks nobody, and says what it found in one line for each check. The format
// is in docs/evidence.md. DIR is where this file lies unless it is named. Exit codes: 0 the export holds, 1 it does not hold,
// 2 it was not checked, because an argument or the file of --keys cannot be used.
import { createHash, createPublicKey, hash, verify } from 'node:crypto'
import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const USAGE = `Usage: node verify.mjs [DIR] [--keys FILE]

  DIR          the export; default: the directory of this file
  --keys FILE  trust the keys of this file, a copy of the gateway's /.well-known/aigw-keys.json;
               default: the keys of the export, which anyone could have made
  --help       show this text

Exit codes: 0 the export holds, 1 it does not hold, 2 an argument or the key file cannot be used.
`

const COVERED = [
  'README.txt',
  'checkpoints.ndjson',
  'commits.ndjson',
  'data.csv',
  'data.ndjson',
  'keys.json',
  'verify.mjs',
]
const ROW = 'chain,commit_id,created_at,entry_hash,id,leaf_index,payload,payload_hash,seq,tenant_id'
const NEWLINE = 10
const NOTE_HASH_BYTES = 4
/** More lines below a note than any has; each could cost a verification. */
const MAX_SIGNATURES = 100

/** What does not hold. Anything else that is thrown is a file that cannot be read. */
class Violation extends Error {}

/** An argument that cannot be used. */
class UsageError extends Error {}

const demand = (holds, problem) => {
  if (!holds) throw new Violation(problem)
}
const isCount = (value) => Number.isSafeInteger(value) && value >= 0
const isText = (value) => typeof value === 'string'
const isHash = (value) => isText(value) && /^[0-9a-f]{64}$/.test(value)
/** Whether it can stand in a line below a note (C2SP signed-note). */
const isSignerName = (value) => isText(value) && value !== '' && !/[\s+\p{Cc}]/u.test(value)
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
/** What stands in a file may be anything; on a screen it must not do anything. */
const harmless = (line) => line.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0).toString(16)}}`)

// Hashes and trees (RFC 6962).
const sha256 = (data) => hash('sha256', data, 'hex')
const netstrings = (texts) => texts.map((text) => `${Buffer.byteLength(text)}:${text},`).join('')
/** A leaf that holds texts. The hash of an entry is one. */
const leafOf = (texts) => sha256(`\0${netstrings(texts)}`)
const nodeOf = (left, right) => sha256(Buffer.from(`01${left}${right}`, 'hex'))
const toBase64 = (hex) => Buffer.from(hex, 'hex').toString('base64')
/** The bytes of a text as base64 writes them, or undefined: other texts decode to the same bytes, and none of them was signed. */
const fromBase64 = (text, as = 'base64') => {
  const bytes = isText(text) ? Buffer.from(text, as) : undefined
  return bytes?.toString(as) === text ? bytes : undefined
}

/** A tree that grows: the roots of its complete subtrees, the largest first. */
class Tree {
  size = 0
  #roots = []

  add(leaf) {
    let root = leaf
    for (let rest = this.size; rest % 2 === 1; rest = (rest - 1) / 2) root = nodeOf(this.#roots.pop(), root)
    this.#roots.push(root)
    this.size += 1
  }

  root() {
    return this.#roots.length === 0 ? sha256('') : this.#roots.reduceRight((right, left) => nodeOf(left, right))
  }
}

function rootOf(leaves) {
  const tree = new Tree()
  for (const leaf of leaves) tree.add(leaf)
  return tree.root()
}

/** The lines of a file, without having all of it in memory. */
function* linesOf(path) {
  const file = openSync(path)
  try {
    const chunk = Buffer.alloc(1 << 20)
    let rest = Buffer.alloc(0)
    for (let count = readSync(file, chunk); count > 0; count = readSync(file, chunk)) {
      const bytes = Buffer.concat([rest, chunk.subarray(0, count)])
      let from = 0
      for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
        yield bytes.toString('utf8', from, end)
        from = end + 1
      }
      rest = bytes.subarray(from)
    }
    demand(rest.length === 0, `${path} does not end with a newline`)
  } finally {
    closeSync(file)
  }
}

function parse(text, what) {
  let value
  try {
    value = JSON.parse(text)
  } catch {
    throw new Violation(`${what} is not JSON`)
  }
  demand(isObject(value), `${what} is not an object`)
  return value
}

/** Whether an object of a JSON text has a member twice: a parser takes the last, a person reads the first. */
function hasDoubledMember(json) {
  const open = []
  for (const [token, name, colon] of json.matchAll(/("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]/g)) {
    if (token === '{' || token === '[') open.push(new Set())
    else if (token === '}' || token === ']') open.pop()
    else if (colon !== undefined) {
      const member = JSON.parse(name)
      if (open.at(-1).has(member)) return true
      open.at(-1).add(member)
    }
  }
  return false
}

function parseFile(text, what) {
  const value = parse(text, what)
  demand(!hasDoubledMember(text), `${what} has a member twice`)
  return value
}

/** A line of ours: as JSON.stringify writes the value, so that no member stands twice, of which a parser takes the last. */
function parseLine(line, what) {
  const value = parse(line, what)
  demand(JSON.stringify(value) === line, `${what} is not as it was written`)
  return value
}

function readKeys(path) {
  const { keys } = parseFile(readFileSync(path, 'utf8'), path)
  demand(Array.isArray(keys) && keys.length > 0, `${path} has no keys`)
  return new Map(
    keys.map((key) => {
      demand(isObject(key), `${path} has a key that is none`)
      const { kty, crv, kid, x, name } = key
      const raw = fromBase64(x, 'base64url')
      demand(kty === 'OKP' && crv === 'Ed25519' && raw?.length === 32, `${path} has a key that is not Ed25519`)
      demand(isSignerName(name), `${path} has a key without a name that can sign`)
      demand(isText(key.created_at) && isText(key.retired_at ?? ''), `${path} has a key without its times`)
      const thumbprint = hash('sha256', `{"crv":"${crv}","kty":"${kty}","x":"${x}"}`, 'base64url')
      demand(kid === thumbprint, `the kid of ${thumbprint} is another`)
      const noteHash = sha256(Buffer.concat([Buffer.from(`${name}\n\x01`), raw])).slice(0, 8)
      return [kid, { kid, name, noteHash, object: createPublicKey({ key: { kty, crv, x }, format: 'jwk' }) }]
    }),
  )
}

const keyFor = (keys, kid, name) => {
  const key = keys.get(kid)
  demand(key !== undefined, `it is signed with a key that is not trusted (${kid})`)
  demand(key.name === name, `it is signed as ${name} with the key of ${key.name}`)
  return key
}
const headText = (origin, size, root) => Buffer.from(`${origin}\n${size}\n${toBase64(root)}\n`)

function checkManifest(folder, keys) {
  const bytes = readFileSync(join(folder, 'manifest.json'))
  const manifest = parseFile(bytes.toString(), 'manifest.json')
  const { kid, name, note, signature } = parseFile(readFileSync(join(folder, 'manifest.sig'), 'utf8'), 'manifest.sig')
  const { version, created_at, tenant_id, rowCount, merkleRootOfExport, chains, files } = manifest
  demand(version === 1, 'it is of another version')
  demand([created_at, tenant_id, signature].every(isText) && isCount(rowCount), 'it is not complete')
  demand(isHash(merkleRootOfExport), 'it has no root')
  demand(Array.isArray(chains) && chains.every(isObject), 'it has no chains')
  demand(Array.isArray(files) && files.every(isObject), 'it has no files')
  demand(
    chains.every(({ chain, size }, at) => isText(chain) && isCount(size) && (at === 0 || chains[at - 1].chain < chain)),
    'its chains are not those of a log, by name',
  )
  const key = keyFor(keys, kid, name)
  const text = headText(`${name}/exports/${sha256(bytes)}`, rowCount, merkleRootOfExport)
  const raw = fromBase64(signature)
  demand(raw !== undefined && verify(null, text, key.object, raw), 'its signature is wrong')
  const line = Buffer.concat([Buffer.from(key.noteHash, 'hex'), raw]).toString('base64')
  demand(note === `${text}\n— ${name} ${line}\n`, 'the note beside its signature is another')
  return { manifest, kid, says: `signed by ${name}, made at ${created_at} by the clock of its maker` }
}

function checkFiles(folder, { files }) {
  const names = files.map(({ name }) => name).sort()
  demand(names.join() === COVERED.join(), `it names ${names.join(', ')}, and should name ${COVERED.join(', ')}`)
  const known = new Set([...COVERED, 'manifest.json', 'manifest.sig'])
  const added = readdirSync(folder).find((name) => !known.has(name) && !name.startsWith('.'))
  demand(added === undefined, `${added} does not belong here`)
  const chunk = Buffer.alloc(1 << 20)
  for (const { name, sha256: expected, bytes } of files) {
    const file = openSync(join(folder, name))
    const digest = createHash('sha256')
    let size = 0
    for (let count = readSync(file, chunk); count > 0; count = readSync(file, chunk)) {
      digest.update(chunk.subarray(0, count))
      size += count
    }
    closeSync(file)
    demand(size === bytes && digest.digest('hex') === expected, `${name} was changed`)
  }
  return `${files.length} files as they were written`
}

/** The checkpoint of a note, and who has signed it, among the keys that are known; one wrong signature of theirs refuses the note. */
function readNote(note, keys) {
  const end = isText(note) ? note.lastIndexOf('\n\n') : -1
  demand(end >= 0 && note.endsWith('\n'), 'a note is none')
  const text = note.slice(0, end + 1)
  const [origin, size = '', root, ...extensions] = text.slice(0, -1).split('\n')
  const isHead = origin !== '' && /^(0|[1-9]\d*)$/.test(size) && isCount(Number(size)) && !extensions.includes('')
  demand(isHead && fromBase64(root)?.length === 32, 'the text of a note is not a checkpoint')
  const names = []
  const lines = note.slice(end + 2, -1).split('\n')
  demand(lines.length <= MAX_SIGNATURES, `a note has more than ${MAX_SIGNATURES} signatures`)
  const signatures = lines.map((line) => {
    const [dash, name, base64, ...others] = line.split(' ')
    const bytes = fromBase64(base64)
    const isLine = dash === '—' && isSignerName(name) && others.length === 0 && bytes?.length > NOTE_HASH_BYTES
    demand(isLine, 'a note has a broken line of a signature')
    return { name, noteHash: bytes.toString('hex', 0, NOTE_HASH_BYTES), raw: bytes.subarray(NOTE_HASH_BYTES) }
  })
  for (const { name, noteHash, raw } of signatures) {
    const key = [...keys.values()].find((known) => known.name === name && known.noteHash === noteHash)
    if (key === undefined) continue
    demand(verify(null, Buffer.from(text), key.object, raw), `a note has a wrong signature of ${name}`)
    names.push(name)
  }
  demand(names.length > 0, 'a note is signed by no key that is trusted')
  return { origin, size: Number(size), root, names }
}

/** The roots that signed checkpoints give to each chain, by size. */
function checkCheckpoints(folder, { chains, tenant_id: tenant }, keys) {
  const byLog = new Map()
  for (const { chain } of chains)
    byLog.set(sha256(netstrings([tenant, chain])).slice(0, 32), { chain, roots: new Map() })
  let count = 0
  for (const line of linesOf(join(folder, 'checkpoints.ndjson'))) {
    count += 1
    const { chain, tree_size, note } = parseLine(line, `line ${count} of checkpoints.ndjson`)
    const { origin, size, root, names } = readNote(note, keys)
    const at = origin.lastIndexOf('/logs/')
    const log = byLog.get(origin.slice(at + 6))
    const isOurs = log !== undefined && names.includes(origin.slice(0, at))
    demand(isOurs, `${origin} is the log of none of its chains`)
    demand(
      chain === log.chain && tree_size === size,
      `line ${count} of checkpoints.ndjson says another size or chain than its note`,
    )
    demand(!log.roots.has(size) || log.roots.get(size) === root, `${chain} has two roots at ${size}`)
    log.roots.set(size, root)
  }
  const roots = new Map([...byLog.values()].map((log) => [log.chain, log.roots]))
  return { roots, says: `${count} signed` }
}

/** Signatures are checked beside the walk, by the threads that Node.js has for that; so many at once. */
class Signatures {
  count = 0
  #running = []

  async add(commit, keys) {
    const { id, kid, signer, tree_size: size, root, leaves, signature } = commit
    demand(Array.isArray(leaves) && leaves.length === size && leaves.every(isHash), 'it is broken')
    demand(rootOf(leaves) === root, 'it has another root than its entries')
    const key = keyFor(keys, kid, signer)
    const text = headText(`${signer}/commits/${id}`, size, root)
    const bytes = fromBase64(signature)
    demand(bytes !== undefined, 'it has no signature')
    this.count += 1
    this.#running.push(
      new Promise((resolve) => {
        verify(null, text, key.object, bytes, (error, holds) => resolve(error === null && holds ? undefined : id))
      }),
    )
    if (this.#running.length >= 256) await this.end()
  }

  async end() {
    const wrong = (await Promise.all(this.#running)).find((id) => id !== undefined)
    this.#running = []
    demand(wrong === undefined, `commit ${wrong} has a wrong signature`)
  }
}

const CSV_HEAD = 'Entry ID,Timestamp,Event,Actor,Status,Details\r\n'
const toCell = (text) => {
  const harmless = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}

/** The line of data.csv for an entry. */
function toCsvLine({ id, created_at, payload }) {
  const said = payload === null ? { type: 'expunged' } : parse(payload, 'a payload')
  const actor = said.actor === 'operator' ? 'operator' : (said.user_id ?? '')
  const status = payload === null ? 'EXPUNGED' : said.result === 'success' ? 'SUCCESS' : 'ERROR'
  return `${[id, created_at, String(said.type ?? ''), String(actor), status, payload ?? ''].map(toCell).join(',')}\r\n`
}

/** Walks all entries once; `report` is told of each chain. */
async function checkEntries(folder, manifest, { keys, roots, report }) {
  const rows = linesOf(join(folder, 'data.ndjson'))
  const commits = linesOf(join(folder, 'commits.ndjson'))
  const signatures = new Signatures()
  const csv = createHash('sha256').update(CSV_HEAD)
  let commit
  let lines = ''
  let total = 0
  for (const { chain, size, head, root } of manifest.chains) {
    const tree = new Tree()
    let before = '0'.repeat(64)
    let expunged = 0
    const checkpoints = new Map(roots.get(chain))
    const hold = (holds, problem) => demand(holds, `chain ${chain}, entry ${tree.size}: ${problem}`)
    const compare = () => {
      const expected = checkpoints.get(tree.size)
      if (expected === undefined) return
      hold(toBase64(tree.root()) === expected, `the first ${tree.size} entries are not those of a checkpoint`)
    }
    compare()
    while (tree.size < size) {
      const { value: line } = rows.next()
      hold(line !== undefined, 'it is missing')
      const row = parseLine(line, `line ${total + 1} of data.ndjson`)
      const { seq, id, created_at, payload, payload_hash, entry_hash, commit_id, leaf_index } = row
      hold(Object.keys(row).sort().join() === ROW, 'it has other members than an entry')
      hold(row.tenant_id === manifest.tenant_id && row.chain === chain, 'it is of another chain')
      hold(seq === tree.size, `it is missing: entry ${seq} stands in its place`)
      const isComplete = [id, created_at, commit_id].every(isText) && isHash(payload_hash) && isCount(leaf_index)
      hold(isComplete, 'it is not complete')
      // Retention is for what requests leave.
      hold(payload !== null || chain !== 'changes', 'its payload is missing')
      hold(payload === null || (isText(payload) && sha256(payload) === payload_hash), 'its payload was changed')
      const covered = ['aigw-entry-v1', row.tenant_id, chain, String(seq), id, created_at, before, payload_hash]
      hold(leafOf(covered) === entry_hash, 'its entry_hash is wrong')
      if (commit?.id !== commit_id) {
        const { value } = commits.next()
        commit = value === undefined ? undefined : parseLine(value, `commit ${commit_id}`)
        hold(commit?.id === commit_id, `its commit ${commit_id} is missing`)
        try {
          await signatures.add(commit, keys)
        } catch (error) {
          throw new Violation(`chain ${chain}, entry ${seq}: its commit ${commit_id}: ${error.message}`)
        }
      }
      hold(commit.leaves[leaf_index] === entry_hash, `its commit ${commit_id} does not hold it`)
      before = entry_hash
      tree.add(entry_hash)
      total += 1
      if (payload === null) expunged += 1
      lines += toCsvLine(row)
      if (lines.length > 65_536) {
        csv.update(lines)
        lines = ''
      }
      compare()
    }
    demand(before === head, `chain ${chain} ends with another entry than the manifest says`)
    demand(tree.root() === root, `chain ${chain} has another root than the manifest says`)
    const beyond = [...checkpoints.keys()].find((other) => other > size)
    demand(beyond === undefined, `chain ${chain} has ${size} entries, and a checkpoint of ${beyond}`)
    report(`chain ${chain}`, `${size} entries, ${expunged} expunged`)
  }
  await signatures.end()
  report('commits', `${signatures.count} signed`)
  demand(rows.next().done && commits.next().done, 'there are more entries or commits than the manifest says')
  demand(total === manifest.rowCount, `there are ${total} entries, and should be ${manifest.rowCount}`)
  report('row count', `${total}`)
  const table = manifest.files.find(({ name }) => name === 'data.csv')
  demand(csv.update(lines).digest('hex') === table.sha256, 'data.csv says something else than data.ndjson')
  report('data.csv', 'the same as data.ndjson')
}

function checkRoot({ chains, merkleRootOfExport }) {
  const leaves = chains.map(({ chain, size, head, root }) =>
    leafOf(['aigw-export-v1', chain, String(size), head, root]),
  )
  demand(rootOf(leaves) === merkleRootOfExport, 'it is not that of the chains')
  return merkleRootOfExport
}

/**
 * Strict: with a misspelt --keys that were ignored, a forged export would be checked against its own keys.
 * @throws UsageError
 */
function readArguments(args) {
  let parsed
  try {
    const options = { keys: { type: 'string', multiple: true }, help: { type: 'boolean', short: 'h' } }
    parsed = parseArgs({ args, options, allowPositionals: true })
  } catch (error) {
    throw new UsageError(error.message)
  }
  const { values, positionals } = parsed
  const { keys: keyFiles = [], help = false } = values
  if (keyFiles.length > 1) throw new UsageError('--keys was given more than once; name one file.')
  if (keyFiles[0] === '') throw new UsageError('--keys was given without a file; name one.')
  if (positionals.length > 1)
    throw new UsageError(`One directory is checked at a time, not ${positionals.join(' and ')}.`)
  if (positionals[0] === '') throw new UsageError('The name of the directory is empty; name one, or leave it out.')
  return { folder: positionals[0] ?? dirname(fileURLToPath(import.meta.url)), keyFile: keyFiles[0], help }
}

/** The keys of the file that was named. @throws UsageError for a file that cannot be read or is no key set */
function readTrustedKeys(keyFile) {
  try {
    return readKeys(keyFile)
  } catch (error) {
    throw new UsageError(
      `--keys ${keyFile} cannot be used: ${error.message}. Name a copy of the gateway's /.well-known/aigw-keys.json.`,
    )
  }
}

function main(args) {
  try {
    const { folder, keyFile, help } = readArguments(args)
    if (!help) return checkExport(folder, keyFile, keyFile === undefined ? undefined : readTrustedKeys(keyFile))
    process.stdout.write(USAGE)
    return 0
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    process.stderr.write(`verify.mjs: ${harmless(error.message)}\n\n${USAGE}`)
    return 2
  }
}

async function checkExport(folder, keyFile, trusted) {
  const say = (line) => process.stdout.write(`${harmless(line)}\n`)
  const report = (what, found) => say(`ok    ${what}: ${found}`)
  let at = 'keys'
  try {
    const keys = trusted ?? readKeys(join(folder, 'keys.json'))
    report(at, keyFile === undefined ? 'of the export itself; --keys FILE trusts those of a file' : `of ${keyFile}`)
    at = 'manifest'
    const { manifest, kid, says } = checkManifest(folder, keys)
    report(at, says)
    at = 'key fingerprint'
    demand(manifest.signingKeyFingerprint === kid, `the manifest names ${manifest.signingKeyFingerprint}, not ${kid}`)
    report(at, kid)
    at = 'files'
    report(at, checkFiles(folder, manifest))
    at = 'root of the export'
    report(at, checkRoot(manifest))
    at = 'checkpoints'
    const checkpoints = checkCheckpoints(folder, manifest, keys)
    report(at, checkpoints.says)
    at = 'entries'
    await checkEntries(folder, manifest, { keys, roots: checkpoints.roots, report })
    say('The export holds.')
    return 0
  } catch (error) {
    say(`FAIL  ${at}: ${error.message}`)
    say('The export does NOT hold.')
    return 1
  }
}

process.exitCode = await main(process.argv.slice(2))

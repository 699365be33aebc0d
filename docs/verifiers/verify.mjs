// Checks an export of evidence: node verify.mjs [DIR] [--keys FILE]
// It requires only Node.js 20.19 or later, opens no connection, and prints one line for each check.
// docs/evidence.md of the aigw project describes the format. DIR defaults to the directory of this file.
// Exit codes: 0 if the export is valid, 1 if it is invalid, 2 if an argument or the file of --keys cannot be used,
// 11 if it is consistent, but only by the keys that came with it.
//
// Generated from src/cli/evidence/verifier.ts and the modules that it imports: npm run verifier
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { createHash, createPublicKey, hash, verify } from 'node:crypto'
import { isUtf8 } from 'node:buffer'
import { createReadStream } from 'node:fs'
import { readFile, readdir, realpath } from 'node:fs/promises'
// src/shared/evidence/entry.ts
/** The value of `prevHash` for a chain's first entry. */
const GENESIS_HASH = '0'.repeat(64)
/** SHA-256 in lower-case hex. */
const HASH_PATTERN = /^[0-9a-f]{64}$/
const isHash = (value) => typeof value === 'string' && HASH_PATTERN.test(value)
/** Whether the value can be a number of entries, or a position in a tree. */
const isCount = (value) => Number.isSafeInteger(value) && Number(value) >= 0
/** Whether a chain contains administrative changes. After a loss of history, `changes-<4 hex>` continues `changes`. */
const isChangesChain = (chain) => chain === 'changes' || chain.startsWith('changes-')
/**
 * Joins texts with length prefixes, so that two different lists never give the same bytes. Lengths are in UTF-8 bytes.
 */
function netstrings(texts) {
  let all = ''
  for (const text of texts) all += `${text.length}:${text},`
  if (Buffer.byteLength(all) === all.length) return all
  return texts.map((text) => `${Buffer.byteLength(text)}:${text},`).join('')
}
/** Returns the SHA-256 of a payload, in hex. The payload must be canonical JSON (RFC 8785). */
const payloadHash = (canonicalJson) => hash('sha256', canonicalJson, 'hex')
/** Returns the leaf hash (RFC 6962, section 2.1) over the netstrings of the texts, in hex. */
const leafHash = (texts) => hash('sha256', `\0${netstrings(texts)}`, 'hex')
/**
 * Returns the hash of an entry, in hex. It links the entry to the previous entry, and is the entry's leaf in every
 * tree. `prevHash` is GENESIS_HASH for the first entry.
 */
function entryHash(fields, prevHash, payloadHash) {
  const { tenant_id, chain, seq, id, created_at } = fields
  return leafHash(['aigw-entry-v1', tenant_id, chain, String(seq), id, created_at, prevHash, payloadHash])
}
/**
 * Returns the public id of a chain in checkpoints: 32 hex characters. Anyone who knows the tenant and the chain can
 * compute it.
 */
const logId = (tenantId, chain) => hash('sha256', netstrings([tenantId, chain]), 'hex').slice(0, 32)
// src/shared/evidence/keys.ts
/**
 * A signature is valid only within the validity window of its key, widened by this time on both sides: clocks of
 * daemons and witnesses differ, and another daemon may use a retired key for up to two seconds.
 */
const KEY_WINDOW_SLACK_MS = 3e5
/** Returns the validity window of a key: from its creation to its retirement. */
const windowOf = ({ createdAt, retiredAt }) => ({
  fromMs: timeOf(createdAt) - KEY_WINDOW_SLACK_MS,
  untilMs: retiredAt === null ? Number.POSITIVE_INFINITY : timeOf(retiredAt) + KEY_WINDOW_SLACK_MS,
})
/**
 * Compares two keys by the order in which a gateway used them: negative if the first key is older. The time of the
 * retirement decides, because it never decreases from key to key. The time of the creation is earlier than that of the
 * previous key if the clock was corrected between them. So it decides only between keys without a retirement.
 */
function compareKeys(one, other) {
  const [end, otherEnd] = [windowOf(one).untilMs, windowOf(other).untilMs]
  return end === otherEnd ? timeOf(one.createdAt) - timeOf(other.createdAt) : end - otherEnd
}
/**
 * Returns the window in which an entry must have been written if this key signed it. The first key of a store also
 * signs the entries that were written before there were keys, so the window of the oldest key has no beginning.
 */
function entryWindowOf(key, keys) {
  const window = windowOf(key)
  return keys.every((other) => compareKeys(key, other) <= 0)
    ? {
        ...window,
        fromMs: Number.NEGATIVE_INFINITY,
      }
    : window
}
/** Whether a time is in the window. A time that is not a number is not. */
const isWithin = (timeMs, { fromMs, untilMs }) => timeMs >= fromMs && timeMs <= untilMs
/** Returns a reason if a key was not valid at the time of what it signed. Returns undefined if it was. */
function validityProblem(kid, keys, at) {
  const key = keys.find((known) => known.kid === kid)
  return key !== void 0 && isWithin(timeOf(at), entryWindowOf(key, keys))
    ? void 0
    : `is signed with the key ${kid}, which was not valid at ${at}`
}
/** The error for an invalid key set. */
var KeySetError = class extends Error {
  name = 'KeySetError'
}
/** Returns the thumbprint of an Ed25519 key (RFC 7638, RFC 8037), base64url. */
const keyIdOf = (publicKey) =>
  hash('sha256', `{"crv":"Ed25519","kty":"OKP","x":"${publicKey.toString('base64url')}"}`, 'base64url')
/**
 * Parses the response of `/.well-known/aigw-keys.json`. Throws KeySetError if the response is invalid, contains no
 * key or one key twice, or if the `kid` of a key is not the key's thumbprint. Verifiers would disagree about a key with
 * two windows.
 */
function parseKeySet(json) {
  const keys = isObject(json) ? json.keys : void 0
  if (!Array.isArray(keys) || keys.length === 0) throw new KeySetError('a key set must contain a list of keys')
  const parsed = keys.map(parseKey)
  const twice = parsed.find(({ kid }, at) => parsed.findIndex((other) => other.kid === kid) < at)
  if (twice !== void 0) throw new KeySetError(`the key ${twice.kid} is there twice`)
  return parsed
}
function parseKey(json) {
  if (!isObject(json) || json.kty !== 'OKP' || json.crv !== 'Ed25519') throw new KeySetError('a key is not Ed25519')
  const { kid, x, name, created_at: createdAt, retired_at: retiredAt = null } = json
  const publicKey = Buffer.from(typeof x === 'string' ? x : '', 'base64url')
  if (publicKey.length !== 32 || publicKey.toString('base64url') !== x) throw new KeySetError('a key is not 32 bytes')
  if (typeof kid !== 'string' || kid !== keyIdOf(publicKey))
    throw new KeySetError('a kid is not the thumbprint of its key')
  if (!isStrongPoint(publicKey)) throw new KeySetError(`the key ${kid} is not a canonical point of large order`)
  if (!isSignerName(name)) throw new KeySetError(`the key ${kid} has no valid signer name`)
  if (!isTime(createdAt) || (retiredAt !== null && !isTime(retiredAt)))
    throw new KeySetError(`the key ${kid} has no valid times`)
  return {
    kid,
    name,
    publicKey,
    createdAt,
    retiredAt,
  }
}
/** The only notation of times in evidence: ISO 8601 in UTC with milliseconds. Verifiers must agree about every text. */
const TIME$1 = /^[1-9]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
/** Returns the milliseconds since 1970 of a time in evidence. Returns NaN for any other notation, or no such time. */
function timeOf(text) {
  const ms = typeof text === 'string' && TIME$1.test(text) ? Date.parse(text) : NaN
  return !Number.isNaN(ms) && new Date(ms).toISOString() === text ? ms : NaN
}
const isTime = (value) => !Number.isNaN(timeOf(value))
/** The prime of the field of Ed25519 (RFC 8032, section 5.1). */
const P = 2n ** 255n - 19n
/** The y coordinate of the points of order 8. Its negative is the other one. */
const Y_OF_ORDER_8 = 55188659117513257062467267217118295137698188065244968500265048394206261417927n
/** The y coordinates of all points whose order divides 8. */
const WEAK_Y = [0n, 1n, P - 1n, Y_OF_ORDER_8, P - Y_OF_ORDER_8]
/**
 * Whether a key has its canonical encoding and is not of small order. Under a key of small order, one signature fits
 * many texts. Implementations of Ed25519 disagree about both kinds of keys.
 */
function isStrongPoint(publicKey) {
  const y = BigInt(`0x${Buffer.from(publicKey).reverse().toString('hex')}`) & (2n ** 255n - 1n)
  return y < P && !WEAK_Y.includes(y)
}
const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
/**
 * Whether the value is an object with exactly these members. Readers would think that further members are signed, but
 * the hashes do not cover them.
 */
const hasOnly = (value, names) =>
  isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name))
/**
 * Whether the value is a valid signer name in a signature line (C2SP signed-note). A name must not be empty and must
 * not contain white space or a plus.
 */
const isSignerName = (value) => typeof value === 'string' && value !== '' && !/[\s+\p{Cc}]/u.test(value)
const keyObjects = /* @__PURE__ */ new WeakMap()
/** Whether the key signed the UTF-8 bytes of this text with Ed25519 (RFC 8032). */
const isSignedBy = (key, text, signature) => verify(null, Buffer.from(text), keyObjectOf(key), signature)
/** The asynchronous variant of `isSignedBy`. It runs on libuv's thread pool. */
function checkSignature(key, text, signature, done) {
  verify(null, Buffer.from(text), keyObjectOf(key), signature, (error, holds) => done(error === null && holds))
}
function keyObjectOf(key) {
  const known = keyObjects.get(key)
  if (known !== void 0) return known
  const x = key.publicKey.toString('base64url')
  const made = createPublicKey({
    key: {
      kty: 'OKP',
      crv: 'Ed25519',
      x,
    },
    format: 'jwk',
  })
  keyObjects.set(key, made)
  return made
}
// src/shared/evidence/export-statement.ts
const STATEMENT = ['version', 'signed_at', 'tenant_id', 'manifest_sha256', 'chains']
const COUNTS = ['entries', 'size', 'expunged', 'checkpoints']
const DIGESTS = ['expunged_sha256', 'checkpoints_sha256']
const isStatement = (json) =>
  (hasOnly(json, STATEMENT) || (hasOnly(json, [...STATEMENT, 'losses']) && isLosses(json.losses))) &&
  json.version === 1 &&
  typeof json.signed_at === 'string' &&
  typeof json.tenant_id === 'string' &&
  isHash(json.manifest_sha256) &&
  Array.isArray(json.chains) &&
  json.chains.every(isStatedChain)
const isStatedChain = (json) =>
  hasOnly(json, ['chain', ...COUNTS, ...DIGESTS]) &&
  typeof json.chain === 'string' &&
  COUNTS.every((name) => isCount(json[name])) &&
  DIGESTS.every((name) => isHash(json[name]))
const isLosses = (json) => Array.isArray(json) && json.length > 0 && json.every(isLoss)
const isLoss = (json) =>
  hasOnly(json, ['chain', 'cause', 'found_at', 'acknowledged_at', 'successor']) &&
  [json.chain, json.cause, json.found_at].every((value) => typeof value === 'string') &&
  [json.acknowledged_at, json.successor].every((value) => value === null || typeof value === 'string')
/** Returns a sentence for each log that has lost history, for the reader of an export. */
const lossesIn = ({ chains, losses = [] }) =>
  losses.map(({ chain, cause, acknowledged_at: acknowledged, successor }) => {
    const size = chains.find((stated) => stated.chain === chain)?.size ?? 0
    return `the log ${chain} has lost history (${cause}, ${acknowledged === null ? 'not acknowledged' : `acknowledged at ${acknowledged}`}); the export contains ${size} of its entries${successor === null ? '' : `; it continues in ${successor}`}`
  })
/** Counts lines, and computes the SHA-256 over them. Each line ends with a newline. */
var LineDigest = class {
  count = 0
  #hash = createHash('sha256')
  add(line) {
    this.count += 1
    this.#hash.update(`${line}\n`)
  }
  /** Returns the digest of all lines in hex. Call this method only once. */
  end() {
    return this.#hash.digest('hex')
  }
}
/** Counts the expunged entries and the checkpoints of one chain, as a statement contains them. */
var ChainCounts = class {
  #expunged = new LineDigest()
  #checkpoints = new LineDigest()
  /** Call this method for each expunged entry, in the order of the chain. */
  addExpunged(seq) {
    this.#expunged.add(String(seq))
  }
  /** Call this method for each checkpoint of fewer entries than the export has, in ascending order. Root in base64. */
  addCheckpoint(size, root) {
    this.#checkpoints.add(`${size} ${root}`)
  }
  /** Call this method only once, after all entries and checkpoints. */
  end() {
    return {
      expunged: this.#expunged.count,
      expunged_sha256: this.#expunged.end(),
      checkpoints: this.#checkpoints.count,
      checkpoints_sha256: this.#checkpoints.end(),
    }
  }
}
// src/cli/errors.ts
/** The exit codes of all commands (docs/cli.md, Errors and exit codes). */
const EXIT = {
  ok: 0,
  error: 1,
  usage: 2,
  notFound: 3,
  auth: 4,
  forbidden: 5,
  conflict: 6,
  rateLimited: 7,
  upstream: 8,
  unreachable: 9,
  checkFailed: 10,
  ownKeys: 11,
  interrupted: 130,
  closedPipe: 141,
  terminated: 143,
}
/** A failure that is reported to the user. */
var CliError = class extends Error {
  name = 'CliError'
  exitCode
  code
  field
  hints
  httpStatus
  requestId
  retryable
  retryAfterSeconds
  answer
  constructor(exitCode, message, options = {}) {
    super(message, options)
    this.exitCode = exitCode
    this.code = options.code ?? 'CLI_ERROR'
    this.field = options.field
    this.hints = options.hints ?? []
    this.httpStatus = options.httpStatus
    this.requestId = options.requestId
    this.retryable = options.retryable ?? false
    this.retryAfterSeconds = options.retryAfterSeconds
    this.answer = options.answer
  }
}
/** Returns the error for a mistake in the command line or the configuration. Its exit code is 2. */
const usageError = (message, hints = []) =>
  new CliError(EXIT.usage, message, {
    code: 'USAGE',
    hints,
  })
/** Returns the reason for a failed file operation in words, such as `permission denied`. */
const reasonOf = (error) => {
  const text = error instanceof Error ? error.message : String(error)
  return /^[A-Z0-9_]+: ([^,]+)/.exec(text)?.[1] ?? text
}
/** Returns the error for a named file that cannot be read. Its exit code is 2. */
const unreadable = (path, error) => usageError(`cannot read ${path} (${reasonOf(error)})`)
/** A handler for `catch` that throws the error of `unreadable`. */
const failedToRead = (path) => (error) => {
  throw unreadable(path, error)
}
const nodeInput = Buffer.alloc(65, 1)
/**
 * Returns the parent of two nodes: SHA-256 over the byte 1 followed by both hashes. Throws TypeError if a hash has an
 * invalid length.
 */
function nodeHash(left, right) {
  if (left.length !== 32 || right.length !== 32) throw new TypeError('a hash must have 32 bytes')
  left.copy(nodeInput, 1)
  right.copy(nodeInput, 33)
  return Buffer.from(hash('sha256', nodeInput, 'binary'), 'binary')
}
/**
 * Returns the root over concatenated leaves. A node without a sibling moves up one level unchanged. Without leaves, the
 * root is SHA-256 of the empty text. Throws TypeError if the length is not a multiple of HASH_BYTES.
 */
function treeRoot(leaves) {
  if (leaves.length % 32 !== 0) throw new TypeError('hashes must have 32 bytes each')
  if (leaves.length === 0) return Buffer.from(hash('sha256', '', 'hex'), 'hex')
  const level = Buffer.from(leaves)
  for (let size = leaves.length / 32; size > 1; size = Math.ceil(size / 2))
    for (let at = 0; at < size; at += 2) {
      const [from, to] = [at * 32, (at / 2) * 32]
      if (at + 1 === size) level.copy(level, to, from, from + 32)
      else {
        level.copy(nodeInput, 1, from, from + 64)
        level.write(hash('sha256', nodeInput, 'binary'), to, 'binary')
      }
    }
  return level.subarray(0, 32)
}
Buffer.alloc(0)
// src/shared/evidence/note.ts
/** The error for a text that is not a valid note, or that no known key has signed. The message states the cause. */
var NoteError = class extends Error {
  name = 'NoteError'
}
/**
 * Returns the origin of a chain's checkpoints. It never changes, and it does not reveal the tenant's name or the
 * chain's name.
 */
const chainOrigin = (name, tenantId, chain) => `${name}/logs/${logId(tenantId, chain)}`
/** Returns the origin of the tree of one commit. */
const commitOrigin = (name, commitId) => `${name}/commits/${commitId}`
/** Returns the text that is signed for a checkpoint. It has three lines. */
const checkpointText = ({ origin, size, root }) => `${origin}\n${size}\n${root}\n`
/** Returns a text followed by its Ed25519 signature (C2SP signed-note). The text ends with a newline. */
function signedNote(text, name, publicKey, signature) {
  const line = Buffer.concat([noteKeyHash(name, publicKey), signature]).toString('base64')
  return `${text}\n${SIGNATURE_MARK}${name} ${line}\n`
}
/**
 * Returns the key's hash in a signature line: the first four bytes of SHA-256 over name, newline, the type of the key
 * and the key.
 */
function keyHashOf(name, publicKey, type) {
  const bytes = Buffer.concat([Buffer.from(`${name}\n`), Buffer.from([type]), publicKey])
  return Buffer.from(hash('sha256', bytes, 'hex').slice(0, 2 * KEY_HASH_BYTES), 'hex')
}
/** Returns the hash of a key with which a log signs (type 1, Ed25519). */
const noteKeyHash = (name, publicKey) => keyHashOf(name, publicKey, 1)
/** The start of each signature line (C2SP signed-note). */
const SIGNATURE_MARK = '— '
const KEY_HASH_BYTES = 4
/**
 * Maximum number of signatures per note, far above the number in real notes. The limit bounds the number of signature
 * checks.
 */
const MAX_SIGNATURES = 100
/**
 * Parses a note without checking its signatures. Throws NoteError if the text is not a signed note, or the note does
 * not contain a checkpoint.
 */
function parseCheckpoint(note) {
  const end = note.lastIndexOf('\n\n')
  if (end < 0 || !note.endsWith('\n')) throw new NoteError('it is not a signed note')
  const text = note.slice(0, end + 1)
  const lines = note.slice(end + 2, -1).split('\n')
  if (lines.length > MAX_SIGNATURES) throw new NoteError(`it has more than ${MAX_SIGNATURES} signatures`)
  return {
    checkpoint: parseText(text),
    text,
    signatures: lines.map(parseSignature),
  }
}
function parseText(text) {
  const [origin = '', sizeText = '', root = '', ...extensions] = text.slice(0, -1).split('\n')
  const size = Number(sizeText)
  if (origin === '' || extensions.includes('')) throw new NoteError('its text is not a checkpoint')
  if (!/^(0|[1-9]\d*)$/.test(sizeText) || !Number.isSafeInteger(size)) throw new NoteError('its size is not a number')
  if (decodeBase64(root)?.length !== 32) throw new NoteError('its root is not 32 bytes in base64')
  return {
    origin,
    size,
    root,
  }
}
function parseSignature(line) {
  const [name, base64 = '', ...others] = line.slice(2).split(' ')
  const bytes = decodeBase64(base64)
  if (
    !(line.startsWith('— ') && others.length === 0 && isSignerName(name)) ||
    bytes === void 0 ||
    bytes.length <= KEY_HASH_BYTES
  )
    throw new NoteError('a signature line is broken')
  return {
    name,
    keyHash: bytes.subarray(0, KEY_HASH_BYTES),
    signature: bytes.subarray(KEY_HASH_BYTES),
  }
}
/** Decodes canonical base64 with padding. Returns undefined for any other text. */
function decodeBase64(text) {
  const bytes = Buffer.from(text, 'base64')
  return bytes.toString('base64') === text ? bytes : void 0
}
/** Like `verifyNote`, but also returns the names of the keys that have signed the note, and the keys. */
function signedNoteOf(note, keys) {
  const { checkpoint, text, signatures } = parseCheckpoint(note)
  const signers = []
  for (const { name, keyHash, signature } of signatures) {
    const key = keys.find((known) => known.name === name && noteKeyHash(name, known.publicKey).equals(keyHash))
    if (key === void 0) continue
    if (!isSignedBy(key, text, signature)) throw new NoteError(`the signature of ${name} is wrong`)
    signers.push(key)
  }
  const key = signers.toSorted(compareKeys).at(-1)
  if (key === void 0) throw new NoteError('no trusted key has signed it')
  return {
    checkpoint: {
      ...checkpoint,
      key,
    },
    signers: signers.map(({ name }) => name),
    signedWith: signers,
  }
}
// src/shared/evidence/commit.ts
/** Returns the text that the signature of a commit covers. `root` is hex. */
const commitText = ({ signer, id, tree_size, root }) =>
  checkpointText({
    origin: commitOrigin(signer, id),
    size: tree_size,
    root: Buffer.from(root, 'hex').toString('base64'),
  })
/** Computes the root over entries, in hex. `leaves` contains the concatenated hex hashes of the entries. */
const rootOfEntries = (leaves) => treeRoot(Buffer.from(leaves, 'hex')).toString('hex')
/** Like `commitProblem`, but does not check the signature. */
function treeProblem({ leaves, tree_size: size, root }) {
  if (leaves.length !== size) return `names ${size} entries but contains ${leaves.length}`
  if (!leaves.every((leaf) => HASH_PATTERN.test(leaf))) return 'contains an invalid hash'
  return rootOfEntries(leaves.join('')) === root ? void 0 : 'has a root that does not match its entries'
}
/** The asynchronous variant of `signatureProblem`. It checks the signature on libuv's thread pool. */
function checkCommitSignature(commit, keys, done) {
  const found = findSigner(commit, keys)
  if (typeof found === 'string') done(found)
  else checkSignature(found.key, commitText(commit), found.signature, (holds) => done(holds ? void 0 : WRONG_SIGNATURE))
}
const WRONG_SIGNATURE = 'has a wrong signature'
/**
 * Finds the key that a commit names, and decodes the signature. If either is invalid, returns a text that describes the
 * fault.
 */
function findSigner({ kid, signer, signature }, keys) {
  const key = keys.find((known) => known.kid === kid)
  if (key === void 0) return `is signed with a key that is not trusted (${kid})`
  if (key.name !== signer) return `is signed as ${signer} with the key of ${key.name}`
  const bytes = decodeBase64(signature)
  return bytes === void 0
    ? WRONG_SIGNATURE
    : {
        key,
        signature: bytes,
      }
}
// src/shared/evidence/frontier.ts
/** The level of the smallest reported subtrees. Each of these subtrees has 2^8 leaves. */
const REPORTED_LEVEL = 8
/** An append-only tree. Stores only the roots of its complete subtrees: one root for each set bit of its size. */
var Frontier = class Frontier {
  #size
  /** The roots, from the largest subtree to the smallest. */
  #roots
  /**
   * @param roots of the complete subtrees that make up `size` leaves, the largest first
   * @throws RangeError if the number of roots does not match the size
   */
  constructor(size = 0, roots = []) {
    if (roots.length !== oneBits(size))
      throw new RangeError(`a tree of ${size} leaves cannot have ${roots.length} roots`)
    this.#size = size
    this.#roots = [...roots]
  }
  get size() {
    return this.#size
  }
  /** Returns a copy. Later appends to the original do not change the copy, and vice versa. */
  copy() {
    return new Frontier(this.#size, this.#roots)
  }
  /**
   * The tree of the leading leaves that fill complete subtrees of 2^level leaves. Copies the roots, so that the buffers
   * that contain the leaves can be freed.
   */
  wholePart(level) {
    const leaves = 2 ** level
    const size = this.#size - (this.#size % leaves)
    return new Frontier(size, this.#roots.slice(0, oneBits(size)).map(alone))
  }
  /** Appends concatenated leaves of 32 bytes each. Do not modify the buffer afterwards. */
  append(leaves, completed) {
    for (let from = 0; from < leaves.length; ) {
      const level = this.#levelThatFits((leaves.length - from) / 32)
      const to = from + 32 * 2 ** level
      const own = leaves.subarray(from, to)
      this.#appendSubtree(level, level === 0 ? own : treeRoot(own), completed)
      from = to
    }
  }
  /**
   * The level of the largest subtree that can be appended in one step. The subtree begins at the current size, has at
   * most `leaves` leaves, and contains no smaller subtree that must be reported.
   */
  #levelThatFits(leaves) {
    let level = 0
    while (level < REPORTED_LEVEL && 2 ** (level + 1) <= leaves && this.#size % 2 ** (level + 1) === 0) level += 1
    return level
  }
  #appendSubtree(ownLevel, ownRoot, completed) {
    let [level, root] = [ownLevel, ownRoot]
    let index = this.#size / 2 ** level
    if (level >= REPORTED_LEVEL) completed?.(level, index, root)
    while (index % 2 === 1) {
      root = nodeHash(this.#roots.pop(), root)
      level += 1
      index = (index - 1) / 2
      if (level >= REPORTED_LEVEL) completed?.(level, index, root)
    }
    this.#roots.push(root)
    this.#size += 2 ** ownLevel
  }
  /** RFC 6962 root over all leaves so far. */
  root() {
    const roots = this.#roots
    let root = roots.at(-1)
    if (root === void 0) return treeRoot(Buffer.alloc(0))
    for (let at = roots.length - 2; at >= 0; at -= 1) root = nodeHash(roots[at], root)
    return root
  }
}
/** Returns a copy with its own memory, because a root may be a slice of a large buffer of leaves. */
const alone = (root) => {
  const copy = Buffer.alloc(32)
  root.copy(copy)
  return copy
}
const oneBits = (size) => {
  let count = 0
  for (let rest = size; rest > 0; rest = Math.floor(rest / 2)) count += rest % 2
  return count
}
// src/shared/evidence/chain-check.ts
/**
 * Checks the rows of one chain from seq 0 on, in constant memory. It needs checkpoints to detect that a chain was
 * truncated or replaced by an older version. It needs keys to detect a completely rewritten chain, or a wrong
 * `commit_id` or `leaf_index`.
 */
var ChainCheck = class {
  #tenantId
  #chain
  #keys
  #signaturesAtOnce
  #checkpoints = /* @__PURE__ */ new Map()
  #state = {
    tree: new Frontier(),
    head: GENESIS_HASH,
    expunged: 0,
    checkpointsHeld: 0,
    matchedSize: 0,
    lastAt: '',
  }
  #size = 0
  #firstBad
  #goodCommit
  /** The window of the key of #goodCommit. Undefined if the key is unknown. */
  #window
  /** The id of the newest key that signed a row. */
  #newestKid
  #signaturesWaiting = 0
  /** This function is called after each signature check. */
  #onChecked = () => {}
  constructor(tenantId, chain, { checkpoints = [], keys, signaturesAtOnce = 8 } = {}) {
    this.#tenantId = tenantId
    this.#chain = chain
    this.#keys = keys
    this.#signaturesAtOnce = signaturesAtOnce
    const originEnd = `/logs/${logId(tenantId, chain)}`
    for (const checkpoint of checkpoints) {
      const { origin, size } = checkpoint
      if (origin.endsWith(originEnd)) this.#checkpoints.set(size, [...(this.#checkpoints.get(size) ?? []), checkpoint])
    }
    this.#compareRoots()
  }
  /**
   * Checks the next row. Ignores all rows after the first bad row. If this method returns a promise, await the promise
   * before you add the next row.
   */
  add(row, commit) {
    this.#size += 1
    if (this.#firstBad !== void 0) return void 0
    const seq = this.#state.tree.size
    const problem = this.#entryProblem(row, seq) ?? this.#placeProblem(row, commit)
    if (problem !== void 0)
      this.#firstBad ??= {
        seq,
        problem,
      }
    if (this.#firstBad !== void 0) return void 0
    const state = this.#state
    if (row.payload === null) state.expunged += 1
    state.head = row.entry_hash
    state.lastAt = row.created_at
    state.tree.append(Buffer.from(row.entry_hash, 'hex'))
    this.#compareRoots()
    const most = this.#signaturesAtOnce
    return this.#signaturesWaiting < most ? void 0 : this.#signaturesDownTo(most / 2)
  }
  /** Call this method after the last row. */
  async finish() {
    await this.#signaturesDownTo(0)
    const size = this.#size
    const missing = [...this.#checkpoints.keys()].filter((checkpoint) => checkpoint > size).sort((a, b) => a - b)[0]
    if (this.#firstBad === void 0 && missing !== void 0)
      this.#firstBad = {
        seq: size,
        problem: `the chain has ${size} entries, but a checkpoint covers ${missing}`,
      }
    const { tree, head, expunged, checkpointsHeld } = this.#state
    return {
      ok: this.#firstBad === void 0,
      size,
      root: tree.root().toString('hex'),
      head,
      expunged,
      ...(this.#firstBad !== void 0 && { firstBad: this.#firstBad }),
      checkpointsHeld,
    }
  }
  #entryProblem(row, seq) {
    if (row.tenant_id !== this.#tenantId || row.chain !== this.#chain) return 'it belongs to another chain'
    if (row.seq !== seq) return `it is missing: entry ${row.seq} follows instead`
    if (!HASH_PATTERN.test(row.payload_hash)) return 'its payload_hash is not a hash'
    if (row.payload === null && isChangesChain(this.#chain)) return 'its payload is missing'
    if (row.payload !== null && payloadHash(row.payload) !== row.payload_hash) return 'its payload was changed'
    return entryHash(row, this.#state.head, row.payload_hash) === row.entry_hash ? void 0 : 'its entry_hash is wrong'
  }
  #placeProblem(row, commit) {
    if (this.#keys === void 0) return void 0
    if (commit === void 0 || commit.id !== row.commit_id) return `its commit ${row.commit_id} is missing`
    if (commit !== this.#goodCommit) {
      const problem = treeProblem(commit) ?? this.#keyOrderProblem(commit.kid)
      if (problem !== void 0) return `its commit ${commit.id} ${problem}`
      this.#checkSignature(commit, this.#keys)
      this.#goodCommit = commit
      const key = this.#keys.find(({ kid }) => kid === commit.kid)
      this.#window = key && entryWindowOf(key, this.#keys)
      if (key) this.#newestKid = key.kid
    }
    if (commit.leaves[row.leaf_index] !== row.entry_hash) return `its commit ${commit.id} does not contain it`
    if (this.#window === void 0 || isWithin(timeOf(row.created_at), this.#window)) return void 0
    return `it is signed with the key ${commit.kid}, which was not valid at ${row.created_at}`
  }
  #keyOf(kid) {
    return this.#keys?.find((key) => key.kid === kid)
  }
  /**
   * Returns a reason if a newer key has already signed an entry of this chain. Otherwise, anyone with a stolen retired
   * key could append entries, because an entry states its own time.
   */
  #keyOrderProblem(kid) {
    if (kid === this.#newestKid) return void 0
    const [key, newest] = [this.#keyOf(kid), this.#keyOf(this.#newestKid)]
    if (key === void 0 || newest === void 0 || compareKeys(key, newest) >= 0) return void 0
    return `is signed with the key ${kid}, but the newer key ${newest.kid} has signed an earlier entry`
  }
  /** Returns a reason if the key of a checkpoint was retired before the last of its entries was written. */
  #checkpointKeyProblem({ key: signedWith }) {
    if (signedWith === void 0) return void 0
    const key = this.#keyOf(signedWith.kid) ?? signedWith
    const { lastAt } = this.#state
    if (key.retiredAt !== null && isLater(lastAt, key.retiredAt))
      return `is signed with a key that was retired at ${key.retiredAt}, before the last of these entries`
    const newest = this.#keyOf(this.#newestKid)
    if (newest === void 0 || compareKeys(key, newest) >= 0) return void 0
    return `is signed with the key ${key.kid}, but the newer key ${newest.kid} has signed one of these entries`
  }
  /**
   * Starts the check of a commit's signature. If the signature is wrong, the report ends at the current row, even if
   * later rows have been checked since. A fault in an earlier row takes precedence.
   */
  #checkSignature(commit, keys) {
    const before = {
      ...this.#state,
      tree: this.#state.tree.copy(),
    }
    const seq = before.tree.size
    this.#signaturesWaiting += 1
    checkCommitSignature(commit, keys, (problem) => {
      this.#signaturesWaiting -= 1
      if (problem !== void 0 && seq < (this.#firstBad?.seq ?? Number.POSITIVE_INFINITY)) {
        this.#firstBad = {
          seq,
          problem: `its commit ${commit.id} ${problem}`,
        }
        this.#state = before
      }
      this.#onChecked()
    })
  }
  #signaturesDownTo(count) {
    return new Promise((resolve) => {
      this.#onChecked = () => {
        if (this.#signaturesWaiting <= count) resolve()
      }
      this.#onChecked()
    })
  }
  #compareRoots() {
    const state = this.#state
    const size = state.tree.size
    const checkpoints = this.#checkpoints.get(size)
    if (checkpoints === void 0) return
    const root = state.tree.root().toString('base64')
    const matching = checkpoints.filter((expected) => expected.root === root).length
    state.checkpointsHeld += matching
    if (matching < checkpoints.length) {
      this.#firstBad = {
        seq: state.matchedSize,
        problem: `the first ${size} entries do not match the checkpoint`,
      }
      return
    }
    const [problem] = size === 0 ? [] : checkpoints.flatMap((one) => this.#checkpointKeyProblem(one) ?? [])
    if (problem === void 0) state.matchedSize = size
    else
      this.#firstBad = {
        seq: size - 1,
        problem: `the checkpoint of ${size} entries ${problem}`,
      }
  }
}
/** Whether an entry of this time is outside of the window of a key that was retired. */
const isLater = (at, retiredAt) =>
  !isWithin(timeOf(at), {
    ...windowOf({
      createdAt: at,
      retiredAt,
    }),
    fromMs: Number.NEGATIVE_INFINITY,
  })
// src/cli/evidence/chains.ts
/** Verifies one chain of the log. */
/**
 * Maximum number of pending signature checks. This number is high enough to keep the thread pool busy while entries are
 * read.
 */
const SIGNATURES_AT_ONCE = 1024
/**
 * Verifies one chain in constant memory: every hash, the signature of every commit, and the root at each checkpoint.
 * Stops at the first invalid entry. A chain is also invalid if its last entry differs from the hash in its head.
 * `onRow` receives every entry.
 */
async function checkChain({ tenantId, head, trusted, checkpoints }, rows, onRow) {
  const { chain } = head
  const { keys } = trusted
  const check = new ChainCheck(tenantId, chain, {
    keys,
    checkpoints: checkpointsOf(tenantId, chain, checkpoints),
    signaturesAtOnce: SIGNATURES_AT_ONCE,
  })
  let kid
  for await (const seen of rows) {
    if (seen.commit !== void 0 && seen.commit.kid !== kid) {
      kid = seen.commit.kid
      if (!keys.some((key) => key.kid === kid)) await trusted.renew()
    }
    await check.add(seen.row, seen.commit)
    await onRow(seen)
  }
  const report = await check.finish()
  if (!report.ok || (report.size === head.size && report.head === head.head))
    return {
      ...report,
      chain,
    }
  const problem = `it ends with ${report.head} after ${report.size} entries; expected ${head.head} after ${head.size}`
  return {
    ...report,
    chain,
    ok: false,
    firstBad: {
      seq: Math.min(report.size, head.size),
      problem,
    },
  }
}
/**
 * Returns the checkpoints of one chain. The origin of a checkpoint is an optional server name, followed by the id of
 * the chain's log.
 */
function checkpointsOf(tenantId, chain, checkpoints) {
  const end = `/logs/${logId(tenantId, chain)}`
  return checkpoints.filter(({ origin }) => origin.endsWith(end))
}
// src/shared/evidence/export-root.ts
/** Returns the RFC 6962 root over the chains of an export, in the given order (docs/evidence.md, Exports). */
const exportRoot = (chains) => {
  const leaves = chains.map(({ chain, size, head, root }) =>
    leafHash(['aigw-export-v1', chain, String(size), head, root]),
  )
  return treeRoot(Buffer.from(leaves.join(''), 'hex'))
}
/**
 * Returns the origin line of the text that is signed for an export. It contains the hash of the gateway's statement,
 * which contains the hash of the manifest.
 */
const exportOrigin = (name, statementSha256) => `${name}/exports/${statementSha256}`
// src/shared/evidence/csv.ts
/** Characters that start a formula in a spreadsheet. */
const FORMULA = /^[=+\-@\t\r]/
/** The columns of a log in compliance reports and exports. */
const LOG_COLUMNS = ['Entry ID', 'Timestamp', 'Event', 'Actor', 'Status', 'Details']
/**
 * Returns a row as CSV (RFC 4180), with a line break at its end. Adds an apostrophe before a cell that a spreadsheet
 * would evaluate as a formula, because callers choose some of the names in a log.
 */
const toCsvLine = (cells) => `${cells.map(toCell).join(',')}\r\n`
function toCell(text) {
  const harmless = FORMULA.test(text) ? `'${text}` : text
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless
}
// src/cli/output/formats.ts
/** Returns the value at a dotted path (`users.0.email`), or undefined if the path does not exist. */
function findAtPath(value, path) {
  let current = value
  for (const segment of path.split('.')) {
    if (typeof current !== 'object' || current === null || !Object.hasOwn(current, segment)) return void 0
    current = Reflect.get(current, segment)
  }
  return current
}
// src/cli/evidence/shapes.ts
/** Parses a JSON text. Returns undefined for invalid JSON. */
function parseJson(text) {
  try {
    return JSON.parse(text)
  } catch {
    return
  }
}
const isText = (value) => typeof value === 'string'
const isRowOfChain = (json) =>
  isObject(json) &&
  isCount(json.seq) &&
  isCount(json.leaf_index) &&
  (json.payload === null || isText(json.payload)) &&
  [json.id, json.created_at, json.payload_hash, json.entry_hash, json.commit_id].every(isText)
/** Whether the value is an entry of an export. An entry has exactly the members of `toChainRow`. */
const isChainRow = (json) =>
  isObject(json) &&
  isText(json.tenant_id) &&
  isText(json.chain) &&
  isRowOfChain(json) &&
  Object.keys(json).length === ROW_MEMBERS
const ROW_MEMBERS = 10
const COMMIT = /* @__PURE__ */ new Set([
  'id',
  'created_at',
  'kid',
  'signer',
  'tree_size',
  'root',
  'leaves',
  'signature',
])
/** Whether the value is a commit of an export, without further members. */
const isCommitOfExport = (json) => isCommit(json) && Object.keys(json).every((name) => COMMIT.has(name))
/** Whether the value is a checkpoint of an export, without further members. */
const isCheckpointOfExport = (json) => hasOnly(json, ['chain', 'tree_size', 'note']) && isCheckpointNote(json)
/**
 * Whether all texts in a value are valid Unicode. A lone surrogate has the same hash as U+FFFD, so it could replace that
 * character unnoticed.
 */
const isWellFormed = (json) =>
  typeof json === 'string'
    ? json.isWellFormed()
    : typeof json !== 'object' || json === null || Object.values(json).every(isWellFormed)
const isCommit = (json) =>
  isObject(json) &&
  [json.id, json.kid, json.signer, json.signature].every(isText) &&
  isCount(json.tree_size) &&
  isHash(json.root) &&
  Array.isArray(json.leaves) &&
  json.leaves.every(isHash)
const isCheckpointNote = (json) => isObject(json) && isText(json.chain) && isCount(json.tree_size) && isText(json.note)
// src/cli/evidence/csv.ts
const CSV_HEAD = toCsvLine(LOG_COLUMNS)
/** Returns the payload of an entry, or undefined if it was expunged or is not JSON. */
const contentsOf = ({ payload }) => (payload === null ? void 0 : parseJson(payload))
/** Like `toLogLine`, but expects a parsed payload. */
function logLineOf({ id, created_at, payload }, content) {
  const textAt = (path) => String(findAtPath(content, path) ?? '')
  const actor = textAt('actor') === 'operator' ? 'operator' : textAt('user_id')
  const status = content === void 0 ? 'EXPUNGED' : textAt('result') === 'success' ? 'SUCCESS' : 'ERROR'
  const event = content === void 0 ? 'expunged' : textAt('type')
  return toCsvLine([id, created_at, event, actor, status, payload ?? ''])
}
// src/cli/evidence/doubled-members.ts
const TOKEN = /("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|[{}[\]]/g
/**
 * Whether an object in a JSON text has duplicate members. Some parsers use the first duplicate and other parsers use
 * the last, so it would be unclear which value was signed. The text must be valid JSON.
 */
function hasDoubledMember(json) {
  const open = []
  for (const [token, name, colon] of json.matchAll(TOKEN))
    if (token === '{' || token === '[') open.push(/* @__PURE__ */ new Set())
    else if (token === '}' || token === ']') open.pop()
    else if (name !== void 0 && colon !== void 0) {
      const member = JSON.parse(name)
      const members = open.at(-1)
      if (members?.has(member)) return true
      members?.add(member)
    }
  return false
}
/**
 * With a witness policy, the last entries of a chain may lack cosignatures only for this time: an hour until the
 * checkpoint, and ten minutes until the witnesses have responded.
 */
const EVIDENCE_UNCOSIGNED_MS =
  {
    entries: 1e3,
    ms: 36e5,
  }.ms + 6e5
// src/cli/input/text-input.ts
/** Reads texts from files and stdin. */
/** Reads a text file. Throws a usage error if the input is unreadable or not UTF-8. */
const readText = async (path) => toUtf8(await readFile(path).catch(failedToRead(path)), path)
/** A PDF may consist of ASCII only. */
const PDF = Buffer.from('%PDF-')
/** Text contains no zero byte, except in UTF-16, which is rejected too. */
const isBinary = (bytes) => bytes.includes(0) || PDF.equals(bytes.subarray(0, PDF.length))
/** Decodes UTF-8 and drops a leading byte order mark. Throws a usage error for a binary file and for invalid UTF-8. */
function toUtf8(bytes, from) {
  if (isBinary(bytes))
    throw usageError(`${from} is a binary file, not text`, [
      'Add documents such as PDF to a knowledge base:  aigw indexes add INDEX FILE',
    ])
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw usageError(`${from} is not UTF-8 text`, ['Convert it first, e.g. with iconv or pdftotext.'])
  }
}
// src/cli/evidence/key-set.ts
const KEYS_PATH = '/.well-known/aigw-keys.json'
/** Returns a key set that is never renewed. */
const fixedKeys = (keys, from) => ({
  keys,
  from,
  renew: async () => false,
})
/** Returns the result of `check`. If `check` throws, renews the keys and runs `check` again. */
async function withKeys({ keys, renew }, check) {
  try {
    return check(keys)
  } catch (error) {
    if (!(await renew())) throw error
    return check(keys)
  }
}
/** Returns the keys in a file. Throws a usage error if the file contains no keys. */
async function readKeyFile(path) {
  const text = await readText(path)
  try {
    const keys = parseKeySet(JSON.parse(text))
    if (hasDoubledMember(text)) throw new KeySetError('it has a duplicate member')
    return keys
  } catch (error) {
    throw usageError(`${path} contains no published keys (${error instanceof Error ? error.message : error})`, [
      `Save the response of ${KEYS_PATH} of a gateway.`,
    ])
  }
}
/** The result of a verification that used the keys of the export itself. Its exit code is EXIT.ownKeys. */
const OWN_KEYS = 'consistent, but only by the keys that came with it'
// src/cli/evidence/lines.ts
const NEWLINE$1 = 10
/**
 * Yields the bytes of each line of a file. Only one chunk and one line are in memory. Only a newline ends a line. Node's
 * readline would also split at carriage returns, U+2028 and U+2029, but JSON may contain these characters. The newline
 * after the last line is optional.
 */
async function* linesOf(path) {
  let begun = []
  const chunks = createReadStream(path)
  for await (const chunk of chunks) {
    let from = 0
    for (let end = chunk.indexOf(NEWLINE$1); end >= 0; end = chunk.indexOf(NEWLINE$1, from)) {
      const rest = chunk.subarray(from, end)
      yield begun.length === 0 ? rest : Buffer.concat([...begun, rest])
      begun = []
      from = end + 1
    }
    if (from < chunk.length) begun.push(chunk.subarray(from))
  }
  if (begun.length > 0) yield Buffer.concat(begun)
  return void 0
}
/** The files that a manifest covers. */
const COVERED_FILES = [
  'data.ndjson',
  'data.csv',
  'commits.ndjson',
  'checkpoints.ndjson',
  'keys.json',
  'README.txt',
  'verify.mjs',
]
const EXPORT_FILES = [...COVERED_FILES, 'manifest.json', 'statement.json', 'manifest.sig']
/**
 * Returns the reason why the signature of an export is invalid, or undefined if a trusted key signed the statement with
 * this SHA-256.
 */
function signatureProblem(
  { rowCount, merkleRootOfExport, signingKeyFingerprint },
  statementSha256,
  { kid, name, note, signature },
  keys,
) {
  const key = keys.find((known) => known.kid === kid)
  if (key === void 0) return `it is signed with a key that is not trusted (${kid})`
  if (key.name !== name) return `it is signed as ${name} with the key of ${key.name}`
  if (kid !== signingKeyFingerprint) return `it names the key ${signingKeyFingerprint}, but is signed with ${kid}`
  const root = Buffer.from(merkleRootOfExport, 'hex').toString('base64')
  const text = checkpointText({
    origin: exportOrigin(name, statementSha256),
    size: rowCount,
    root,
  })
  const bytes = decodeBase64(signature)
  if (bytes === void 0 || !isSignedBy(key, text, bytes)) return 'its signature is wrong'
  return note === signedNote(text, name, key.publicKey, bytes) ? void 0 : 'its note does not match its signature'
}
const MEMBERS = [
  ...['version', 'created_at', 'tenant_id', 'chains', 'rowCount'],
  ...['merkleRootOfExport', 'signingKeyFingerprint', 'files'],
]
const CHAIN = ['chain', 'size', 'head', 'root']
const FILE = ['name', 'sha256', 'bytes']
/** Whether the value has the form of a manifest and lists each file of an export once. */
function isManifest(json) {
  if (!hasOnly(json, MEMBERS) || !Array.isArray(json.chains) || !Array.isArray(json.files)) return false
  const { version, created_at, tenant_id, rowCount, merkleRootOfExport, signingKeyFingerprint } = json
  const texts = [created_at, tenant_id, merkleRootOfExport, signingKeyFingerprint]
  if (version !== 2 || !isCount(rowCount) || !texts.every(isText)) return false
  const chains = json.chains.every(
    (chain) => hasOnly(chain, CHAIN) && isCount(chain.size) && [chain.chain, chain.head, chain.root].every(isText),
  )
  const files = json.files.every(
    (file) => hasOnly(file, FILE) && isCount(file.bytes) && [file.name, file.sha256].every(isText),
  )
  if (!chains || !files || !isSorted(json.chains.map(({ chain }) => chain))) return false
  return (
    json.files
      .map(({ name }) => name)
      .sort()
      .join() === [...COVERED_FILES].sort().join()
  )
}
/** Whether the names are sorted by code units and contain no duplicates. */
const isSorted = (names) => names.every((name, at) => at === 0 || (names[at - 1] ?? '') < name)
const isManifestSignature = (json) =>
  hasOnly(json, ['kid', 'name', 'note', 'signature']) && Object.values(json).every(isText)
// src/cli/evidence/statement.ts
/** Compares an export with the gateway's statement about it. */
/** Returns the reason why a statement does not belong to a manifest, or undefined if it does. */
function statementProblem(statement, manifest, manifestSha256) {
  if (statement.manifest_sha256 !== manifestSha256) return 'statement.json belongs to another manifest'
  if (statement.tenant_id !== manifest.tenant_id) return 'statement.json belongs to another tenant'
  const stated = statement.chains.filter(({ size }) => size > 0)
  return stated.length === manifest.chains.length &&
    manifest.chains.every(({ chain, size }, at) => stated[at]?.chain === chain && stated[at].size === size)
    ? void 0
    : 'the chains of statement.json differ from the manifest'
}
/** The expunged entries and the checkpoints of an export, counted while the export is read or written. */
var ExportCounts = class {
  #chains = /* @__PURE__ */ new Map()
  #of(chain) {
    const known = this.#chains.get(chain)
    if (known !== void 0) return known
    const counts = new ChainCounts()
    this.#chains.set(chain, counts)
    return counts
  }
  addRow({ chain, seq, payload }) {
    if (payload === null) this.#of(chain).addExpunged(seq)
  }
  /** `entries` is the size of the chain in the export. The statement contains only checkpoints of fewer entries. */
  addCheckpoint(chain, entries, { size, root }) {
    if (size < entries) this.#of(chain).addCheckpoint(size, root)
  }
  /** Returns the first difference from the statement, or undefined. Call this method only once, at the end. */
  problem({ chains }) {
    for (const stated of chains) {
      const found = this.#of(stated.chain).end()
      const problem = expungedProblem(stated, found) ?? checkpointsProblem(stated, found)
      if (problem !== void 0) return problem
    }
  }
}
function expungedProblem(stated, found) {
  if (stated.expunged_sha256 === found.expunged_sha256 && stated.expunged === found.expunged) return void 0
  const ofChain = `${found.expunged} entries of chain ${stated.chain} have no payload`
  if (stated.expunged !== found.expunged)
    return `${ofChain}, but ${stated.expunged} had none in the gateway's store when it signed the export`
  return `${ofChain}, but in the gateway's store others had none when it signed the export`
}
function checkpointsProblem(stated, found) {
  if (stated.checkpoints_sha256 === found.checkpoints_sha256 && stated.checkpoints === found.checkpoints) return void 0
  return `chain ${stated.chain} has ${found.checkpoints} checkpoints of fewer entries in the export, but ${stated.checkpoints} ${stated.checkpoints === found.checkpoints ? 'others ' : ''}in the gateway's store when it signed the export`
}
// src/cli/evidence/export-reader.ts
/** Reads and verifies an export. */
/** The error for an invalid export. Its exit code is 10. `what` is the message without hints. */
var ExportViolated = class extends CliError {
  what
  constructor(what) {
    super(EXIT.checkFailed, `the export is invalid: ${what}`, { code: 'EXPORT_VIOLATED' })
    this.what = what
  }
}
/**
 * Opens the log of an export. Throws an error with exit code 10 if the signature of its manifest is invalid or its
 * files differ from the manifest. Throws a usage error if the directory contains no export. If `given` is undefined,
 * trusts the keys in the export.
 */
async function openExport(folder, given, report = () => {}) {
  const [bytes = NO_BYTES, signature = NO_BYTES, stated = NO_BYTES] = await Promise.all(
    ['manifest.json', 'manifest.sig', 'statement.json'].map((name) => readPart(folder, name)),
  )
  const own = given === void 0 || (await isOwnKeyFile(folder, given.file))
  const trusted = given
    ? fixedKeys(given.keys, own ? 'export' : 'file')
    : fixedKeys(await readOwnKeys(folder), 'export')
  report('keys', own ? 'of the export itself; --keys FILE trusts those of a file' : `of ${given.file}`)
  const [manifest, signed, statement] = [bytes, signature, stated].map(parseWhole)
  if (isObject(manifest) && manifest.version !== 2) throw new ExportViolated('manifest.json is of another version')
  if (!isManifest(manifest)) throw new ExportViolated('manifest.json is not a manifest')
  if (!isManifestSignature(signed)) throw new ExportViolated('manifest.sig is not a signature')
  if (!isStatement(statement)) throw new ExportViolated('statement.json is not a statement')
  const problem =
    signatureProblem(manifest, sha256Of(stated), signed, trusted.keys) ??
    statementProblem(statement, manifest, sha256Of(bytes)) ??
    validityProblem(signed.kid, trusted.keys, statement.signed_at)
  if (problem !== void 0) throw new ExportViolated(problem)
  report('manifest', `signed by ${signed.name}, made at ${manifest.created_at} by the clock of its maker`)
  report('statement', `made by the gateway at ${statement.signed_at} by its own clock`)
  report('key fingerprint', signed.kid)
  await assertFiles(folder, manifest)
  report('files', `${manifest.files.length} files as they were written`)
  assertRoot(manifest)
  report('root of the export', manifest.merkleRootOfExport)
  const csv = new CsvCheck(manifest)
  const counts = new ExportCounts()
  const { source, assertRead } = toSource(folder, manifest)
  return {
    manifest,
    statement,
    source,
    trusted,
    onRow({ row }) {
      csv.add(row)
      counts.addRow(row)
    },
    async assertEnd(checked) {
      await assertRead()
      assertRoots(manifest, checked)
      csv.end()
      await countCheckpoints(folder, manifest, counts)
      const missing = counts.problem(statement)
      if (missing !== void 0) throw new ExportViolated(missing)
    },
  }
}
const NO_BYTES = Buffer.of()
const sha256Of = (bytes) => createHash('sha256').update(bytes).digest('hex')
/** A missing statement makes an export invalid. A folder without the other two files is not an export. */
async function readPart(folder, name) {
  const path = join(folder, name)
  const bytes = readFile(path)
  return name === 'statement.json' ? bytes.catch(() => NO_BYTES) : bytes.catch(failedToRead(path))
}
/** Whether the caller named the key file of the export itself: its keys prove no more than without the option. */
async function isOwnKeyFile(folder, file) {
  const [own, named] = await Promise.all(
    [join(folder, 'keys.json'), file].map((path) => realpath(path).catch(() => path)),
  )
  return own === named
}
/** The notes must be verified before. */
async function countCheckpoints(folder, { chains }, counts) {
  const sizes = new Map(chains.map(({ chain, size }) => [chain, size]))
  for await (const { chain, note } of valuesOf(folder, 'checkpoints.ndjson', isCheckpointOfExport))
    counts.addCheckpoint(chain, sizes.get(chain) ?? 0, parseCheckpoint(note).checkpoint)
}
/** Parses a file as JSON. Returns undefined for invalid JSON, invalid UTF-8 and duplicate members. */
function parseWhole(bytes) {
  if (!isUtf8(bytes)) return void 0
  const text = bytes.toString()
  const value = parseJson(text)
  return value === void 0 || hasDoubledMember(text) ? void 0 : value
}
/** Throws a usage error if the file contains no keys. */
const readGivenKeys = async (file) =>
  file === void 0
    ? void 0
    : {
        file,
        keys: await readKeyFile(file),
      }
const readOwnKeys = (folder) =>
  readKeyFile(join(folder, 'keys.json')).catch(() => {
    throw new ExportViolated('keys.json contains no published keys')
  })
const NEWLINE = 10
async function assertFiles(folder, { files }) {
  const known = new Set(EXPORT_FILES)
  const added = (await readdir(folder)).find((name) => !known.has(name) && !name.startsWith('.'))
  if (added !== void 0) throw new ExportViolated(`${added} is not part of an export`)
  for (const { name, sha256, bytes } of files) {
    const path = join(folder, name)
    const hash = createHash('sha256')
    let size = 0
    let last
    try {
      for await (const chunk of createReadStream(path)) {
        hash.update(chunk)
        size += chunk.length
        last = chunk.at(-1)
      }
    } catch {
      throw new ExportViolated(`${name} cannot be read`)
    }
    if (size !== bytes || hash.digest('hex') !== sha256) throw new ExportViolated(`${name} was changed`)
    if (name.endsWith('.ndjson') && size > 0 && last !== NEWLINE)
      throw new ExportViolated(`${name} does not end with a newline`)
  }
}
function assertRoot({ chains, rowCount, merkleRootOfExport }) {
  const rows = chains.reduce((sum, { size }) => sum + size, 0)
  if (rows !== rowCount)
    throw new ExportViolated(`its chains have ${rows} entries, but its manifest states ${rowCount}`)
  if (exportRoot(chains).toString('hex') !== merkleRootOfExport)
    throw new ExportViolated('its root does not match its chains')
}
/**
 * Reads the file of the entries and the file of their commits once and in parallel. At any time, only one commit is in
 * memory.
 */
function toSource(folder, { tenant_id: tenantId, chains }) {
  const rows = valuesOf(folder, 'data.ndjson', isChainRow)
  const commits = valuesOf(folder, 'commits.ndjson', isCommitOfExport)
  let commit
  const source = {
    tenantId,
    heads: chains,
    async *rows({ size }) {
      for (let seen = 0; seen < size; seen++) {
        const next = await rows.next()
        if (next.done) return
        if (next.value.commit_id !== commit?.id) commit = (await commits.next()).value
        yield {
          row: next.value,
          commit,
        }
      }
    },
    async *checkpoints({ chain }) {
      for await (const checkpoint of valuesOf(folder, 'checkpoints.ndjson', isCheckpointOfExport))
        if (checkpoint.chain === chain) yield checkpoint
    },
  }
  /** Throws an error with exit code 10 if a file contains data that does not belong to a chain in the manifest. */
  async function assertRead() {
    if (!(await rows.next()).done) throw new ExportViolated('data.ndjson has more entries than its manifest')
    if (!(await commits.next()).done) throw new ExportViolated('commits.ndjson has more commits than its entries need')
    const known = new Set(chains.map(({ chain }) => chain))
    for await (const { chain } of valuesOf(folder, 'checkpoints.ndjson', isCheckpointOfExport))
      if (!known.has(chain))
        throw new ExportViolated(`checkpoints.ndjson names the unknown chain ${JSON.stringify(chain)}`)
  }
  return {
    source,
    assertRead,
  }
}
/**
 * Yields the value of each line. Throws an error with exit code 10 if a line is invalid, or if serialising its value
 * gives a different line. For example, a duplicate member causes a difference.
 */
async function* valuesOf(folder, name, isRow) {
  let at = 0
  for await (const line of linesOf(join(folder, name))) {
    at += 1
    const text = isUtf8(line) ? line.toString() : ''
    const row = parseJson(text)
    const isCanonical = JSON.stringify(row) === text && isWellFormed(row)
    if (!isRow(row) || !isCanonical) throw new ExportViolated(`line ${at} of ${name} is invalid`)
    yield row
  }
  return void 0
}
/** Compares data.csv with the entries. */
var CsvCheck = class {
  #expected
  #hash = createHash('sha256').update(CSV_HEAD)
  constructor({ files }) {
    this.#expected = files.find(({ name }) => name === 'data.csv')?.sha256
  }
  /** Throws an error with exit code 10 if a payload is not an object. */
  add(row) {
    const content = contentsOf(row)
    if (row.payload !== null && !isObject(content))
      throw new ExportViolated(`the payload of entry ${row.seq} of chain ${row.chain} is not an object`)
    this.#hash.update(logLineOf(row, content))
  }
  /** Throws an error with exit code 10 if data.csv differs from the entries. */
  end() {
    if (this.#hash.digest('hex') !== this.#expected) throw new ExportViolated('data.csv differs from data.ndjson')
  }
}
/** Throws an error with exit code 10 if the root of a chain differs from the manifest. */
function assertRoots({ chains }, checked) {
  for (const { chain, root } of chains)
    if (checked.find((report) => report.chain === chain)?.root !== root)
      throw new ExportViolated(`the root of chain ${chain} differs from the manifest`)
}
// src/cli/evidence/verification.ts
/** Verifies all chains of a source. */
/**
 * Returns the checkpoint in a note. Throws an error with exit code 10 if no trusted key has signed it, or if it belongs
 * to another chain.
 */
async function checkedNote({ chain, tree_size, note }, tenantId, trusted) {
  const fail = (why) =>
    new CliError(EXIT.checkFailed, `the checkpoint of ${tree_size} entries of chain ${chain} is invalid: ${why}`, {
      code: 'CHECKPOINT_INVALID',
    })
  let signed
  try {
    signed = await withKeys(trusted, (keys) => signedNoteOf(note, keys))
  } catch (error) {
    throw fail(error instanceof Error ? error.message : String(error))
  }
  const { checkpoint, signers } = signed
  if (
    !signers.some((name) => checkpoint.origin === chainOrigin(name, tenantId, chain)) ||
    checkpoint.size !== tree_size
  )
    throw fail('it belongs to another chain')
  return checkpoint
}
/** If a chain is invalid, throws an error with exit code 10 that names the first invalid entry. */
function assertValid(checked) {
  const [violation] = violationsOf(checked)
  if (violation !== void 0) throw violation
}
/** Returns one error for each invalid chain, with exit code 10. */
const violationsOf = (checked) =>
  checked.flatMap(({ chain, firstBad }) => {
    if (firstBad === void 0) return []
    const message = `chain ${chain} is invalid from entry ${firstBad.seq} on: ${firstBad.problem}`
    return [
      new CliError(EXIT.checkFailed, message, {
        code: 'CHAIN_VIOLATED',
        hints: ['The entries before that one are valid.'],
      }),
    ]
  })
// src/shared/evidence/cosignature.ts
/** The window of a key without limits. */
const ALWAYS = {
  fromMs: Number.NEGATIVE_INFINITY,
  untilMs: Number.POSITIVE_INFINITY,
}
const TIMESTAMP_BYTES = 8
/** The length of a cosignature: a timestamp and an Ed25519 signature. */
const COSIGNATURE_BYTES = 72
/** Returns the text that a witness signs (C2SP tlog-cosignature): the time, and the text of the checkpoint. */
const cosignatureText = (timeSeconds, checkpointText) => `cosignature/v1\ntime ${timeSeconds}\n${checkpointText}`
/** Whether a signature line names this key. */
const isOfKey = ({ name, keyHash }, key) => name === key.name && keyHash.equals(key.keyHash)
/**
 * Returns the time of a cosignature in milliseconds since 1970. Returns undefined unless the key has signed this text.
 */
function cosignedAtMs({ signature }, text, key) {
  if (signature.length !== COSIGNATURE_BYTES) return void 0
  const timeSeconds = Number(signature.readBigUInt64BE())
  if (!Number.isSafeInteger(timeSeconds * 1e3)) return void 0
  return isSignedBy(key, cosignatureText(timeSeconds, text), signature.subarray(TIMESTAMP_BYTES))
    ? timeSeconds * 1e3
    : void 0
}
// src/shared/evidence/verifier-key.ts
/** The type byte of a key in signed notes: a log signs with Ed25519, a witness cosigns with timestamps. */
const KEY_TYPE = {
  log: 1,
  witness: 4,
}
/** The error for a text that is not a verifier key. */
var VerifierKeyError = class extends Error {
  name = 'VerifierKeyError'
}
/**
 * Parses the verifier key of a witness: type 4, Ed25519 with timestamps (C2SP tlog-cosignature).
 * @throws VerifierKeyError
 */
function parseWitnessKey(text) {
  const [, name = '', hash = '', base64 = ''] = /^([^+\s\p{Cc}]{1,256})\+([0-9a-f]{8})\+(\S{1,2048})$/u.exec(text) ?? []
  if (name === '') throw new VerifierKeyError('must be <name>+<hash>+<key>, as the witness publishes it')
  const bytes = decodeBase64(base64)
  const [type = 0] = bytes ?? []
  if (bytes === void 0 || type !== KEY_TYPE.witness || bytes.length !== 33)
    throw new VerifierKeyError('must be the key of a witness: Ed25519 cosignatures (type 4)')
  const publicKey = bytes.subarray(1)
  if (!isStrongPoint(publicKey)) throw new VerifierKeyError('is not a canonical point of large order')
  const keyHash = keyHashOf(name, publicKey, type)
  if (keyHash.toString('hex') !== hash) throw new VerifierKeyError('has a hash that does not match its name and key')
  return {
    name,
    keyHash,
    type,
    publicKey,
  }
}
// src/shared/evidence/witness-policy.ts
/** The error for a text that is not a policy. The message names the line. */
var WitnessPolicyError = class extends Error {
  name = 'WitnessPolicyError'
}
/** The maximum number of lines of a policy. */
const MAX_LINES = 1e3
const NONE = 'none'
/**
 * Parses a policy in the format of C2SP tlog-policy: lines `witness`, `group` and `quorum`. The line
 * `valid <witness> <from> <until>` is an extension: it limits the times at which a key may cosign; `-` means no limit.
 * Lines `log` are rejected, because the keys of the log come from the key set.
 * @throws WitnessPolicyError
 */
function parseWitnessPolicy(text) {
  const witnesses = /* @__PURE__ */ new Map()
  const groups = /* @__PURE__ */ new Map()
  const grouped = /* @__PURE__ */ new Set()
  let quorum
  const isDefined = (name) => witnesses.has(name) || groups.has(name)
  function addName(name) {
    if (name === void 0) throw new WitnessPolicyError('a name is missing')
    if (name === NONE || isDefined(name)) throw new WitnessPolicyError(`the name ${name} is already in use`)
    return name
  }
  function addWitness([name, key = '', , ...others]) {
    if (others.length > 0) throw new WitnessPolicyError('a witness has a name, a key, and at most a URL')
    const added = addName(name)
    const parsed = parseWitnessKey(key)
    if ([...witnesses.values()].some(({ publicKey }) => publicKey.equals(parsed.publicKey)))
      throw new WitnessPolicyError('two witnesses have the same key')
    witnesses.set(added, {
      ...parsed,
      window: ALWAYS,
    })
  }
  function addGroup([name, threshold = '', ...members]) {
    const added = addName(name)
    const unknown = members.find((member) => !isDefined(member))
    if (members.length === 0) throw new WitnessPolicyError(`the group ${added} has no members`)
    if (unknown !== void 0) throw new WitnessPolicyError(`${unknown} is not defined on an earlier line`)
    for (const member of members) {
      if (grouped.has(member)) throw new WitnessPolicyError(`${member} is already a member of a group`)
      grouped.add(member)
    }
    groups.set(added, {
      threshold: thresholdOf(threshold, members.length),
      members,
    })
  }
  function limit([name = '', from = '', until = '', ...others]) {
    const witness = witnesses.get(name)
    if (witness === void 0 || others.length > 0)
      throw new WitnessPolicyError('valid has the name of a witness on an earlier line, and two times')
    witnesses.set(name, {
      ...witness,
      window: parseWindow(from, until),
    })
  }
  const lines = text.split('\n')
  if (lines.length > MAX_LINES) throw new WitnessPolicyError(`it has more than ${MAX_LINES} lines`)
  for (const [index, line] of lines.entries()) {
    const [keyword, ...words] = line.split(/[ \t]+/).filter((word) => word !== '')
    if (keyword === void 0 || keyword.startsWith('#')) continue
    try {
      if (keyword === 'witness') addWitness(words)
      else if (keyword === 'group') addGroup(words)
      else if (keyword === 'valid') limit(words)
      else if (keyword === 'quorum') {
        const [name = '', ...others] = words
        if (quorum !== void 0) throw new WitnessPolicyError('there may be only one quorum')
        if (others.length > 0 || (name !== NONE && !isDefined(name)))
          throw new WitnessPolicyError('quorum names one witness or group of an earlier line')
        quorum = name
      } else if (keyword === 'log')
        throw new WitnessPolicyError('remove the log: its keys come from the key set of the gateway')
      else throw new WitnessPolicyError(`unknown keyword ${keyword}`)
    } catch (error) {
      if (!(error instanceof WitnessPolicyError || error instanceof VerifierKeyError)) throw error
      throw new WitnessPolicyError(`line ${index + 1}: ${error.message}`)
    }
  }
  if (quorum === void 0) throw new WitnessPolicyError('it has no quorum')
  return {
    witnesses,
    groups,
    quorum,
  }
}
function thresholdOf(text, members) {
  if (text === 'all') return members
  if (text === 'any') return 1
  const threshold = /^[1-9]\d{0,3}$/.test(text) ? Number(text) : NaN
  if (threshold <= members) return threshold
  throw new WitnessPolicyError(`a group needs all, any, or a number from 1 to ${members}`)
}
/** Parses the two times of a window. `-` means no limit. @throws WitnessPolicyError */
function parseWindow(from, until) {
  const [fromMs, untilMs] = [parseTime(from, ALWAYS.fromMs), parseTime(until, ALWAYS.untilMs)]
  if (fromMs < untilMs)
    return {
      fromMs,
      untilMs,
    }
  throw new WitnessPolicyError('the second time must be after the first')
}
/** ISO 8601 with seconds and `Z`. Other notations would depend on the time zone. */
const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d{3})?Z$/
function parseTime(text, unlimited) {
  if (text === '-') return unlimited
  const [, seconds, millis = '.000'] = TIME.exec(text) ?? []
  const ms = timeOf(`${seconds}${millis}Z`)
  if (Number.isNaN(ms)) throw new WitnessPolicyError('a time must have the form 2026-01-31T12:00:00Z, or be -')
  return ms
}
/**
 * Returns the checkpoint of a note if one of the keys has signed it, and enough witnesses have cosigned it. A
 * cosignature counts only if it is not from the future, is within the window of the witness's key, and is within the
 * window of a key with which the log signed: its time is the only proven time of that signature.
 * @throws NoteError
 */
function cosignedNoteOf(note, { keys, policy, nowMs }) {
  const { checkpoint, signedWith } = signedNoteOf(note, keys)
  const { text, signatures } = parseCheckpoint(note)
  const cosigners = /* @__PURE__ */ new Set()
  for (const [name, witness] of policy.witnesses)
    for (const line of signatures.filter((signature) => isOfKey(signature, witness))) {
      const atMs = cosignedAtMs(line, text, witness)
      if (atMs === void 0) throw new NoteError(`the cosignature of ${name} is wrong`)
      if (
        atMs <= nowMs + 3e5 &&
        isWithin(atMs, witness.window) &&
        signedWith.some((key) => isWithin(atMs, windowOf(key)))
      )
        cosigners.add(name)
    }
  if (!isMet(policy, policy.quorum, cosigners)) {
    const found = [...cosigners].join(', ') || 'no witness'
    throw new NoteError(`it lacks cosignatures: ${requirementOf(policy)}; valid ones are of ${found}`)
  }
  return {
    checkpoint,
    cosigners: [...cosigners],
  }
}
/** Whether a witness has cosigned, or enough members of a group have. */
function isMet({ groups, ...policy }, name, cosigners) {
  if (name === NONE) return true
  const group = groups.get(name)
  if (group === void 0) return cosigners.has(name)
  return (
    group.members.filter((member) =>
      isMet(
        {
          groups,
          ...policy,
        },
        member,
        cosigners,
      ),
    ).length >= group.threshold
  )
}
/** Describes a policy: `2 of w1, w2, w3 must cosign`. */
function requirementOf({ groups, quorum }) {
  const group = groups.get(quorum)
  return group ? `${group.threshold} of ${group.members.join(', ')} must cosign` : `${quorum} must cosign`
}
// src/cli/evidence/witnessing.ts
/** The maximum size of a policy file. */
const POLICY_CHARS = 1048576
const UNCOSIGNED_MINUTES = EVIDENCE_UNCOSIGNED_MS / 6e4
/** Returns the policy in a file. Throws a usage error if the file contains no policy. */
async function readPolicy(path) {
  if (path === void 0) return void 0
  try {
    const text = await readText(path)
    if (text.length > POLICY_CHARS) throw new Error('it is too large')
    return parseWitnessPolicy(text)
  } catch (error) {
    throw usageError(`${path} is not a policy: ${error instanceof Error ? error.message : error}`, [
      'A policy has lines such as:  witness w1 <verifier key>  and  quorum w1',
    ])
  }
}
/**
 * Checks that the cosigned checkpoints cover each chain to its end. Only the last entries of a chain may lack
 * cosignatures: entries that are younger than EVIDENCE_UNCOSIGNED_MS, and entries of a closed log.
 */
var Witnessing = class {
  #options
  /** The size of the largest checkpoint that satisfies the policy, by chain. */
  #sizes = /* @__PURE__ */ new Map()
  /** The largest checkpoint that does not satisfy the policy, and the reason, by chain. */
  #uncosigned = /* @__PURE__ */ new Map()
  #tails = /* @__PURE__ */ new Map()
  /** The closings, by log id. */
  #closings = /* @__PURE__ */ new Map()
  constructor({ nowMs = Date.now(), ...options }) {
    this.#options = {
      ...options,
      nowMs,
      readAtMs: Math.min(options.readAtMs, nowMs),
    }
  }
  /**
   * Adds a checkpoint. The caller must have verified that the gateway signed it and that it belongs to the chain. Add
   * all checkpoints of a chain before its rows.
   */
  add({ chain, tree_size, note }) {
    try {
      cosignedNoteOf(note, this.#options)
      this.#sizes.set(chain, Math.max(tree_size, this.#sizes.get(chain) ?? 0))
    } catch (error) {
      if (!(error instanceof NoteError)) throw error
      if (tree_size > (this.#uncosigned.get(chain)?.size ?? -1))
        this.#uncosigned.set(chain, {
          size: tree_size,
          problem: error.message,
        })
    }
  }
  addRow(row) {
    const { chain, seq, created_at } = row
    this.#addClosing(row)
    if (seq < (this.#sizes.get(chain) ?? 0)) return
    const atMs = timeOf(created_at)
    const { oldestMs, newestMs } = this.#tails.get(chain) ?? {
      oldestMs: atMs,
      newestMs: atMs,
    }
    this.#tails.set(chain, {
      oldestMs: Math.min(oldestMs, atMs),
      newestMs: Math.max(newestMs, atMs),
    })
  }
  #addClosing({ chain, seq, created_at, payload }) {
    if (!isChangesChain(chain) || !payload?.includes('"operation":"acknowledge_loss"')) return
    const content = parseJson(payload)
    if (!isObject(content) || content.type !== 'evidence_management' || content.operation !== 'acknowledge_loss') return
    const log = content.resource_id
    if (!isText(log)) return
    this.#closings.set(log, [
      ...(this.#closings.get(log) ?? []),
      {
        chain,
        seq,
        atMs: timeOf(created_at),
      },
    ])
  }
  /** Throws an error with exit code 10 if a chain has entries that should have been cosigned. */
  assertCosigned(heads) {
    for (const head of heads) {
      if (this.#lacking(head) === 0 || this.#isYoung(head.chain) || this.#closingOf(head.chain)) continue
      throw new CliError(EXIT.checkFailed, this.#problemOf(head), { code: 'COSIGNATURES_MISSING' })
    }
  }
  /** Returns the number of entries of a chain that no cosigned checkpoint covers. */
  #lacking({ chain, size }) {
    return Math.max(0, size - (this.#sizes.get(chain) ?? 0))
  }
  /** A chain whose only checkpoints lack cosignatures does not satisfy the policy at any age. */
  #isYoung(chain) {
    const tail = this.#tails.get(chain)
    const { readAtMs } = this.#options
    return (
      tail !== void 0 &&
      (this.#sizes.has(chain) || !this.#uncosigned.has(chain)) &&
      tail.oldestMs >= readAtMs - EVIDENCE_UNCOSIGNED_MS &&
      tail.newestMs <= readAtMs + 3e5
    )
  }
  /**
   * Returns the entry that closes a chain. A closed log gets no further checkpoints and cosignatures, ever. The entry
   * must be covered by a cosigned checkpoint, so that the gateway cannot claim to one party that a log is closed. The
   * closed log must not have later entries.
   */
  #closingOf(chain) {
    const newestMs = this.#tails.get(chain)?.newestMs ?? NaN
    return (this.#closings.get(logId(this.#options.tenantId, chain)) ?? []).find(
      (closing) =>
        closing.chain !== chain &&
        closing.seq < (this.#sizes.get(closing.chain) ?? 0) &&
        newestMs <= closing.atMs + 3e5,
    )
  }
  #problemOf({ chain }) {
    const covered = this.#sizes.get(chain)
    const uncosigned = this.#uncosigned.get(chain)
    if (covered === void 0)
      return `no checkpoint of chain ${chain} satisfies the policy: ${uncosigned?.problem ?? `it has no checkpoint, and entries that are older than ${UNCOSIGNED_MINUTES} min`}`
    const why =
      uncosigned && uncosigned.size > covered
        ? `the checkpoint of ${uncosigned.size}: ${uncosigned.problem}`
        : 'there is no later checkpoint'
    return `the checkpoints of chain ${chain} that satisfy the policy cover only ${covered} entries, and later ones are older than ${UNCOSIGNED_MINUTES} min: ${why}`
  }
  /** Describes how many entries the cosigned checkpoints cover, and why others are accepted. */
  coverage(heads) {
    const total = heads.reduce((sum, { size }) => sum + size, 0)
    const lacking = heads.filter((head) => this.#lacking(head) > 0)
    const covered = total - lacking.reduce((sum, head) => sum + this.#lacking(head), 0)
    const reasons = lacking.map((head) => {
      const closing = this.#isYoung(head.chain) ? void 0 : this.#closingOf(head.chain)
      const entries = `${this.#lacking(head)} of chain ${head.chain} accepted without cosignature`
      return closing
        ? `${entries}: the log is closed, as the cosigned entry ${closing.seq} of ${closing.chain} records`
        : `${entries}: younger than ${UNCOSIGNED_MINUTES} min`
    })
    return [`cosigned checkpoints cover ${covered} of ${total} entries`, ...reasons].join('; ')
  }
}
// src/cli/evidence/verifier.ts
const USAGE = `Usage: node verify.mjs [DIR] [--keys FILE] [--policy FILE]

  DIR          the export; default: the directory of this file
  --keys FILE  trust the keys of this file, a copy of the gateway's /.well-known/aigw-keys.json;
               default: the keys of the export, which anyone could have made
  --policy FILE  demand cosigned checkpoints of every chain up to its end; FILE names the witnesses (C2SP tlog-policy)
  --help       show this text

Exit codes: 0 the export is valid, 1 it is invalid, 2 an argument or the key file cannot be used,
11 it is consistent, but only by the keys that came with it.
`
/**
 * The checks, in the order in which they run. If the verification fails, the first check without a result is reported
 * as failed.
 */
const CHECKS = [
  'keys',
  'manifest',
  'statement',
  'key fingerprint',
  'files',
  'root of the export',
  'checkpoints',
  'entries',
]
/** The error for an invalid argument. */
var ArgumentError = class extends Error {}
/** Escapes text from the files, because control characters in it could control the terminal. */
const harmless = (line) => line.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`)
const say = (line) => process.stdout.write(`${harmless(line)}\n`)
const messageOf = (error) => (error instanceof Error ? error.message : String(error))
/** Rejects unknown flags. If a misspelt --keys were ignored, a forged export would be verified with its own keys. */
function readArguments(args) {
  const file = {
    type: 'string',
    multiple: true,
  }
  const options = {
    keys: file,
    policy: file,
    help: {
      type: 'boolean',
      short: 'h',
    },
  }
  const { values, positionals } = parsed(() =>
    parseArgs({
      args,
      options,
      allowPositionals: true,
    }),
  )
  const { keys: keyFiles = [], policy: policyFiles = [], help = false } = values
  for (const [name, files] of [
    ['--keys', keyFiles],
    ['--policy', policyFiles],
  ]) {
    if (files.length > 1) throw new ArgumentError(`${name} was given more than once; name one file.`)
    if (files[0] === '') throw new ArgumentError(`${name} was given without a file; name one.`)
  }
  if (positionals.length > 1)
    throw new ArgumentError(`One directory is checked at a time, not ${positionals.join(' and ')}.`)
  if (positionals[0] === '') throw new ArgumentError('The name of the directory is empty; name one, or leave it out.')
  return {
    folder: positionals[0] ?? dirname(fileURLToPath(import.meta.url)),
    keyFile: keyFiles[0],
    policyFile: policyFiles[0],
    help,
  }
}
function parsed(parse) {
  try {
    return parse()
  } catch (error) {
    throw new ArgumentError(messageOf(error))
  }
}
async function readKeys(file) {
  try {
    return await readGivenKeys(file)
  } catch (error) {
    throw new ArgumentError(
      `--keys ${file} cannot be used: ${messageOf(error)}. Name a copy of the gateway's /.well-known/aigw-keys.json.`,
    )
  }
}
async function readPolicyFile(file) {
  try {
    return await readPolicy(file)
  } catch (error) {
    throw new ArgumentError(`--policy cannot be used: ${messageOf(error)}`)
  }
}
/** Checks the whole export in constant memory. Returns the source of the keys. Throws an error at the first fault. */
async function checkExport(folder, { keys: given, policy }, report) {
  const { manifest, statement, source, trusted, onRow, assertEnd } = await openExport(folder, given, report)
  const { tenantId, heads } = source
  const checkpoints = []
  const readAtMs = timeOf(statement.signed_at)
  const witnessing =
    policy &&
    new Witnessing({
      policy,
      keys: trusted.keys,
      tenantId,
      readAtMs,
    })
  for (const head of heads)
    for await (const note of source.checkpoints(head)) {
      checkpoints.push(await checkedNote(note, tenantId, trusted))
      witnessing?.add(note)
    }
  report('checkpoints', `${checkpoints.length} signed`)
  const checked = []
  let commits = 0
  for (const head of heads) {
    let last
    const chain = await checkChain(
      {
        tenantId,
        head,
        trusted,
        checkpoints,
      },
      source.rows(head),
      (seen) => {
        if (seen.commit !== last) commits += 1
        last = seen.commit
        onRow(seen)
        witnessing?.addRow(seen.row)
      },
    )
    assertValid([chain])
    report(`chain ${chain.chain}`, `${chain.size} entries, ${chain.expunged} expunged`)
    checked.push(chain)
  }
  await assertEnd(checked)
  report('commits', `${commits} signed`)
  report('row count', `${manifest.rowCount}`)
  report('data.csv', 'the same as data.ndjson')
  report('counts', countsIn(statement))
  for (const loss of lossesIn(statement)) say(`note  ${loss}`)
  witnessing?.assertCosigned(heads)
  if (witnessing) report('cosignatures', witnessing.coverage(heads))
  return trusted.from
}
/** Returns the gateway's counts in words. Entries that were written during the export are not in it. */
function countsIn({ chains, losses = [] }) {
  const expunged = chains.reduce((sum, chain) => sum + chain.expunged, 0)
  const later = chains
    .filter(({ chain }) => !losses.some((loss) => loss.chain === chain))
    .reduce((sum, { entries, size }) => sum + Math.max(0, entries - size), 0)
  return `as the gateway stated: ${expunged} payloads expunged${later === 0 ? '' : `; the log had ${later} later entries, which the export does not contain`}`
}
async function main(args) {
  let reported = 0
  try {
    const { folder, keyFile, policyFile, help } = readArguments(args)
    if (help) {
      process.stdout.write(USAGE)
      return 0
    }
    if (
      (await checkExport(
        folder,
        {
          keys: await readKeys(keyFile),
          policy: await readPolicyFile(policyFile),
        },
        (check, found) => {
          say(`ok    ${check}: ${found}`)
          reported += 1
        },
      )) === 'export'
    ) {
      say(`The export is ${OWN_KEYS}. Name keys from another source: --keys FILE`)
      return EXIT.ownKeys
    }
    say('The export is valid.')
    return 0
  } catch (error) {
    if (error instanceof ArgumentError) {
      process.stderr.write(`verify.mjs: ${harmless(error.message)}\n\n${USAGE}`)
      return 2
    }
    const isUnreadable = error instanceof CliError && error.exitCode === EXIT.usage
    const running =
      error instanceof CliError && error.code === 'COSIGNATURES_MISSING'
        ? 'cosignatures'
        : CHECKS[Math.min(reported, CHECKS.length - 1)]
    say(
      `FAIL  ${isUnreadable ? 'manifest' : running}: ${error instanceof ExportViolated ? error.what : messageOf(error)}`,
    )
    say('The export is NOT valid.')
    return 1
  }
}
process.exitCode = await main(process.argv.slice(2))

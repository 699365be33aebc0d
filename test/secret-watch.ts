import { SecretSearch } from './secret-search.ts'

// Searches all output and stored data of test gateways for every secret that the tests use, and for every text sent
// to a model. leaks.ts reads the findings at the end of each test file.
//
// Secrets: keys of callers, providers and installations, signing secrets, and texts of requests and answers.
// Searched: log lines of every daemon, stderr of the CLI, error responses, read responses (receipts, logs, incidents,
// deliveries, metrics), error frames, response headers, webhook bodies, up to 1,000 rows of each table before a store
// is removed, and all files of daemons that run in their own process.
// Not searched: answers of a model, which repeat the prompt, and responses that create a key, which show it once.
// Customers' data (documents, word rules, stored answers for repeats) may contain texts, but no keys.

/** Minimum length of leaked words, including spaces. Other texts may contain shorter sequences by chance. */
const WORDS_CHARS = 24
/** Only the first characters of each text are searched for, and only this number of texts. */
const TEXT_CHARS_SEARCHED = 120
const TEXTS_SEARCHED = 500
/** Maximum size of texts that wait to be searched. It is small, because some tests measure memory growth. */
const BACKLOG_CHARS = 262_144
/** Shorter texts are not secrets. */
const SECRET_CHARS = 16

/** Generated keys and signing secrets, recognised by their form. */
const GENERATED = /\b(?:sk-|whsec_)[0-9a-f]{64}\b/g

/** Copies a text, because a substring would keep the whole original in memory. */
const copyOf = (text: string): string => Buffer.from(text).toString()

const USER_TEXT = 'a text of a user'

type Output = { where: string; text: string; mayContainText: boolean }

/** Collects secrets and outputs, and finds secrets in outputs. */
export class SecretWatch {
  #planted = new SecretSearch([])
  readonly #known = new Set<string>()
  readonly #found = new Set<string>()
  #texts = 0
  #pending: Output[] = []
  #pendingChars = 0

  /** Clears everything before another test file. */
  reset(): void {
    this.#planted = new SecretSearch([])
    this.#known.clear()
    this.#found.clear()
    this.#pending = []
    this.#pendingChars = 0
    this.#texts = 0
  }

  /** Registers a secret. From now on it must not appear in outputs. */
  addSecret(kind: string, text: string): void {
    if (text.length < SECRET_CHARS || this.#known.has(text)) return
    this.#known.add(text)
    this.#planted.add({ kind, text })
  }

  /** Registers the generated secrets that a response shows. */
  addGenerated(text: string): void {
    for (const [secret] of text.matchAll(GENERATED)) this.addSecret('a generated secret', secret)
  }

  /** Registers all texts of several words in the body of a request to a model or of its answer. */
  addWords(body: unknown): void {
    if (typeof body === 'string') this.#addText(body)
    else if (typeof body === 'object' && body !== null) for (const member of Object.values(body)) this.addWords(member)
  }

  #addText(text: string): void {
    const begin = copyOf(text.slice(0, TEXT_CHARS_SEARCHED))
    const isWords = begin.length >= WORDS_CHARS && /\S\s+\S/.test(begin)
    if (!isWords || this.#texts >= TEXTS_SEARCHED || this.#known.has(begin)) return
    this.#known.add(begin)
    this.#texts += 1
    this.#planted.add({ kind: USER_TEXT, text: begin, fragmentChars: WORDS_CHARS })
  }

  /** Adds an output to be searched. `mayContainText` allows texts of customers in it. */
  record(where: string, text: string, { mayContainText = false } = {}): void {
    this.#pending.push({ where, text: copyOf(text), mayContainText })
    this.#pendingChars += text.length
    if (this.#pendingChars > BACKLOG_CHARS) this.#search()
  }

  #search(): void {
    for (const { where, text, mayContainText } of this.#pending.splice(0)) {
      if (text.search(GENERATED) >= 0) this.#found.add(`${where}: a key or a signing secret`)
      for (const { kind, part } of this.#planted.find(where, text)) {
        if (kind !== USER_TEXT) this.#found.add(`${where}: ${kind}`)
        else if (!mayContainText) this.#found.add(`${where}: ${kind} (${part})`)
      }
    }
    this.#pendingChars = 0
  }

  /** Returns the findings since the last call: location and kind of secret. Shows leaked words, but not leaked keys. */
  takeFound(): string[] {
    this.#search()
    const found = [...this.#found].sort()
    this.#found.clear()
    return found
  }
}

/** The watch of the current test file. */
export const secretWatch = new SecretWatch()

import { SecretSearch } from './secret-search.ts'

// Everything that a gateway of the tests says or keeps is searched for every secret that the tests have given it, and for
// every text that somebody has said to a model; leaks.ts asks for what was found when a test file ends.
//
// What is given: keys of callers, providers and installations, signing secrets, and texts of requests and answers.
// What is searched: log lines of every daemon, in this process or in its own, and what the command line says on stderr;
// bodies of refusals and of what is read (receipts, logs, incidents, deliveries, metrics), error frames, and headers of all
// answers; the posts of webhooks; the texts in every table of every store before it is removed, up to 1,000 rows of each;
// every file in the directory of a daemon in its own process.
// What is not: answers of a model, which repeat what was said; the answer to a request that makes a key, which shows it once.
// In what belongs to customers (documents, rules about words, answers that wait for a repeat) texts may stand, keys may not.

/** Of words so many in a row, with the spaces between them, are a leak: shorter ones others say as well. */
const WORDS_CHARS = 24
/** So much of a text is looked for, and of so many texts: the first of a long one are enough to know it. */
const WORDS_SEARCHED = 120
const TEXTS_SEARCHED = 500
/** What waits to be searched, until it is known which secrets there are; little, as some tests look at how memory grows. */
const BACKLOG_CHARS = 262_144
/** Shorter ones are no secrets, and may stand anywhere. */
const SECRET_CHARS = 16

/** Keys and signing secrets as the gateway makes them: they are known by their form. */
const MADE = /\b(?:sk-|whsec_)[0-9a-f]{64}\b/g

/** A part of a text would keep all of it in memory. */
const copyOf = (text: string): string => Buffer.from(text).toString()

const SAID = 'what somebody said'

type Said = { where: string; text: string; mayHoldWords: boolean }

/** What must not be said, and everything that was. */
export class SecretWatch {
  #planted = new SecretSearch([])
  readonly #known = new Set<string>()
  readonly #found = new Set<string>()
  #texts = 0
  #waiting: Said[] = []
  #waitingChars = 0

  /** Begins anew for another test file. */
  forget(): void {
    this.#planted = new SecretSearch([])
    this.#known.clear()
    this.#found.clear()
    this.#waiting = []
    this.#waitingChars = 0
    this.#texts = 0
  }

  /** From now on nobody may say this. */
  addSecret(kind: string, text: string): void {
    if (text.length < SECRET_CHARS || this.#known.has(text)) return
    this.#known.add(text)
    this.#planted.add({ kind, text })
  }

  /** The same for the secrets that the gateway has made and told in an answer. */
  addMade(text: string): void {
    for (const [secret] of text.matchAll(MADE)) this.addSecret('a secret that was made', secret)
  }

  /** What was said to a model, or by one: every text of some words anywhere in the body of a request or an answer. */
  addWords(body: unknown): void {
    if (typeof body === 'string') this.#addText(body)
    else if (typeof body === 'object' && body !== null) for (const member of Object.values(body)) this.addWords(member)
  }

  #addText(text: string): void {
    const begin = copyOf(text.slice(0, WORDS_SEARCHED))
    const isWords = begin.length >= WORDS_CHARS && /\S\s+\S/.test(begin)
    if (!isWords || this.#texts >= TEXTS_SEARCHED || this.#known.has(begin)) return
    this.#known.add(begin)
    this.#texts += 1
    this.#planted.add({ kind: SAID, text: begin, fragmentChars: WORDS_CHARS })
  }

  /** What was said or kept, and where. `mayHoldWords`: where a customer's texts belong. */
  say(where: string, text: string, { mayHoldWords = false } = {}): void {
    this.#waiting.push({ where, text: copyOf(text), mayHoldWords })
    this.#waitingChars += text.length
    if (this.#waitingChars > BACKLOG_CHARS) this.#search()
  }

  #search(): void {
    for (const { where, text, mayHoldWords } of this.#waiting.splice(0)) {
      if (text.search(MADE) >= 0) this.#found.add(`${where}: a key or a signing secret`)
      for (const { kind, part } of this.#planted.find(where, text)) {
        if (kind !== SAID) this.#found.add(`${where}: ${kind}`)
        else if (!mayHoldWords) this.#found.add(`${where}: ${kind} (${part})`)
      }
    }
    this.#waitingChars = 0
  }

  /** What was found since it was asked last: where, and which kind of secret; of words which ones, of keys not. */
  takeFound(): string[] {
    this.#search()
    const found = [...this.#found].sort()
    this.#found.clear()
    return found
  }
}

/** That of this test file. */
export const secretWatch = new SecretWatch()

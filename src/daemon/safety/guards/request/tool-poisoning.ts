// Finds definitions of tools that instruct the model to act behind its user's back ("tool poisoning").
import type { ShieldCategory } from '../../../../shared/wire/shield.ts'
import { findPhrases } from '../shield/phrases.ts'
import { readText } from '../shield/reading.ts'

/** `confidence` is 0 to 1. */
export type Poison = { category: ShieldCategory; confidence: number }

const raw = String.raw

/**
 * The signs of a poisoned definition. Each sign alone also occurs in honest definitions: these address the model,
 * prescribe an order of calls, and name keys and files. Only combinations count.
 */
const SIGNS = {
  /** The user must not learn what happens. */
  conceals: [
    raw`\b(?:do not|don't|dont|never|must not|without|avoid|no need to)\b[^.!?\n]{0,60}\b(?:tell|mention|inform|notify|reveal|show|alert|display|disclose|explain|ask)\w{0,12}\b[^.!?\n]{0,50}\b(?:users?|human|customer|them|anyone|him|her)\b`,
    raw`\b(?:user|human)\b[^.!?\n]{0,40}\b(?:must not|should not|need not|does not need to|doesn't need to|cannot|never)\b[^.!?\n]{0,20}\b(?:know|see|notice|learn)`,
    raw`\b(?:secretly|covertly|stealthily|behind the user's back)\b`,
    raw`\b(?:sag|erzahl|erwahn|verrat|zeig|informier)\w{0,12}[^.!?\n]{0,60}(?:nutzer|anwender)[^.!?\n]{0,30}\b(?:nicht|nichts|niemals)\b|\bohne\b[^.!?\n]{0,40}(?:nutzer|anwender)[^.!?\n]{0,30}\b(?:zu informier|mitzuteil|zu sag|zu frag)`,
    raw`\bsans (?:en )?(?:informer|prevenir|avertir|le dire|demander)[^.!?\n]{0,40}utilisateur|\bne [^.!?\n]{0,30}(?:dis|dites|mentionne|informe|revele)\w{0,12}[^.!?\n]{0,40}utilisateur`,
    raw`\b(?:no|nunca|sin|nao|sem|non|senza)\b[^.!?\n]{0,30}(?:dig|mencion|inform|avis|decir|revel|diga|dire|menzion)\w{0,12}[^.!?\n]{0,40}(?:usuari|utente|utilizador)`,
    raw`(?:不要|不得|别|請勿|请勿)[^。\n]{0,6}(?:告诉|告知|提及|通知|让|透露)[^。\n]{0,6}用户|瞒着用户|ユーザーに(?:は)?[^。\n]{0,16}(?:言わない|伝えない|知らせない|教えない|言うな)|사용자에게[^.\n]{0,20}(?:말하지|알리지)`,
    raw`не (?:говори|сообщай|упоминай|рассказывай)\p{L}{0,12}[^.\n]{0,40}пользовател|без ведома пользовател`,
  ],
  /** Data that no tool needs to see. */
  reads: [
    raw`~/\.|\.ssh\b|id_rsa|id_ed25519|\.env\b|mcp\.json|\.aws\b|\.npmrc|\.netrc|\.git-credentials|/etc/(?:passwd|shadow)|seed phrase`,
    raw`\b(?:private keys?|ssh keys?|environment variables|system prompt|(?:chat|conversation|message) history|(?:entire|whole|full) conversation|all (?:previous|prior|earlier) messages)\b`,
  ],
  /** The data leaves through an argument. */
  carries: [
    raw`\b(?:pass|put|include|add|append|insert|attach|place|embed|copy|encode|write|provide)\w{0,12}\b[^.!?\n]{0,80}\b(?:parameter|argument|field|sidenote|side note|note|metadata|comment|query string|context)\b`,
    raw`\b(?:pass|include|attach|provide|send)\w{0,12}\b[^.!?\n]{0,40}\b(?:its|the|their|whole|full) contents?\b`,
  ],
  /** The data goes to an address that the definition names. */
  sends: [
    raw`\b(?:send|forward|upload|post|transmit|exfiltrate|bcc|cc|deliver|copy|redirect)\w{0,12}\b[^!?\n]{0,100}(?:https?://|[\w.+-]+@[\w-]+\.[a-z])`,
    raw`\b(?:recipient|address|destination|bcc|account|beneficiary)\b[^!?\n]{0,40}\b(?:to|with|as|is)\b\s{0,3}["'\x60]?(?:[\w.+-]+@[\w-]+\.[a-z]|https?:)`,
  ],
  /** It concerns other tools, or comes before the tool's own work. */
  commands: [
    raw`\b(?:before|prior to|when(?:ever)?|every time|each time|after)\b[^.!?\n]{0,40}\b(?:us|call|invok|runn?|execut)(?:e|es|ing)?\b[^.!?\n]{0,30}\btools?\b`,
    raw`\b(?:other|another|any|all) tools?\b|\binstead of (?:the )?[\w\x60'" -]{1,40}\btool\b`,
    raw`\botherwise[^.!?\n]{0,30}\btool\b[^.!?\n]{0,30}\b(?:not|fail|won't)\b`,
  ],
  /** A tag that pretends to be an instruction of the system. */
  tags: [raw`</?(?:important|system|secret|hidden|instructions?|admin|critical|internal)\b[^>]{0,40}>`],
} as const satisfies Record<string, readonly string[]>

type Sign = keyof typeof SIGNS

/** One pattern for each sign. Each reads a bounded number of characters from any place. */
const PATTERNS = Object.entries(SIGNS).map(([sign, sources]) => {
  return { sign: sign as Sign, pattern: new RegExp(sources.join('|'), 'iu') }
})

/** The combinations that reveal a poisoned definition, the most certain first. */
const COMBINATIONS: readonly { signs: readonly Sign[]; confidence: number }[] = [
  { signs: ['conceals', 'reads', 'carries'], confidence: 0.97 },
  { signs: ['conceals', 'sends'], confidence: 0.95 },
  { signs: ['reads', 'carries', 'tags'], confidence: 0.95 },
  { signs: ['reads', 'carries', 'commands'], confidence: 0.92 },
  { signs: ['conceals', 'carries', 'commands'], confidence: 0.92 },
  { signs: ['reads', 'sends'], confidence: 0.9 },
  { signs: ['sends', 'commands'], confidence: 0.88 },
  { signs: ['conceals', 'reads', 'tags'], confidence: 0.9 },
  { signs: ['conceals', 'commands'], confidence: 0.55 },
  { signs: ['conceals', 'reads'], confidence: 0.55 },
  { signs: ['conceals', 'carries'], confidence: 0.55 },
  { signs: ['conceals', 'tags'], confidence: 0.55 },
]
/** Text that people do not see has no place in a definition. */
const HIDDEN_TEXT = 0.95
/** Phrases of other attacks that count. Weaker phrases occur in honest definitions. */
const LEAST_PHRASE = 0.8
const OTHER_CATEGORIES: ReadonlySet<ShieldCategory> = new Set(['prompt_injection', 'jailbreak', 'prompt_leaking'])

/** Returns the poison in a text about a tool. Undefined if there is none. */
export function poisonIn(text: string): Poison | undefined {
  const { clean, spelled, words } = readText(text)
  const signs = new Set(PATTERNS.filter(({ pattern }) => pattern.test(spelled)).map(({ sign }) => sign))
  const combination = COMBINATIONS.find((one) => one.signs.every((sign) => signs.has(sign)))
  const confidence = Math.max(combination?.confidence ?? 0, clean.tags === '' ? 0 : HIDDEN_TEXT)
  const phrases = findPhrases(words, 0, words.words.length)
    .map(({ phrase: { category, confidence } }) => ({ category, confidence }))
    .filter((one) => one.confidence >= LEAST_PHRASE && OTHER_CATEGORIES.has(one.category))
    .sort((one, other) => other.confidence - one.confidence)
  if (confidence >= (phrases[0]?.confidence ?? 0)) {
    return confidence > 0 ? { category: 'tool_poisoning', confidence } : undefined
  }
  return phrases[0]
}

// Finds the parts of a system prompt that its author marked as secret (docs/prompt-shield.md).

/** `texts`: sentences and lines. `words`: codes and passwords, which count even if they are quoted alone. */
export type MarkedSecrets = { texts: string[]; words: string[] }

const MARK = new RegExp(
  [
    String.raw`(?<!non[- ])(?<!\p{L})(?:confidential|top secret|secret|classified|internal[- ](?:use )?only|private)(?!\p{L})`,
    String.raw`(?<!\p{L})(?:do not|don't|must not|never|not to be) (?:ever )?(?:reveal|disclose|share|mention|repeat|quote|tell|leak|output|show|give (?:out|away)|expose|shared|disclosed|revealed)`,
    String.raw`(?<!\p{L})(?:vertraulich|geheim|nicht (?:verraten|weitergeben|offenlegen|nennen|preisgeben)|niemals? .{0,60}(?:verraten|nennen|preisgeben|weitergeben))`,
    String.raw`(?<!\p{L})(?:confidentiel|secrète?|ne (?:jamais )?(?:révéle|divulgue|partage|mentionne)[rz]?|ne .{0,20} jamais (?:révéle|divulgue)[rz]?)`,
    String.raw`(?<!\p{L})(?:confidencial|secret[oa]|no (?:reveles|revelar|compartas|compartir|menciones|divulgues)|nunca (?:reveles|menciones|revele|mencione)|não (?:revele|divulgue|mencione|compartilhe))`,
    String.raw`(?<!\p{L})(?:riservat[oa]|segret[oa]|non (?:rivelare|divulgare|condividere)|vertrouwelijk|geheim|niet delen|poufne|tajne|gizli|конфиденциально|секретно|не раскрывай|никогда не раскрывай)`,
    '机密|保密|绝密|不要(?:透露|泄露|告诉)|不得(?:透露|泄露)|秘密|極秘|機密|明かさない|漏らさない|기밀|비밀|공개하지|سري|لا تكشف|गोपनीय',
  ].join('|'),
  'iu',
)
/** Matches a sentence that only describes the text before it: "This is confidential." */
const REFERS_BACK = /^(?:this|that|these|it|the above|all of this|dies|das|ceci|cela|esto|isso|questo)\b/i
const REFERS_BACK_CHARS = 80
/** Matches a line that ends a marked block. */
const BLOCK_END = /^\s*(?:$|#{1,6}\s|<\/|\[\/|\[?end\b|[-=*#]{3,})/i
const BLOCK_LINES = 200
const CLOSING = /^\s*(?:<\/|\[\/|\[?end\b)/i

const LABEL = String.raw`(?:pass(?:word|phrase|code|wort)|kennwort|contraseña|mot de passe|senha|secret(?: \w+)?|code ?word|(?:access|partner|discount|promo|voucher|master|unlock|admin|security|internal|secret)? ?(?:code|key|token|pin)|api[ _-]?key|codewort|schlüssel|密码|口令|パスワード|пароль)`
/** Matches the value after a label such as `password:`. A value in quotation marks may contain spaces. */
const LABELLED = new RegExp(
  String.raw`(?<!\p{L})${LABEL}(?: (?:is|ist|est|es|for \S{1,40} is)\b|\s?[:=：为是は])\s*(?:["'“‘«\x60]([^"'”’»\x60\n]{3,100})["'”’»\x60]|([^\s"'“”‘’«»,;]{4,100}))`,
  'giu',
)
const QUOTED = /["“«\x60]([^"”»\x60\n]{4,60})["”»\x60]/g
/** Matches a word, which may be a code such as `NW-7781`. */
const WORD = /[\p{L}\p{N}]+(?:[_-][\p{L}\p{N}]+)*/gu
const SENTENCE = /[^.!?。！？\n]*(?:[.!?](?!\s)[^.!?。！？\n]*)*[.!?。！？]*/g
const CODE_CHARS = 5
const WORD_CHARS = 4

/** Returns what the author of a system prompt marked as secret. */
export function markedSecrets(instructions: string): MarkedSecrets {
  const texts = new Set<string>()
  const words = new Set<string>()
  const addWord = (word: string | undefined, least: number): void => {
    const trimmed = word?.replace(/[.,;:!?)\]]$/, '') ?? ''
    if (trimmed.replace(/[^\p{L}\p{N}]/gu, '').length >= least) words.add(trimmed)
  }
  const addText = (text: string): void => {
    texts.add(text)
    for (const [, word] of text.matchAll(QUOTED)) addWord(word, WORD_CHARS)
    for (const [word] of text.matchAll(WORD)) if (/\d/.test(word) && /\p{L}/u.test(word)) addWord(word, CODE_CHARS)
  }
  for (const [, quoted, plain] of instructions.matchAll(LABELLED)) {
    // "The password is never shown" names no password.
    if (quoted !== undefined || /[\d_-]/.test(plain ?? '') || MARK.test(lineWith(instructions, plain))) {
      if (plain === undefined || !PLAIN_WORD.test(plain)) addWord(quoted ?? plain, WORD_CHARS)
    }
  }
  let blockLines = 0
  for (const line of instructions.split('\n')) {
    if (blockLines > 0) {
      blockLines = BLOCK_END.test(line) ? 0 : blockLines - 1
      if (blockLines > 0) {
        addText(line.trim())
        continue
      }
    }
    if (CLOSING.test(line) || !MARK.test(line)) continue
    if (isHeading(line.trim())) blockLines = BLOCK_LINES
    let before = ''
    for (const [sentence] of line.matchAll(SENTENCE)) {
      const trimmed = sentence.trim()
      if (trimmed === '') continue
      if (MARK.test(trimmed)) {
        addText(trimmed)
        if (REFERS_BACK.test(trimmed) && trimmed.length <= REFERS_BACK_CHARS && before !== '') addText(before)
      }
      before = trimmed
    }
  }
  return { texts: [...texts], words: [...words] }
}

const PLAIN_WORD =
  /^(?:not|never|the|a|an|required|only|always|used|valid|secret|confidential|private|your|their|for|to|when|where|what|how|if|that|this|it|in|on|of|by|and|or|stored|kept|part|shown|sent|known|needed|one|here|there|something|correct|wrong|invalid|expired|missing)\b/i

const lineWith = (text: string, part: string | undefined): string =>
  part === undefined ? '' : (text.split('\n').find((line) => line.includes(part)) ?? '')

/** Whether a line marks the lines after it: a heading, a label or an opening tag. */
const isHeading = (line: string): boolean =>
  /^(?:#{1,6}\s|[-=*#]{2})/.test(line) || /[:：]$/.test(line) || (/^[<[]/.test(line) && !line.includes('</'))

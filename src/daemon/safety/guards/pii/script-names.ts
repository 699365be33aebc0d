import { EASTERN_SURNAME, kindsOf } from './lexicon/word-list.ts'
import type { Recognizer, Report } from './recognizer.ts'

/** Matches texts with a script that has no capital letters. All other texts are skipped. */
const SCRIPTS = /[\u0600-\u06ff\u0900-\u0dff\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3]/
const WORD = String.raw`[\p{L}\p{M}]{2,20}`

/** For each language, the words before a name, and the name. */
const INTRODUCTIONS: readonly { before: RegExp; name: RegExp }[] = [
  // Chinese: "my name is", "name:"
  { before: /我叫|名叫|名字[是叫]|姓名[:：] ?/g, name: /\p{Script=Han}{2,4}(?=[\s,，。.!！;；、]|$)/uy },
  // Japanese: "the name is … (desu, to mōshimasu)"
  {
    before: /名前は|氏名[:：] ?/g,
    name: /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}ー]{2,8}?(?=です|と申|といい|[\s、。]|$)/uy,
  },
  // Korean
  { before: /이름은 |성함은 |성명[:：] ?/g, name: /\p{Script=Hangul}{2,4}?(?=입니다|이에요|예요|이고|[\s,.]|$)/uy },
  // Arabic: "my name is", Mr, Mrs, Dr. A word that begins with "and" is not part of the name.
  { before: /(?:اسمي|السيد|السيدة|الدكتور|الدكتورة|الأستاذ) /g, name: new RegExp(`${WORD}(?: (?!و)${WORD})?`, 'uy') },
  // Hindi, Marathi: "my name is … (hai, āhe)", Mr, Mrs
  { before: /(?:नाम|नाव) /g, name: new RegExp(`${WORD}(?: ${WORD}){0,2}(?= (?:है|आहे))`, 'uy') },
  { before: /(?:श्री|श्रीमती|सुश्री|डॉ\.) /g, name: new RegExp(`${WORD}(?: ${WORD})?(?=[s,।.]|$)`, 'uy') },
  // Bengali, Telugu, Tamil: "my name (is)"
  { before: /(?:আমার নাম|పేరు|பெயர்) /g, name: new RegExp(`${WORD}(?: ${WORD}){0,1}(?=[।,.\n]|$)`, 'uy') },
]
/** The longest introduced name with the words after it, which decide. */
const NAME_CHARS = 48

/** Matches forms of address that follow a name in Chinese, Japanese and Korean. */
const AFTER_NAME = /先生|女士|小姐|さん|様|氏|くん|ちゃん| ?씨(?=[\s.,!?]|에게|가|는|를|의|와|도|께|$)| ?님(?![가-힣])/g
const EASTERN_NAME =
  /^[\p{Script=Han}\p{Script=Hangul}][\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}]{0,4}$/u
const EASTERN_CHARS = 5
const SURNAME_CHARS = 3
/** A name, a space and a form of address. */
const EASTERN_HOLD_CHARS = 10
/** Words such as "user" that take the form of address as well. */
const NO_NAME = /(?:자|객|생)$/

/**
 * Finds names in scripts without capital letters: after an introduction or a form of address, and in Chinese, Japanese
 * and Korean before a form of address.
 */
export const scriptNameRecognizer: Recognizer = {
  entities: ['PERSON'],
  scan(text, _digits, _wanted, report) {
    if (!SCRIPTS.test(text)) return text.length
    let open = text.length
    for (const { before, name } of INTRODUCTIONS) {
      for (const { index, 0: words } of text.matchAll(before)) {
        const start = index + words.length
        if (start + NAME_CHARS > text.length && !/[.!?。।\n]/.test(text.slice(start))) open = Math.min(open, start)
        name.lastIndex = start
        const written = name.exec(text)?.[0]
        if (written !== undefined) report(start, start + written.length, 'PERSON', 0.6)
      }
    }
    for (const { index } of text.matchAll(AFTER_NAME)) scanBackwards(text, index, report)
    let tail = text.length
    while (
      text.length - tail < EASTERN_HOLD_CHARS &&
      /[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7a3 ]/.test(text[tail - 1] ?? '')
    )
      tail--
    return Math.min(open, tail)
  },
}

/** Reports the longest name with a listed surname that ends at the form of address. */
function scanBackwards(text: string, end: number, report: Report): void {
  for (let chars = EASTERN_CHARS; chars > 0; chars--) {
    const start = end - chars
    if (start < 0) continue
    const name = text.slice(start, end)
    if (!EASTERN_NAME.test(name) || NO_NAME.test(name) || !startsWithSurname(name)) continue
    // A Korean name is a word of its own.
    if (/[가-힣]/.test(name) && (chars !== 3 || /[가-힣]/.test(text[start - 1] ?? ''))) continue
    report(start, end, 'PERSON', 0.6)
    return
  }
}

function startsWithSurname(name: string): boolean {
  for (let chars = Math.min(SURNAME_CHARS, name.length); chars > 0; chars--) {
    if ((kindsOf(name.slice(0, chars)) & EASTERN_SURNAME) !== 0) return true
  }
  return false
}

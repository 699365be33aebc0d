import type { Detector, Finding } from '../detection.ts'
import { createWordSearch } from './word-search.ts'

/** Document markings, such as CONFIDENTIAL, in several languages. */
const MARKINGS = [
  ...['confidential', 'strictly confidential', 'company confidential', 'commercial in confidence', 'top secret'],
  ...['proprietary and confidential', 'confidential and proprietary', 'privileged and confidential', 'trade secret'],
  ...['privileged & confidential', 'confidential - internal use only', 'internal use only', 'for internal use only'],
  ...['internal only', 'company internal', 'not for distribution', 'do not distribute', 'do not forward', 'eyes only'],
  ...['attorney-client privileged', 'attorney-client privilege', 'attorney work product', 'draft - privileged'],
  ...['draft – privileged', 'draft — privileged', 'restricted', 'highly restricted', 'under embargo', 'nda required'],
  ...['vertraulich', 'streng vertraulich', 'geheim', 'streng geheim', 'nur für den internen gebrauch'],
  ...['nur zur internen verwendung', 'firmengeheimnis', 'betriebsgeheimnis', 'verschlusssache'],
  ...['confidentiel', 'strictement confidentiel', 'usage interne', 'usage interne uniquement', 'diffusion restreinte'],
  ...['secret professionnel', 'ne pas diffuser', 'confidencial', 'estrictamente confidencial', 'uso interno'],
  ...['solo para uso interno', 'no distribuir', 'estritamente confidencial', 'somente para uso interno'],
  ...['riservato', 'strettamente riservato', 'confidenziale', 'solo per uso interno', 'vertrouwelijk'],
  ...['strikt vertrouwelijk', 'uitsluitend voor intern gebruik', 'poufne', 'ściśle tajne', 'do użytku wewnętrznego'],
  ...['konfidentiellt', 'fortroligt', 'luottamuksellinen', 'důvěrné', 'bizalmas', 'gizli', 'confidențial'],
  ...[
    'конфиденциально',
    'строго конфиденциально',
    'для служебного пользования',
    'совершенно секретно',
    'конфіденційно',
  ],
  ...[
    'εμπιστευτικό',
    'سري',
    'سري للغاية',
    '机密',
    '絶密',
    '内部资料',
    '仅供内部使用',
    '機密',
    '社外秘',
    '極秘',
    '部外秘',
    '대외비',
    '기밀',
  ],
]

/** How many characters are checked before and after a marking, if it is not in capitals. */
const LINE_CHARS = 100
/** Words that introduce a marking. */
const LABEL =
  /(?:^|[^\p{L}])(?:classification|confidentiality|sensitivity|status|marking|distribution|klassifizierung|einstufung|clasificación|classificazione|密级)[ \t]{0,3}[:：=-][ \t*_[(]{0,4}$/iu
const LETTER = /\p{L}/u
const CASED = /\p{Lu}|\p{Ll}/u
/**
 * Matches the text around a name or constant in a program (`Level.RESTRICTED`, `RESTRICTED = 3`). Such a name is not a
 * marking.
 */
const CONTINUES_BEFORE = /[\w.$@/\\'"`=<-]$/
const CONTINUES_AFTER = /^(?:[\w$@/\\'"`=<-]|\.\w|[ \t]{0,8}[=:(,])/
/** How many characters after a marking are checked for a continuation of the word. */
const AFTER_CHARS = 10

/**
 * Finds markings of confidential documents. A marking is in capitals, alone on its line (except for punctuation), or
 * after a label such as "Classification:". The same words in a sentence are not a marking.
 */
export function createMarkingsDetector(): Detector {
  const search = createWordSearch(MARKINGS, { type: 'document-marking', confidence: 0.9 })
  return {
    find: (text) => search.find(text).filter((finding) => isMarking(text, finding)),
    holdsOnlyValues: true,
    openFrom(text) {
      const open = search.openFrom(text)
      // Words stay open until later text shows whether they are a marking. The end of the line shows whether the words
      // are alone on the line. The next few characters show whether the words are a name in a program.
      const near = Math.max(0, text.length - LINE_CHARS - LONGEST_MARKING)
      const from = near + text.slice(near).lastIndexOf('\n') + 1
      const pending = search
        .find(text)
        .find(({ start, end }) => start >= from && (end + AFTER_CHARS > text.length || standsAlone(text, start, end)))
      return pending === undefined ? open : Math.min(open, pending.start)
    },
  }
}

const LONGEST_MARKING = 64

function isMarking(text: string, { start, end }: Finding): boolean {
  if (LETTER.test(text[start - 1] ?? '')) return false
  const words = text.slice(start, end)
  if (CONTINUES_BEFORE.test(text[start - 1] ?? '') || CONTINUES_AFTER.test(text.slice(end, end + AFTER_CHARS)))
    return false
  if (CASED.test(words) && words === words.toUpperCase()) return true
  if (
    LETTER.test(
      text
        .slice(Math.max(0, start - 2), start)
        .trim()
        .slice(-1),
    )
  )
    return false
  if (LABEL.test(text.slice(Math.max(0, start - LINE_CHARS), start))) return true
  if (!mayStandAlone(text, start)) return false
  const rest = text.slice(end, end + LINE_CHARS)
  const lineEnd = rest.indexOf('\n')
  if (lineEnd < 0 && end + LINE_CHARS < text.length) return false
  return !LETTER.test(lineEnd < 0 ? rest : rest.slice(0, lineEnd))
}

/** Whether no other word has arrived on the line of the marking yet. */
const standsAlone = (text: string, start: number, end: number): boolean =>
  mayStandAlone(text, start) && !LETTER.test(text.slice(end, end + LINE_CHARS))

/** Whether no letter precedes the marking on its line. */
function mayStandAlone(text: string, start: number): boolean {
  const near = text.slice(Math.max(0, start - LINE_CHARS), start)
  const before = near.slice(near.lastIndexOf('\n') + 1)
  return before.length < LINE_CHARS && !LETTER.test(before)
}

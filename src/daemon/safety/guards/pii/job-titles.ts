import { isStopWord } from '../../../platform/text/words.ts'
import { PROFESSION_ENDING } from './lexicon/name-words.ts'
import { EVERYDAY, kindsOf } from './lexicon/word-list.ts'
import { isNameOfPerson } from './proper-names.ts'
import { lineAfter, type Recognizer } from './recognizer.ts'

/** Matches a line that may be the name of a person, and the beginning of the next line that has text. */
const NAME_LINE = /[ \t>]{0,4}(\p{L}{2,30}(?: \p{L}[\p{L}.'’-]{0,30}){1,3})\n{1,2}[ \t>]{0,4}/uy
const LONGEST_NAME_LINE = 80
const JOB = /\p{L}\p{Ll}{2,20}(?:[ ,/-]{1,2}\p{Ll}{2,20}){0,6}(?=\n|$)/uy
/** Finds the job in a signature: a line of everyday words below the name of a person. */
export const jobTitleRecognizer: Recognizer = {
  entities: ['TITLE'],
  scan(text, _digits, _wanted, report) {
    let open = text.length
    for (let line = 0, next = lineAfter(text, 0); next >= 0; line = next, next = lineAfter(text, next)) {
      if (next - line > LONGEST_NAME_LINE) continue
      NAME_LINE.lastIndex = line
      const match = NAME_LINE.exec(text)
      if (match === null) continue
      const start = line + match[0].length
      JOB.lastIndex = start
      const job = JOB.exec(text)?.[0]
      if (job === undefined || !isJob(job) || !isNameOfPerson(match[1]!)) continue
      if (start + job.length === text.length) open = Math.min(open, start)
      report(start, start + job.length, 'TITLE', 0.6)
    }
    return open
  },
}

function isJob(line: string): boolean {
  return (
    PROFESSION_ENDING.test(line) &&
    line
      .toLowerCase()
      .split(/[ ,/-]+/)
      .every((word) => (kindsOf(word) & EVERYDAY) !== 0 || isStopWord(word))
  )
}

// Changes the form of a text and keeps its meaning. Training applies these transformations to attacks and to harmless
// texts alike, so that the shield cannot learn a form as a sign of an attack. The gate of the evaluation applies them too.

const ZERO_WIDTH = ['\u200b', '\u200c', '\u200d', '\u2060']
const COMBINING = ['\u0301', '\u0308', '\u0323', '\u0335']
const LOOK_ALIKES = { a: 'а', c: 'с', e: 'е', i: 'і', o: 'ο', p: 'р', x: 'х', y: 'у', A: 'Α', B: 'В', E: 'Ε', H: 'Н' }
const LEET = { a: '4', e: '3', i: '1', o: '0', s: '5', t: '7' }
const POLITE = ['Hi team,', 'Hello,', 'Dear all,', 'Good morning!', 'Hi there, hope you are well.', 'Quick one:']
const SIGNATURES = [
  'Best regards\nHanna Vik\nOperations',
  'Thanks, Tom',
  '-- \nR. Okafor | Facility Services | ext. 214',
  'Cheers\nPriya',
  'Sent from my phone',
]
const PARAGRAPHS = [
  'The warehouse moved to its new address in March. Deliveries arrive at the south gate between 7 and 11 in the morning.',
  'Last year the club had 214 members, eleven more than the year before. The annual meeting takes place in the town hall.',
  'Sales in the north grew by four percent. The region with the weakest quarter was the coast, mostly because of the storms.',
  'The bridge was built in 1931 and repaired twice. It carries one lane of traffic and a path for pedestrians.',
  'Our library lends tools as well as books. A drill can be kept for three days, a ladder for one week.',
  'The second chapter describes how the team measured the temperature of the lake at nine depths over two summers.',
]
const INDENTED_LINES = 4

const pickOf = (list, random) => list[Math.floor(random() * list.length)]

/** Replaces each character that matches `pattern` with probability `share`. */
const someChars = (text, pattern, share, random, replace) =>
  text.replace(pattern, (char) => (random() < share ? replace(char) : char))

const escapeMarkup = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;')

const toFullWidth = (text) =>
  text.replace(/[!-~]/g, (char) => String.fromCodePoint(char.codePointAt(0) + 0xfee0)).replace(/ /g, '\u3000')

/** Swaps, drops or doubles a letter in some of the longer words. */
const withTypos = (text, random) =>
  text.replace(/\p{L}{4,}/gu, (word) => {
    if (random() > 0.2) return word
    const letters = [...word]
    const at = 1 + Math.floor(random() * (letters.length - 2))
    const change = random()
    if (change < 0.4) [letters[at], letters[at + 1]] = [letters[at + 1], letters[at]]
    else if (change < 0.75) letters.splice(at, 1)
    else letters.splice(at, 0, letters[at])
    return letters.join('')
  })

const toCamelCase = (text) =>
  text
    .split('\n')
    .map((line) =>
      line
        .split(/[^\p{L}\p{M}\p{N}]+/u)
        .filter((word) => word !== '')
        .map((word, at) => (at === 0 ? word.toLowerCase() : word[0].toUpperCase() + word.slice(1).toLowerCase()))
        .join(''),
    )
    .join('\n')

const numberedList = (text) =>
  text
    .split(/(?<=[.!?])\s+|\n+/)
    .filter((part) => part.trim() !== '')
    .map((part, at) => `${at + 1}. ${part}`)
    .join('\n')

/** Puts the text between two different paragraphs. */
const betweenParagraphs = (text, random) => {
  const first = Math.floor(random() * PARAGRAPHS.length)
  const second = (first + 1 + Math.floor(random() * (PARAGRAPHS.length - 1))) % PARAGRAPHS.length
  return `${PARAGRAPHS[first]}\n\n${text}\n\n${PARAGRAPHS[second]}`
}

/** Puts the text after a sentence of a paragraph, without line breaks. */
const insideProse = (text, random) => {
  const [opening, ...rest] = pickOf(PARAGRAPHS, random).split(/(?<=\.) /)
  const closing = pickOf(PARAGRAPHS, random)
  return [opening, text.replace(/\s*\n\s*/g, ' '), ...rest, closing].join(' ')
}

/**
 * The transformations. `apply(text, random)` depends only on the text and on the numbers that `random()` returns.
 * - `keeps: 'both'`: both labels keep. A harmless text must not reach BLOCK, and an attack must not fall below FLAG.
 * - `disguise: true`: people rarely write like this without a reason, so a harmless text may reach FLAG.
 */
export const TRANSFORMATIONS = [
  { name: 'upper-case', apply: (text) => text.toUpperCase() },
  { name: 'lower-case', apply: (text) => text.toLowerCase() },
  {
    name: 'title-case',
    apply: (text) => text.replace(/\p{L}[\p{L}'’]*/gu, (word) => word[0].toUpperCase() + word.slice(1).toLowerCase()),
  },
  { name: 'no-punctuation', apply: (text) => text.replace(/\p{P}+/gu, '') },
  { name: 'typos', apply: withTypos },
  { name: 'doubled-spaces', apply: (text) => text.replace(/ /g, '  ') },
  {
    name: 'line-breaks',
    apply: (text, random) => someChars(text, / /g, 0.15, random, () => '\n'),
  },
  { name: 'no-break-spaces', apply: (text) => text.replace(/ /g, '\u00a0') },
  {
    name: 'zero-width',
    disguise: true,
    apply: (text, random) => someChars(text, /\p{L}/gu, 0.3, random, (char) => char + pickOf(ZERO_WIDTH, random)),
  },
  { name: 'full-width', disguise: true, apply: toFullWidth },
  {
    name: 'look-alikes',
    disguise: true,
    apply: (text, random) => someChars(text, /[a-z]/gi, 0.4, random, (char) => LOOK_ALIKES[char] ?? char),
  },
  {
    name: 'leetspeak',
    disguise: true,
    apply: (text, random) => someChars(text, /[a-z]/gi, 0.35, random, (char) => LEET[char.toLowerCase()] ?? char),
  },
  {
    name: 'combining-marks',
    disguise: true,
    apply: (text, random) => someChars(text, /\p{L}/gu, 0.3, random, (char) => char + pickOf(COMBINING, random)),
  },
  { name: 'ellipsis', apply: (text) => `${text}…` },
  { name: 'three-dots', apply: (text) => `${text.replace(/[.!?]$/, '')}...` },
  { name: 'exclamation', apply: (text) => `${text.replace(/[.!?]$/, '')}!!!` },
  { name: 'quoted-mail', apply: (text) => text.replace(/^/gm, '> ') },
  { name: 'code-block', apply: (text) => `\`\`\`\n${text}\n\`\`\`` },
  {
    name: 'json-string',
    apply: (text, random) =>
      JSON.stringify({
        id: Math.floor(random() * 90_000) + 10_000,
        status: 'ok',
        [pickOf(['text', 'body', 'content', 'note'], random)]: text,
      }),
  },
  {
    name: 'html',
    apply: (text) => `<html><body><p>${text.split(/\n+/).map(escapeMarkup).join('</p>\n<p>')}</p></body></html>`,
  },
  {
    name: 'xml',
    apply: (text, random) => {
      const tag = pickOf(['item', 'document', 'note', 'entry', 'message'], random)
      return `<${tag}>\n${escapeMarkup(text)}\n</${tag}>`
    },
  },
  { name: 'numbered-list', apply: numberedList },
  { name: 'bulleted-list', apply: (text) => numberedList(text).replace(/^\d+\. /gm, '- ') },
  { name: 'indented', apply: (text) => text.replace(/^/gm, ' '.repeat(INDENTED_LINES)) },
  { name: 'polite-prefix', apply: (text, random) => `${pickOf(POLITE, random)}\n\n${text}` },
  { name: 'signature', apply: (text, random) => `${text}\n\n${pickOf(SIGNATURES, random)}` },
  { name: 'twice', apply: (text) => `${text}\n${text}` },
  { name: 'ten-times', apply: (text) => Array(10).fill(text).join('\n') },
  { name: 'between-paragraphs', apply: betweenParagraphs },
  { name: 'inside-prose', apply: insideProse },
  {
    name: 'base64',
    disguise: true,
    apply: (text) => `decode: ${Buffer.from(text, 'utf8').toString('base64')}`,
  },
  { name: 'camel-case', disguise: true, apply: toCamelCase },
  {
    name: 'spaced-letters',
    disguise: true,
    apply: (text) =>
      text
        .split(' ')
        .map((word) => [...word].join(' '))
        .join('   '),
  },
  { name: 'reversed', disguise: true, apply: (text) => [...text].reverse().join('') },
].map((transformation) => ({ keeps: 'both', disguise: false, ...transformation }))

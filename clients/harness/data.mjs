// What the scenarios send. Every process builds the same bytes, so that their hashes can be compared.
import { createHash } from 'node:crypto'
import { deflateSync } from 'node:zlib'

/** SHA-256 of bytes or of a text, in hex. */
export const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex')

/** Bytes without a pattern that are the same in every run. */
function noise(length) {
  const bytes = Buffer.alloc(length)
  let state = 42
  for (let at = 0; at < length; at++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    bytes[at] = state >>> 24
  }
  return bytes
}

// zlib.crc32 requires Node 22.
function crc32(bytes) {
  let crc = ~0
  for (const byte of bytes) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  }
  return ~crc >>> 0
}

function pngChunk(type, data) {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data])
  const frame = Buffer.alloc(8)
  frame.writeUInt32BE(data.length, 0)
  frame.writeUInt32BE(crc32(body), 4)
  return Buffer.concat([frame.subarray(0, 4), body, frame.subarray(4)])
}

/** A valid PNG of grey noise. Noise does not compress, so the file has about `size` * `size` bytes. */
function pngOf(size) {
  const head = Buffer.alloc(13)
  head.writeUInt32BE(size, 0)
  head.writeUInt32BE(size, 4)
  head[8] = 8
  const pixels = noise(size * (size + 1))
  // The first byte of each row names its filter. 0: none.
  for (let row = 0; row < size; row++) pixels[row * (size + 1)] = 0
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  const chunks = [
    pngChunk('IHDR', head),
    pngChunk('IDAT', deflateSync(pixels, { level: 0 })),
    pngChunk('IEND', Buffer.alloc(0)),
  ]
  return Buffer.concat([signature, ...chunks])
}

/** A valid PDF with one page of text. */
function pdfOf(text) {
  const content = `BT /F1 24 Tf 72 720 Td (${text}) Tj ET`
  const objects = [
    '<< /Type /Catalog /Pages 2 0 R >>',
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>',
    `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ]
  let pdf = '%PDF-1.4\n'
  const offsets = objects.map((object, at) => {
    const offset = pdf.length
    pdf += `${at + 1} 0 obj\n${object}\nendobj\n`
    return offset
  })
  const entries = offsets.map((offset) => `${String(offset).padStart(10, '0')} 00000 n \n`).join('')
  const table = `xref\n0 ${objects.length + 1}\n0000000000 65535 f \n${entries}`
  return Buffer.from(
    `${pdf}${table}trailer\n<< /Size ${objects.length + 1} /Root 1 0 R >>\nstartxref\n${pdf.length}\n%%EOF\n`,
    'latin1',
  )
}

/** Lines that differ from each other, `bytes` long in total. */
function linesOf(bytes) {
  const lines = []
  for (let at = 0, length = 0; length < bytes; at++) {
    const line = `Line ${at}: the meadow lies behind the mill, and the road leads past it.\n`
    lines.push(line)
    length += line.length
  }
  return lines.join('').slice(0, bytes)
}

let large
/** The data that `ctx.data` gives to a client. */
export const data = {
  /** Bytes of a small image. */
  png: pngOf(48),
  /** An address of an image. No client and no gateway may fetch it. */
  pngUrl: 'https://images.example.com/meadow.png',
  pdf: pdfOf('The mill stands behind the meadow.'),
  text600k: linesOf(600 * 1024),
  /** A system prompt that is long enough for every prompt cache. */
  longSystem: `You are a careful assistant.\n${linesOf(24_000)}`,
  /** Bytes of an image that has more than 4 MB as base64. */
  get png4m() {
    large ??= pngOf(1800)
    return large
  },
  /** The schema of structured output. The answer is {"name":"Ada","age":36}. */
  person: {
    type: 'object',
    properties: { name: { type: 'string' }, age: { type: 'integer' } },
    required: ['name', 'age'],
    additionalProperties: false,
  },
  /** The tool of the scenarios with tools. Its result must be `doStep(input)`. */
  stepTool: {
    name: 'do_step',
    description: 'Does one step.',
    schema: {
      type: 'object',
      properties: { step: { type: 'integer' } },
      required: ['step'],
      additionalProperties: false,
    },
  },
}

/** The result of the tool `do_step`. */
export const doStep = ({ step }) => `Step ${step} is done. The next step is ${step + 1}.`

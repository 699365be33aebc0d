/** Reads texts from files and stdin. */
import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { MESSAGE_CONTENT_BYTES } from '../../shared/spec-limits.ts'
import type { CliContext } from '../context.ts'
import { failedToRead, usageError } from '../errors.ts'
import { readStdin } from '../io.ts'

/** Adds the argument that names the input text of a command. */
export const addTextArgument = (command: Command): Command =>
  command.argument('[file]', "the text, as UTF-8; '-' or nothing for stdin", '-')

/** Adds an argument for the input text itself, and `-f` for a file with it. */
export const addTextOrFile = (command: Command): Command =>
  command
    .argument('[text]', "the text; '-' or nothing for stdin")
    .option('-f, --file <path>', "read the text from a file, '-' for stdin")

/** Returns the text of `addTextOrFile`. Throws a usage error like `readTextInput`, and if both are given. */
export function readTextOrFile(context: CliContext, text: string | undefined, file?: string): Promise<string> {
  if (text !== undefined && file !== undefined) throw usageError('give either a text or --file, not both')
  if (text === undefined || text === '-') return readTextInput(context, file ?? '-')
  return Promise.resolve(toContent(text, 'the text'))
}

/**
 * Returns the text of a file (or of stdin for `-`) and removes final line breaks. Throws a usage error if the text is
 * empty or longer than the maximum prompt, or if stdin is a terminal.
 */
export async function readTextInput({ io }: CliContext, file: string): Promise<string> {
  const from = file === '-' ? 'stdin' : file
  if (file === '-' && io.stdin.isTTY === true) {
    throw usageError('no text was given, and stdin is a terminal', ['Name its file, or pipe it in.'])
  }
  const text =
    file === '-' ? toUtf8(await readStdin(io, MESSAGE_CONTENT_BYTES, 'the text'), from) : await readText(file)
  return toContent(text, from)
}

function toContent(text: string, from: string): string {
  const content = text.replace(/[\r\n]+$/, '')
  if (content.trim() === '') throw usageError(`${from} contains no text`)
  if (Buffer.byteLength(content) > MESSAGE_CONTENT_BYTES) {
    throw usageError(`${from} is longer than the ${MESSAGE_CONTENT_BYTES} bytes that a prompt may have`)
  }
  return content
}

/** Reads a text file. Throws a usage error if the input is unreadable or not UTF-8. */
export const readText = async (path: string): Promise<string> =>
  toUtf8(await readFile(path).catch(failedToRead(path)), path)

/** A PDF may consist of ASCII only. */
const PDF = Buffer.from('%PDF-')
/** Text contains no zero byte, except in UTF-16, which is rejected too. */
const isBinary = (bytes: Uint8Array): boolean => bytes.includes(0) || PDF.equals(bytes.subarray(0, PDF.length))

/** Decodes UTF-8 and drops a leading byte order mark. Throws a usage error for a binary file and for invalid UTF-8. */
export function toUtf8(bytes: Uint8Array, from: string): string {
  if (isBinary(bytes)) {
    throw usageError(`${from} is a binary file, not text`, [
      'Add documents such as PDF to a knowledge base:  aigw indexes add INDEX FILE',
    ])
  }
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw usageError(`${from} is not UTF-8 text`, ['Convert it first, e.g. with iconv or pdftotext.'])
  }
}

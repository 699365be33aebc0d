import { readFile } from 'node:fs/promises'
import type { Command } from 'commander'
import { MESSAGE_CONTENT_BYTES } from '../../shared/spec-limits.ts'
import type { CliContext } from '../context.ts'
import { unreadable, usageError } from '../errors.ts'
import { readStdin } from '../io.ts'

/** The one text that a command looks at. */
export const addTextArgument = (command: Command): Command =>
  command.argument('[file]', "the text, as UTF-8; '-' or nothing for stdin", '-')

/**
 * The text of a file, or of stdin for `-`, without the line ends at its end. Throws a usage error when there is none, when it
 * is longer than a prompt may be, and when stdin is a terminal.
 */
export async function readTextInput({ io }: CliContext, file: string): Promise<string> {
  const from = file === '-' ? 'stdin' : file
  if (file === '-' && io.stdin.isTTY === true) {
    throw usageError('no text was given, and stdin is a terminal', ['Name the file that holds it, or pipe it in.'])
  }
  const text =
    file === '-' ? toUtf8(await readStdin(io, MESSAGE_CONTENT_BYTES, 'the text'), from) : await readText(file)
  const content = text.replace(/[\r\n]+$/, '')
  if (content.trim() === '') throw usageError(`${from} holds no text`)
  if (Buffer.byteLength(content) > MESSAGE_CONTENT_BYTES) {
    throw usageError(`${from} is longer than the ${MESSAGE_CONTENT_BYTES} bytes a prompt may have`)
  }
  return content
}

/** A text file; throws a usage error for one that cannot be read or is no UTF-8. */
export async function readText(path: string): Promise<string> {
  const bytes = await readFile(path).catch((error: unknown) => {
    throw unreadable(path, error)
  })
  return toUtf8(bytes, path)
}

/** UTF-8 text, exactly. Throws a usage error for anything else: half a picture is no prompt. */
export function toUtf8(bytes: Uint8Array, from: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    throw usageError(`${from} is not UTF-8 text`, ['Convert it first, e.g. with iconv or pdftotext.'])
  }
}

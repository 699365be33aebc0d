/** The configuration file that `aigw config` reads and changes: the CLI's own, or that of a gateway. */
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import type { Document } from 'yaml'
import type { CliContext } from '../../context.ts'
import { isErrno, unreadable, unwritable, usageError } from '../../errors.ts'
import { configPath, loadConfigFiles, toConfigFile, writeText } from '../../profile/config-files.ts'
import { resolveSettings } from '../../profile/profile.ts'
import { assertConfig } from '../gateway/check-config.ts'

export type Target = {
  path: string
  isGateway: boolean
  /** Returns the text of the file. A missing file is empty. */
  read(): Promise<string>
  /** Throws a usage error for an invalid text. */
  check(text: string): Promise<void>
  /** Validates the text as `check` does. Then replaces the file. */
  save(text: string): Promise<void>
}

/** @param gatewayFile the gateway's file; undefined means the user's own configuration of the CLI */
export function openTarget({ io }: CliContext, gatewayFile: string | undefined): Target {
  const path = gatewayFile === undefined ? configPath(io.env) : resolve(gatewayFile)
  const check = async (text: string): Promise<void> => {
    const document = await parseYaml(text, path)
    if (gatewayFile === undefined) await assertOwnConfig(document.toJS() ?? {}, path, io)
    else await assertGatewayConfig(text, path, io)
  }
  return {
    path,
    check,
    isGateway: gatewayFile !== undefined,
    async read() {
      return readFile(path, 'utf8').catch((error: unknown) => {
        if (isErrno(error) && error.code === 'ENOENT' && gatewayFile === undefined) return ''
        throw unreadable(path, error)
      })
    },
    async save(text) {
      await check(text)
      await writeText(path, text)
    },
  }
}

/** Parses YAML with its comments. Throws a usage error for a syntax error. */
export async function parseYaml(text: string, path: string): Promise<Document> {
  const { parseDocument } = await import('yaml')
  const document = parseDocument(text)
  const [error] = document.errors
  if (error !== undefined) throw usageError(`${path}: ${error.message.split('\n')[0]}`)
  return document
}

/** Validates the types of all settings, and then their values. */
async function assertOwnConfig(content: unknown, path: string, io: CliContext['io']): Promise<void> {
  try {
    const user = toConfigFile(content)
    const { credentials, system } = await loadConfigFiles(io, { without: 'user' })
    resolveSettings({ flags: {}, env: {}, user, system, credentials }, { mayBeNew: true })
  } catch (error) {
    throw usageError(`${error instanceof Error ? error.message : error}; ${path} was not changed`)
  }
}

/** The draft is in the folder of the file, because relative paths in it are relative to that folder. */
async function assertGatewayConfig(text: string, path: string, io: CliContext['io']): Promise<void> {
  const draft = join(dirname(path), `.aigw.${process.pid}.yaml`)
  const found = await stat(path).catch(() => undefined)
  try {
    await writeFile(draft, text, { mode: found === undefined ? 0o600 : found.mode & 0o777, flag: 'wx' }).catch(
      (error: unknown) => {
        throw unwritable(draft, error)
      },
    )
    await assertConfig(draft, path, io)
  } finally {
    await rm(draft, { force: true })
  }
}

/** Calls any route of the gateway. */
import { readFile } from 'node:fs/promises'
import { Command, Option } from 'commander'
import { findDoubledMember } from '../../../shared/doubled-member.ts'
import { type Api, type ApiRequest, type OpenAnswer, parseAnswer } from '../../api/client.ts'
import { redirected } from '../../api/http-errors.ts'
import type { CliContext } from '../../context.ts'
import { failedToRead, usageError } from '../../errors.ts'
import { repeatable } from '../../input/repeatable.ts'
import { readStdin } from '../../io.ts'
import { findAtPath } from '../../output/formats.ts'

const BODY_BYTES = 67_108_864

const TYPED = 'true, false, null and numbers'

export function toCommand(context: CliContext): Command {
  return new Command('api')
    .description('Call any route of the gateway with your key and print its response.')
    .argument('<method>', 'GET, POST, PUT, DELETE')
    .argument('<path>', 'below /api/external, or from the root when it begins with a slash')
    .option('-d, --data <json>', "body: JSON, @FILE or '-' for stdin")
    .addOption(repeatable(new Option('-F, --form <key=value>', `one member of a JSON body; ${TYPED} keep their type`)))
    .addOption(repeatable(new Option('-H, --header <name:value>', 'one more header')))
    .option('--paginate', 'fetch every page and print one list', false)
    .option('--include', 'print status and headers first', false)
    .addHelpText(
      'after',
      '\nExamples:\n  aigw api GET whoami\n  aigw api POST groups -F name=ops -F description="On call"\n  aigw api GET /openapi.json',
    )
    .action((method: string, path: string, flags: Flags) => call(context, method.toUpperCase(), path, flags))
}

/** `data` is JSON text, `@FILE` or `-`. */
type Flags = { data?: string; form: string[]; header: string[]; paginate: boolean; include: boolean }

/**
 * Prints the body of the response for every status. After that, throws an error with the matching exit code if the
 * status is 300 or higher.
 */
async function call(context: CliContext, method: string, path: string, flags: Flags): Promise<void> {
  const api = await context.api()
  const request = await toRequest(context, method, path, flags)
  if (flags.paginate) return printPages(context, api, request)
  const answer = await api.open(request)
  if (flags.include) await printHead(context, answer)
  await printBody(context, api, answer)
}

async function toRequest(context: CliContext, method: string, path: string, flags: Flags): Promise<ApiRequest> {
  const { data, form: fields, header } = flags
  if (!/^[A-Z]+$/.test(method)) throw usageError(`'${method}' is not an HTTP method`)
  if (path.startsWith('//') || /^[a-z]+:/i.test(path)) {
    throw usageError('give a path, not an address: the key is only sent to the gateway of the profile', [
      'Other gateway?  --base-url URL',
    ])
  }
  if (data !== undefined && fields.length > 0) throw usageError('--data and --form cannot be combined')
  const headers = Object.fromEntries(header.map(toHeader))
  const json = data === undefined ? undefined : parseJson(await readData(context, data))
  const body = fields.length > 0 ? Object.fromEntries(fields.map(toField)) : json
  return { method, path, headers: { accept: '*/*', ...headers }, ...(body === undefined ? {} : { json: body }) }
}

async function readData({ io }: CliContext, data: string): Promise<string> {
  if (data === '-') return (await readStdin(io, BODY_BYTES, 'the body')).toString()
  if (!data.startsWith('@')) return data
  return readFile(data.slice(1), 'utf8').catch(failedToRead(data.slice(1)))
}

function parseJson(text: string): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw usageError(`--data is not JSON (${error instanceof Error ? error.message : error})`)
  }
  // The gateway rejects such a body, but JSON.parse would already have removed the first of the two members.
  const twice = findDoubledMember(text)
  if (twice) throw usageError(`--data has the member "${twice.name}" twice`)
  return value
}

function toHeader(text: string): [string, string] {
  const [, name, value] = /^([!#$%&'*+.^_`|~\w-]+):\s*(.*)$/.exec(text) ?? []
  if (name === undefined || value === undefined) throw usageError(`'${text}' is not a header`, ['Write NAME:VALUE.'])
  if (name.toLowerCase() === 'authorization') throw usageError('the key is never a flag value', ['Use --api-key-file.'])
  return [name.toLowerCase(), value]
}

function toField(text: string): [string, unknown] {
  const at = text.indexOf('=')
  if (at < 1) throw usageError(`'${text}' is not a field`, ['Write KEY=VALUE.'])
  const value = text.slice(at + 1)
  return [text.slice(0, at), /^(true|false|null|-?\d+(\.\d+)?)$/.test(value) ? JSON.parse(value) : value]
}

async function printHead(context: CliContext, { status, headers }: OpenAnswer): Promise<void> {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\n`)
  await (await context.output()).text(`HTTP ${status}\n${lines.join('')}\n`)
}

async function printBody(context: CliContext, api: Api, answer: OpenAnswer): Promise<void> {
  const [output, settings] = await Promise.all([context.output(), context.settings()])
  const { status, requestId, headers } = answer
  const wantsShape = settings.format !== undefined || settings.field !== undefined || settings.fields.length > 0
  const isJson = /^application\/json\b/.test(headers['content-type'] ?? '')
  if (status < 300 && !isJson) return printStream(context, api, answer)
  const raw = await api.read(answer)
  const mayShape = isJson && raw.length > 0 && !settings.raw && (wantsShape || output.terminal)
  if (mayShape) await printShaped(context, parseAnswer(raw, api.baseUrl, requestId), raw)
  else if (settings.raw || !output.terminal) await output.bytes(raw)
  else await output.text(raw.toString())
  if (status >= 300 && status < 400) throw redirected(api.baseUrl, headers.location)
  if (status >= 300) throw api.toError({ status, requestId, headers, raw })
}

/** Streams bodies other than JSON, such as events. On a terminal, control characters are removed. */
async function printStream(context: CliContext, api: Api, answer: OpenAnswer): Promise<void> {
  const [output, { timeoutFlagMs }] = await Promise.all([context.output(), context.settings()])
  const decoder = new TextDecoder()
  const write = output.textStream()
  for await (const chunk of api.parts(answer, { bounded: timeoutFlagMs !== undefined })) {
    if (output.terminal) await write(decoder.decode(chunk, { stream: true }))
    else await output.bytes(chunk)
  }
}

/** Prints the response as JSON or in the chosen format. The columns are the fields of the response. */
async function printShaped(context: CliContext, value: object, raw?: Buffer): Promise<void> {
  const [{ createOutput }, settings] = await Promise.all([import('../../output/output.ts'), context.settings()])
  const rows: object[] = Array.isArray(value) ? value : [value]
  const paths = [...new Set(rows.flatMap((row) => Object.keys(row)))]
  const output = createOutput(context.io, { ...settings, format: settings.format ?? 'json' })
  const view = { columns: paths.map((path) => ({ path })), idPath: 'id' }
  await (Array.isArray(value) ? output.list(value, view, raw) : output.one(value, view, raw))
}

async function printPages(context: CliContext, api: Api, request: ApiRequest): Promise<void> {
  if (request.method !== 'GET') throw usageError('--paginate is for GET')
  const rows: object[] = []
  for (let page = 1; ; page++) {
    const { body } = await api.send({ ...request, query: { page } })
    const list = findList(body)
    if (list === undefined) throw usageError('--paginate needs a response with one list', [`Path:  ${request.path}`])
    rows.push(...list)
    const pages = findAtPath(body, 'pagination.pages') ?? findAtPath(body, 'data.pagination.pages')
    if (typeof pages !== 'number' || page >= pages) break
  }
  await printShaped(context, rows)
}

function findList(body: object): object[] | undefined {
  if (Array.isArray(body)) return body
  const parent = findAtPath(body, 'data') ?? body
  const lists = Object.values(parent).filter((value) => Array.isArray(value))
  return lists.length === 1 ? lists[0] : undefined
}

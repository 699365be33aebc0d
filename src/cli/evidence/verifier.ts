// The program verify.mjs of an export. `npm run verifier` bundles it with the modules that `aigw audit verify DIR`
// uses, so both find the same faults. This file must import only Node modules and modules that can be bundled.
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { type ExportStatement, lossesIn } from '../../shared/evidence/export-statement.ts'
import { timeOf } from '../../shared/evidence/keys.ts'
import type { Checkpoint } from '../../shared/evidence/note.ts'
import type { WitnessPolicy } from '../../shared/evidence/witness-policy.ts'
import { CliError, EXIT } from '../errors.ts'
import { type CheckedChain, checkChain } from './chains.ts'
import { ExportViolated, type GivenKeys, openExport, type Report, readGivenKeys } from './export-reader.ts'
import { OWN_KEYS, type TrustedKeys } from './key-set.ts'
import { assertValid, checkedNote } from './verification.ts'
import { readPolicy, Witnessing } from './witnessing.ts'

const USAGE = `Usage: node verify.mjs [DIR] [--keys FILE] [--policy FILE]

  DIR          the export; default: the directory of this file
  --keys FILE  trust the keys of this file, a copy of the gateway's /.well-known/aigw-keys.json;
               default: the keys of the export, which anyone could have made
  --policy FILE  demand cosigned checkpoints of every chain up to its end; FILE names the witnesses (C2SP tlog-policy)
  --help       show this text

Exit codes: 0 the export is valid, 1 it is invalid, 2 an argument or the key file cannot be used,
11 it is consistent, but only by the keys that came with it.
`

/**
 * The checks, in the order in which they run. If the verification fails, the first check without a result is reported
 * as failed.
 */
const CHECKS = [
  'keys',
  'manifest',
  'statement',
  'key fingerprint',
  'files',
  'root of the export',
  'checkpoints',
  'entries',
]

/** The error for an invalid argument. */
class ArgumentError extends Error {}

/** Escapes text from the files, because control characters in it could control the terminal. */
const harmless = (line: string): string =>
  line.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (char) => `\\u{${char.codePointAt(0)?.toString(16)}}`)
const say = (line: string): boolean => process.stdout.write(`${harmless(line)}\n`)
const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Rejects unknown flags. If a misspelt --keys were ignored, a forged export would be verified with its own keys. */
function readArguments(args: string[]): Arguments {
  const file = { type: 'string', multiple: true } as const
  const options = { keys: file, policy: file, help: { type: 'boolean', short: 'h' } } as const
  const { values, positionals } = parsed(() => parseArgs({ args, options, allowPositionals: true }))
  const { keys: keyFiles = [], policy: policyFiles = [], help = false } = values
  for (const [name, files] of [
    ['--keys', keyFiles],
    ['--policy', policyFiles],
  ] as const) {
    if (files.length > 1) throw new ArgumentError(`${name} was given more than once; name one file.`)
    if (files[0] === '') throw new ArgumentError(`${name} was given without a file; name one.`)
  }
  if (positionals.length > 1)
    throw new ArgumentError(`One directory is checked at a time, not ${positionals.join(' and ')}.`)
  if (positionals[0] === '') throw new ArgumentError('The name of the directory is empty; name one, or leave it out.')
  const folder = positionals[0] ?? dirname(fileURLToPath(import.meta.url))
  return { folder, keyFile: keyFiles[0], policyFile: policyFiles[0], help }
}

type Arguments = { folder: string; keyFile: string | undefined; policyFile: string | undefined; help: boolean }

function parsed<T>(parse: () => T): T {
  try {
    return parse()
  } catch (error) {
    throw new ArgumentError(messageOf(error))
  }
}

async function readKeys(file: string | undefined): Promise<GivenKeys | undefined> {
  try {
    return await readGivenKeys(file)
  } catch (error) {
    const remedy = "Name a copy of the gateway's /.well-known/aigw-keys.json."
    throw new ArgumentError(`--keys ${file} cannot be used: ${messageOf(error)}. ${remedy}`)
  }
}

async function readPolicyFile(file: string | undefined): Promise<WitnessPolicy | undefined> {
  try {
    return await readPolicy(file)
  } catch (error) {
    throw new ArgumentError(`--policy cannot be used: ${messageOf(error)}`)
  }
}

/** Checks the whole export in constant memory. Returns the source of the keys. Throws an error at the first fault. */
async function checkExport(
  folder: string,
  { keys: given, policy }: { keys: GivenKeys | undefined; policy: WitnessPolicy | undefined },
  report: Report,
): Promise<TrustedKeys['from']> {
  const { manifest, statement, source, trusted, onRow, assertEnd } = await openExport(folder, given, report)
  const { tenantId, heads } = source
  const checkpoints: Checkpoint[] = []
  const readAtMs = timeOf(statement.signed_at)
  const witnessing = policy && new Witnessing({ policy, keys: trusted.keys, tenantId, readAtMs })
  for (const head of heads) {
    for await (const note of source.checkpoints(head)) {
      checkpoints.push(await checkedNote(note, tenantId, trusted))
      witnessing?.add(note)
    }
  }
  report('checkpoints', `${checkpoints.length} signed`)
  const checked: CheckedChain[] = []
  let commits = 0
  for (const head of heads) {
    let last: object | undefined
    const chain = await checkChain({ tenantId, head, trusted, checkpoints }, source.rows(head), (seen) => {
      if (seen.commit !== last) commits += 1
      last = seen.commit
      onRow(seen)
      witnessing?.addRow(seen.row)
    })
    assertValid([chain])
    report(`chain ${chain.chain}`, `${chain.size} entries, ${chain.expunged} expunged`)
    checked.push(chain)
  }
  await assertEnd(checked)
  report('commits', `${commits} signed`)
  report('row count', `${manifest.rowCount}`)
  report('data.csv', 'the same as data.ndjson')
  report('counts', countsIn(statement))
  for (const loss of lossesIn(statement)) say(`note  ${loss}`)
  witnessing?.assertCosigned(heads)
  if (witnessing) report('cosignatures', witnessing.coverage(heads))
  return trusted.from
}

/** Returns the gateway's counts in words. Entries that were written during the export are not in it. */
function countsIn({ chains, losses = [] }: ExportStatement): string {
  const expunged = chains.reduce((sum, chain) => sum + chain.expunged, 0)
  const current = chains.filter(({ chain }) => !losses.some((loss) => loss.chain === chain))
  const later = current.reduce((sum, { entries, size }) => sum + Math.max(0, entries - size), 0)
  const laterEntries = later === 0 ? '' : `; the log had ${later} later entries, which the export does not contain`
  return `as the gateway stated: ${expunged} payloads expunged${laterEntries}`
}

async function main(args: string[]): Promise<number> {
  let reported = 0
  try {
    const { folder, keyFile, policyFile, help } = readArguments(args)
    if (help) {
      process.stdout.write(USAGE)
      return 0
    }
    const given = { keys: await readKeys(keyFile), policy: await readPolicyFile(policyFile) }
    const keysFrom = await checkExport(folder, given, (check, found) => {
      say(`ok    ${check}: ${found}`)
      reported += 1
    })
    if (keysFrom === 'export') {
      say(`The export is ${OWN_KEYS}. Name keys from another source: --keys FILE`)
      return EXIT.ownKeys
    }
    say('The export is valid.')
    return 0
  } catch (error) {
    if (error instanceof ArgumentError) {
      process.stderr.write(`verify.mjs: ${harmless(error.message)}\n\n${USAGE}`)
      return 2
    }
    const isUnreadable = error instanceof CliError && error.exitCode === EXIT.usage
    const isUncosigned = error instanceof CliError && error.code === 'COSIGNATURES_MISSING'
    const running = isUncosigned ? 'cosignatures' : CHECKS[Math.min(reported, CHECKS.length - 1)]
    const check = isUnreadable ? 'manifest' : running
    say(`FAIL  ${check}: ${error instanceof ExportViolated ? error.what : messageOf(error)}`)
    say('The export is NOT valid.')
    return 1
  }
}

process.exitCode = await main(process.argv.slice(2))

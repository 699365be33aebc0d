// Runs every verifier on many inputs, each verifier in one process. Starting a process for each input would be too slow.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { VERIFIERS } from './export-folder.ts'

/** `ok`, `FAIL`, or `EXIT n` for every other exit code. */
export type Verdict = string

/** A verifier that stays in its process. Its arguments are those of the command line. */
export type ResidentVerifier = { verdict(args: readonly string[]): Promise<Verdict>; end(): Promise<unknown> }

const PYTHON = `
import contextlib, io, json, sys
sys.path.insert(0, sys.argv[1])
import verify_export, verify_receipt
for line in sys.stdin:
    name, *args = json.loads(line)
    module = {"verify_export": verify_export, "verify_receipt": verify_receipt}[name]
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            result = module.main(args)
        print("EXIT %d" % result[0] if isinstance(result, tuple) and result[0] else "ok", flush=True)
    except verify_receipt.REFUSALS as error:
        print("FAIL", flush=True)
    except SystemExit as usage:
        print("EXIT %d" % usage.code, flush=True)
    except BaseException as error:
        print("CRASH %r" % error, flush=True)
`

/** The Python verifiers. The first argument is the name of the script, without its suffix. */
export const pythonVerifiers = (): ResidentVerifier => resident('python3', ['-B', '-c', PYTHON, VERIFIERS])

const NODE = `
const { createInterface } = await import('node:readline')
const { main } = await import(process.argv[1])
const print = process.stdout.write.bind(process.stdout)
process.stdout.write = process.stderr.write = () => true
for await (const line of createInterface({ input: process.stdin })) {
  const code = await main(JSON.parse(line)).catch((error) => 'CRASH ' + error)
  print((code === 0 ? 'ok' : code === 1 ? 'FAIL' : typeof code === 'number' ? 'EXIT ' + code : code) + '\\n')
}
`
const RUN = /\nprocess\.exitCode = await main\(process\.argv\.slice\(2\)\);?\n(?=\n*(\/\/#endregion\n)?$)/

/** Writes a copy of verify.mjs that exports functions instead of running, because a process verifies only one export. */
export async function writeVerifierModule(folder: string): Promise<string> {
  const code = await readFile(join(VERIFIERS, 'verify.mjs'), 'utf8')
  if (!RUN.test(code)) throw new Error('verify.mjs no longer ends with a call of main')
  const path = join(folder, 'verifier-module.mjs')
  await writeFile(path, code.replace(RUN, '\nexport { checkSignature, isSignedBy, main }\n'))
  return path
}

/** verify.mjs, from the copy of `writeVerifierModule`. */
export const scriptVerifier = (module: string): ResidentVerifier =>
  resident(process.execPath, ['--input-type=module', '-e', NODE, module])

function resident(command: string, args: string[]): ResidentVerifier {
  const child: ChildProcess = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  if (child.stdin === null || child.stdout === null) throw new Error('no pipes')
  const { stdin } = child
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    async verdict(args) {
      stdin.write(`${JSON.stringify(args)}\n`)
      const { value, done } = await answers.next()
      if (done) throw new Error(`${command} ended`)
      return value
    },
    end() {
      stdin.end()
      return once(child, 'close')
    },
  }
}

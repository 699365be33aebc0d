// Writes docs/verifiers/verify.mjs, which every export contains: one formatted file without dependencies, bundled from
// the modules of `aigw audit verify`.
// Run: node scripts/verifier.mjs [FILE]
import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const pathOf = (name) => fileURLToPath(new URL(`../${name}`, import.meta.url))
const HEAD = `// Checks an export of evidence: node verify.mjs [DIR] [--keys FILE]
// It requires only Node.js 20.19 or later, opens no connection, and prints one line for each check.
// docs/evidence.md of the aigw project describes the format. DIR defaults to the directory of this file.
// Exit codes: 0 if the export is valid, 1 if it is invalid, 2 if an argument or the file of --keys cannot be used,
// 11 if it is consistent, but only by the keys that came with it.
//
// Generated from src/cli/evidence/verifier.ts and the modules that it imports: npm run verifier`

const bundle = await rolldown({
  input: pathOf('src/cli/evidence/verifier.ts'),
  platform: 'node',
  // Some imported files also define commands and tables. The bundle must not contain the packages that these commands
  // and tables need.
  treeshake: { moduleSideEffects: false, propertyReadSideEffects: false },
  logLevel: 'warn',
})
const { output } = await bundle.generate({ format: 'esm', banner: HEAD })
await bundle.close()
const format = [pathOf('node_modules/@biomejs/biome/bin/biome'), 'format', '--stdin-file-path=verify.mjs']
const code = execFileSync(process.execPath, format, {
  input: output[0].code.replace(/\nexport \{\};\n$/, '\n'),
  cwd: pathOf('.'),
})
await writeFile(process.argv[2] ?? pathOf('docs/verifiers/verify.mjs'), code)

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { beforeAll, expect, inject, test } from 'vitest'

// `npm run clients` runs every client and scenario. These clients need no packages beyond those of the project.
const CLIENTS = [
  'openai-chat',
  'openai-responses',
  'anthropic',
  'ai-openai-compatible',
  'langchain-openai',
  'langchain-openai-responses',
]
const SCENARIOS = [
  'chat',
  'stream',
  'tools-10',
  'parallel',
  'structured',
  'image-data',
  'image-url',
  'pdf',
  'text-600k',
  'max-tokens',
  'caching',
  'stop',
  'cancel',
  'broken',
]
/** What a client of these cannot do. */
const WITHOUT: Record<string, string> = { 'ai-openai-compatible': 'image-url' }

type Row = { id: string; broken?: string; cells: Record<string, { kind: string; why?: string }> }

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url))

let rows: Row[]
beforeAll(async () => {
  const args = ['--json', '--home', inject('builtProject'), '--loader', file('packages.mjs')]
  const chosen = ['--only', CLIENTS.join(), '--scenario', SCENARIOS.join()]
  const run = promisify(execFile)(process.execPath, [file('../clients/run.mjs'), ...args, ...chosen])
  // The exit code is 1 if a cell failed. The rows then say which one.
  const { stdout, stderr } = await run.catch((error: { stdout: string; stderr: string }) => error)
  if (stdout === '') throw new Error(stderr)
  rows = JSON.parse(stdout)
})

test.each(CLIENTS)('%s: the client, the provider and the receipts agree on every scenario', (id) => {
  const row = rows.find((one) => one.id === id)
  expect(row?.broken).toBeUndefined()
  const found = Object.entries(row?.cells ?? {}).map(([scenario, { kind, why }]) => [
    scenario,
    kind === 'no' || kind === 'ok' ? kind : `${kind}: ${why}`,
  ])
  const expected = SCENARIOS.map((scenario) => [scenario, WITHOUT[id] === scenario ? 'no' : 'ok'])
  expect(Object.fromEntries(found)).toEqual(Object.fromEntries(expected))
})

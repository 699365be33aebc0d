import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { signatureVectors } from './daemon/webhooks/signature-vectors.ts'

const run = promisify(execFile)

/** The directory of a receiver that has installed the package. */
let receiver: string
beforeEach(async () => {
  receiver = await mkdtemp(join(tmpdir(), 'aigw-receiver-'))
  await mkdir(join(receiver, 'node_modules'))
  await symlink(inject('builtProject'), join(receiver, 'node_modules/aigw'))
})
afterEach(() => rm(receiver, { recursive: true }))

const PROGRAM = `
import { verifyWebhook, WebhookVerificationError } from 'aigw/webhooks'
const { body, header, secrets, now } = JSON.parse(process.env.VECTOR)
try {
  const { event } = verifyWebhook(body, header, secrets, { now })
  console.log('valid', event.type)
} catch (error) {
  console.log(error instanceof WebhookVerificationError, error.code)
}`

test('the built package verifies deliveries under its documented name', async () => {
  const [vector] = signatureVectors()
  if (vector === undefined) throw new Error('there is no vector')
  await writeFile(join(receiver, 'receiver.mjs'), PROGRAM)
  const verify = async (changes: object) => {
    const env = { ...process.env, VECTOR: JSON.stringify({ ...vector, body: vector.body.toString(), ...changes }) }
    const { stdout } = await run(process.execPath, ['receiver.mjs'], { cwd: receiver, env })
    return stdout.trim()
  }
  expect(await verify({})).toBe('valid pii:incident')
  expect(await verify({ body: '{}' })).toBe('true signature_mismatch')
  expect(await verify({ secrets: [] })).toBe('true missing_secret')
})

const TYPED = `
import { verifyWebhook, type WebhookEvent } from 'aigw/webhooks'
const { event } = verifyWebhook(new Uint8Array(), undefined, process.env.WEBHOOK_SECRET)
const typed: WebhookEvent = event
if (typed.type === 'pii:incident') {
  const names: string[] = typed.data.entityTypes
  // @ts-expect-error it is a number
  const count: string = typed.data.count
  console.log(names, count)
}
`

test('the built package has TypeScript types for events', async () => {
  await writeFile(join(receiver, 'receiver.ts'), TYPED)
  const typescript = createRequire(import.meta.url).resolve('typescript/package.json')
  const options = ['--noEmit', '--strict', '--module', 'nodenext', '--skipLibCheck', 'false', '--types', 'node']
  const roots = ['--typeRoots', join(typescript, '../../@types')]
  const check = run(process.execPath, [join(typescript, '../bin/tsc'), ...options, ...roots, 'receiver.ts'], {
    cwd: receiver,
  })
  expect(await check.catch(({ stdout }: { stdout: string }) => ({ stdout }))).toMatchObject({ stdout: '' })
})

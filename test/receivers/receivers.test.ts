import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { sign } from '../../src/shared/webhook-signature.ts'
import { signatureVectors } from '../daemon/webhooks/signature-vectors.ts'
import { isPresent, LANGUAGES, runShell, type Tried } from './languages.ts'

const SHELL_BODY_BYTES = 65_536
const SECRET = `whsec_${'0123456789abcdef'.repeat(4)}`
const NOW = 1_767_225_600
const BODY = Buffer.from('{"id":"evt_1"}')
const GENUINE: Tried = {
  id: 'own',
  title: 'genuine',
  secrets: [SECRET],
  now: NOW,
  tolerance: 300,
  header: sign(BODY, [SECRET], NOW),
  body: BODY,
  expect: 'valid',
  level: 'must',
}
/** A signature with an empty secret, which anyone can make. It must be rejected if the receiver has no secret. */
const FORGED: Tried = { ...GENUINE, header: sign(BODY, [''], NOW) }

describe('the verifiers for receivers', () => {
  const present = LANGUAGES.filter(isPresent)
  let dir: string
  beforeEach(async () => {
    dir = await mkdtemp(join(tmpdir(), 'aigw-test-'))
  })
  afterEach(() => rm(dir, { recursive: true }))

  test('are all covered here; those without an installed runtime are listed', async () => {
    expect(await readdir(join(import.meta.dirname, '../../docs/receivers'))).toEqual(
      LANGUAGES.map(({ name }) => name).sort(),
    )
    const absent = LANGUAGES.filter((language) => !present.includes(language)).map(({ name }) => name)
    if (absent.length > 0)
      process.stdout.write(`verifiers not run, because their runtime is missing: ${absent.join(', ')}\n`)
    // The project's own runtime, and a shell, which every supported system has.
    expect(present.map(({ name }) => name)).toEqual(expect.arrayContaining(['node', 'shell']))
  })

  test.each(present.map((language) => [language.name, language] as const))(
    '%s matches every signature vector',
    async (name, language) => {
      const fits = ({ body, secrets, level }: (typeof vectors)[number]) =>
        level === 'must' &&
        (name !== 'shell' ||
          (body.length <= SHELL_BODY_BYTES && secrets.every((secret) => /^[\x21-\x7e]*$/.test(secret))))
      const vectors = signatureVectors()
      const tried = vectors.filter(fits)
      const answers = await language.answers(tried, dir)
      const told = answers.map((valid, at) => `${tried[at]?.id} ${tried[at]?.title}: ${valid ? 'valid' : 'invalid'}`)
      expect(told).toEqual(tried.map(({ id, title, expect: expected }) => `${id} ${title}: ${expected}`))
    },
    60_000,
  )

  test.each(present.map((language) => [language.name, language] as const))(
    '%s rejects everything when its own secret is unset or empty',
    async (_, language) => {
      const lacking = [[undefined], [''], [undefined, '']].map((secrets) => ({ ...FORGED, secrets }))
      expect(await language.answers([GENUINE, ...lacking], dir)).toEqual([true, false, false, false])
      expect(await language.answers([{ ...FORGED, secrets: [undefined, SECRET] }], dir)).toEqual([false])
      expect(await language.answers([{ ...GENUINE, secrets: [undefined, SECRET] }], dir)).toEqual([true])
    },
    60_000,
  )

  test.each(present.filter(({ isLoose }) => isLoose).map((language) => [language.name, language] as const))(
    '%s rejects everything when its tolerance or time is not a number, and accepts one text as one secret',
    async (_, language) => {
      const bad = [{ tolerance: Number.NaN }, { now: Number.NaN }].map((window) => ({ ...GENUINE, ...window }))
      expect(await language.answers([GENUINE, ...bad], dir)).toEqual([true, false, false])
      const byLetter = { ...GENUINE, header: sign(BODY, ['w'], NOW) }
      const asText = [GENUINE, byLetter].map((tried) => ({ ...tried, secrets: SECRET }))
      expect(await language.answers(asText, dir)).toEqual([true, false])
    },
  )

  test.each([
    ['WEBHOOK_TOLERANCE', '5m'],
    ['WEBHOOK_TOLERANCE', 'NaN'],
    ['WEBHOOK_TOLERANCE', '-1'],
    ['WEBHOOK_TOLERANCE', '0300'],
    ['WEBHOOK_NOW', 'soon'],
    ['WEBHOOK_NOW', `${NOW}.5`],
  ])('shell cannot decide, and reports it, when %s is %s', async (variable, value) => {
    const variables = { WEBHOOK_SECRET: SECRET, WEBHOOK_NOW: String(NOW) }
    expect(await runShell(dir, BODY, GENUINE.header, variables)).toEqual({ code: 0, stderr: '' })
    expect(await runShell(dir, BODY, GENUINE.header, { ...variables, [variable]: value })).toEqual({
      code: 2,
      stderr: expect.stringContaining(variable),
    })
  })
})

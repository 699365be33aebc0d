import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { rightsOfKey } from '../../../../src/daemon/identity/keys/rights.ts'
import { changedSettings, readSettings, writeSettings } from '../../../../src/daemon/identity/keys/settings.ts'
import { excessOf, LEVELS, type Rights, SECTIONS, withoutAdministration } from '../../../../src/shared/permissions.ts'
import { DEFAULT_KEY_SETTINGS, KeySettings, UpdateKeyRequest } from '../../../../src/shared/wire/keys.ts'

const levels: fc.Arbitrary<Rights['levels']> = fc.dictionary(fc.constantFrom(...SECTIONS), fc.constantFrom(...LEVELS))
const rights: fc.Arbitrary<Rights> = fc.record({
  levels,
  indexAccess: fc.constant('read'),
  canInteractWithAI: fc.boolean(),
  canUseChat: fc.boolean(),
})
const limit = fc.option(fc.integer({ min: 0, max: 1000 }))

/** The settings that an administrator may send; each member is optional. */
const changes = fc.record(
  {
    adminAccess: fc.boolean(),
    dailyLimit: limit,
    monthlyLimit: limit,
    rateLimit: fc.record({ requestsPerMinute: limit, requestsPerHour: limit }, { requiredKeys: [] }),
    limits: fc.record(
      { messages: fc.option(fc.integer({ min: 1, max: 9 })), maxTokens: fc.option(fc.integer({ min: 1, max: 9 })) },
      { requiredKeys: [] },
    ),
    usageByModel: fc.record({ enabled: fc.boolean(), dollarLimit: limit }, { requiredKeys: [] }),
    allowedModels: fc.array(fc.constantFrom('a/b', 'c/*'), { maxLength: 3 }),
    allowedIPs: fc.array(fc.ipV4(), { maxLength: 3 }),
    defaultSMLTPPolicy: fc.constantFrom('public', null),
    failoverDefaults: fc.option(fc.record({ models: fc.constant(['a/b', 'c/d']), timeout_ms: fc.integer() })),
  },
  { requiredKeys: [] },
)

describe('stored settings', () => {
  test("an empty row means the defaults, with the owner's administration rights", () => {
    expect(readSettings('{}')).toEqual({ settings: DEFAULT_KEY_SETTINGS, grantedLevels: null })
  })

  test('are read as they were written', () => {
    fc.assert(
      fc.property(changes, fc.option(levels), (sent, grantedLevels) => {
        const settings = changedSettings(DEFAULT_KEY_SETTINGS, UpdateKeyRequest.parse(sent))
        expect(readSettings(writeSettings({ settings, grantedLevels }))).toEqual({ settings, grantedLevels })
      }),
    )
  })

  test('an update changes only its fields', () => {
    fc.assert(
      fc.property(changes, changes, (before, sent) => {
        const old = changedSettings(DEFAULT_KEY_SETTINGS, UpdateKeyRequest.parse(before))
        const { rateLimit, limits, usageByModel, ...fields } = UpdateKeyRequest.parse(sent)
        expect(changedSettings(old, UpdateKeyRequest.parse(sent))).toEqual(
          KeySettings.parse({
            ...old,
            ...fields,
            rateLimit: { ...old.rateLimit, ...rateLimit },
            limits: { ...old.limits, ...limits },
            usageByModel: { ...old.usageByModel, ...usageByModel },
          }),
        )
        expect(changedSettings(old, UpdateKeyRequest.parse({}))).toEqual(old)
      }),
    )
  })
})

describe('rights of a key', () => {
  test('never exceed those of its owner, nor the granted ones', () => {
    fc.assert(
      fc.property(rights, fc.option(levels), fc.boolean(), (owner, grantedLevels, adminAccess) => {
        const got = rightsOfKey({ settings: { ...DEFAULT_KEY_SETTINGS, adminAccess }, grantedLevels }, owner)
        expect(excessOf(owner, got)).toEqual([])
        if (grantedLevels !== null) expect(excessOf({ ...owner, levels: grantedLevels }, got)).toEqual([])
        if (!adminAccess) expect(got).toEqual(withoutAdministration(owner))
        else if (grantedLevels === null) expect(got).toEqual(owner)
      }),
    )
  })
})

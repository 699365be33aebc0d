import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  administersAll,
  excessOf,
  grantableBy,
  INDEX_ACCESS,
  LEVELS,
  NO_RIGHTS,
  type Rights,
  type RoleRights,
  reachOf,
  rightsOf,
  SECTIONS,
  SYSTEM_ROLES,
} from '../../src/shared/permissions.ts'

const anyRights: fc.Arbitrary<Rights> = fc.record({
  levels: fc.dictionary(fc.constantFrom(...SECTIONS), fc.constantFrom(...LEVELS)),
  indexAccess: fc.constantFrom(...INDEX_ACCESS),
  canInteractWithAI: fc.boolean(),
  canUseChat: fc.boolean(),
})
const anyRole: fc.Arbitrary<RoleRights> = fc.record({
  hasAdminPanelAccess: fc.boolean(),
  permissions: fc.array(fc.record({ section: fc.constantFrom(...SECTIONS), level: fc.constantFrom(...LEVELS) })),
  canInteractWithAI: fc.boolean(),
  canUseChat: fc.boolean(),
})

test('equal rights have no excess, and full rights cover all others', () => {
  fc.assert(
    fc.property(anyRights, (rights) => {
      expect(excessOf(rights, rights)).toEqual([])
      const open = Object.values(rights.levels).filter((level) => level !== 'none').length
      const flags =
        Number(rights.indexAccess === 'write') + Number(rights.canInteractWithAI) + Number(rights.canUseChat)
      expect(excessOf(NO_RIGHTS, rights)).toHaveLength(open + flags)
    }),
  )
})

test('only a full administrator may grant chat without having it', () => {
  fc.assert(
    fc.property(anyRights, (own) => {
      const expected = administersAll(own) ? { ...own, canInteractWithAI: true, canUseChat: true } : own
      expect(grantableBy(own)).toEqual(expected)
    }),
  )
  expect(excessOf(grantableBy({ ...rightsOf('admin'), canUseChat: false }), rightsOf('admin'))).toEqual([])
  expect(excessOf(grantableBy({ ...rightsOf('globalReader'), canUseChat: false }), rightsOf('user'))).toEqual([
    '"canUseChat"',
  ])
})

test('a role reaches at least its current rights, and no less when its panel is enabled', () => {
  fc.assert(
    fc.property(fc.constantFrom(...SYSTEM_ROLES), anyRole, (role, custom) => {
      const reach = reachOf(role, custom)
      expect(excessOf(reach, rightsOf(role, custom))).toEqual([])
      expect(reach).toEqual(rightsOf(role, { ...custom, hasAdminPanelAccess: true }))
    }),
  )
})

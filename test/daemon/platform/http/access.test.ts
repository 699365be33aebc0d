import { expect, test } from 'vitest'
import { requireCovered } from '../../../../src/daemon/platform/http/access.ts'
import { NO_RIGHTS, rightsOf } from '../../../../src/shared/permissions.ts'

const granted = rightsOf('user', {
  hasAdminPanelAccess: true,
  permissions: [
    { section: 'settings', level: 'admin' },
    { section: 'home', level: 'reader' },
    { section: 'analytics', level: 'none' },
  ],
  canInteractWithAI: true,
  canUseChat: true,
})

test('whatever is in excess is named, with the way out', () => {
  expect(() => requireCovered(NO_RIGHTS, granted, 'The role "ops"')).toThrow(
    'The role "ops" allows more than your key does: "home" at level "reader", "settings" at level "admin", ' +
      '"canInteractWithAI", "canUseChat". Leave that out, or use a key that has it.',
  )
  expect(() => requireCovered(rightsOf('globalReader'), granted, 'The key "k"', 'Ask somebody.')).toThrow(
    'The key "k" allows more than your key does: "settings" at level "admin". Ask somebody.',
  )
})

test('what is covered passes', () => {
  expect(() => requireCovered(rightsOf('admin'), granted, 'The role "ops"')).not.toThrow()
  expect(() => requireCovered(NO_RIGHTS, NO_RIGHTS, 'Nothing')).not.toThrow()
})

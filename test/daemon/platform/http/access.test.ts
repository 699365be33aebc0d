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

test('all excess rights are named, with a remedy', () => {
  expect(() => requireCovered(NO_RIGHTS, granted, 'The role "ops"')).toThrow(
    'The role "ops" has rights that your key lacks: "home" at level "reader", "settings" at level "admin", ' +
      '"canInteractWithAI", "canUseChat". Omit these rights, or use a key that has them.',
  )
  expect(() => requireCovered(rightsOf('globalReader'), granted, 'The key "k"', 'Ask somebody.')).toThrow(
    'The key "k" has rights that your key lacks: "settings" at level "admin". Ask somebody.',
  )
})

test('covered rights pass', () => {
  expect(() => requireCovered(rightsOf('admin'), granted, 'The role "ops"')).not.toThrow()
  expect(() => requireCovered(NO_RIGHTS, NO_RIGHTS, 'Nothing')).not.toThrow()
})

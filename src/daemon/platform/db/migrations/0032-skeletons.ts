import type { MigrationWithData } from '../migration-step.ts'
import { fillSkeletons, NAMED } from './0029-rights.ts'

/**
 * The rule of skeletons has changed, so the stored skeletons are computed again. Names that now look alike stay: the index
 * is not unique, and only a new name or a rename is checked.
 */
export const skeletons: MigrationWithData = {
  before: () => [],
  async move(tx) {
    for (const [table, column] of Object.entries(NAMED)) await fillSkeletons(tx, table, column)
  },
  after: () => [],
}

import { newId } from '../../../shared/ids.ts'
import { LEVELS, rightsOf, SECTIONS, SYSTEM_ROLES, type SystemRole } from '../../../shared/permissions.ts'
import type { Db } from '../../platform/db/db.ts'
import { toSearchText } from '../../platform/db/list-page.ts'
import { skeletonOf } from '../../platform/text/skeleton.ts'

const WORDS: Record<SystemRole, { displayName: string; description: string }> = {
  admin: { displayName: 'Administrator', description: 'May see and change everything in this tenant' },
  user: { displayName: 'User', description: 'May chat; has no administrator rights' },
  globalReader: { displayName: 'Global reader', description: 'May chat, and see everything in this tenant' },
}

/**
 * Inserts the three system roles of a tenant as rows, so that lists and unique names need no special case. The rows are
 * only for display: `rightsOf` determines the rights. Safe to repeat.
 */
export async function insertSystemRoles(db: Db, tenantId: string, now: string): Promise<void> {
  for (const name of SYSTEM_ROLES) {
    const { levels, canInteractWithAI, canUseChat } = rightsOf(name)
    const permissions = SECTIONS.map((section) => ({ section, level: levels[section] ?? LEVELS[0] }))
    const { displayName, description } = WORDS[name]
    const opensPanel = permissions.some(({ level }) => level !== 'none')
    await db
      .insertInto('roles')
      .values({
        id: newId(),
        tenant_id: tenantId,
        name,
        display_name: displayName,
        description,
        is_system: 1,
        has_admin_panel_access: opensPanel ? 1 : 0,
        permissions: JSON.stringify(permissions),
        can_interact_with_ai: canInteractWithAI ? 1 : 0,
        can_use_chat: canUseChat ? 1 : 0,
        search_text: toSearchText(name, displayName, description),
        name_skeleton: skeletonOf(displayName),
        created_by: null,
        created_at: now,
        updated_at: now,
      })
      .onConflict((conflict) => conflict.columns(['tenant_id', 'name']).doNothing())
      .execute()
  }
}

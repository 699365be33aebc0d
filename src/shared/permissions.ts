/** The sections of the administration API to which a role can give access. */
export const SECTIONS = [
  'home',
  'user-management',
  'index-management',
  'analytics',
  'group-management',
  'integrations',
  'services-status',
  'settings',
  'announcements',
  'smltp-security',
] as const
export type Section = (typeof SECTIONS)[number]

/** The levels of a role in a section, in ascending order. */
export const LEVELS = ['none', 'reader', 'admin'] as const
export type Level = (typeof LEVELS)[number]

export type Permission = { section: Section; level: Level }

/** The built-in roles of every tenant. They cannot be changed. */
export const SYSTEM_ROLES = ['admin', 'user', 'globalReader'] as const
export type SystemRole = (typeof SYSTEM_ROLES)[number]

/** The access that a key has to the indexes that its owner is allowed to read, and that an index allows such keys. */
export const INDEX_ACCESS = ['read', 'write'] as const
export type IndexAccess = (typeof INDEX_ACCESS)[number]

/** The rights of a caller. The caller has no access to sections that are not listed. */
export type Rights = {
  levels: Readonly<Partial<Record<Section, Level>>>
  /** A user always has `read`; only a key can have `write`. */
  indexAccess: IndexAccess
  canInteractWithAI: boolean
  canUseChat: boolean
}

/** The members of a custom role that determine rights. */
export type RoleRights = {
  hasAdminPanelAccess: boolean
  permissions: readonly Permission[]
  canInteractWithAI: boolean
  canUseChat: boolean
}

export const NO_RIGHTS: Rights = Object.freeze({
  levels: {},
  indexAccess: 'read',
  canInteractWithAI: false,
  canUseChat: false,
})

const everywhere = (level: Level): Rights['levels'] => Object.fromEntries(SECTIONS.map((section) => [section, level]))
const SYSTEM_LEVELS: Record<SystemRole, Rights['levels']> = {
  admin: everywhere('admin'),
  globalReader: everywhere('reader'),
  user: {},
}

/**
 * Returns the rights of a user. If a custom role gives access to the admin panel, its sections are added to the
 * sections of the system role. The custom role alone determines whether its users are allowed to call models.
 */
export function rightsOf(role: SystemRole, custom?: RoleRights | undefined): Rights {
  const base = SYSTEM_LEVELS[role]
  const indexAccess = 'read'
  if (!custom) return { levels: base, indexAccess, canInteractWithAI: true, canUseChat: true }
  const levels: Partial<Record<Section, Level>> = { ...base }
  for (const { section, level } of custom.hasAdminPanelAccess ? custom.permissions : []) {
    if (rank(level) > rank(levels[section])) levels[section] = level
  }
  return { levels, indexAccess, canInteractWithAI: custom.canInteractWithAI, canUseChat: custom.canUseChat }
}

/**
 * Returns the rights that a role would give if it had access to the admin panel. Grants are checked against these
 * rights. Otherwise a caller could add sections that they lack to a role without panel access. Another caller could
 * later give this role access to the panel.
 */
export const reachOf = (role: SystemRole, custom?: RoleRights | undefined): Rights =>
  rightsOf(role, custom && { ...custom, hasAdminPanelAccess: true })

/** Returns the rights without administration, for keys of applications. */
export const withoutAdministration = (rights: Rights): Rights => ({ ...rights, levels: {} })

/** Returns the lower of the two levels for each section. */
export const commonLevels = (one: Rights['levels'], other: Rights['levels']): Rights['levels'] =>
  Object.fromEntries(
    SECTIONS.flatMap((section) => {
      const level = LEVELS[Math.min(rank(one[section]), rank(other[section]))]
      return level === undefined || level === 'none' ? [] : [[section, level]]
    }),
  )

/** Returns the sections to which the rights give access, in the order of SECTIONS. */
export const openSections = ({ levels }: Rights): Permission[] =>
  SECTIONS.flatMap((section) => {
    const level = levels[section] ?? 'none'
    return level === 'none' ? [] : [{ section, level }]
  })

export const mayUse = (rights: Rights, section: Section, level: Level): boolean =>
  rank(rights.levels[section]) >= rank(level)

/** Whether the caller is allowed to write to every index that they can read, regardless of the index's owner. */
export const mayWriteIndexes = (rights: Rights): boolean =>
  rights.indexAccess === 'write' || mayUse(rights, 'index-management', 'admin')

/** Whether the caller has level `admin` in every section, like the system role `admin`. */
export const administersAll = (rights: Rights): boolean => SECTIONS.every((section) => mayUse(rights, section, 'admin'))

/** Returns the rights in `granted` that `own` lacks, as texts for an error message. */
export function excessOf(own: Rights, granted: Rights): string[] {
  const beyond: string[] = []
  for (const section of SECTIONS) {
    const level = granted.levels[section] ?? 'none'
    if (!mayUse(own, section, level)) beyond.push(`"${section}" at level "${level}"`)
  }
  if (granted.indexAccess === 'write' && !mayWriteIndexes(own)) beyond.push('"indexAccess": "write"')
  if (granted.canInteractWithAI && !own.canInteractWithAI) beyond.push('"canInteractWithAI"')
  if (granted.canUseChat && !own.canUseChat) beyond.push('"canUseChat"')
  return beyond
}

/**
 * Callers are allowed to grant only their own rights. Exception: a caller who has the level `admin` in every section is
 * also allowed to grant chat and access to models. Without this exception, a custom role that denies chat would prevent
 * this caller from administering users.
 */
export const grantableBy = (own: Rights): Rights =>
  administersAll(own) ? { ...own, canInteractWithAI: true, canUseChat: true } : own

const rank = (level: Level | undefined): number => LEVELS.indexOf(level ?? 'none')

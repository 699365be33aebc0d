/** The parts of the administration that a role can open (spec: Role, `section`). */
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

/** How far a role may go in a section, in rising order (spec: Role, `level`). */
export const LEVELS = ['none', 'reader', 'admin'] as const
export type Level = (typeof LEVELS)[number]

export type Permission = { section: Section; level: Level }

/** The roles every tenant has and nobody can change (named-endpoints §16). */
export const SYSTEM_ROLES = ['admin', 'user', 'globalReader'] as const
export type SystemRole = (typeof SYSTEM_ROLES)[number]

/** What a key may do with the indexes that its owner may read (named-endpoints §26). */
export const INDEX_ACCESS = ['read', 'write'] as const
export type IndexAccess = (typeof INDEX_ACCESS)[number]

/** What a caller may do. A section that is not named is closed. */
export type Rights = {
  levels: Readonly<Partial<Record<Section, Level>>>
  /** A user has none but `read`: `write` is granted to keys. */
  indexAccess: IndexAccess
  canInteractWithAI: boolean
  canUseChat: boolean
}

/** The part of a custom role that decides on rights. */
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
 * What a user may do (architecture §6). A custom role adds its sections to those of the system role, if it opens the admin
 * panel at all; whether the user may talk to models is then its decision alone.
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
 * The same as if the role opened the admin panel: what counts when rights are handed out. Whoever opens the panel later
 * would else hand out sections that another one put into the role without having them.
 */
export const reachOf = (role: SystemRole, custom?: RoleRights | undefined): Rights =>
  rightsOf(role, custom && { ...custom, hasAdminPanelAccess: true })

/** The same without any administration: what a key has that was made for applications. */
export const withoutAdministration = (rights: Rights): Rights => ({ ...rights, levels: {} })

/** What both allow. */
export const commonLevels = (one: Rights['levels'], other: Rights['levels']): Rights['levels'] =>
  Object.fromEntries(
    SECTIONS.flatMap((section) => {
      const level = LEVELS[Math.min(rank(one[section]), rank(other[section]))]
      return level === undefined || level === 'none' ? [] : [[section, level]]
    }),
  )

/** The sections that are open, in their order. */
export const openSections = ({ levels }: Rights): Permission[] =>
  SECTIONS.flatMap((section) => {
    const level = levels[section] ?? 'none'
    return level === 'none' ? [] : [{ section, level }]
  })

export const mayUse = (rights: Rights, section: Section, level: Level): boolean =>
  rank(rights.levels[section]) >= rank(level)

/** Whether every index that the caller may read is theirs to write, whoever owns it (named-endpoints §26). */
export const mayWriteIndexes = (rights: Rights): boolean =>
  rights.indexAccess === 'write' || mayUse(rights, 'index-management', 'admin')

/** Whether every section is open to change, as it is for the system role `admin`. */
export const administersAll = (rights: Rights): boolean => SECTIONS.every((section) => mayUse(rights, section, 'admin'))

/** What `granted` holds and `own` does not, in words. */
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
 * What somebody may hand out: their own rights. Who administers everything decides on who may chat as well; a role that
 * keeps themselves from it would else take the administration away with it.
 */
export const grantableBy = (own: Rights): Rights =>
  administersAll(own) ? { ...own, canInteractWithAI: true, canUseChat: true } : own

const rank = (level: Level | undefined): number => LEVELS.indexOf(level ?? 'none')

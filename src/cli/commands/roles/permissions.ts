/** Parses the permissions of roles from flags and files. */
import { findNearestName } from '../../../shared/nearest-name.ts'
import { LEVELS, type Permission, SECTIONS } from '../../../shared/permissions.ts'
import { type CliError, usageError } from '../../errors.ts'
import type { Fields } from '../../input/from-file.ts'
import { findAtPath } from '../../output/formats.ts'

/** Reads `SECTION=LEVEL`. For any other text, throws a usage error that contains a suggestion. */
export function toPermissions(texts: readonly string[]): Permission[] {
  return distinct(
    texts.map((text) => {
      const [, section, level] = /^([^=]*)=(.*)$/s.exec(text) ?? []
      if (section !== undefined && level !== undefined) return toPermission(section, level)
      throw usageError(`'${text}' is not a permission`, ['Write SECTION=LEVEL:  --permission analytics=reader'])
    }),
  )
}

/**
 * Returns the permissions in a file. The file contains a list of `{section, level}`, or a map of sections to levels.
 */
export function permissionsIn({ permissions }: Fields): Permission[] | undefined {
  if (permissions === undefined || permissions === null) return undefined
  if (typeof permissions !== 'object') {
    throw usageError("'permissions' in the file must be a list of {section, level}, or a map of sections to levels")
  }
  const pairs: [unknown, unknown][] = Array.isArray(permissions)
    ? permissions.map((entry) => [findAtPath(entry, 'section'), findAtPath(entry, 'level')])
    : Object.entries(permissions)
  return distinct(pairs.map(([section, level]) => toPermission(section, level)))
}

/** Merges the sections of `named` into `base`. If both contain a section, the level from `named` takes precedence. */
export function withPermissions(base: readonly Permission[], named: readonly Permission[]): Permission[] {
  const levels = new Map(base.map(({ section, level }) => [section, level]))
  for (const { section, level } of named) levels.set(section, level)
  return [...levels].map(([section, level]) => ({ section, level }))
}

/** Sorts the permissions and omits sections with level `none`, so that the results of two roles can be compared. */
export const toOpenSections = (permissions: readonly Permission[]): object =>
  SECTIONS.flatMap((section) => permissions.filter((permission) => permission.section === section))
    .filter(({ level }) => level !== 'none')
    .map(({ section, level }) => `${section}=${level}`)

function toPermission(givenSection: unknown, givenLevel: unknown): Permission {
  const section = SECTIONS.find((known) => known === givenSection)
  if (section === undefined) {
    throw unknown('permission section', givenSection, SECTIONS, 'All sections: aigw roles sections')
  }
  const level = LEVELS.find((known) => known === givenLevel)
  if (level === undefined) {
    throw unknown(`level of ${section}`, givenLevel, LEVELS, `Levels: ${LEVELS.join(', ')}`)
  }
  return { section, level }
}

function unknown(what: string, given: unknown, known: readonly string[], all: string): CliError {
  const text = typeof given === 'string' ? given : (JSON.stringify(given) ?? '')
  const nearest = findNearestName(text.toLowerCase(), known)
  return usageError(`unknown ${what} '${text}'`, [nearest === undefined ? all : `Did you mean '${nearest}'?   ${all}`])
}

function distinct(permissions: Permission[]): Permission[] {
  const seen = new Set<string>()
  for (const { section } of permissions) {
    if (seen.has(section)) throw usageError(`permission section '${section}' is named twice`)
    seen.add(section)
  }
  return permissions
}

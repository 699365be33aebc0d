import { CliError, EXIT, usageError } from '../../errors.ts'
import type { ProfileEntry } from '../../profile/config-files.ts'

/** Throws exit 3 and lists what there is. */
export function assertProfile(profiles: Record<string, ProfileEntry>, name: string): void {
  if (Object.hasOwn(profiles, name)) return
  throw new CliError(EXIT.notFound, `there is no profile '${name}'`, {
    code: 'PROFILE_NOT_FOUND',
    hints: [`Profiles:  ${Object.keys(profiles).join(', ') || 'none yet'}`],
  })
}

/** Throws a usage error for a name that would be awkward to type or to write down. */
export function assertProfileName(name: string): void {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(name)) return
  throw usageError(`'${name}' is no name for a profile`, ['Use letters, digits, dots, dashes and underscores.'])
}

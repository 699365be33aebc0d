import { type FamilyMember, type FamilyRoute, OPENAI_FAMILY, type Profile, USUAL_PROFILE } from '../../openai-family.ts'

export type { Ability, Profile } from '../../openai-family.ts'

/**
 * Returns a function that maps a model to its profile. The profiles are selected by host first, then by the provider's
 * name, because a proxy is usually named after its well-known provider. All other servers get the usual profile.
 */
export function profilesOf(name: string, baseUrl: string): (model: string) => Profile {
  const known = memberAt(baseUrl) ?? memberNamed(name)
  if (!known) return () => USUAL_PROFILE
  const [origin, { differs, models }] = known
  const profile: Profile = { ...USUAL_PROFILE, origin, ...differs }
  if (!models) return () => profile
  const special: Profile = { ...profile, ...models.differs }
  return (model) => (models.names.test(model) ? special : profile)
}

/**
 * Returns whether a server may have this route. The name selects only local servers, because a proxy that is named after
 * a well-known provider may have more routes.
 */
export function mayHaveRoute(name: string, baseUrl: string, route: FamilyRoute): boolean {
  const named = memberNamed(name)
  const [, known] = memberAt(baseUrl) ?? (named?.[1].isLocal ? named : [])
  return known?.lacksRoutes?.includes(route) !== true
}

type Member = [name: string, member: FamilyMember]

function memberAt(baseUrl: string): Member | undefined {
  const host = new URL(baseUrl).hostname
  const isAt = (own: string) => host === own || host.endsWith(`.${own}`)
  return Object.entries(OPENAI_FAMILY).find(([, member]) => hostsOf(member).some(isAt))
}

function memberNamed(name: string): Member | undefined {
  const member = Object.hasOwn(OPENAI_FAMILY, name) ? OPENAI_FAMILY[name] : undefined
  return member && [name, member]
}

const hostsOf = ({ baseUrl, isLocal, otherHosts = [] }: FamilyMember): readonly string[] =>
  baseUrl === undefined || isLocal ? otherHosts : [new URL(baseUrl).hostname, ...otherHosts]

// What the environment and the table of well-known providers say about a provider.
import type { WellKnownProvider } from '../models/well-known-providers.ts'
import type { ConfigSources } from './sources.ts'
import { ofVariable, parseApiKey, parseBaseUrl, ValueFault } from './values.ts'

/** Returns the first of the provider's environment variables that contains a key, if any. */
export const knownKeyVariable = (
  wellKnown: WellKnownProvider | undefined,
  env: ConfigSources['env'],
): string | undefined => wellKnown?.keyVariables.find((variable) => env[variable])

const addressVariable = ({ baseUrlVariable }: WellKnownProvider, env: ConfigSources['env']) =>
  baseUrlVariable !== undefined && env[baseUrlVariable] ? baseUrlVariable : undefined

/** Whether the address is public, or in the environment. */
export const knowsAddress = (wellKnown: WellKnownProvider, env: ConfigSources['env']): boolean =>
  wellKnown.baseUrl !== undefined || addressVariable(wellKnown, env) !== undefined

/** Call this function only if `knowsAddress` returns true. */
export function knownBaseUrl(wellKnown: WellKnownProvider, env: ConfigSources['env']): string {
  const variable = addressVariable(wellKnown, env)
  return variable === undefined
    ? (wellKnown.baseUrl ?? '')
    : ofVariable(variable, () => parseBaseUrl(env[variable] ?? ''))
}

/** Returns the key in the provider's environment variable, if any. Throws ValueFault. */
export function knownKey(wellKnown: WellKnownProvider, env: ConfigSources['env']): string | undefined {
  const variable = knownKeyVariable(wellKnown, env)
  return variable === undefined ? undefined : ofVariable(variable, () => parseApiKey(env[variable] ?? ''))
}

/** Returns the version of the API in the environment, if any. Throws ValueFault. */
export function knownApiVersion(
  { apiVersionVariable }: WellKnownProvider,
  env: ConfigSources['env'],
): string | undefined {
  const version = apiVersionVariable === undefined ? undefined : env[apiVersionVariable]
  return version ? ofVariable(apiVersionVariable, () => parseApiVersion(version)) : undefined
}

/** Parses a version of Azure's API. Throws ValueFault. */
export function parseApiVersion(text: string): string {
  if (/^(\d{4}-\d{2}-\d{2}(-preview)?|preview|latest)$/.test(text)) return text
  throw new ValueFault(`"${text}" is not a version of the Azure API; write a date, such as "2024-10-21"`)
}

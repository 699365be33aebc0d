// Providers that the operator adds through the API. They have the settings of an entry under `providers` of the file.
import type { ProviderConfig } from '../models/config.ts'
import { providerEntry } from './providers.ts'
import { ValueFault } from './values.ts'

/** Thrown for invalid settings. `path` is the dotted key. No message contains a secret. */
export class ProviderFault extends Error {
  override name = 'ProviderFault'
  readonly path: string

  constructor(path: string, message: string) {
    super(message)
    this.path = path
  }
}

/**
 * The settings stand on their own: they refer to no file and no variable of a daemon, because each daemon of the store
 * has others. Otherwise a request could also read any file of the machine.
 */
const NO_SOURCES = {
  argv: [],
  env: {},
  readFile(): never {
    throw new ValueFault('must not refer to a file; send the value itself')
  },
}

/** Checks the settings of a stored provider as those of the file are checked. @throws ProviderFault */
export function toProviderConfig(name: string, settings: object): ProviderConfig {
  if (name === 'local') throw new ProviderFault('name', 'local is the built-in provider; choose another name')
  const result = providerEntry(name, settings, NO_SOURCES, 'the request').safeParse(settings)
  if (result.success) return result.data as ProviderConfig
  const [issue] = result.error.issues
  // The messages are written for the file, whose entries may take values from the environment.
  const message = (issue?.message ?? 'is invalid').replace(/,? or (?:set |in )the environment variable \w+/, '')
  throw new ProviderFault(issue?.path.join('.') || 'name', message)
}

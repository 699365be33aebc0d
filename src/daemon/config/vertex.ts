import { createPrivateKey } from 'node:crypto'
import { z } from 'zod'
import { type GoogleCredentials, VERTEX_PUBLISHERS } from '../models/config.ts'
import { readSecret } from './secret.ts'
import { valueFrom } from './section.ts'
import type { ConfigSources } from './sources.ts'
import { ofVariable, parseBaseUrl, ValueFault } from './values.ts'

/** The provider name that implies the kind `vertex`. */
export const VERTEX = 'vertex'

const KEY_FILE_VARIABLE = 'GOOGLE_APPLICATION_CREDENTIALS'
const PROJECT_VARIABLE = 'GOOGLE_CLOUD_PROJECT'
const LOCATION_VARIABLE = 'GOOGLE_CLOUD_LOCATION'
/** The address of Google's tokens, if the key file names none. */
const TOKEN_URL = 'https://oauth2.googleapis.com/token'

/** A service account's key, and the project that the account belongs to. */
type AccountKey = { credentials: GoogleCredentials; project: string | undefined }

/**
 * The settings that exist only in entries of kind `vertex`. `given` contains the entry's name and keys. Missing settings
 * are read from the environment, except that a custom address gets the environment's credentials only if the entry's
 * name is `vertex`. The environment alone configures no provider, because its variables are often set for other
 * programs. `secret` creates the schema of a secret; its argument is the error message for a missing secret.
 */
export function vertexSettings(
  given: { name: string; keys: ReadonlySet<string> },
  { env, readFile }: Pick<ConfigSources, 'env' | 'readFile'>,
  secret: (missing?: string) => z.ZodType<string>,
) {
  const { name, keys } = given
  const keyFile = name === VERTEX || !keys.has('base_url') ? env[KEY_FILE_VARIABLE] : undefined
  // No credentials are required for a custom address, because it may be a proxy that has its own.
  const needsKey = !keys.has('credentials') && !keys.has('base_url') && !keyFile
  const missing = `is missing; set the key of a service account, such as { file: /etc/aigw/vertex.json }, or set the environment variable ${KEY_FILE_VARIABLE}`
  const credentials = secret(missing).transform(valueFrom(parseAccountKey))
  return {
    publisher: z.enum(VERTEX_PUBLISHERS, `must be one of ${VERTEX_PUBLISHERS.join(', ')}`).optional(),
    project: z
      .string('must be the id of a Google Cloud project')
      .optional()
      .transform(valueFrom((own) => ownOrVariable(own, PROJECT_VARIABLE, env, parseProject))),
    location: z
      .string('must be a location of Vertex AI, such as europe-west4')
      .optional()
      .transform(
        valueFrom((own) => {
          const location = ownOrVariable(own, LOCATION_VARIABLE, env, parseLocation)
          if (location !== undefined) return location
          throw new ValueFault(
            `is missing; set it here, such as europe-west4, eu or global, or set the environment variable ${LOCATION_VARIABLE}`,
          )
        }),
      ),
    base_url: z.string('must be a URL in quotes').transform(valueFrom(parseBaseUrl)).optional(),
    credentials: needsKey
      ? credentials
      : credentials
          .optional()
          .transform(
            valueFrom(
              (own) =>
                own ??
                (keyFile === undefined || keyFile === ''
                  ? undefined
                  : ofVariable(KEY_FILE_VARIABLE, () => parseAccountKey(readSecret(readFile, keyFile)))),
            ),
          ),
  }
}

/** Returns the project of an entry: its own, or that of its service account. Throws ValueFault. */
export function projectOf(project: string | undefined, key: AccountKey | undefined): string {
  const found = project ?? (key?.project === undefined ? undefined : parseProject(key.project))
  if (found !== undefined) return found
  throw new ValueFault(
    `needs a project; set project to the id of a Google Cloud project, or set the environment variable ${PROJECT_VARIABLE}`,
  )
}

function ownOrVariable(
  own: string | undefined,
  variable: string,
  env: ConfigSources['env'],
  parse: (text: string) => string,
): string | undefined {
  if (own !== undefined) return parse(own)
  const value = env[variable]
  return value ? ofVariable(variable, () => parse(value)) : undefined
}

/** Projects of older organisations have the form `example.com:name`. */
function parseProject(text: string): string {
  if (/^([a-z0-9.-]{1,63}:)?[a-z0-9][a-z0-9-]{1,62}$/.test(text)) return text
  throw new ValueFault(`"${text}" is not the id of a Google Cloud project; write one such as my-project-123`)
}

/** Validates the location, because it becomes part of the host name that receives the token. */
function parseLocation(text: string): string {
  if (/^[a-z]{2,20}(-[a-z]{2,20}\d{1,2})?$/.test(text)) return text
  throw new ValueFault(`"${text}" is not a location of Vertex AI; write one such as europe-west4, eu or global`)
}

/**
 * Parses the JSON key file of a service account. Throws a ValueFault that contains nothing of the key.
 */
function parseAccountKey(text: string): AccountKey {
  const key = KeyFile.safeParse(parseJson(text))
  if (!key.success) {
    const [name] = key.error.issues[0]?.path ?? []
    if (name === undefined || name === 'type') {
      throw new ValueFault('is not the JSON key of a service account; create a key of type JSON for the account')
    }
    throw new ValueFault(`is a key of a service account without a valid ${String(name)}; create a new key`)
  }
  const { client_email, private_key, private_key_id, token_uri, project_id } = key.data
  try {
    createPrivateKey(private_key)
  } catch {
    throw new ValueFault('is a key of a service account without a valid private_key; create a new key')
  }
  return {
    credentials: {
      clientEmail: client_email,
      privateKey: private_key,
      privateKeyId: private_key_id,
      tokenUrl: token_uri ?? TOKEN_URL,
    },
    project: project_id,
  }
}

const KeyFile = z.object({
  type: z.literal('service_account'),
  client_email: z.string().min(3),
  private_key: z.string().min(1),
  private_key_id: z.string().optional(),
  project_id: z.string().optional(),
  token_uri: z.url({ protocol: /^https?$/ }).optional(),
})

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

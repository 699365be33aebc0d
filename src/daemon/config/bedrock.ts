import { z } from 'zod'
import type { AwsCredentials, BedrockConfig } from '../models/config.ts'
import { section, valueFrom } from './section.ts'
import type { ConfigSources } from './sources.ts'
import { ofVariable, parseApiKey, parseBaseUrl, ValueFault } from './values.ts'

/** The provider name that implies the kind `bedrock`. */
export const BEDROCK = 'bedrock'

const KEY_VARIABLE = 'AWS_BEARER_TOKEN_BEDROCK'
const REGION_VARIABLES = ['AWS_REGION', 'AWS_DEFAULT_REGION']
const [REGION_VARIABLE] = REGION_VARIABLES
const ID_VARIABLE = 'AWS_ACCESS_KEY_ID'
const SECRET_VARIABLE = 'AWS_SECRET_ACCESS_KEY'
const TOKEN_VARIABLE = 'AWS_SESSION_TOKEN'

type Environment = ConfigSources['env']

/**
 * The settings that exist only in entries of kind `bedrock`. `given` contains the entry's name and keys. An entry may
 * set an API key or credentials. If it sets neither, the environment's key or credentials are used. For an entry with a
 * custom address, this fallback applies only if the entry's name is `bedrock`. `secret` creates the schema of a secret;
 * its argument is the error message for a missing secret.
 */
export function bedrockSettings(
  given: { name: string; keys: ReadonlySet<string> },
  env: Environment,
  secret: (missing?: string) => z.ZodType<string>,
) {
  const { name, keys } = given
  const hasOwn = keys.has('api_key') || keys.has('credentials')
  const usesEnvironment = !hasOwn && (name === BEDROCK || !keys.has('base_url'))
  const usesKey = usesEnvironment && Boolean(env[KEY_VARIABLE])
  const usesCredentials = usesEnvironment && !usesKey && Boolean(env[ID_VARIABLE] || env[SECRET_VARIABLE])
  // No credentials are required for a custom address, because it may be a proxy that signs requests itself.
  const needsKey = !hasOwn && !keys.has('base_url') && !usesKey && !usesCredentials

  const noRegion = `is missing; set it here, such as eu-central-1, or set the environment variable ${REGION_VARIABLE}`
  const region = z
    .string({ error: ({ input }) => (input === undefined ? noRegion : 'must be the name of an AWS region') })
    .transform(valueFrom(parseRegion))
  const part = (missing?: string) => secret(missing).transform(valueFrom(parseApiKey))
  const credentials = section(
    {
      access_key_id: part('is missing; credentials require both access_key_id and secret_access_key'),
      secret_access_key: part('is missing; credentials require both access_key_id and secret_access_key'),
      session_token: part().optional(),
    },
    'must contain access_key_id and secret_access_key',
  ).transform(
    (own): AwsCredentials => ({
      accessKeyId: own.access_key_id,
      secretAccessKey: own.secret_access_key,
      ...(own.session_token !== undefined && { sessionToken: own.session_token }),
    }),
  )

  return {
    region: regionVariable(env)
      ? region.optional().transform(valueFrom((own) => own ?? regionOfEnvironment(env)))
      : region,
    base_url: z.string('must be a URL in quotes').transform(valueFrom(parseBaseUrl)).optional(),
    api_key: needsKey
      ? part(`is missing; set it or credentials here, or set the environment variable ${KEY_VARIABLE}`)
      : part()
          .optional()
          .transform(valueFrom((own) => own ?? (usesKey ? secretOfEnvironment(KEY_VARIABLE, env) : undefined))),
    credentials: credentials.optional().transform(
      valueFrom((own) => {
        if (own && keys.has('api_key')) throw new ValueFault('cannot be combined with api_key; remove one of them')
        return own ?? (usesCredentials ? credentialsOfEnvironment(env) : undefined)
      }),
    ),
  }
}

/**
 * Returns the provider `bedrock` if the environment contains a Bedrock API key and a region. AWS credentials alone are
 * not enough, because they are often set for other purposes. Throws ValueFault.
 */
export function bedrockOfEnvironment(env: Environment): BedrockConfig | undefined {
  if (!env[KEY_VARIABLE] || !regionVariable(env)) return undefined
  return {
    name: BEDROCK,
    kind: 'bedrock',
    region: regionOfEnvironment(env),
    baseUrl: undefined,
    apiKey: secretOfEnvironment(KEY_VARIABLE, env),
    credentials: undefined,
    headers: {},
    models: undefined,
  }
}

const regionVariable = (env: Environment): string | undefined => REGION_VARIABLES.find((variable) => env[variable])

/** Call this function only if `regionVariable` returns a variable. */
function regionOfEnvironment(env: Environment): string {
  const variable = regionVariable(env) ?? ''
  return ofVariable(variable, () => parseRegion(env[variable] ?? ''))
}

function credentialsOfEnvironment(env: Environment): AwsCredentials {
  return {
    accessKeyId: secretOfEnvironment(ID_VARIABLE, env),
    secretAccessKey: secretOfEnvironment(SECRET_VARIABLE, env),
    ...(env[TOKEN_VARIABLE] && { sessionToken: secretOfEnvironment(TOKEN_VARIABLE, env) }),
  }
}

function secretOfEnvironment(variable: string, env: Environment): string {
  const secret = env[variable]
  if (!secret) throw new ValueFault(`environment variable ${variable} is not set; set it, or set credentials here`)
  return ofVariable(variable, () => parseApiKey(secret))
}

/** Validates the region, because it becomes part of the host name that receives the key. */
function parseRegion(text: string): string {
  if (/^[a-z]{2,4}(-[a-z]{2,12}){1,3}-\d{1,2}$/.test(text)) return text
  throw new ValueFault(`"${text}" is not the name of an AWS region; write one such as eu-central-1`)
}

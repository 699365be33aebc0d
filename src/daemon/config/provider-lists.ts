// The lists of an entry under `providers:` whose elements have several forms: models and keys.
import { z } from 'zod'
import { type EndpointConfig, MODALITIES, type ModelFacts } from '../models/config.ts'
import { weight } from './names.ts'
import { section, valueFrom } from './section.ts'
import { ValueFault } from './values.ts'

/** The highest number of keys of one provider. */
const API_KEYS_MAX = 32

type OfferedModel = { id: string; facts: ModelFacts }

const IS_MODEL = 'must be the name of a model, or {id: NAME}'
const modelName = z.string({ error: IS_MODEL }).min(1, { error: IS_MODEL })
const modalities = z
  .array(z.enum(MODALITIES, { error: `must be one of ${MODALITIES.join(', ')}` }), {
    error: `must be a list of ${MODALITIES.join(', ')}`,
  })
  .optional()
const contextTokens = z
  .int({ error: 'must be a whole number of tokens' })
  .min(1, { error: 'must be at least 1' })
  .optional()

const offeredModel = (entry: unknown): z.ZodType<OfferedModel> =>
  isObject(entry)
    ? section(
        { id: modelName, context_tokens: contextTokens, input: modalities, output: modalities },
        IS_MODEL,
      ).transform(
        ({ id, context_tokens, input, output }): OfferedModel => ({
          id,
          facts: {
            ...(context_tokens !== undefined && { contextTokens: context_tokens }),
            ...(input && { input }),
            ...(output && { output }),
          },
        }),
      )
    : modelName.transform((id): OfferedModel => ({ id, facts: {} }))

/** Creates the schema of `models`: names, or objects with facts about the model. */
export const offeredModels = (entry: unknown) =>
  z
    .array(z.unknown(), { error: 'must be a list of model names' })
    .min(1, 'is empty; list a model, or remove it to accept every model name')
    .pipe(eachOf(entry, 'models', offeredModel))

/** Returns the names of the offered models, and the facts about them. */
export function offeredOf(
  offered: readonly OfferedModel[] | undefined,
): Pick<EndpointConfig, 'models'> & { facts?: Record<string, ModelFacts> } {
  const known = offered?.filter(({ facts }) => Object.keys(facts).length > 0) ?? []
  return {
    models: offered?.map(({ id }) => id),
    ...(known.length > 0 && { facts: Object.fromEntries(known.map(({ id, facts }) => [id, facts])) }),
  }
}

type WeightedKey = { key: string; weight: number }

const IS_KEY = 'must be a secret, or {key: SECRET, weight: 70}'

/** Creates the schema of `api_keys`: secrets, or objects with a secret and its weight. */
export function apiKeys(entry: unknown, secret: z.ZodType<string>) {
  const weightedKey = (one: unknown): z.ZodType<WeightedKey> =>
    isObject(one) && 'key' in one
      ? section({ key: secret, weight: weight.optional() }, IS_KEY).transform(
          ({ key, weight: share = 1 }): WeightedKey => ({ key, weight: share }),
        )
      : secret.transform((key): WeightedKey => ({ key, weight: 1 }))
  return z
    .array(z.unknown(), { error: 'must be a list of keys' })
    .min(1, 'is empty; list a key, or remove it')
    .pipe(eachOf(entry, 'api_keys', weightedKey))
    .transform(valueFrom((keys) => checkKeys(keys, entry)))
}

function checkKeys(keys: WeightedKey[], entry: unknown): WeightedKey[] {
  if (isObject(entry) && 'api_key' in entry)
    throw new ValueFault('cannot be combined with api_key; list that key here too')
  if (keys.length > API_KEYS_MAX) throw new ValueFault(`may have at most ${API_KEYS_MAX} keys`)
  return keys
}

/** The schema of a list. The form of an element decides the element's schema, so that each fault names its member. */
function eachOf<T>(entry: unknown, name: string, schemaOf: (one: unknown) => z.ZodType<T>) {
  const list: unknown = isObject(entry) ? Reflect.get(entry, name) : undefined
  const schemas = (Array.isArray(list) ? list : []).map(schemaOf)
  return z.tuple(schemas as [z.ZodType<T>, ...z.ZodType<T>[]]).transform((all): T[] => all)
}

const isObject = (entry: unknown): entry is object => typeof entry === 'object' && entry !== null

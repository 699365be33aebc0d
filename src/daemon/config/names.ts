// The sections `models` and `default_model` of a configuration file.
import { z } from 'zod'
import { suggestion } from '../../shared/nearest-name.ts'
import { MODEL_ID_CHARS } from '../../shared/spec-limits.ts'
import type { ModelName, NamedTarget, ProviderConfig } from '../models/config.ts'
import { WELL_KNOWN_PROVIDERS } from '../models/well-known-providers.ts'
import { section, valueFrom } from './section.ts'
import { ValueFault } from './values.ts'

/** The highest number of targets of a name. */
const TARGETS_MAX = 32
const WEIGHT_MAX = 1_000_000
const PRIORITY_MAX = 100

const MODEL_ID = /^[^/\s]+\/\S+$/
const IS_TARGET = 'must be <provider>/<model>, or {model: <provider>/<model>, weight: 70, priority: 1}'

/** The schema of a weight: a share among several. */
export const weight = z
  .number({ error: 'must be a number, such as 70' })
  .gt(0, { error: 'must be above 0; remove the entry to send it no requests' })
  .max(WEIGHT_MAX, { error: `must be at most ${WEIGHT_MAX}` })

const priority = z
  .int({ error: 'must be a whole number; targets with 1 are called first' })
  .min(1, { error: 'must be at least 1' })
  .max(PRIORITY_MAX, { error: `must be at most ${PRIORITY_MAX}` })

const modelId = z.string({ error: IS_TARGET }).regex(MODEL_ID, { error: IS_TARGET })

const DEFAULT_TARGET = { weight: 1, priority: 1 } as const

/** The settings of a target depend on its form, so each target has its own schema. */
const targetEntry = (entry: unknown): z.ZodType<NamedTarget> =>
  typeof entry === 'object' && entry !== null
    ? section({ model: modelId, weight: weight.optional(), priority: priority.optional() }, IS_TARGET).transform(
        ({ model, ...settings }): NamedTarget => ({
          modelId: model,
          weight: settings.weight ?? DEFAULT_TARGET.weight,
          priority: settings.priority ?? DEFAULT_TARGET.priority,
        }),
      )
    : modelId.transform((id): NamedTarget => ({ modelId: id, ...DEFAULT_TARGET }))

/** Creates the schema of one entry under `models:`: a model, or a list of targets. */
export function modelNameEntry(name: string, entry: unknown): z.ZodType<ModelName> {
  if (!/^[^/\s*]+$/.test(name) || name.length > MODEL_ID_CHARS) {
    return z.never({
      error: `must be a name without slashes, spaces and *, of at most ${MODEL_ID_CHARS} characters`,
    }) as z.ZodType<never>
  }
  const entries = Array.isArray(entry) ? entry : [entry]
  const targets = z
    .tuple(entries.map(targetEntry) as [z.ZodType<NamedTarget>, ...z.ZodType<NamedTarget>[]])
    .transform(valueFrom(checkTargets))
  const one = targetEntry(entry).transform((target) => [target])
  return (Array.isArray(entry) ? targets : one).transform((found): ModelName => ({ name, targets: found }))
}

function checkTargets(targets: NamedTarget[]): NamedTarget[] {
  if (targets.length === 0) throw new ValueFault('is empty; list the models that the name stands for')
  if (targets.length > TARGETS_MAX) throw new ValueFault(`may have at most ${TARGETS_MAX} targets`)
  const ids = targets.map(({ modelId: id }) => id)
  const twice = ids.find((id, at) => ids.indexOf(id) !== at)
  if (twice !== undefined) throw new ValueFault(`lists "${twice}" twice; set its weight instead`)
  return targets
}

/** The schema of `default_model`. */
export const defaultModel = z
  .string({ error: 'must be a model, such as openai/gpt-4o, or a name under models' })
  .regex(/^[^/\s]+(\/\S+)?$/, { error: 'must be a model, such as openai/gpt-4o, or a name under models' })

/** Returns the faults of names and of the default model that refer to models that no provider offers. */
export function faultsOfNames(
  { models, defaultModel: byDefault }: { models: readonly ModelName[]; defaultModel: string | undefined },
  providers: readonly ProviderConfig[],
  discoverLocal: boolean,
): string[] {
  const found = Object.entries(WELL_KNOWN_PROVIDERS).flatMap(([name, { isDiscovered }]) => (isDiscovered ? [name] : []))
  const known = new Map<string, readonly string[] | undefined>([
    ['local', undefined],
    ...(discoverLocal ? found.map((name) => [name, undefined] as const) : []),
    ...providers.map(({ name, models: offered }) => [name, offered] as const),
  ])
  const faultOf = (modelId: string): string | undefined => {
    const slash = modelId.indexOf('/')
    const [provider, model] = [modelId.slice(0, slash), modelId.slice(slash + 1)]
    if (!known.has(provider)) {
      return `no provider "${provider}" is configured${suggestion(provider, [...known.keys()])}; add it under providers`
    }
    const offered = known.get(provider)
    if (!offered || offered.includes(model)) return undefined
    return `providers.${provider}.models does not list "${model}"${suggestion(model, offered)}; add it there`
  }
  const faults = models.flatMap(({ name, targets }) =>
    targets.flatMap(({ modelId: id }) => {
      const fault = faultOf(id)
      return fault === undefined ? [] : [`models.${name}: ${id}: ${fault}`]
    }),
  )
  if (byDefault === undefined || models.some(({ name }) => name === byDefault)) return faults
  const names = models.map(({ name }) => name)
  const fault = byDefault.includes('/')
    ? faultOf(byDefault)
    : `is neither <provider>/<model> nor a name under models${suggestion(byDefault, names)}`
  return fault === undefined ? faults : [...faults, `default_model: ${byDefault}: ${fault}`]
}

import { PROPERTY_TEXTS } from './property-texts.ts'
import { PARAMETER_TEXTS } from './texts.ts'

type Json = Record<string, unknown>

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * Patterns that not every dialect of regular expressions can read, and their replacements. Python, for instance, rejects
 * `\p{L}`. The replacement treats every character outside ASCII as a letter. The gateway still checks the original.
 */
const PORTABLE_PATTERNS: Record<string, string> = {
  // Some engines allow at most 1,000 repetitions.
  '^[\\w-]{1,64}(,[\\w-]{1,64}){0,99}$': '^[\\w-]{1,64}(,[\\w-]{1,64})*$',
  "^[\\p{L}\\p{N}][\\p{L}\\p{M}\\p{N} ()&+',.:_-]*$": '^[^\\x00-/:-@\\[-`{-\\x7f][^\\x00-\\x1f!-%*/;-@\\[-^`{-\\x7f]*$',
}

/**
 * Adds missing descriptions to the properties of these schemas, and replaces patterns that some dialects cannot read.
 * Changes the schemas in place.
 * @param names the names of the enclosing schemas and properties, outermost first
 */
export function completeSchemas(value: unknown, names: readonly string[]): void {
  if (Array.isArray(value)) {
    for (const item of value) completeSchemas(item, names)
    return
  }
  if (!isObject(value)) return
  if (typeof value.pattern === 'string') value.pattern = PORTABLE_PATTERNS[value.pattern] ?? value.pattern
  for (const [key, member] of Object.entries(value)) {
    if (key === 'properties' && isObject(member)) completeProperties(member, names)
    else if (key !== 'example' && key !== 'examples' && key !== 'enum' && key !== 'default')
      completeSchemas(member, names)
  }
}

function completeProperties(properties: Json, names: readonly string[]): void {
  for (const [name, property] of Object.entries(properties)) {
    if (!isObject(property)) continue
    const text = describe(name, names)
    // A named schema keeps its own description.
    if (property.description === undefined && text !== undefined) property.description = text
    completeSchemas(property, [...names, name])
  }
}

/** Returns the most specific text: of the outermost schema first, then of the nearest enclosing property. */
function describe(name: string, names: readonly string[]): string | undefined {
  const [outermost] = names
  const keys = [`${names.join('.')}.${name}`, `${outermost}.${name}`, `${names.at(-1)}.${name}`, name]
  for (const key of keys) if (Object.hasOwn(PROPERTY_TEXTS, key)) return PROPERTY_TEXTS[key]
  return undefined
}

/** Adds missing descriptions to the parameters of an operation. Changes the operation in place. */
export function completeParameters(parameters: readonly Json[]): void {
  for (const parameter of parameters) {
    const { name, schema } = parameter as { name: string; schema?: Json }
    parameter.description ??= schema?.description ?? PARAMETER_TEXTS[name]
    completeSchemas(schema, [name])
  }
}

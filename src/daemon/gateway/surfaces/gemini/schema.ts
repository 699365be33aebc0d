// Converts schemas of Gemini's API, a subset of OpenAPI, to JSON Schema. Every provider accepts JSON Schema.
import { isObject } from '../../../platform/text/json.ts'

type Schema = Record<string, unknown>

/** Numbers that Google's clients may send as strings. */
const COUNTS = new Set(['minItems', 'maxItems', 'minLength', 'maxLength', 'minProperties', 'maxProperties'])

/** The JSON depth limit of the body bounds the recursion. */
export function toJsonSchema(schema: Schema): Schema {
  const members: [string, unknown][] = []
  let order: unknown
  let isNullable = false
  for (const [given, value] of Object.entries(schema)) {
    const name = given.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
    if (value === null || value === undefined) continue
    if (name === 'nullable') isNullable = value === true
    else if (name === 'propertyOrdering') order = value
    else if (name === 'type') {
      if (value !== 'TYPE_UNSPECIFIED') members.push([name, typeof value === 'string' ? value.toLowerCase() : value])
    } else if (COUNTS.has(name)) members.push([name, typeof value === 'string' ? Number(value) : value])
    else members.push([name, toMember(name, value)])
  }
  const converted: Schema = Object.fromEntries(members)
  if (Array.isArray(order) && isObject(converted.properties))
    converted.properties = ordered(converted.properties, order)
  return isNullable ? nullable(converted) : converted
}

function toMember(name: string, value: unknown): unknown {
  if (name === 'properties' && isObject(value)) {
    return Object.fromEntries(Object.entries(value).map(([property, schema]) => [property, toSchema(schema)]))
  }
  if (name === 'items' || name === 'additionalProperties') return toSchema(value)
  if ((name === 'anyOf' || name === 'prefixItems') && Array.isArray(value)) return value.map(toSchema)
  return value
}

const toSchema = (value: unknown): unknown => (isObject(value) ? toJsonSchema(value) : value)

/** Models write the members of an object in the order of its properties. */
function ordered(properties: Schema, order: readonly unknown[]): Schema {
  const first = order.filter((name): name is string => typeof name === 'string' && Object.hasOwn(properties, name))
  return { ...Object.fromEntries(first.map((name) => [name, properties[name]])), ...properties }
}

function nullable(schema: Schema): Schema {
  const { type, enum: values } = schema
  if (typeof type !== 'string') return { anyOf: [schema, { type: 'null' }] }
  return { ...schema, type: [type, 'null'], ...(Array.isArray(values) && { enum: [...values, null] }) }
}

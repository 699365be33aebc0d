import fc from 'fast-check'
import { z } from 'zod'

/** The part of JSON Schema that our schemas use. */
export type JsonSchema = {
  $ref?: string
  readOnly?: boolean
  $defs?: Record<string, JsonSchema>
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  properties?: Record<string, JsonSchema>
  required?: string[]
  additionalProperties?: unknown
  propertyNames?: JsonSchema
  items?: JsonSchema
  anyOf?: JsonSchema[]
  oneOf?: JsonSchema[]
  allOf?: JsonSchema[]
  minItems?: number
  maxItems?: number
  minLength?: number
  maxLength?: number
  pattern?: string
  format?: string
  minimum?: number
  maximum?: number
}

/** The JSON Schema of the input. */
export const toInputSchema = (schema: z.ZodType): JsonSchema =>
  z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as JsonSchema

/** Valid values by field name, so that generated requests pass the first lookup. */
export type Samples = Record<string, readonly unknown[]>

/** SQL injection texts. */
export const SQL = [
  "' or '1'='1",
  "'; drop table users; --",
  '" or ""="',
  "admin'/*",
  '1; select pg_sleep(1)',
  "x' union select secret_hash from api_keys --",
  "')) or ((1=1",
  '%',
  '_',
  '\\',
]

const PROTOTYPE_NAMES = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'then', 'toJSON']

/** Numbers that JavaScript cannot represent. `toJson` writes them literally. */
const raw = (json: string) => `<raw>${json}</raw>`
const RAW_NUMBERS = ['1e999', '-1e999', '1e-999', '-0', '9007199254740993', '1e21', '12345678901234567890123', '0.1e1']

export const hostileText: fc.Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    ...SQL,
    ...PROTOTYPE_NAMES,
    '',
    ' ',
    '\0',
    'a\0b',
    '\ud800',
    'a\udc00b',
    '\u202eevil',
    '\ufeff',
    '../../etc',
  ),
  fc.constantFrom('😀'.repeat(40), 'é', 'İ', 'ß'.repeat(101), '\r\nX-Injected: 1', '{{7*7}}', 'null', 'NaN'),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.string({ unit: 'grapheme', maxLength: 60 }),
  fc.nat({ max: 3000 }).map((chars) => 'x'.repeat(chars)),
)

const hostileNumber: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom(...RAW_NUMBERS).map(raw),
  fc.constantFrom(
    0,
    -1,
    1,
    0.5,
    2 ** 31,
    2 ** 31 - 1,
    -(2 ** 31) - 1,
    2 ** 53,
    Number.MAX_VALUE,
    Number.MIN_VALUE,
    1e9,
  ),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
)

/** Any JSON value. */
export const hostileValue: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 4, arbitrary: hostileText },
  { weight: 3, arbitrary: hostileNumber },
  { weight: 2, arbitrary: fc.constantFrom(null, true, false, [], {}, [[]], [null], { length: 5 }, { $ne: null }) },
  { weight: 1, arbitrary: fc.jsonValue({ maxDepth: 3 }) },
  { weight: 1, arbitrary: fc.constantFrom(...PROTOTYPE_NAMES).map((name) => withOwn({}, name, { isAdmin: true })) },
)

/** Sets an own property, even where assignment would set the prototype. */
function withOwn(object: object, name: string, value: unknown): object {
  const copy = { ...object }
  Object.defineProperty(copy, name, { value, enumerable: true, configurable: true, writable: true })
  return copy
}

/** Serialises a generated value. */
export const toJson = (value: unknown): string =>
  (JSON.stringify(value) ?? 'null').replaceAll(/"<raw>(.*?)<\/raw>"/g, '$1')

/** Generates values for a schema: mostly valid, often nearly valid, sometimes invalid. */
export function valuesOf(schema: z.ZodType, samples: Samples): fc.Arbitrary<unknown> {
  const root = toInputSchema(schema)
  return fc.oneof(
    { weight: 3, arbitrary: build(root, root, samples, 0) },
    { weight: 5, arbitrary: build(root, root, samples, 1) },
    { weight: 1, arbitrary: hostileValue },
  )
}

/** Generates valid bodies in which up to three fields are replaced by valid or nearly valid values. */
export function variationsOf(schema: z.ZodType, samples: Samples, bodies: readonly object[]): fc.Arbitrary<unknown> {
  const root = toInputSchema(schema)
  const { properties = {} } = root.$ref === undefined ? root : definition(root.$ref, root)
  const names = Object.keys(properties)
  const members = fc.subarray(names, { maxLength: Math.min(3, names.length) }).chain((some) => {
    const chosen = some.map((name) => [name, build(properties[name] ?? {}, root, samples, 1, name)])
    return fc.record(Object.fromEntries(chosen) as Record<string, fc.Arbitrary<unknown>>)
  })
  return fc.tuple(fc.constantFrom(...bodies), members).map(([body, changed]) => ({ ...body, ...changed }))
}

/** @param faults how often, out of 10, a value is replaced by a value that violates the schema */
function build(
  schema: JsonSchema,
  root: JsonSchema,
  samples: Samples,
  faults: number,
  name = '',
): fc.Arbitrary<unknown> {
  const good = (): fc.Arbitrary<unknown> => {
    const known = samples[name]
    const made = matching(schema, root, samples, faults, name)
    return known && schema.type !== 'array' ? fc.oneof(fc.constantFrom(...known), made) : made
  }
  if (faults === 0 || schema === root) return good()
  return fc.oneof({ weight: 10 - faults, arbitrary: good() }, { weight: faults, arbitrary: hostileValue })
}

function matching(
  schema: JsonSchema,
  root: JsonSchema,
  samples: Samples,
  faults: number,
  name: string,
): fc.Arbitrary<unknown> {
  const inside = (one: JsonSchema, as = name) => build(one, root, samples, faults, as)
  const either = schema.anyOf ?? schema.oneOf
  if (schema.$ref !== undefined) return inside(definition(schema.$ref, root))
  if (either) return fc.oneof(...either.map((one) => inside(one)))
  if (schema.allOf?.[0] && schema.type === undefined) return inside(schema.allOf[0])
  if ('const' in schema) return fc.constant(schema.const)
  if (schema.enum) return fc.constantFrom(...schema.enum)
  const types = [schema.type ?? []].flat()
  if (types.length > 1) return fc.oneof(...types.map((type) => inside({ ...schema, type })))
  switch (types[0]) {
    case 'object':
      return objects(schema, faults, inside)
    case 'array': {
      const { minItems = 0, maxItems = 6 } = schema
      const size = { minLength: minItems, maxLength: Math.max(minItems, Math.min(maxItems, 6)) }
      return fc.array(schema.items ? inside(schema.items) : hostileValue, size)
    }
    case 'string':
      return strings(schema)
    case 'integer':
      return fc.integer({ min: schema.minimum ?? -(2 ** 31), max: schema.maximum ?? 2 ** 31 })
    case 'number':
      return fc.double({ min: schema.minimum ?? -1e6, max: schema.maximum ?? 1e6, noNaN: true })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    default:
      return hostileValue
  }
}

export function definition(ref: string, root: JsonSchema): JsonSchema {
  if (ref === '#') return root
  const found = root.$defs?.[ref.replace('#/$defs/', '')]
  if (!found) throw new Error(`the schema refers to ${ref}, which it does not define`)
  return found
}

function objects(
  { properties = {}, required = [] }: JsonSchema,
  faults: number,
  inside: (schema: JsonSchema, name: string) => fc.Arbitrary<unknown>,
): fc.Arbitrary<unknown> {
  // Read-only fields are always rejected unless they equal the stored value. So they would hide other faults.
  const settable = Object.entries(properties).filter(([, { readOnly }]) => readOnly !== true)
  const members = Object.fromEntries(settable.map(([name, one]) => [name, inside(one, name)]))
  const record: fc.Arbitrary<object> = fc.record(members, { requiredKeys: required })
  if (faults === 0) return record
  const lacking = fc.record(members, { requiredKeys: [] })
  const extra = fc
    .tuple(record, fc.oneof(fc.constantFrom(...PROTOTYPE_NAMES, '$where', 'isAdmin'), hostileText), hostileValue)
    .map(([object, name, value]) => withOwn(object, name, value))
  return fc.oneof({ weight: 6, arbitrary: record }, { weight: 2, arbitrary: lacking }, { weight: 2, arbitrary: extra })
}

function strings({ pattern, format, minLength = 0, maxLength = 200 }: JsonSchema): fc.Arbitrary<string> {
  if (format === 'email') return fc.emailAddress()
  if (format === 'date-time') return fc.date({ noInvalidDate: true }).map((date) => date.toISOString())
  if (pattern !== undefined) return fc.stringMatching(new RegExp(pattern))
  const size = { minLength, maxLength: Math.min(maxLength, 60) }
  return fc.oneof(
    fc.string(size),
    fc.string({ ...size, unit: 'grapheme' }),
    fc.constantFrom(...SQL.filter((text) => text.length >= minLength)),
    fc.constantFrom('x'.repeat(maxLength), 'x'.repeat(maxLength + 1)),
  )
}

/** Bodies that are not JSON, or JSON that matches no schema. */
export const brokenBodies: fc.Arbitrary<string | Buffer> = fc.oneof(
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes)),
  fc.string({ maxLength: 100 }),
  fc.json(),
  fc.json().map((text) => text.slice(0, -1)),
  fc.integer({ min: 1, max: 5000 }).map((depth) => '['.repeat(depth) + ']'.repeat(depth)),
  fc.integer({ min: 1, max: 500 }).map((depth) => `${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`),
  fc.constantFrom(
    '',
    ' ',
    'null',
    '"',
    '{',
    '{"name":"a","name":"b"}',
    '\ufeff{}',
    '{"__proto__":{"name":"x"}}',
    '1e999',
  ),
  fc.integer({ min: 60_000, max: 80_000 }).map((bytes) => `{"name":"${'x'.repeat(bytes)}"}`),
  fc.integer({ min: 1, max: 9000 }).map((count) => `{"users":[${'1,'.repeat(count)}1]}`),
)

/** Percent-escapes every byte, so that clients and proxies do not interpret it. */
const escaped = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('')

/** Together with the longest path segment, this is below the limit of request headers, HEADER_BYTES. */
const QUERY_CHARS = 6000

/** Generates escaped query strings for a schema: valid, hostile, unknown or repeated parameters, and broken escapes. */
export function queriesOf(schema: z.ZodType, samples: Samples): fc.Arbitrary<string> {
  const root = toInputSchema(schema)
  const names = Object.keys(root.properties ?? {})
  const parameter = fc.constantFrom(...names).chain((name) => {
    const property = root.properties?.[name] ?? {}
    const value = fc.oneof(
      {
        weight: 3,
        arbitrary:
          property.type === undefined ? fc.integer({ min: -1, max: 120 }) : build(property, root, samples, 0, name),
      },
      { weight: 2, arbitrary: hostileText },
      {
        weight: 1,
        arbitrary: fc.oneof(fc.constantFrom(...RAW_NUMBERS, 'Infinity', '0x10', '1_000', ' 1 '), fc.double()),
      },
    )
    return value.map((one) => `${name}=${escaped(String(one))}`)
  })
  const stranger = fc.tuple(hostileText, hostileText).map(([name, value]) => `${escaped(name)}=${escaped(value)}`)
  const broken = fc.constantFrom(
    '%',
    '%zz=%zz',
    'page=%ff',
    'search=%00',
    '&&&',
    '=',
    'page',
    'page[]=1',
    'page=1;limit=2',
  )
  return fc
    .array(
      fc.oneof(
        { weight: 6, arbitrary: parameter },
        { weight: 1, arbitrary: stranger },
        { weight: 1, arbitrary: broken },
      ),
      { maxLength: 4 },
    )
    .map((parts) => parts.join('&'))
    .filter((query) => query.length <= QUERY_CHARS)
}

/** Path segments that are not empty, and not a dot segment that a client would resolve. */
export const hostileSegments: fc.Arbitrary<string> = fc.oneof(
  { weight: 5, arbitrary: hostileText.filter((text) => text !== '').map(escaped) },
  { weight: 2, arbitrary: fc.stringMatching(/^[0-9a-fA-F]{22,26}$/) },
  {
    weight: 1,
    arbitrary: fc.constantFrom('%ff', '%', '%2', '%00', '%2e%2e', '..%2f..', 'a%2Fb', '%C0%AE', '*', '~', '0'),
  },
)

import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { expect } from 'vitest'
import { z } from 'zod'
import { endpointOf, type Route } from '../../../src/daemon/platform/http/route.ts'
import type { Answer, LogLine } from '../../harness.ts'

const ajv = new Ajv2020({ strict: false, allErrors: true })
formats.default(ajv)
const compiled = new WeakMap<z.ZodType, ValidateFunction>()

/** Fails if the response is not documented for its route, or if the request logged an internal error. */
export function expectDocumented(route: Route, answer: Answer, log: LogLine[]): void {
  const bugs = log.splice(0).filter(({ level }) => level === 'error')
  const logged = bugs.map(
    ({ facts, message }) => `${message}: ${facts.error instanceof Error ? facts.error.stack : ''}`,
  )
  const problems = [...undocumented(route, answer), ...logged]
  const shown = `${endpointOf(route)} answered ${answer.status} ${answer.text.slice(0, 1000)}`
  expect(problems, [shown, ...problems].join('\n')).toEqual([])
}

function undocumented(route: Route, { status, headers, text }: Answer): string[] {
  const documented = route.responses[status]
  if (!documented) return [`the status ${status} is not documented`]
  const [type = ''] = String(headers['content-type']).split(';')
  if (headers['x-request-id'] === undefined) return ['the answer has no X-Request-Id']
  if (type === 'text/event-stream') return framesOf(text).flatMap((frame) => faults(documented.stream, frame))
  if (documented.text === type) return []
  if (type !== 'application/json' || (documented.text && !documented.schema))
    return [`the Content-Type ${type} is not documented`]
  return faults(documented.schema, JSON.parse(text))
}

function faults(schema: z.ZodType | undefined, value: unknown): string[] {
  if (!schema) return []
  const validate = validator(schema)
  if (validate(value)) return []
  return (validate.errors ?? []).map(({ instancePath, message, params }) =>
    [instancePath, message, JSON.stringify(params)].join(' '),
  )
}

function validator(schema: z.ZodType): ValidateFunction {
  let validate = compiled.get(schema)
  if (!validate) {
    const json = z.toJSONSchema(schema, {
      io: 'output',
      unrepresentable: 'any',
      // JSON Schema calls it $id, and the same schema would be defined twice.
      override: ({ jsonSchema }) => void delete jsonSchema.id,
    })
    validate = ajv.compile(json)
    compiled.set(schema, validate)
  }
  return validate
}

function framesOf(text: string): unknown[] {
  const events = text.split('\n\n').filter((event) => event !== '' && event !== 'data: [DONE]')
  return events.map((event) => JSON.parse(event.replace(/^data: /, '')))
}

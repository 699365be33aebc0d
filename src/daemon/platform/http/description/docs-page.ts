// The page of GET /docs. It is plain HTML without scripts, so its Content-Security-Policy can forbid everything else.
import { hash } from 'node:crypto'

const STYLE = `
:root { color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.5 }
body { margin: 0 auto; max-width: 64rem; padding: 1rem }
code, pre { font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere }
pre { border: 1px solid #8886; border-radius: .3rem; max-height: 24rem; overflow: auto; padding: .5rem; white-space: pre-wrap }
details { border-left: 3px solid #8884; margin: .3rem 0; padding-left: .6rem }
summary { cursor: pointer; overflow-wrap: anywhere }
nav { columns: 14rem; margin: 1rem 0 }
nav a { display: block }
table { border-collapse: collapse; width: 100% }
th, td { border-top: 1px solid #8884; padding: .2rem .5rem .2rem 0; text-align: left; vertical-align: top }
ul { padding-left: 1.2rem }
.method { display: inline-block; font-weight: 700; min-width: 4.5rem }
.type { opacity: .75 }
`

/** Headers of the page. The headers forbid scripts, external resources, framing and referrers. */
export const DOCS_HEADERS: Record<string, string> = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': [
    "default-src 'none'",
    `style-src 'sha256-${hash('sha256', STYLE, 'base64')}'`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

type Schema = {
  $ref?: string
  type?: string | string[]
  const?: unknown
  enum?: unknown[]
  description?: string
  properties?: Record<string, Schema>
  required?: string[]
  items?: Schema
  anyOf?: Schema[]
  oneOf?: Schema[]
  allOf?: Schema[]
  default?: unknown
}
type Content = Record<string, { schema?: Schema; example?: unknown }>
type Operation = {
  operationId: string
  summary: string
  description: string
  tags: string[]
  parameters?: { name: string; in: string; required?: boolean; description?: string; schema?: Schema }[]
  requestBody?: { content: Content }
  responses: Record<string, { description: string; content?: Content }>
}
type Document = {
  info: { title: string; version: string; description: string }
  tags: { name: string; description: string }[]
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema> }
}

/** Returns the HTML page that shows this OpenAPI document. */
export function docsPage(document: object): string {
  const { info, tags, paths, components } = document as Document
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })),
  )
  const sections = tags.map(({ name, description }) => {
    const own = operations.filter((operation) => operation.tags[0] === name)
    return `<section><h2 id="${anchor(name)}">${escapeHtml(name)}</h2><p>${prose(description)}</p>${own.map(operationHtml).join('')}</section>`
  })
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) =>
      `<details id="schema-${anchor(name)}"><summary><code>${escapeHtml(name)}</code></summary>${schemaHtml(schema)}</details>`,
  )
  return `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(info.title)} API</title><style>${STYLE}</style></head>
<body><main>
<h1>${escapeHtml(info.title)} API ${escapeHtml(info.version)}</h1>
<p>${prose(info.description)}</p>
<p>The same description for programs: <a href="/openapi.json">/openapi.json</a>.</p>
<nav>${tags.map(({ name }) => `<a href="#${anchor(name)}">${escapeHtml(name)}</a>`).join('')}<a href="#schemas">Schemas</a></nav>
${sections.join('\n')}
<section><h2 id="schemas">Schemas</h2>${schemas.join('\n')}</section>
</main></body>
</html>
`
}

function operationHtml(operation: Operation & { path: string; method: string }): string {
  const { operationId, method, path, summary, description, parameters = [], requestBody, responses } = operation
  const rows = parameters.map(
    (one) =>
      `<tr><td><code>${escapeHtml(one.name)}</code></td><td>${escapeHtml(one.in)}${one.required ? ', required' : ''}</td><td>${one.schema ? typeHtml(one.schema) : ''}</td><td>${prose(one.description ?? '')}</td></tr>`,
  )
  return `<details id="${anchor(operationId)}">
<summary><span class="method">${method}</span> <code>${escapeHtml(path)}</code> ${escapeHtml(summary)}</summary>
${description
  .split('\n\n')
  .map((text) => `<p>${prose(text)}</p>`)
  .join('')}
${rows.length === 0 ? '' : `<h4>Parameters</h4><table>${rows.join('')}</table>`}
${requestBody ? `<h4>Body</h4>${contentHtml(requestBody.content)}` : ''}
<h4>Responses</h4>
${Object.entries(responses)
  .map(
    ([status, { description: meaning, content }]) =>
      `<details><summary><strong>${escapeHtml(status)}</strong> ${prose(meaning)}</summary>${content ? contentHtml(content) : ''}</details>`,
  )
  .join('')}
</details>`
}

const contentHtml = (content: Content): string =>
  Object.entries(content)
    .map(
      ([type, { schema, example }]) =>
        `<p><code>${escapeHtml(type)}</code>${schema ? ` ${typeHtml(schema)}` : ''}</p>${schema ? schemaHtml(schema) : ''}${example === undefined ? '' : `<p>Example:</p><pre>${escapeHtml(JSON.stringify(example, null, 2))}</pre>`}`,
    )
    .join('')

/** The members of a schema as a list. Named schemas are linked, so recursive schemas end. */
function schemaHtml(schema: Schema): string {
  const alternatives = schema.anyOf ?? schema.oneOf ?? schema.allOf ?? []
  const members = Object.entries(schema.properties ?? {}).map(([name, member]) => {
    const isRequired = schema.required?.includes(name) === true
    return `<li><code>${escapeHtml(name)}</code> ${typeHtml(member)}${isRequired ? ', required' : ''}${member.description ? `: ${prose(member.description)}` : ''}${schemaHtml(member)}</li>`
  })
  return [
    members.length > 0 ? `<ul>${members.join('')}</ul>` : '',
    ...alternatives.map(schemaHtml),
    schema.items ? schemaHtml(schema.items) : '',
  ].join('')
}

function typeHtml(schema: Schema): string {
  if (schema.$ref) {
    const name = schema.$ref.slice(schema.$ref.lastIndexOf('/') + 1)
    return `<a href="#schema-${anchor(name)}">${escapeHtml(name)}</a>`
  }
  if (schema.const !== undefined) return `<code>${escapeHtml(JSON.stringify(schema.const))}</code>`
  if (schema.enum) return schema.enum.map((value) => `<code>${escapeHtml(JSON.stringify(value))}</code>`).join(' | ')
  const alternatives = schema.anyOf ?? schema.oneOf
  if (alternatives) return [...new Set(alternatives.map(typeHtml))].join(' | ')
  if (schema.type === 'array')
    return `<span class="type">list of</span> ${schema.items ? typeHtml(schema.items) : 'any'}`
  const { type = 'any' } = schema
  return `<span class="type">${escapeHtml(Array.isArray(type) ? type.join(' | ') : type)}</span>`
}

const anchor = (text: string): string => text.replace(/[^A-Za-z0-9]+/g, '-')

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character] as string)

/** Text with code between backticks. */
const prose = (text: string): string =>
  text
    .split('`')
    .map((part, at) => (at % 2 === 1 ? `<code>${escapeHtml(part)}</code>` : escapeHtml(part)))
    .join('')

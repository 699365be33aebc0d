// Custom tools: the model writes any text instead of JSON. In the neutral form, they are functions with one text, because
// not every API has them.
import { parseObject } from '../platform/text/json.ts'
import type { GenerationOptions, Tool, ToolCall } from './conversation.ts'
import { ProviderError } from './provider.ts'

/** The option of an API that has custom tools, for `Provider.supports`. */
export const CUSTOM_TOOLS = 'custom_tools'
/** The names under which answers report that a grammar is not enforced, on each surface. */
export const GRAMMARS: ReadonlySet<string> = new Set(['tools.custom.format', 'tools[].format'])

/** The parameters of a custom tool in its neutral form. */
export const CUSTOM_PARAMETERS = {
  type: 'object',
  properties: { input: { type: 'string' } },
  required: ['input'],
  additionalProperties: false,
}

/** Converts the input of a call. */
export const toCustomArguments = (input: string): string => JSON.stringify({ input })

/**
 * Returns the input of a call to a custom tool. If the model did not follow the parameters, the input is the text that
 * it wrote.
 */
export function toCustomInput({ arguments: text }: Pick<ToolCall, 'arguments'>): string {
  const input = parseObject(text)?.input
  return typeof input === 'string' ? input : text
}

/** Joins texts to one description. Undefined if all of them are empty. */
export function joined(...texts: (string | undefined)[]): string | undefined {
  const filled = texts.filter((text) => text !== undefined && text !== '')
  return filled.length === 0 ? undefined : filled.join('\n\n')
}

/** Converts custom tools to functions. Functions have no grammar, so the description asks for it. */
export function withFunctions(options: GenerationOptions): GenerationOptions {
  if (!options.tools?.some(({ custom }) => custom)) return options
  return { ...options, tools: options.tools.map(toFunction) }
}

function toFunction(tool: Tool): Tool {
  const { custom, ...others } = tool
  if (!custom) return tool
  const { format } = custom
  if (format?.type !== 'grammar') return others
  const { syntax, definition } = grammarOf(format)
  const asked = `Write \`input\` in exactly this form (${syntax}):\n\n${definition}`
  return { ...others, description: joined(others.description, asked) }
}

type Format = NonNullable<NonNullable<Tool['custom']>['format']>
type Grammar = { syntax: string; definition: string }

/** The grammar of a format. In chat completions it is in an object of its own. */
export function grammarOf({ grammar, ...own }: Format): Grammar {
  const { syntax, definition } = (grammar ?? own) as Partial<Grammar>
  if (syntax === undefined || definition === undefined) {
    throw new ProviderError('bad_request', 'The format of a custom tool has no grammar.')
  }
  return { syntax, definition }
}

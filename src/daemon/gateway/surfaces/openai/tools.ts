// The tools of a request: functions, custom tools, and the older form of functions.
import { invalidField } from '../../../../shared/errors.ts'
import type { NamedTool, OpenAiChatRequest } from '../../../../shared/wire/openai.ts'
import type { Tool, ToolChoice } from '../../../models/conversation.ts'
import { CUSTOM_PARAMETERS } from '../../../models/custom-tools.ts'
import type { Marks } from './native.ts'

/** How an answer shows calls, if not as calls of functions. */
export type CallStyle = {
  /** The request has `functions`, so the answer has `function_call`. */
  isOld: boolean
  /** The names of custom tools. */
  custom: ReadonlySet<string>
}

export type Tools = {
  offered: Tool[] | undefined
  choice: ToolChoice | undefined
  /** The names of the tools that the model may call. Undefined: all. */
  allowed: readonly string[] | undefined
  /** Undefined for a request whose tools are functions in the usual form, or that has none. */
  style: CallStyle | undefined
}

type Request = Pick<OpenAiChatRequest, 'tools' | 'tool_choice' | 'functions' | 'function_call'>
type AskedTool = NonNullable<Request['tools']>[number]

const NO_TOOLS: Tools = { offered: undefined, choice: undefined, allowed: undefined, style: undefined }

/** @throws VALIDATION_ERROR if a choice names an unknown tool, or the request has tools in both forms */
export function toTools(request: Request, marks: Pick<Marks, 'addUnknown' | 'add'>): Tools {
  const { tools, tool_choice: choice, functions, function_call: oldChoice } = request
  if (functions !== undefined || oldChoice !== undefined) return toOldTools(request, marks)
  if (tools === undefined && choice === undefined) return NO_TOOLS
  const custom = new Set<string>()
  const offered = tools?.map((tool) => {
    if (tool.type === 'custom') custom.add(tool.custom.name)
    return toTool(tool, marks)
  })
  const style = custom.size > 0 ? { isOld: false, custom } : undefined
  if (typeof choice !== 'object') return { offered, choice, allowed: undefined, style }
  if (choice.type !== 'allowed_tools') return { offered, choice: { name: nameOf(choice) }, allowed: undefined, style }
  const { mode, tools: named } = choice.allowed_tools
  const known = new Set(offered?.map(({ name }) => name))
  const allowed = [...new Set(named.map(nameOf))]
  const unknown = allowed.find((name) => !known.has(name))
  if (unknown !== undefined) throw invalidField('tool_choice', `No tool has the name "${unknown.slice(0, 100)}".`)
  return { offered, choice: mode, allowed, style }
}

const nameOf = (tool: NamedTool): string => (tool.type === 'function' ? tool.function.name : tool.custom.name)

const TOOL = new Set(['type', 'function', 'custom'])
const FUNCTION = new Set(['name', 'description', 'parameters', 'strict'])
const CUSTOM = new Set(['name', 'description', 'format'])

function toTool(tool: AskedTool, marks: Pick<Marks, 'addUnknown' | 'add'>): Tool {
  marks.addUnknown('tools', tool, TOOL)
  if (tool.type === 'function') {
    marks.addUnknown('tools.function', tool.function, FUNCTION)
    const { name, description, parameters, strict } = tool.function
    return { name, description, parameters, strict }
  }
  marks.addUnknown('tools.custom', tool.custom, CUSTOM)
  const { name, description, format } = tool.custom
  // Some providers do not enforce the grammar: it is then only part of the description.
  if (format?.type === 'grammar') marks.add('tools.custom.format')
  return { name, description, parameters: CUSTOM_PARAMETERS, custom: { format } }
}

function toOldTools(
  { tools, tool_choice: choice, functions, function_call: oldChoice }: Request,
  marks: Pick<Marks, 'addUnknown'>,
): Tools {
  if (tools !== undefined || choice !== undefined) {
    throw invalidField('functions', 'Send either `functions` and `function_call`, or `tools` and `tool_choice`.')
  }
  return {
    offered: functions?.map((one) => {
      marks.addUnknown('functions', one, FUNCTION)
      const { name, description, parameters } = one
      return { name, description, parameters }
    }),
    choice: oldChoice,
    allowed: undefined,
    style: { isOld: true, custom: new Set() },
  }
}

// Screens the definitions of tools. Clients take them from servers of others, so they may contain attacks.
import { hash } from 'node:crypto'
import type { LRUCache } from 'lru-cache'
import type { GenerationOptions, Tool } from '../../../models/conversation.ts'
import type { Pacer } from '../../../platform/pacing.ts'
import type { AppliedShield } from '../../prompt-shield/resolve.ts'
import { type ShieldIncident, shieldIncident } from '../../prompt-shield/scanner.ts'
import { isWorse, severityOf, strictestVerdict, thresholdsOf } from '../shield/verdict.ts'
import { slotsOf } from './text-slots.ts'
import { type Poison, poisonIn } from './tool-poisoning.ts'

/** The description of a tool whose definition is withheld. */
export const WITHHELD_DEFINITION =
  '[The gateway withheld the description of this tool because it contained instructions to the model.]'

/** The poison in definitions, by their hash. Each request of a conversation repeats the definitions. */
export type KnownDefinitions = Pick<LRUCache<string, { poison: Poison | undefined }>, 'get' | 'set'>

export type JudgedTools = {
  options: GenerationOptions
  withheld: number
  /** The worst finding, for the receipt of this request. */
  worst: ShieldIncident | undefined
  found: { incident: ShieldIncident; key: string }[]
}

/** Definitions are scanned in windows of this length, which overlap. */
const WINDOW_CHARS = 4_096
const OVERLAP_CHARS = 1_024
/** Keys of JSON Schema whose values only inform a reader. */
const ANNOTATIONS = new Set([
  'description',
  'title',
  '$comment',
  'examples',
  'example',
  'default',
  'markdownDescription',
])

/**
 * Replaces the texts of each tool whose definition contains an attack. The tool itself stays, because earlier turns may
 * have called it, and providers reject a history with unknown tools.
 */
export async function judgeTools(
  options: GenerationOptions,
  shield: AppliedShield,
  keyId: string,
  { known, pacer }: { known: KnownDefinitions; pacer: Pick<Pacer, 'turn'> },
): Promise<JudgedTools | undefined> {
  if (!shield.document.scanRetrieved || !options.tools) return undefined
  const tools: (Tool | undefined)[] = []
  const found: JudgedTools['found'] = []
  let worst: ReturnType<typeof toScan> | undefined
  for (const tool of options.tools) {
    const poison = await poisonOf(tool, known, pacer)
    const scan = poison && toScan(poison, shield)
    const incident = shieldIncident(scan, shield, 'input')
    if (!scan || !incident) {
      tools.push(tool)
      continue
    }
    if (!worst || isWorse(scan, worst)) worst = scan
    found.push({ incident, key: keyOf(tool, incident, keyId) })
    const isWithheld = incident.action === 'block' && incident.enforced
    tools.push(isWithheld ? await withoutTexts(tool, known, pacer) : tool)
  }
  if (found.length === 0) return undefined
  const withheld = found.filter(({ incident }) => incident.action === 'block' && incident.enforced).length
  return {
    options:
      withheld === 0
        ? options
        : withTools(
            options,
            tools.filter((tool) => tool !== undefined),
          ),
    withheld,
    worst: shieldIncident(worst, shield, 'input'),
    found,
  }
}

function toScan(
  { category, confidence }: Poison,
  { document: { sensitivity, thresholds, categories } }: AppliedShield,
) {
  const riskScore = Math.round(100 * confidence)
  const verdict = strictestVerdict(riskScore, [category], thresholds ?? thresholdsOf(sensitivity), categories)
  const severity = severityOf(riskScore)
  return { riskScore, confidence, severity, verdict: verdict.verdict, attackCategory: verdict.category }
}

async function poisonOf(tool: Tool, known: KnownDefinitions, pacer: Pick<Pacer, 'turn'>): Promise<Poison | undefined> {
  const texts = slotsOf({ system: '', messages: [], options: { tools: [tool] } }).flatMap(({ text, format }) =>
    format === 'json' ? stringsIn(JSON.parse(text)) : [text],
  )
  const text = texts.join('\n')
  const key = hash('sha256', text, 'base64')
  const before = known.get(key)
  if (before) return before.poison
  let poison: Poison | undefined
  for (let from = 0; from === 0 || from + OVERLAP_CHARS < text.length; from += WINDOW_CHARS - OVERLAP_CHARS) {
    const here = poisonIn(text.slice(from, from + WINDOW_CHARS))
    if (here && here.confidence > (poison?.confidence ?? 0)) poison = here
    const turn = pacer.turn()
    if (turn) await turn
  }
  known.set(key, { poison })
  return poison
}

/** Returns the names and texts in a JSON value. */
function stringsIn(value: unknown): string[] {
  if (typeof value === 'string') return [value]
  if (Array.isArray(value)) return value.flatMap(stringsIn)
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value).flatMap(([name, member]) => [name, ...stringsIn(member)])
}

/**
 * Returns the tool without texts for the model. If its names alone contain an attack, its parameters are removed too. A
 * tool of a provider is left out then, because its definition has a fixed form.
 */
async function withoutTexts(
  tool: Tool,
  known: KnownDefinitions,
  pacer: Pick<Pacer, 'turn'>,
): Promise<Tool | undefined> {
  const { extra: _, ...others } = tool
  const plain: Tool = {
    ...others,
    description: WITHHELD_DEFINITION,
    ...(tool.parameters && { parameters: withoutAnnotations(tool.parameters) as object }),
    ...(tool.custom && { custom: {} }),
    ...(tool.native && {
      native: {
        ...tool.native,
        definition: withoutAnnotations(tool.native.definition) as typeof tool.native.definition,
      },
    }),
  }
  if (!(await poisonOf({ ...plain, description: undefined }, known, pacer))) return plain
  return tool.native ? undefined : { ...plain, parameters: { type: 'object' } }
}

/** Removes the annotations of a schema. A property may have the name of an annotation; its schema is an object. */
function withoutAnnotations(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutAnnotations)
  if (typeof value !== 'object' || value === null) return value
  const members = Object.entries(value).filter(
    ([name, member]) => !(ANNOTATIONS.has(name) && isAnnotation(name, member)),
  )
  return Object.fromEntries(members.map(([name, member]) => [name, withoutAnnotations(member)]))
}

const isAnnotation = (name: string, value: unknown): boolean =>
  typeof value !== 'object' || value === null || Array.isArray(value) || name === 'default' || name === 'example'

/** A tool that was left out cannot be chosen. */
function withTools(options: GenerationOptions, tools: readonly Tool[]): GenerationOptions {
  const names = new Set(tools.map(({ name }) => name))
  const { toolChoice, allowedTools } = options
  const isGone = typeof toolChoice === 'object' && !names.has(toolChoice.name)
  const isEmpty = tools.length === 0
  return {
    ...options,
    tools: isEmpty ? undefined : tools,
    toolChoice: isEmpty ? undefined : isGone ? 'auto' : toolChoice,
    ...(allowedTools && { allowedTools: isEmpty ? undefined : allowedTools.filter((name) => names.has(name)) }),
  }
}

const keyOf = (tool: Tool, { action, enforced }: ShieldIncident, keyId: string): string =>
  hash('sha256', JSON.stringify(['tool', keyId, tool, action, enforced]), 'base64')

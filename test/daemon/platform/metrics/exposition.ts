// A strict reader of the Prometheus text format, version 0.0.4, that shares no code with the library that writes it.
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'

export type Sample = { name: string; labels: Record<string, string>; value: number }
export type MetricFamily = { name: string; type: string; help: string; samples: Sample[] }

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const LABEL_NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/
const SUFFIXES: Record<string, readonly string[]> = {
  counter: [''],
  gauge: [''],
  histogram: ['_bucket', '_sum', '_count'],
  summary: ['', '_sum', '_count'],
}

/** Reads a scrape. @throws Error for anything that the format does not allow */
export function readExposition(text: string): Map<string, MetricFamily> {
  if (!text.endsWith('\n')) throw new Error('the last line has no line feed')
  const families = new Map<string, MetricFamily>()
  const seen = new Set<string>()
  let current: MetricFamily | undefined
  for (const line of text.slice(0, -1).split('\n')) {
    if (line === '') continue
    const [, kind, name = '', rest = ''] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? []
    if (kind === 'HELP') {
      if (!NAME.test(name) || rest === '') throw new Error(`not a HELP line: ${line}`)
      if (families.has(name)) throw new Error(`two families are named ${name}`)
      current = { name, help: rest, type: '', samples: [] }
      families.set(name, current)
    } else if (kind === 'TYPE') {
      if (current?.name !== name || current.type !== '' || !(rest in SUFFIXES)) throw new Error(`misplaced: ${line}`)
      current.type = rest
    } else {
      const sample = readSample(line)
      const allowed = current && SUFFIXES[current.type]?.map((suffix) => current?.name + suffix)
      if (!current || !allowed?.includes(sample.name)) throw new Error(`a sample outside of its family: ${line}`)
      const series = `${sample.name}${JSON.stringify(Object.entries(sample.labels).sort())}`
      if (seen.has(series)) throw new Error(`a series appears twice: ${line}`)
      seen.add(series)
      current.samples.push(sample)
    }
  }
  for (const family of families.values()) checkFamily(family)
  return families
}

function readSample(line: string): Sample {
  const [, name = '', , inner = '', text = ''] =
    /^([^\s{]+)(\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\})? (\S+)$/.exec(line) ?? []
  if (!NAME.test(name)) throw new Error(`not a sample: ${line}`)
  const labels: Record<string, string> = {}
  let rest = inner
  while (rest !== '') {
    const [all = '', label = '', value = ''] = /^([^=,]+)="((?:[^"\\\n]|\\[\\"n])*)"(?:,(?=.)|$)/.exec(rest) ?? []
    if (all === '' || !LABEL_NAME.test(label) || label in labels) throw new Error(`not a label: ${line}`)
    labels[label] = value.replace(/\\(.)/g, (_, escaped) => (escaped === 'n' ? '\n' : escaped))
    rest = rest.slice(all.length)
  }
  const value = { '+Inf': Infinity, '-Inf': -Infinity, NaN: NaN }[text] ?? Number(text)
  if (Number.isNaN(value) && text !== 'NaN') throw new Error(`not a number: ${line}`)
  return { name, labels, value }
}

function checkFamily({ name, type, samples }: MetricFamily): void {
  if (type === '') throw new Error(`${name} has no type`)
  if (type === 'counter' && samples.some(({ value }) => !(value >= 0))) throw new Error(`${name} is negative`)
  if (type !== 'histogram') return
  const series = new Map<string, { buckets: [number, number][]; count?: number; sum?: number }>()
  for (const sample of samples) {
    const { le, ...labels } = sample.labels
    const key = JSON.stringify(Object.entries(labels).sort())
    const one = series.get(key) ?? { buckets: [] }
    series.set(key, one)
    if (sample.name.endsWith('_bucket')) one.buckets.push([le === '+Inf' ? Infinity : Number(le), sample.value])
    else one[sample.name.endsWith('_sum') ? 'sum' : 'count'] = sample.value
  }
  for (const [key, { buckets, count, sum }] of series) {
    const isOrdered = buckets.every(
      ([bound, value], at) => at === 0 || (bound > (buckets[at - 1]?.[0] ?? 0) && value >= (buckets[at - 1]?.[1] ?? 0)),
    )
    const last = buckets.at(-1)
    if (!isOrdered || sum === undefined || last?.[0] !== Infinity || last[1] !== count)
      throw new Error(`${name}${key} is no valid histogram`)
  }
}

/** The sum of the samples of a series whose labels include `labels`. @throws Error if there is none */
export function valueIn(
  families: Map<string, MetricFamily>,
  name: string,
  labels: Record<string, string> = {},
): number {
  const found = [...families.values()]
    .flatMap(({ samples }) => samples)
    .filter((sample) => sample.name === name && Object.entries(labels).every(([key, is]) => sample.labels[key] === is))
  if (found.length === 0) throw new Error(`there is no ${name}${JSON.stringify(labels)}`)
  return found.reduce((sum, { value }) => sum + value, 0)
}

const PROMTOOL = '/usr/bin/promtool'

/** Runs promtool with this standard input, where it is installed. @throws its output if it rejects the input */
export function promtool(args: readonly string[], input = ''): void {
  if (!existsSync(PROMTOOL)) return
  try {
    execFileSync(PROMTOOL, args, { input, stdio: ['pipe', 'pipe', 'pipe'], encoding: 'utf8' })
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    throw new Error(`promtool ${args.join(' ')}: ${stdout}${stderr}`)
  }
}

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { startGateway } from '../../../harness.ts'
import { replyJson } from '../../../upstream.ts'
import { type MetricFamily, promtool } from './exposition.ts'
import { gatewayAfterWork, scrape } from './work.ts'

const read = (path: string) => readFileSync(new URL(`../../../../${path}`, import.meta.url), 'utf8')
const DASHBOARD = 'deploy/grafana/aigw-dashboard.json'
const RULES = 'deploy/prometheus/aigw-alerts.yml'

type Rule = { alert: string; expr: string; labels: { severity: string }; annotations: { summary: string } }
type Panel = { type: string; title: string; targets?: { expr: string }[] }

const rules: Rule[] = parse(read(RULES)).groups.flatMap(({ rules }: { rules: Rule[] }) => rules)
const dashboard: { panels: Panel[]; templating: { list: { query: unknown }[] } } = JSON.parse(read(DASHBOARD))
const panels = dashboard.panels.filter(({ type }) => type !== 'row')
/** The queries of the dashboard as Prometheus gets them. */
const queries = panels.flatMap(({ targets = [] }) =>
  targets.map(({ expr }) => expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*')),
)

/** Words of PromQL that are no series. */
const WORDS: ReadonlySet<string> = new Set(
  'sum max by le rate increase histogram_quantile and or on up job instance'.split(' '),
)

/** The series in an expression: names that are neither words of PromQL nor labels. */
function seriesIn(expr: string): string[] {
  const bare = expr
    .replace(/\{[^}]*\}/g, '')
    .replace(/\bby \([^)]*\)/g, '')
    .replace(/\[[^\]]*\]/g, '')
  return [...new Set(bare.match(/[a-zA-Z_:][\w:]*/g) ?? [])].filter((name) => !WORDS.has(name))
}

/** The labels that an expression reads, by selectors and by grouping. */
const labelsIn = (expr: string): string[] => [
  ...[...expr.matchAll(/\{([^}]*)\}/g)].flatMap(([, inner = '']) =>
    [...inner.matchAll(/(\w+)\s*(?:=~|=)/g)].map(([, label = '']) => label),
  ),
  ...[...expr.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, inner = '']) => inner.split(/,\s*/)),
]

/** Labels that Prometheus adds to each series. */
const ADDED: ReadonlySet<string> = new Set(['job', 'instance'])

/** A scrape of a daemon that has done every kind of work, including a circuit that is open. */
async function familiesAfterWork(): Promise<Map<string, MetricFamily>> {
  const { gateway } = await gatewayAfterWork()
  gateway.upstream.fallback(replyJson({ error: { message: 'down' } }, { status: 500 }))
  for (let failure = 0; failure < 5; failure++) await gateway.chat({ model: 'test/down', prompt: 'hi' })
  return (await scrape(gateway)).families
}

describe('dashboard and alert rules', () => {
  test('use only series and labels that a daemon has after work', async () => {
    const families = await familiesAfterWork()
    const samples = [...families.values()].flatMap((family) => family.samples)
    const labels = new Set([...ADDED, ...samples.flatMap((sample) => Object.keys(sample.labels))])
    const names = new Set(samples.map(({ name }) => name))
    for (const expr of [...queries, ...rules.map(({ expr }) => expr)]) {
      expect(seriesIn(expr).length + Number(expr.startsWith('up{')), expr).toBeGreaterThan(0)
      expect([expr, seriesIn(expr).filter((name) => !names.has(name))]).toEqual([expr, []])
      expect([expr, labelsIn(expr).filter((label) => !labels.has(label))]).toEqual([expr, []])
    }
    expect(JSON.stringify(dashboard.templating)).toContain('label_values(aigw_requests_running, instance)')
  })

  test('are valid for Prometheus', () => {
    expect(rules.length).toBeGreaterThan(10)
    for (const { expr, labels, annotations } of rules) {
      expect(isBalanced(expr), expr).toBe(true)
      expect(['critical', 'warning']).toContain(labels.severity)
      expect(annotations.summary).toMatch(/\.$/)
    }
    for (const expr of queries) expect(isBalanced(expr), expr).toBe(true)
    checkRules(read(RULES))
    const recorded = queries.map((expr, at) => ({ record: `query:${at}`, expr }))
    checkRules(JSON.stringify({ groups: [{ name: 'dashboard', rules: recorded }] }))
  })

  test('have unique names', () => {
    for (const names of [rules.map(({ alert }) => alert), panels.map(({ title }) => title)])
      expect(names).toEqual([...new Set(names)])
  })
})

function checkRules(text: string): void {
  const folder = mkdtempSync(join(tmpdir(), 'aigw-rules-'))
  try {
    writeFileSync(join(folder, 'rules.yml'), text)
    promtool(['check', 'rules', join(folder, 'rules.yml')])
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Whether brackets and quotes are closed in order. */
function isBalanced(expr: string): boolean {
  const open: string[] = []
  for (const sign of expr.replace(/"[^"]*"/g, '')) {
    if ('([{'.includes(sign)) open.push(sign)
    else if (')]}'.includes(sign) && open.pop() !== '([{'[')]}'.indexOf(sign)]) return false
    else if (sign === '"') return false
  }
  return open.length === 0
}

test('docs/metrics.md lists every series with its type and labels, and no other', async () => {
  const documented = [
    ...read('docs/metrics.md').matchAll(/^\| `(\w+)` \| (counter|gauge|histogram) \|([^|]*)\|/gm),
  ].map(
    ([, name, type, labels = '']) =>
      `${name} ${type} ${[...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label).sort()}`,
  )
  const gateway = await startGateway({ metrics: { tenantLabel: true } })
  const { text } = await gateway.call('GET', '/metrics')
  const exposed = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = '', type]) => `${name} ${type}`)
  expect(documented.map((row) => row.split(' ').slice(0, 2).join(' ')).sort()).toEqual(exposed.sort())
  const families = await familiesAfterWork()
  for (const row of documented) {
    const [name = '', , labels = ''] = row.split(' ')
    const given = families.get(name)?.samples[0]
    if (!given) continue
    const { le, ...own } = given.labels
    expect([name, Object.keys(own).sort()]).toEqual([
      name,
      labels.split(',').filter((label) => label !== '' && label !== 'tenant'),
    ])
  }
})

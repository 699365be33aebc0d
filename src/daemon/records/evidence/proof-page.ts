import { hash } from 'node:crypto'
import type { PublicProof } from '../../../shared/wire/evidence.ts'

const STYLE = `
:root { color-scheme: light dark; font-family: system-ui, sans-serif; line-height: 1.5 }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem }
code, pre, dd { font-family: ui-monospace, monospace; font-size: .85rem; overflow-wrap: anywhere }
pre { white-space: pre-wrap }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem }
dt { font-weight: 600 }
dd { margin: 0 }
`

/** Headers of the page. The headers forbid scripts, external resources, framing and referrers. */
export const PAGE_HEADERS: Record<string, string> = {
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

/** Returns the HTML page of a public proof. The page contains the same facts as the JSON response. */
export function proofPage({ bundle_id, layer1, layer2, layer3 }: PublicProof): string {
  const isWhole = [layer1, layer2, layer3].every(({ state }) => state !== 'failed')
  return page(
    'Evidence of a request',
    `<p>${isWhole ? 'This request is recorded, and its record is signed.' : 'The record of this request failed verification.'}</p>
<dl>${facts({ 'bundle id': bundle_id })}</dl>
<h2>1. The record: ${escapeHtml(layer1.state)}</h2>
<p>The entry in its hash chain. Its contents are not shown; <code>payload_hash</code> is their SHA-256.</p>
<dl>${facts(layer1)}</dl>
<h2>2. The commit: ${escapeHtml(layer2.state)}</h2>
<p>The Merkle tree of what was written at once, and the signature over its root.</p>
<dl>${facts({ ...layer2, path: layer2.path.join(' ') })}</dl>
<h2>3. The log: ${escapeHtml(layer3.state)}</h2>
<p>${LOG_STATES[layer3.state]}</p>
<dl>${layer3.note === null ? '' : facts({ ...layer3, path: layer3.path.join(' '), note: null })}</dl>
${layer3.note === null ? '' : `<pre>${escapeHtml(layer3.note)}</pre>`}
<p>The keys that sign are at <a href="/.well-known/aigw-keys.json">/.well-known/aigw-keys.json</a>, these facts as JSON
at <a href="/api/public/verify/${encodeURIComponent(bundle_id)}">/api/public/verify/${escapeHtml(bundle_id)}</a>.</p>`,
  )
}

const LOG_STATES: Record<PublicProof['layer3']['state'], string> = {
  anchored: 'The first signed checkpoint of the log that covers the entry.',
  pending: 'No checkpoint covers the entry yet. Checkpoints are created every hour, or after 1,000 entries.',
  failed: 'The entry does not match the checkpoints of its log.',
}

/** Returns the page that replaces a missing proof and states why the proof is missing. */
export const problemPage = (problem: string): string => page('No evidence', `<p>${escapeHtml(problem)}</p>`)

const page = (title: string, content: string): string =>
  `<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title><style>${STYLE}</style></head>
<body><main>
<h1>${escapeHtml(title)}</h1>
${content}
</main></body>
</html>
`

const facts = (named: Record<string, string | number | null | undefined>): string =>
  Object.entries(named)
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(String(value))}</dd>`)
    .join('\n')

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }

const escapeHtml = (text: string): string => text.replace(/[&<>"']/g, (character) => ENTITIES[character] as string)

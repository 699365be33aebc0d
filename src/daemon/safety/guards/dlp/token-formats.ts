import {
  ALPHANUMERIC,
  BASE64,
  type CharacterSet,
  endOf,
  HEX,
  has,
  LETTER,
  NAME,
  PARTS,
  PATH,
  SLUG,
  UPPERCASE_OR_DIGIT,
  WORD,
} from './characters.ts'
import { isMonotonous, looksRandom } from './randomness.ts'

/**
 * If the maximum length of a format is larger than this, a token must not begin inside a run of the format's own
 * characters.
 */
const LONG_FORMAT = 100

/** The maximum length of a token. It limits the search time per position. */
export const TOKEN_CHARS = 4_096

/**
 * A token format documented by its issuer: a fixed prefix, then a run of `min` to `max` characters of one set. If
 * `random`, the run must look machine-generated, because ordinary words share the prefix.
 */
type TokenFormat = {
  type: string
  prefixes: readonly string[]
  set: CharacterSet
  min: number
  max: number
  random: boolean
}

const format = (
  type: string,
  prefixes: string,
  set: CharacterSet,
  min: number,
  max = TOKEN_CHARS,
  random = false,
): TokenFormat => ({ type, prefixes: prefixes.split(' '), set, min, max, random })

/** Prefixes from the issuers' documentation. If several prefixes match, the longest match is used. */
const FORMATS: readonly TokenFormat[] = [
  format('aws-access-key', 'AKIA ASIA ABIA ACCA AGPA AIDA AROA AIPA ANPA ANVA', UPPERCASE_OR_DIGIT, 16, 16),
  format('aws-access-key', 'A3T', UPPERCASE_OR_DIGIT, 17, 17),
  format('aws-bedrock-key', 'ABSK', BASE64, 100, 300),
  format('alibaba-access-key', 'LTAI', ALPHANUMERIC, 12, 20, true),
  format('aws-appsync-key', 'da2-', ALPHANUMERIC, 26, 26),
  format('google-api-key', 'AIza', SLUG, 35, 36),
  format('google-client-secret', 'GOCSPX-', SLUG, 24, 40),
  format('google-oauth-token', 'ya29.', SLUG, 20),
  format('github-token', 'ghp_ gho_ ghu_ ghs_ ghr_', WORD, 36, 255),
  format('github-token', 'github_pat_', WORD, 60, 255),
  format('gitlab-token', 'glpat- gldt- glrt- glft- glcbt- glwt- glffct-', NAME, 20, 300),
  format('gitlab-token', 'glptt-', SLUG, 40, 40),
  format('gitlab-token', 'glsoat-', SLUG, 20, 64),
  format('gitlab-token', 'glimt-', SLUG, 25, 25),
  format('gitlab-token', 'glagent-', SLUG, 50, 1_024),
  format('gitlab-token', 'gloas-', SLUG, 64, 64),
  format('gitlab-token', 'GR1348941', SLUG, 20, 40),
  format('openai-key', 'sk-proj- sk-svcacct- sk-admin- sk-None-', SLUG, 40, 300),
  format('anthropic-key', 'sk-ant-', SLUG, 40, 300),
  format('openrouter-key', 'sk-or-', SLUG, 40, 200),
  // Keys of OpenAI, DeepSeek, Moonshot, this gateway and others.
  format('model-provider-key', 'sk-', SLUG, 32, 200, true),
  format('groq-key', 'gsk_', ALPHANUMERIC, 40, 60),
  format('xai-key', 'xai-', WORD, 60, 100),
  format('cerebras-key', 'csk-', ALPHANUMERIC, 40, 60),
  format('tavily-key', 'tvly-', SLUG, 32, 60),
  format('mongodb-secret', 'mdb_sa_sk_', SLUG, 40, 40),
  format('perplexity-key', 'pplx-', ALPHANUMERIC, 40, 60),
  format('replicate-token', 'r8_', ALPHANUMERIC, 37, 48),
  format('huggingface-token', 'hf_', LETTER, 34, 37),
  format('huggingface-token', 'api_org_', LETTER, 34, 37),
  format('langsmith-key', 'lsv2_pt_ lsv2_sk_', WORD, 32, 60),
  format(
    'stripe-key',
    'sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_ pk_live_ ak_live_ ak_test_',
    ALPHANUMERIC,
    10,
    250,
  ),
  format('webhook-secret', 'whsec_', BASE64, 24, 100, true),
  format('square-token', 'sq0atp-', SLUG, 20, 40),
  format('square-token', 'sq0csp-', SLUG, 40, 60),
  format('square-token', 'EAAA', SLUG, 56, 80, true),
  format('shopify-token', 'shpat_ shpca_ shppa_ shpss_ shptka_', HEX, 32, 64),
  format('facebook-token', 'EAACEdEose0cBA', ALPHANUMERIC, 20, 400),
  format('facebook-token', 'EAAM EAAC EAAG EAAB', ALPHANUMERIC, 60, 400),
  format('mailgun-key', 'key-', HEX, 32, 32),
  format('brevo-key', 'xkeysib- xsmtpsib-', SLUG, 60, 100),
  format('twilio-key', 'SK AC', HEX, 32, 32),
  format('npm-token', 'npm_', ALPHANUMERIC, 36, 36),
  format('pypi-token', 'pypi-AgE', SLUG, 50),
  format('nuget-key', 'oy2', ALPHANUMERIC, 43, 43),
  format('rubygems-key', 'rubygems_', HEX, 48, 48),
  format('crates-token', 'cio', ALPHANUMERIC, 32, 32, true),
  format('clojars-token', 'CLOJARS_', ALPHANUMERIC, 60, 60),
  format('docker-token', 'dckr_pat_ dckr_oat_', SLUG, 24, 40),
  format('digitalocean-token', 'dop_v1_ doo_v1_ dor_v1_', HEX, 64, 64),
  format('doppler-token', 'dp.pt. dp.ct. dp.sa. dp.scim. dp.audit. dp.said.', ALPHANUMERIC, 40, 44),
  format('doppler-token', 'dp.st.', NAME, 40, 80),
  format('databricks-token', 'dapi', HEX, 32, 32),
  format('figma-token', 'figd_ figo_ figor_ figdr_', SLUG, 36, 200),
  format('grafana-token', 'eyJrIjoi', BASE64, 60, 200),
  format('grafana-token', 'glc_', BASE64, 32, 400),
  format('grafana-token', 'glsa_', WORD, 41, 41),
  format('vault-token', 'hvs. hvb. hvr.', SLUG, 24, 500),
  format('vault-token', 's. b.', ALPHANUMERIC, 24, 26, true),
  format('heroku-key', 'HRKU-', SLUG, 36, 80),
  format('linear-key', 'lin_api_ lin_oauth_', ALPHANUMERIC, 32, 128),
  format('notion-token', 'ntn_', ALPHANUMERIC, 40, 50),
  format('notion-token', 'secret_', ALPHANUMERIC, 43, 43, true),
  format('airtable-token', 'pat', NAME, 79, 79, true),
  format('adafruit-key', 'aio_', ALPHANUMERIC, 28, 28),
  format('atlassian-token', 'ATATT3 ATCTT3', BASE64, 100, 400),
  format('bitbucket-token', 'ATBB', ALPHANUMERIC, 32, 40),
  format('asana-token', '0/ 1/', HEX, 32, 32),
  format('buildkite-token', 'bkua_', ALPHANUMERIC, 40, 40),
  format('circleci-token', 'CCIPAT_ CCIPRJ_', WORD, 40, 100),
  format('contentful-token', 'CFPAT-', SLUG, 40, 50),
  format('dropbox-token', 'sl.', SLUG, 100, 2_000),
  format('dynatrace-token', 'dt0c01. dt0s01.', NAME, 80, 100),
  format('easypost-key', 'EZAK EZTK', ALPHANUMERIC, 54, 54),
  format('fireworks-key', 'fw_', ALPHANUMERIC, 20, 32, true),
  format('flutterwave-key', 'FLWSECK-', SLUG, 30, 80),
  format('fleetbase-key', 'flb_live_', ALPHANUMERIC, 20, 20),
  format('fly-token', 'fo1_', SLUG, 43, 43),
  format('fly-token', 'fm1r_ fm1a_ fm2_', BASE64, 100),
  format('frameio-token', 'fio-u-', SLUG, 64, 64),
  format('gocardless-token', 'live_', SLUG, 40, 44, true),
  format('infracost-key', 'ico-', ALPHANUMERIC, 32, 32),
  format('school42-secret', 's-s4t2ud- s-s4t2af-', HEX, 64, 64),
  format('jfrog-token', 'AKC', ALPHANUMERIC, 60, 80),
  format('launchdarkly-key', 'sdk- api- mob-', SLUG, 36, 36, true),
  format('lob-key', 'live_ test_', HEX, 35, 35),
  format('mapbox-token', 'sk.eyJ tk.eyJ', NAME, 60, 300),
  format('nightfall-key', 'NF-', ALPHANUMERIC, 32, 32),
  format('newrelic-key', 'NRAK- NRII- NRRA- NRIQ- NRSP-', SLUG, 27, 45),
  format('newrelic-key', 'NRJS-', HEX, 19, 19),
  format('newrelic-key', 'px-api- px-dep-', SLUG, 36, 36),
  format('octopus-key', 'API-', UPPERCASE_OR_DIGIT, 25, 32, true),
  format('openshift-token', 'sha256~', SLUG, 43, 43),
  format('onepassword-key', 'A3-', SLUG, 33, 36, true),
  format('onepassword-token', 'ops_eyJ', BASE64, 80),
  format('voiceflow-key', 'VF.DM. VF.WS.', NAME, 36, 60),
  format('flexport-key', 'shltm_', WORD, 30, 60),
  format('age-key', 'AGE-SECRET-KEY-1', UPPERCASE_OR_DIGIT, 58, 58),
  format('planetscale-secret', 'pscale_tkn_ pscale_pw_ pscale_oauth_', SLUG, 32, 64),
  format('posthog-key', 'phx_ phs_', SLUG, 40, 60),
  format('postman-key', 'PMAK-', SLUG, 55, 64),
  format('prefect-key', 'pnu_ pnb_', ALPHANUMERIC, 36, 36),
  format('pulumi-token', 'pul-', HEX, 40, 40),
  format('readme-key', 'rdme_', ALPHANUMERIC, 70, 70),
  format('resend-key', 're_', WORD, 20, 40, true),
  format('sentry-token', 'sntrys_ sntryu_', BASE64, 60, 500),
  format('shippo-token', 'shippo_live_ shippo_test_', HEX, 40, 40),
  format('sonar-token', 'squ_ sqp_ sqa_ sqb_', HEX, 40, 40),
  format('sourcegraph-token', 'sgp_ slk_ sgp_local_', WORD, 40, 64, true),
  format('supabase-key', 'sbp_', ALPHANUMERIC, 40, 44),
  format('supabase-key', 'sb_secret_', SLUG, 22, 64),
  format('netlify-token', 'nfp_', ALPHANUMERIC, 36, 40),
  format('tailscale-key', 'tskey-', SLUG, 16, 80),
  format('dependency-track-key', 'odt_', ALPHANUMERIC, 32, 40),
  format('terraform-token', 'atlasv1.', SLUG, 60, 80),
  format('typeform-token', 'tfp_', NAME, 40, 70),
  format('vercel-token', 'vcp_ vci_ vca_ vcr_ vck_', ALPHANUMERIC, 20, 60, true),
  format('private-key', 'LS0tLS1CRUdJTi', BASE64, 80),
  format('teamwork-token', 'tkn.v1_', BASE64, 40, 120),
  format('supernotes-key', 'supernotes_sk-', SLUG, 24, 60),
]

/** The prefixes and character sets of long tokens that are identified by their whole shape (token-shapes.ts). */
const SHAPE_BEGINNINGS: readonly TokenFormat[] = [
  format('jwt', 'eyJ', PARTS, 1),
  format('slack-token', 'xoxe- xoxe.xoxb- xoxe.xoxp-', SLUG, 1),
  format('webhook-address', 'discord.com/api/webhooks/ discordapp.com/api/webhooks/', PATH, 0),
  format('webhook-address', 'outlook.office.com/webhook outlook.office365.com/webhook', PATH, 0),
  format('webhook-address', 'webhook.office.com/webhook', PATH, 0),
  format('sendgrid-key', 'SG.', NAME, 0, 100),
  format('zoho-token', '1000.', PARTS, 1, 70),
  format('salesforce-token', '00D', PARTS, 0, 150),
]

type Prefix = { prefix: string; format: TokenFormat }

const START_CODES = 128
const BY_START = byStart(FORMATS)
const MAY_START = new Uint8Array(START_CODES * START_CODES)
for (const start of BY_START.keys()) MAY_START[start] = 1
const BEGINNINGS_BY_START = byStart([...FORMATS, ...SHAPE_BEGINNINGS])

/** Indexes prefixes by their first two characters, the longest prefix first. */
function byStart(formats: readonly TokenFormat[]): ReadonlyMap<number, readonly Prefix[]> {
  const prefixes = new Map<number, Prefix[]>()
  for (const one of formats) {
    for (const prefix of one.prefixes) {
      const start = startAt(prefix, 0)
      prefixes.set(start, [...(prefixes.get(start) ?? []), { prefix, format: one }])
    }
  }
  for (const some of prefixes.values()) some.sort((one, other) => other.prefix.length - one.prefix.length)
  return prefixes
}

function startAt(text: string, at: number): number {
  return text.charCodeAt(at) * START_CODES + text.charCodeAt(at + 1)
}

/**
 * Returns the token of a documented format that begins at `at`. The caller ensures that `at` does not follow a letter
 * or digit, and that at least two characters remain.
 */
export function tokenAt(text: string, at: number): { end: number; type: string } | undefined {
  const start = startAt(text, at)
  if (MAY_START[start] !== 1) return undefined
  for (const { prefix, format: it } of BY_START.get(start) ?? []) {
    if (!text.startsWith(prefix, at)) continue
    const from = at + prefix.length
    // Long formats cannot begin inside a run. Otherwise, a token could start at each position of a long run, and each
    // position would be scanned to the end of the run.
    if (it.max > LONG_FORMAT && at > 0 && text[at - 1] !== '=' && has(it.set, text.charCodeAt(at - 1))) continue
    const end = endOf(it.set, text, from, Math.min(text.length, from + it.max + 1))
    const length = end - from
    if (length < it.min || length > it.max) continue
    const body = text.slice(from, end)
    if (isMonotonous(body) || (it.random && !looksRandom(body))) continue
    return { end, type: it.type }
  }
  return undefined
}

/**
 * Finds the first token at or after `run` that has a documented format and extends to the end of the text. Later text
 * may continue this token. Returns the start of the token, or `text.length` if there is no such token. `run`: the start
 * of the last run without whitespace, or any later position.
 */
export function openTokenFrom(text: string, run: number): number {
  const tails = new Map<CharacterSet, number>()
  /**
   * Returns the index where the trailing run of characters from the set starts. The index is computed once per set, not
   * once per prefix.
   */
  const tailOf = (set: CharacterSet): number => {
    let tail = tails.get(set)
    if (tail === undefined) {
      tail = text.length
      while (tail > run && has(set, text.charCodeAt(tail - 1))) tail -= 1
      tails.set(set, tail)
    }
    return tail
  }
  for (let at = run; at < text.length - 1; at += 1) {
    if (at > 0 && has(ALPHANUMERIC, text.charCodeAt(at - 1))) continue
    for (const { prefix, format: it } of BEGINNINGS_BY_START.get(startAt(text, at)) ?? []) {
      const from = at + prefix.length
      if (text.length - from <= it.max && text.startsWith(prefix, at) && tailOf(it.set) <= from) return at
    }
  }
  return text.length
}

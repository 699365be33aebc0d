/** A token format without a fixed prefix. */
type TokenShape = {
  type: string
  /** A substring that every such token contains. The pattern is tried only if the text contains it. */
  hint: string
  /**
   * The pattern must run in linear time, because it is applied to runs of up to TOKEN_CHARS characters. A test verifies
   * this.
   */
  pattern: RegExp
}

const SHAPES: readonly TokenShape[] = [
  { type: 'jwt', hint: 'eyJ', pattern: /(?<![\w-])eyJ[\w-]{8,}={0,2}\.[\w-]{10,}={0,2}(?:\.[\w-]{6,}={0,2}){0,3}/ },
  { type: 'slack-token', hint: 'xox', pattern: /(?<!\w)xox[a-z]-(?:\d{1,2}-)?(?:\d{8,14}-){1,3}[A-Za-z0-9]{10,64}/ },
  { type: 'slack-token', hint: 'xoxe', pattern: /(?<!\w)xoxe(?:\.xox[bp])?-\d-[A-Za-z0-9]{100,250}/ },
  { type: 'slack-token', hint: 'xapp-', pattern: /(?<!\w)xapp-[\w/-]{24,140}/ },
  {
    type: 'webhook-address',
    hint: 'hooks.slack.com/',
    pattern: /hooks\.slack\.com\/(?:services|workflows|triggers)\/[\w/]{24,120}/,
  },
  {
    type: 'webhook-address',
    hint: '/webhooks/',
    pattern: /discord(?:app)?\.com\/api\/webhooks\/\d{15,20}\/[\w-]{40,90}/,
  },
  {
    type: 'webhook-address',
    hint: 'office',
    pattern: /(?:outlook\.office(?:365)?|\.webhook\.office)\.com\/webhook[\w@/-]{60,300}/,
  },
  {
    type: 'discord-token',
    hint: '.',
    pattern: /(?<![\w.-])[A-Z][A-Za-z0-9]{23,25}\.[\w-]{6}\.[\w-]{27,40}(?![\w-])/,
  },
  {
    type: 'webhook-address',
    hint: 'hooks.zapier.com/',
    pattern: /hooks\.zapier\.com\/hooks\/catch\/[\w/]{12,60}/,
  },
  { type: 'maxmind-key', hint: '_mmk', pattern: /(?<!\w)[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk(?!\w)/ },
  { type: 'telegram-token', hint: ':', pattern: /(?<!\w)\d{8,10}:(?:AA[\w-]{32,34}|[\w-]{35})(?![\w-])/ },
  { type: 'sendgrid-key', hint: 'SG.', pattern: /(?<!\w)SG\.[\w-]{16,32}\.[\w-]{30,64}(?![\w-])/ },
  { type: 'mailchimp-key', hint: '-us', pattern: /(?<!\w)[0-9a-f]{32}-us\d{1,2}(?!\w)/ },
  { type: 'azure-client-secret', hint: 'Q~', pattern: /(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])/ },
  { type: 'zoho-token', hint: '1000.', pattern: /(?<!\w)1000\.[0-9a-f]{32}\.[0-9a-f]{32}(?!\w)/ },
  { type: 'salesforce-token', hint: '00D', pattern: /(?<!\w)00D[A-Za-z0-9]{12,15}![\w.]{80,130}(?!\w)/ },
  {
    type: 'password-hash',
    hint: '$krb5',
    pattern: /\$krb5\w{1,12}\$\d{1,2}\$[\w./@*-]{1,100}:[\w$]{20,512}/,
  },
  {
    type: 'password-hash',
    hint: '$',
    pattern: /(?<![\w$])\$(?:[15-9]|2[abxy]?|y|apr1|krb5\w{1,12}|scrypt)\$[\w./+=$*@-]{20,512}/,
  },
]

/** Returns the tokens of documented shapes in a run without whitespace, with offsets relative to the run. */
export function shapesIn(run: string): { start: number; end: number; type: string }[] {
  const found: { start: number; end: number; type: string }[] = []
  for (const { type, hint, pattern } of SHAPES) {
    if (!run.includes(hint)) continue
    const match = pattern.exec(run)
    if (match !== null) found.push({ start: match.index, end: match.index + match[0].length, type })
  }
  return found
}

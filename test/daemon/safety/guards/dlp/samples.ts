/** Joined at run time, so that secret scanners do not report the samples. */
const join = (...parts: string[]): string => parts.join('')

const PEM_BODY = 'MIIEpAIBAAKCAQEA7bq7Yw0dCqTnE9kfJm4cVtq1Zs8yLxuPo2RkWv3hNg5iBj6z'

/** Texts with one secret each: the text, the secret, and the type of its finding. */
export const SECRETS: readonly (readonly [text: string, secret: string, type: string])[] = [
  entry('push with ', join('ghp', '_q8ZrT2mKx4LwV7nB1cYdE6sHj9PfU3aGi5oR'), ' please', 'github-token'),
  entry('', join('AKI', 'A4T7QMZX2RLV9KD3W'), '', 'aws-access-key'),
  entry('use ', join('AIz', 'aSyD8kQ2mXv7LrT4wNb1ZcYfE6sHj9PgU3aZ'), '.', 'google-api-key'),
  entry('"', join('sk', '-ant-api03-q8ZrT2mKx4LwV7nB1cYdE6sHj9PfU3aGi5oRt7uWy2'), '"', 'anthropic-key'),
  entry('(', join('sk', '-q8ZrT2mKx4LwV7nB1cYdE6sHj9PfU3aGi5oRt7uW'), ')', 'model-provider-key'),
  entry('key: ', join('sk', '_live_q8ZrT2mKx4LwV7nB1cYdE6sH'), '\n', 'stripe-key'),
  entry('a ', join('glp', 'at-q8ZrT2mKx4LwV7nB1cYd'), ' b', 'gitlab-token'),
  entry('', join('xox', 'b-263594206564-2343594206574-FGqddMF8t08v8N7Oq4i57vs1'), ' end', 'slack-token'),
  entry('see ', join('SG', '.q8ZrT2mKx4LwV7nB1cYdE6.sHj9PfU3aGi5oRt7uWy2Zx4Cv6Bn8Mq1We3Rt5Yu'), ' now', 'sendgrid-key'),
  entry(
    'Bearer ',
    join('eyJhbGciOiJIUzI1NiJ9', '.eyJzdWIiOiJhIiwiaWF0IjoxNTE2MjM5MDIyfQ', '.q8ZrT2mKx4LwV7nB1cYdE6sHj9PfU3aG'),
    ', ok',
    'jwt',
  ),
  entry('postgres://app:', 'k7w-Tq2!v', '@db.internal/main', 'address-password'),
  entry('password = "', 'tr0ub4dor&3', '"', 'password'),
  entry('DB_PASSWORD=', 'harbour-light-9', '\nDB_USER=app', 'password'),
  entry("{'api_key': '", '9f8b2c7d1e6a4053b8d2', "'}", 'keyed-secret'),
  entry('curl -u deploy:', 'vJ4kQ9sLm2', ' https://ci.internal', 'password'),
  entry('acmeToken ', '4b9d1f7c83e2a605d4b9', ' was rotated', 'keyed-secret'),
  entry(
    'the key is\n',
    `-----BEGIN RSA ${'PRIVATE KEY'}-----\n${PEM_BODY}\n${PEM_BODY}\n-----END RSA ${'PRIVATE KEY'}-----`,
    '\nkeep it',
    'private-key',
  ),
  entry('root:', join('$6', '$LnUhhUi45srUKt9i$4Hp6VRTOB2mxvsYH8mwsCfBryg6hCbm4JJjV26K'), ':18:0', 'password-hash'),
  entry('id ', join('cefa780880ba5f5696192a34f6292c35', '-us18'), ' x', 'mailchimp-key'),
  entry('', join('hooks.slack', '.com/services/T02QWERTY/B02ASDFGH/q8ZrT2mKx4LwV7nB1cYdE6sH'), '', 'webhook-address'),
]

function entry(before: string, secret: string, after: string, type: string) {
  return [before + secret + after, secret, type] as const
}

/** Texts without secrets that resemble texts with secrets. */
export const HARMLESS: readonly string[] = [
  'const password = getPassword(user)',
  'password: string',
  '<input type="password" name="password" />',
  'passwordLabel: "Your password"',
  'PASSWORD=$' + '{DB_PASSWORD}',
  'api_key = "<your-api-key>"',
  'token: "xxxxxxxxxxxxxxxxxxxxxxxx"',
  'export const lookupFromHeaderKey = createSecretKeyObject(keys)',
  '"integrity": "sha512-RkT/YXYBTSULo3+af8Ib0ykH8u2MBh57o7q/DAs3lTJlyVQkgQvlrPTnjIzzRPQyavxtPtfg0EopvDyIt0j1rA=="',
  'checksum = "7e54bc85fc7faa8bc175c4bab5b92ba8d9a3ce893d0e9f42cc455c8ab16a9e09"',
  'commit 43fc912ef59a83054ea7f6706df4d53a7dea4d80',
  'The token was refreshed. A password is a secret, and a key opens a door.',
  'https://example.com/users/12345?tab=keys&page=2',
  'see http://user:pass@proxy.example.com',
  join('AKI', 'AXXXXXXXXXXXXXXXX'),
]

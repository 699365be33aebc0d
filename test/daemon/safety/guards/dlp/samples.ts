/** Joined at run time, so that secret scanners do not report the samples. */
const join = (...parts: string[]): string => parts.join('')

const PEM_BODY = 'MIIEpAIBAAKCAQEA7bq7Yw0dCqTnE9kfJm4cVtq1Zs8yLxuPo2RkWv3hNg5iBj6z'

/** Texts with one secret each: the text, the secret, and the type of its finding. */
export const SECRETS: readonly (readonly [text: string, secret: string, type: string])[] = [
  entry('localhost:5432:main:app:', 'k7wTq2v', '\n', 'password'),
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
  entry('machine ftp.example.net login bob password ', 'k7wTq2v9', '\n', 'password'),
  entry('<Password>', 'k7w-Tq2!v', '</Password>', 'password'),
  entry('<add key="DbPassword" value="', 'k7w-Tq2!v', '" />', 'password'),
  entry("define('DB_PASSWORD', '", 'k7w-Tq2!v', "');", 'password'),
  entry('"auths": {"r.example": {"auth": "', join('Ym9i', 'Oms3d1RxMnY='), '"}}', 'keyed-secret'),
  entry('Authorization: Basic ', join('Ym9i', 'Oms3dw=='), '\n', 'basic-credentials'),
  entry('Server=db;User Id=app;Password=', 'k7wTq2!v', '"', 'password'),
  entry('jdbc:mysql://db/main?user=app&password=', 'k7wTq2v', '&ssl=true', 'password'),
  entry('jdbc:oracle:thin:scott/', 'k7wTq2v', '@//db:1521/x', 'address-password'),
  entry('https://api.example.net/v1?access_token=', 'k7wTq2v9x', '&page=2', 'keyed-secret'),
  entry('git clone https://', 'k7wTq2v9xB4mZ8cR1dY6', '@git.example.net/a.git', 'keyed-secret'),
  entry('mysqldump --password=', 'k7wTq2v', ' main', 'password'),
  entry("server.login('bob', '", 'k7wTq2!v', "')", 'password'),
  entry('Api-Token: ', 'Sk94HG7f6KB', '\n', 'keyed-secret'),
  entry('password = "', 'su$per9', '"', 'password'),
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
  // Names of variables, members and functions are not values.
  'password = password2;',
  'connect({ user, password: userPassword1, port })',
  'token = request.token1',
  'this.password = options?.password1',
  'const X509_SUBJECT_TOKEN = exchangeX509Token(credentials)',
  'import { findX509Credential } from "./x509-transport.js"',
  "redact(['user.password', 'headers.cookie'])",
  "colors = ['default', 'password', 'invisible']",
  'if (typeof resetPassword === "function") resetPassword()',
  'MovedAttribute("proxy_bypass", "urllib", "urllib.request")',
  '// The token is explained in https://example.org/html/rfc6749#section-2.3.1',
  'key: arn:aws:kms:us-east-1:111122223333:key/abcd1234-5678-90ab-cdef-000011112222',
  'ssl_sig_ecdsa_secp256r1_sha256 = 0x0403',
  'mongodb://username:password@host:1234',
  'Basic training starts on Monday. The login machine is slow.',
  '<password>$' + '{env.PASSWORD}</password>',
]

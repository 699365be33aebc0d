/** Manages the providers of the gateway (operator key). */
import { readFile } from 'node:fs/promises'
import { Command } from 'commander'
import type { ProviderTest } from '../../../shared/wire/providers.ts'
import type { CliContext } from '../../context.ts'
import { CliError, EXIT, failedToRead } from '../../errors.ts'
import { type Field, field } from '../../input/fields.ts'
import { readStdin } from '../../io.ts'
import { columns } from '../../output/formats.ts'
import { KEY_BYTES, toKey } from '../../profile/key-source.ts'
import { itemIn, itemPath } from '../../resources/resolve.ts'
import { createVerb, deleteVerb, listVerb, showVerb, updateVerb } from '../../resources/verbs.ts'
import { PROVIDER_MEMBERS, PROVIDERS } from './resource.ts'

/** A flag would leave the key in the history of the shell and in the list of processes. */
async function readKey(path: string, _flag: string, { io }: CliContext): Promise<string> {
  if (path === '-') return toKey((await readStdin(io, KEY_BYTES, 'the key of the provider')).toString(), 'stdin')
  return toKey(await readFile(path, 'utf8').catch(failedToRead(path)), path)
}

const FIELDS: Field[] = [
  field('kind', '--kind <kind>', 'openai, azure, anthropic, google, cohere, bedrock or vertex'),
  field('base_url', '--address <url>', 'base URL of the server; well-known providers need none'),
  field('api_key', '--key-file <path>', 'file with the API key of the provider, or - for stdin', { parse: readKey }),
  field('models', '--model <name>', 'offered model; repeatable, replaces the list', { isList: true }),
  field('region', '--region <region>', 'region where data is processed, for policies'),
  field('api_version', '--api-version <date>', 'dated API version of Azure'),
  field('api', '--api <api>', 'API that chats use', { choices: ['chat', 'responses'] }),
]

const TEST_VIEW = {
  columns: columns({ PROVIDER: 'provider', MODEL: 'model', OK: 'ok', MS: 'latencyMs', MESSAGE: 'message' }),
  idPath: 'provider',
  members: ['provider', 'model', 'ok', 'latencyMs', 'reason', 'message'],
}

export const commands = {
  list: listVerb(PROVIDERS, {
    description: 'List the providers of the configuration file and of the store; never their secrets (operator key).',
  }),
  show: showVerb(PROVIDERS, 'Show a provider; never its secrets (operator key).'),
  add: createVerb(PROVIDERS, {
    name: 'add',
    description:
      'Add a provider to the store (operator key). Its models can be called at once, without a restart.\n' +
      'A name that the configuration file defines is refused.',
    fields: [field('name', '[name]', 'first part of PROVIDER/MODEL', { ask: 'Name of the provider:' }), ...FIELDS],
    file: PROVIDER_MEMBERS,
    help:
      'The keys of --from-file are those of a provider in the configuration file.\n\nExamples:\n' +
      '  aigw providers add groq --key-file groq.key --model llama-3.3-70b-versatile\n' +
      '  aigw providers add house --address http://10.0.0.5:8000/v1',
  }),
  update: updateVerb(PROVIDERS, {
    description:
      'Change the named settings of a provider of the store; others stay (operator key).\n' +
      'A new address needs the secrets again.',
    fields: FIELDS,
    file: PROVIDER_MEMBERS,
  }),
  test: testCommand,
  remove: deleteVerb(PROVIDERS, {
    name: 'remove',
    done: 'removed',
    description: 'Remove a provider from the store (operator key). Requests that are running still finish.',
    question: (name) => `Remove provider '${name}'?`,
  }),
}

/** POST …/test. Throws an error with exit code 8 if the model did not answer. */
function testCommand(context: CliContext): Command {
  return new Command('test')
    .description('Make one small call to a model of a provider, which the provider may bill (operator key).')
    .argument('<provider>', 'name')
    .option('--model <name>', 'model to call; default: a listed or known one')
    .action(async (name: string, { model }: { model?: string }) => {
      const [api, output] = await Promise.all([context.api(), context.output()])
      output.assertShowable(TEST_VIEW)
      const path = `${itemPath(PROVIDERS, name)}/test`
      const { body, raw } = await api.send({ method: 'POST', path, json: { model } })
      const test = itemIn<ProviderTest>(body, 'test', api.baseUrl)
      await output.one(test, TEST_VIEW, raw)
      if (test.ok) return
      throw new CliError(EXIT.upstream, `${test.provider}/${test.model} did not answer`, {
        code: 'MODEL_FAILED',
        hints: [test.message],
      })
    })
}

import { expect, test, vi } from 'vitest'
import { createCheckedTargets } from '../../../../src/daemon/webhooks/checked-targets.ts'
import { ALWAYS } from '../../../../src/shared/evidence/cosignature.ts'
import { parseKeySet } from '../../../../src/shared/evidence/keys.ts'
import { startGateway } from '../../../harness.ts'
import { closeAfterTest } from '../../../leftovers.ts'
import { startWitness } from '../../../witness.ts'

/** A gateway with one witness on this machine, after a checkpoint. */
async function checkpointed(webhooks: Parameters<typeof startGateway>[0] & object) {
  const witness = await startWitness()
  closeAfterTest(witness)
  const { url, vkey: key } = witness
  const gateway = await startGateway({
    ...webhooks,
    evidence: { witnesses: [{ name: 'w1', url, key, window: ALWAYS }] },
  })
  const keySet = await gateway.call('GET', '/.well-known/aigw-keys.json', undefined, { key: null })
  witness.trusts = async () => parseKeySet(keySet.body)
  await gateway.chat({ prompt: 'Hello' })
  expect((await gateway.call('POST', '/api/external/transparency/checkpoints')).status).toBeLessThan(300)
  return { gateway, witness }
}

test('a witness at a private address is not called, and the log says how to allow it', async () => {
  const { gateway, witness } = await checkpointed({
    webhooks: { allowPrivate: false, allow: [], showPrivateBodies: false },
  })
  await vi.waitFor(() => {
    const line = gateway.log.find(({ message }) => message.startsWith('a checkpoint could not be cosigned'))
    expect(String(line?.facts.error)).toContain('List a private address under webhooks.allow.')
  })
  expect(witness.requests).toEqual([])
})

test('a witness at an address that webhooks.allow lists is called', async () => {
  const { witness } = await checkpointed({
    webhooks: { allowPrivate: false, allow: ['127.0.0.1'], showPrivateBodies: false },
  })
  await vi.waitFor(() => expect(witness.statuses).toContain(200), { timeout: 10_000 })
})

test('metadata addresses are refused in each mode, also if a name resolves to them only for the connection', async () => {
  for (const url of ['http://169.254.169.254', 'http://[fd00:ec2::254]', 'http://metadata.google.internal']) {
    const targets = createCheckedTargets({ resolve: async () => ['93.184.216.34'], allowPrivate: true })
    await expect(targets.check(url)).rejects.toThrow('webhooks must not call')
  }
  const answers = [['93.184.216.34'], ['169.254.169.254']]
  const moving = createCheckedTargets({ resolve: async () => answers.shift() ?? [], allowPrivate: true })
  await moving.check('http://witness.example.com')
  const looked = await new Promise((resolve) => moving.lookup('witness.example.com', { all: true }, resolve))
  expect(String(looked)).toContain('webhooks must not call')
})
